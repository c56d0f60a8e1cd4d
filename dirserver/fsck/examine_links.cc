// The names that point to some files, over the whole volume: orphans and wrong link counts.
#include <algorithm>

#include "dirserver/fsck/examine.h"
#include "dirserver/fsck/keys.h"

namespace slice::dirserver::fsck {
namespace {

constexpr std::size_t kNamesShown = 3;

struct Linked {
  wire::ScanValue value;  // its attribute cell, before names were read
  std::optional<AttributeCell> cell;
  std::uint64_t names = 0;
  std::vector<std::string> shown;
};

std::string names_text(const Linked& linked) {
  std::string text;
  for (const std::string& each : linked.shown) text += (text.empty() ? "" : ", ") + each;
  if (linked.names > linked.shown.size()) text += ", ...";
  return text;
}

void judge(FileId file, const Linked& linked, Verdict& verdict) {
  const AttributeCell& cell = *linked.cell;
  bool root = file == kRootId;
  Finding finding{.site = home_of(file), .file = file};
  if (linked.names == 0 && !root) {
    finding.kind = Kind::kOrphan;
    finding.what = fmt::format("a {} that no name points to", type_text(cell.self.type));
  } else if (cell.directory() && linked.names > (root ? 0 : 1)) {
    finding.kind = Kind::kNames;
    finding.by = static_cast<std::int64_t>(linked.names);
    finding.what = fmt::format("{} names point to this directory: {}", linked.names, names_text(linked));
  } else if (!cell.directory() && linked.names != cell.nlink) {
    finding.kind = Kind::kLinkCount;
    finding.by = static_cast<std::int64_t>(cell.nlink) - static_cast<std::int64_t>(linked.names);
    finding.what = fmt::format("its link count is {}, and it has {} names: {}", cell.nlink, linked.names,
                               names_text(linked));
  } else {
    return;
  }
  verdict.findings.push_back(std::move(finding));
}

void count(const wire::ScanCell& stored, std::map<FileId, Linked>& files) {
  auto bucket = good_key(stored.key) ? decode_name_bucket(stored.value) : fail(Errc::kCorrupt, "key");
  if (!bucket) return;
  for (const NameEntry& entry : bucket->entries) {
    auto found = files.find(entry.target.cell.fileid);
    if (found == files.end() || !found->second.cell || found->second.cell->self != entry.target) continue;
    Linked& linked = found->second;
    ++linked.names;
    if (linked.shown.size() < kNamesShown) {
      linked.shown.push_back(fmt::format("\"{}\" in {:#x}", entry.name, file_of(stored.key).value));
    }
  }
}

}  // namespace

Task<Result<std::map<FileId, Verdict>>> Examiner::examine_names(std::vector<FileId> ids) {
  std::map<FileId, Verdict> verdicts;
  std::map<FileId, Linked> files;
  for (FileId file : ids) {
    auto value = co_await attributes(home_of(file), file);
    if (!value) co_return fail(std::move(value).error());
    Linked linked{.value = std::move(*value)};
    Verdict unsaid;  // other aspects of it say it
    linked.cell = decode_attributes(attribute_key(home_of(file), file), linked.value, unsaid);
    verdicts[file];
    if (linked.cell) files.emplace(file, std::move(linked));
  }
  for (std::uint32_t site = 0; site < source_.sites() && !files.empty(); ++site) {
    Cursor names(source_, SiteId{site}, range_of(SiteId{site}, CellKind::kName));
    for (;;) {
      if (!names.ready()) {
        auto more = co_await names.fill();
        if (!more) co_return fail(std::move(more).error());
        if (!*more) break;
      }
      count(names.cell(), files);
      names.next();
    }
  }
  for (const auto& [file, linked] : files) {
    Verdict& verdict = verdicts[file];
    judge(file, linked, verdict);
    if (!source_.live() || verdict.findings.empty()) continue;
    auto again = co_await attributes(home_of(file), file);
    if (!again) co_return fail(std::move(again).error());
    verdict.settled = *again == linked.value;  // a new or lost name changes its ctime
  }
  co_return verdicts;
}

}  // namespace slice::dirserver::fsck
