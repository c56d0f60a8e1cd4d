#include "dirserver/fsck/checker.h"

#include <algorithm>
#include <functional>

#include "dirserver/fsck/examine.h"
#include "dirserver/fsck/keys.h"
#include "dirserver/fsck/pass.h"
#include "dirserver/fsck/under_way.h"

namespace slice::dirserver::fsck {
namespace {

constexpr std::size_t kAtOnce = 64;  // suspects that are examined together

// A suspect and how often in a row it was found wrong in the same way.
struct Case {
  Suspect suspect;
  std::uint64_t mark = 0;  // of what was found last; 0: nothing yet
  unsigned stood = 0;
};

std::uint64_t mark_of(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += fmt::format("{} {} {} {} {}\n", kind_name(finding.kind), finding.site.value, finding.file.value,
                        finding.name, finding.by);
  }
  return std::hash<std::string>()(text) | 1;
}

class Check {
 public:
  Check(CellSource& source, const Placement& placement, Loop& loop, const Options& options)
      : source_(source),
        placement_(placement),
        loop_(loop),
        options_(options),
        examiner_(source, placement),
        report_(options.limit),
        suspects_(options.suspect_bytes),
        tree_(options.tree_bytes) {}

  Task<Result<Report>> run() {
    report_.totals.sites = source_.sites();
    suspects_.add(Aspect::kRoot, attribute_key(kRootSite, kRootId));
    SLICE_CO_RETURN_IF_ERROR(co_await read_records(source_, suspects_, report_));
    SLICE_CO_RETURN_IF_ERROR(co_await passes());
    report_.cycles_checked = tree_.whole();
    if (tree_.whole()) {
      for (FileId directory : tree_.cycles()) {
        suspects_.add(Aspect::kCycle, attribute_key(home_of(directory), directory));
      }
    }
    report_.skipped = suspects_.skipped();
    for (Suspect& suspect : suspects_.take()) cases_.push_back({.suspect = std::move(suspect)});
    report_.suspects = cases_.size();
    SLICE_CO_RETURN_IF_ERROR(co_await settle());
    report_.sort();
    co_return std::move(report_);
  }

 private:
  Task<Status> passes() {
    for (std::optional<FileId> first = FileId{0}; first;) {
      Pass pass({.source = source_,
                 .placement = placement_,
                 .suspects = suspects_,
                 .tree = tree_,
                 .report = report_,
                 .table_bytes = options_.table_bytes},
                *first);
      SLICE_CO_RETURN_IF_ERROR(co_await pass.run());
      ++report_.passes;
      first = pass.next();
    }
    co_return Status{};
  }

  // Looks at every case until it is decided.
  Task<Status> settle() {
    for (unsigned look = 0; !cases_.empty() && look < options_.looks; ++look) {
      if (look > 0) co_await loop_.sleep(options_.pause);
      SLICE_CO_RETURN_IF_ERROR(co_await look_once());
    }
    report_.busy += cases_.size();
    co_return Status{};
  }

  Task<Status> look_once() {
    std::vector<Case> left;
    SLICE_CO_RETURN_IF_ERROR(co_await under_way_.read(source_));
    SLICE_CO_RETURN_IF_ERROR(co_await look_at_names(left));
    for (std::size_t at = 0; at < cases_.size(); at += kAtOnce) {
      std::size_t end = std::min(at + kAtOnce, cases_.size());
      std::vector<Task<Result<Verdict>>> tasks;
      for (std::size_t i = at; i < end; ++i) tasks.push_back(examiner_.examine(cases_[i].suspect));
      std::vector<Result<Verdict>> verdicts = co_await all(std::move(tasks));
      for (std::size_t i = at; i < end; ++i) {
        Result<Verdict>& verdict = verdicts[i - at];
        if (!verdict) co_return fail(std::move(verdict).error());
        decide(std::move(cases_[i]), std::move(*verdict), left);
      }
    }
    cases_ = std::move(left);
    co_return Status{};
  }

  // Takes the cases of that aspect out of cases_.
  Task<Status> look_at_names(std::vector<Case>& left) {
    std::vector<Case> named, others;
    for (Case& each : cases_) {
      (each.suspect.aspect == Aspect::kNames ? named : others).push_back(std::move(each));
    }
    cases_ = std::move(others);
    if (named.empty()) co_return Status{};
    std::vector<FileId> files;
    for (const Case& each : named) files.push_back(file_of(each.suspect.key));
    auto verdicts = co_await examiner_.examine_names(std::move(files));
    if (!verdicts) co_return fail(std::move(verdicts).error());
    for (Case& each : named) {
      Verdict& verdict = (*verdicts)[file_of(each.suspect.key)];
      decide(std::move(each), std::move(verdict), left);
    }
    co_return Status{};
  }

  void decide(Case each, Verdict verdict, std::vector<Case>& left) {
    if (verdict.settled && verdict.findings.empty()) return;  // it was but changing
    if (!verdict.settled) {
      each.stood = 0;
    } else {
      std::uint64_t mark = mark_of(verdict.findings);
      each.stood = mark == each.mark ? each.stood + 1 : 1;
      each.mark = mark;
    }
    if (each.stood > 0 && (!source_.live() || each.stood >= options_.stands)) {
      for (Finding& finding : verdict.findings) add(std::move(finding));
    } else {
      left.push_back(std::move(each));
    }
  }

  void add(Finding finding) {
    if (finding.kind != Kind::kUnfinished && under_way_.explains(finding)) {
      finding.what = fmt::format("{}, as long as a decided change is not carried out: {}",
                                 kind_name(finding.kind), finding.what);
      finding.kind = Kind::kUnfinished;
    }
    report_.add(std::move(finding));
  }

  CellSource& source_;
  const Placement& placement_;
  Loop& loop_;
  const Options options_;
  Examiner examiner_;
  Report report_;
  Suspects suspects_;
  Tree tree_;
  UnderWay under_way_;
  std::vector<Case> cases_;
};

}  // namespace

Options options_for(std::uint64_t memory_bytes) {
  return {.table_bytes = memory_bytes / 2, .tree_bytes = memory_bytes / 4, .suspect_bytes = memory_bytes / 4};
}

Task<Result<Report>> check(CellSource& source, const Placement& placement, Loop& loop, Options options) {
  Check check(source, placement, loop, options);
  co_return co_await check.run();
}

}  // namespace slice::dirserver::fsck
