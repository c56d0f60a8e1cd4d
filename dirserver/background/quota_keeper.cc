#include "dirserver/background/quota_keeper.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace slice::dirserver {
namespace {

constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;
constexpr Duration kReportTimeout = std::chrono::seconds(1);
constexpr std::uint64_t kEverything = std::numeric_limits<std::uint64_t>::max();

std::uint64_t less(std::uint64_t from, std::uint64_t amount) {
  return from > amount ? from - amount : 0;
}

std::uint64_t plus(std::uint64_t a, std::uint64_t b) {
  return a > kEverything - b ? kEverything : a + b;
}

}  // namespace

QuotaKeeper::QuotaKeeper(service::ServiceContext& context, CellStore& cells)
    : context_(context),
      cells_(cells),
      settings_(context.settings),
      managers_(context.config),
      report_(context.loop),
      refused_(context.metrics.counter("quota_refused_objects_total",
                                       "new objects, and changes of owners, that a quota left no room for")),
      promises_total_(context.metrics.counter(
          "quota_promises_total", "times that a data server asked for room for an owner, group and tree")),
      refused_room_(
          context.metrics.counter("quota_refused_room_total", "the same, and there was not enough")) {}

void QuotaKeeper::settings_changed(std::vector<SiteId> sites) {
  if (used()) {
    cells_.usage().begin(cells_.store(), sites, context_.loop);
    if (reporting_) return;
    reporting_ = std::make_shared<bool>(true);
    spawn(report_forever(*this, reporting_));
    return;
  }
  cells_.usage().end();
  stop();
  promises_.clear();
}

void QuotaKeeper::stop() {
  reporting_.reset();
  sums_.clear();
  own_.clear();
  sums_version_ = 0;
  told_any_ = own_known_ = false;
}

std::uint64_t QuotaKeeper::now_s() const {
  return static_cast<std::uint64_t>(context_.loop.wall().ns / kNanosecondsPerSecond);
}

// What this server has counted goes in place of what the sums have of it.
QuotaUsage QuotaKeeper::usage(QuotaId whose) const {
  const QuotaUsage here = cells_.usage().of(whose);
  const auto sum = sums_.find(whose);
  if (sum == sums_.end()) return here;
  const QuotaUsage& all = sum->second.usage;
  if (!own_known_ || !cells_.usage().counted())
    return {std::max(all.space, here.space), std::max(all.files, here.files)};
  const auto own = own_.find(whose);
  const QuotaUsage before = own == own_.end() ? QuotaUsage{} : own->second.usage;
  return {less(all.space, before.space) + here.space, less(all.files, before.files) + here.files};
}

std::optional<QuotaUsage> QuotaKeeper::limits(QuotaId whose, LimitNow which) const {
  const auto found = settings_.now().quotas.find(whose);
  if (found == settings_.now().quotas.end()) return std::nullopt;
  const Quota& quota = found->second;
  const std::uint64_t now = now_s();
  return QuotaUsage{(quota.space.*which)(quota.grace, now), (quota.files.*which)(quota.grace, now)};
}

bool QuotaKeeper::exceeded(const service::Identity& who, std::span<const QuotaId> whose, QuotaUsage more) {
  if (!used()) return false;
  for (QuotaId each : whose) {
    if (who.superuser() && each.kind != QuotaKind::kTree) continue;
    const auto limit = most(each);
    if (!limit) continue;
    const QuotaUsage has = usage(each);
    if ((more.space > 0 && plus(has.space, more.space) > limit->space) ||
        (more.files > 0 && plus(has.files, more.files) > limit->files)) {
      refused_.add();
      return true;
    }
  }
  return false;
}

std::uint64_t QuotaKeeper::promised(QuotaId whose, const Promisee& without) const {
  std::uint64_t bytes = promised_here(whose);
  const auto own_promise = promises_.find(without);
  if (without.owners.has(whose) && own_promise != promises_.end())
    bytes = less(bytes, own_promise->second.bytes);
  // And what other directory servers promised.
  const auto sum = sums_.find(whose);
  if (sum == sums_.end()) return bytes;
  const auto own = own_.find(whose);
  return plus(bytes, less(sum->second.promised, own == own_.end() ? 0 : own->second.promised));
}

std::uint64_t QuotaKeeper::promised_here(QuotaId whose) const {
  std::uint64_t bytes = 0;
  for (const auto& [whom, promise] : promises_) {
    if (whom.owners.has(whose)) bytes = plus(bytes, promise.bytes);
  }
  return bytes;
}

bool QuotaKeeper::must_tell(QuotaId whose) const {
  const std::uint64_t servers = context_.tables.get()->servers(wire::Role::kDirectory).size();
  if (servers < 2 || sums_version_ == 0 || !own_known_) return false;
  const auto known = sums_.find(whose), before = own_.find(whose);
  const Sum sum = known == sums_.end() ? Sum{} : known->second,
            own = before == own_.end() ? Sum{} : before->second;
  const QuotaUsage here = cells_.usage().of(whose);
  const auto more_than_its_part = [servers](std::uint64_t grown, std::uint64_t left) {
    return grown > left / (2 * servers);
  };
  const std::uint64_t space = less(here.space + promised_here(whose), own.usage.space + own.promised);
  const std::uint64_t files = less(here.files, own.usage.files);
  const QuotaUsage limit = *most(whose);
  return (limit.space != kEverything &&
          more_than_its_part(space, less(limit.space, sum.usage.space + sum.promised))) ||
         (limit.files != kEverything && more_than_its_part(files, less(limit.files, sum.usage.files)));
}

bool QuotaKeeper::any_near() const {
  const auto near = [](std::uint64_t used, std::uint64_t most) {
    return most != kEverything && less(most, used) < most / kNearPart;
  };
  const Quotas& quotas = settings_.now().quotas;
  return std::any_of(quotas.begin(), quotas.end(), [&](const auto& each) {
    const QuotaId whose = each.first;
    const QuotaUsage has = usage(whose);
    const QuotaUsage limit = *most(whose);
    return near(has.space, limit.space) || near(has.files, limit.files) || must_tell(whose);
  });
}

void QuotaKeeper::drop_old_promises() {
  const MonoTime now = context_.loop.now();
  if (std::erase_if(promises_, [now](const auto& each) { return each.second.until <= now; }) > 0)
    ++promises_version_;
}

std::size_t QuotaKeeper::data_servers() const {
  const auto& tables = *context_.tables.get();
  return std::max<std::size_t>(
      tables.servers(wire::Role::kStorage).size() + tables.servers(wire::Role::kSmallFile).size(), 1);
}

Task<wire::RoomResult> QuotaKeeper::promise(wire::RoomArgs args) {
  promises_total_.add();
  drop_old_promises();
  const auto owners = args.owners.ids();
  for (QuotaId whose : owners) {
    if (!most(whose) || !must_tell(whose)) continue;
    co_await report();
    break;
  }
  const Promisee whom{args.server, args.owners};
  std::uint64_t left = kEverything, left_but_for_promises = kEverything;
  for (QuotaId whose : owners) {
    const auto limit = most(whose);
    if (!limit || limit->space == kEverything) continue;
    const std::uint64_t free = less(limit->space, plus(usage(whose).space, args.held));
    left_but_for_promises = std::min(left_but_for_promises, free);
    left = std::min(left, less(free, promised(whose, whom)));
  }
  wire::RoomResult result;
  if (left >= args.needed) {
    // All data servers together are promised half of what is left ahead, so that each of them finds some.
    const std::uint64_t ahead = (left - args.needed) / (2 * data_servers());
    result.promised = args.needed + std::min(ahead, kMostAhead);
  } else {
    result.others = left_but_for_promises >= args.needed;
    refused_room_.add();
  }
  promises_[whom] = {plus(args.held, result.promised),
                     context_.loop.now() + std::chrono::milliseconds(wire::kPromisedMs)};
  ++promises_version_;
  co_return result;
}

std::vector<wire::QuotaFigure> QuotaKeeper::figures() const {
  std::vector<wire::QuotaFigure> figures;
  for (const auto& [whose, quota] : settings_.now().quotas) {
    const wire::QuotaFigure figure{whose, cells_.usage().of(whose), promised_here(whose)};
    if (figure.usage != QuotaUsage{} || figure.promised > 0) figures.push_back(figure);
  }
  return figures;
}

Task<void> QuotaKeeper::report_forever(QuotaKeeper& self, std::weak_ptr<bool> alive) {
  Loop& loop = self.context_.loop;
  while (!alive.expired()) {
    self.drop_old_promises();
    const MonoTime now = loop.now();
    const bool changed = self.cells_.usage().version() + self.promises_version_ != self.reported_version_;
    const bool unknown = self.cells_.usage().counted() && !self.own_known_;
    if (changed) self.active_until_ = now + kActive;
    if (now - self.reported_at_ >= kInterval || unknown || (now < self.active_until_ && self.any_near())) {
      co_await self.report();
      if (alive.expired()) co_return;
    }
    co_await loop.sleep(kNearInterval);
  }
}

Task<void> QuotaKeeper::report() {
  auto lock = co_await report_.lock();
  if (context_.loop.now() - reported_at_ < kLeastInterval) co_return;  // while it waited
  co_await report_alone();
  reported_at_ = context_.loop.now();
}

Task<void> QuotaKeeper::report_alone() {
  if (context_.config.first(ServerRole::kManager) == nullptr) co_return;
  managers_.learn(context_.tables.get()->wire());
  const bool counted = cells_.usage().counted();
  const std::uint64_t version = cells_.usage().version() + promises_version_;
  auto figures = counted ? this->figures() : std::vector<wire::QuotaFigure>{};
  wire::QuotaReportArgs args{.server = context_.self.index,
                             .counted = counted,
                             .same = counted && told_any_ && figures == told_,
                             .figures = {},
                             .seen = sums_version_};
  if (!args.same) args.figures = figures;
  const std::weak_ptr<bool> alive = reporting_;
  auto result = co_await managers_.call<wire::QuotaReportResult>(
      context_.channel, wire::ManagerProcedure::kQuotaReport, std::move(args), kReportTimeout);
  if (alive.expired() || !result) co_return;
  reported_version_ = version;
  learn(*result, std::move(figures), counted);
}

void QuotaKeeper::learn(const wire::QuotaReportResult& result, std::vector<wire::QuotaFigure> told,
                        bool counted) {
  told_any_ = counted && !result.again;
  told_ = std::move(told);
  if (result.version == 0 || result.version == sums_version_) return;
  sums_version_ = result.version;
  active_until_ = context_.loop.now() + kActive;
  const auto take = [](Sums& sums, const std::vector<wire::QuotaFigure>& figures) {
    sums.clear();
    for (const wire::QuotaFigure& each : figures) sums[each.whose] = {each.usage, each.promised};
  };
  take(sums_, result.sums);
  own_known_ = told_any_;
  take(own_, own_known_ ? told_ : std::vector<wire::QuotaFigure>{});
}

}  // namespace slice::dirserver
