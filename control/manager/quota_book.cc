#include "control/manager/quota_book.h"

#include <algorithm>
#include <utility>

#include "common/log.h"

namespace slice::manager {
namespace {

constexpr std::uint64_t kNanosecondsPerSecond = 1'000'000'000;

}  // namespace

// Versions of one term are none of another's: a directory server that has sums of the term before gets these.
QuotaBook::QuotaBook(Loop& loop, Metrics& metrics, Hooks hooks)
    : loop_(loop),
      hooks_(std::move(hooks)),
      version_(static_cast<std::uint64_t>(loop.wall().ns)),
      quotas_(metrics.gauge("manager_quotas", "users, groups and trees that have a quota")),
      over_(metrics.gauge("manager_quotas_over_soft", "of those, who are over a soft limit")),
      reports_(metrics.counter("manager_quota_reports_total",
                               "times that directory servers told how much users, groups and trees have")) {}

wire::QuotaReportResult QuotaBook::report(const wire::QuotaReportArgs& args) {
  reports_.add();
  const auto known = told_.find(args.server);
  wire::QuotaReportResult result{.again = args.same && known == told_.end(), .sums = {}};
  // Where not all is counted, less is told than there is.
  if (!args.same && args.counted && (known == told_.end() || known->second != args.figures)) {
    told_[args.server] = args.figures;
    add_up();
  }
  look_at_soft_limits();
  if (!all_told()) return result;
  result.version = version_;
  if (args.seen == version_) return result;
  for (const auto& [whose, sum] : sums_) result.sums.push_back({whose, sum.usage, sum.promised});
  return result;
}

bool QuotaBook::all_told() const {
  const auto& sites = hooks_.tables.sites[static_cast<std::size_t>(wire::Role::kDirectory)];
  return !sites.empty() && std::all_of(sites.begin(), sites.end(),
                                       [&](std::uint32_t server) { return told_.contains(server); });
}

// A server that has no sites any more has nothing, and may have died before it told so.
void QuotaBook::add_up() {
  const auto& sites = hooks_.tables.sites[static_cast<std::size_t>(wire::Role::kDirectory)];
  std::map<QuotaId, Sum> sums;
  for (const auto& [server, figures] : told_) {
    if (std::find(sites.begin(), sites.end(), server) == sites.end()) continue;
    for (const wire::QuotaFigure& figure : figures) {
      Sum& sum = sums[figure.whose];
      sum.usage.space += figure.usage.space;
      sum.usage.files += figure.usage.files;
      sum.promised += figure.promised;
    }
  }
  // Also where nothing became other: the first server's report may have been the last to come.
  ++version_;
  sums_ = std::move(sums);
}

QuotaBook::Sum QuotaBook::sum_of(QuotaId whose) const {
  const auto found = sums_.find(whose);
  return found == sums_.end() ? Sum{} : found->second;
}

std::uint64_t QuotaBook::over_since(const QuotaLimit& limit, std::uint64_t used) const {
  if (limit.soft == 0 || used <= limit.soft) return 0;
  return limit.over_since != 0 ? limit.over_since
                               : static_cast<std::uint64_t>(loop_.wall().ns) / kNanosecondsPerSecond;
}

void QuotaBook::look_at_soft_limits() {
  const auto settings = hooks_.settings.get();
  quotas_.set(settings->quotas.size());
  if (settings->quotas.empty() || !all_told()) return;
  std::uint64_t over = 0;
  bool other = false;
  for (const auto& [whose, quota] : settings->quotas) {
    const Sum sum = sum_of(whose);
    const std::uint64_t space = over_since(quota.space, sum.usage.space);
    const std::uint64_t files = over_since(quota.files, sum.usage.files);
    over += space != 0 || files != 0 ? 1 : 0;
    other = other || (space != 0) != (quota.space.over_since != 0) ||
            (files != 0) != (quota.files.over_since != 0);
  }
  over_.set(over);
  if (!other || loop_.now() < may_note_at_ || std::exchange(noting_, true)) return;
  spawn(note_soft_limits(*this));
}

Task<void> QuotaBook::note_soft_limits(QuotaBook& self) {
  auto noted = co_await self.hooks_.change([&self](Settings& settings) {
    for (auto& [whose, quota] : settings.quotas) {
      const Sum sum = self.sum_of(whose);
      quota.space.over_since = self.over_since(quota.space, sum.usage.space);
      quota.files.over_since = self.over_since(quota.files, sum.usage.files);
    }
    return Status{};
  });
  if (!noted) log_error("who is over a soft limit cannot be kept: {}", noted.error().message);
  self.noting_ = false;
  self.may_note_at_ = self.loop_.now() + kNotePause;
}

Task<wire::ChangeQuotaResult> QuotaBook::change(wire::ChangeQuotaArgs args) {
  auto changed = co_await hooks_.change([&args](Settings& settings) -> Status {
    Quotas& quotas = settings.quotas;
    const auto found = quotas.find(args.whose);
    if (args.remove) {
      if (found == quotas.end()) {
        return fail(Errc::kNotFound, "{} {} has no quota", quota_kind_name(args.whose.kind), args.whose.id);
      }
      quotas.erase(found);
      return {};
    }
    if (args.whose.kind == QuotaKind::kTree && !settings.trees.contains(tree_of(args.whose)))
      return fail(Errc::kNotFound, "there is no tree {}", args.whose.id);
    if (found == quotas.end() && quotas.size() >= kMaxQuotas)
      return fail(Errc::kTooLarge, "{} quotas are the most that there may be", kMaxQuotas);
    Quota next = found == quotas.end() ? Quota{} : found->second;
    using Args = wire::ChangeQuotaArgs;
    const auto set = [](QuotaLimit& limit, const QuotaLimit& wanted) {
      // Whoever is over the new limit as well goes on to be so since then.
      limit = {wanted.soft, wanted.hard, wanted.soft != 0 ? limit.over_since : 0};
    };
    if ((args.fields & Args::kSpace) != 0) set(next.space, args.quota.space);
    if ((args.fields & Args::kFiles) != 0) set(next.files, args.quota.files);
    if ((args.fields & Args::kGrace) != 0) next.grace = args.quota.grace;
    for (const QuotaLimit* limit : {&next.space, &next.files}) {
      if (limit->hard != 0 && limit->soft > limit->hard)
        return fail(Errc::kInvalid, "a soft limit of {} is above the hard one, {}", limit->soft, limit->hard);
    }
    if (!next.space.any() && !next.files.any()) {
      return fail(Errc::kInvalid,
                  "{} {} would have no limit at all: take the quota away (slicectl quota remove)",
                  quota_kind_name(args.whose.kind), args.whose.id);
    }
    quotas[args.whose] = next;
    return {};
  });
  wire::ChangeQuotaResult result{.refused = {}, .generation = hooks_.settings.get()->generation, .late = {}};
  if (!changed) {
    result.refused = changed.error().message;
  } else {
    result.late = std::move(*changed);
    log_info("the quota of {} {} is {}", quota_kind_name(args.whose.kind), args.whose.id,
             args.remove ? "removed" : "changed");
  }
  look_at_soft_limits();
  co_return result;
}

wire::QuotaUsageResult QuotaBook::usage(const wire::QuotaUsageArgs& args) {
  const auto settings = hooks_.settings.get();
  wire::QuotaUsageResult result{.known = all_told(), .quotas = {}};
  for (const auto& [whose, quota] : settings->quotas) {
    if (!args.all && whose != args.whose) continue;
    result.quotas.push_back({whose, quota, sum_of(whose).usage});
  }
  return result;
}

}  // namespace slice::manager
