// QuotaKeeper: a directory server's part in quotas (docs/quotas.md): has usage counted as long as somebody
// has a quota, tells the manager what is on its own sites and learns what is on all, says who has no more
// room, and promises data servers room for bytes. One loop.
#ifndef SLICE_DIRSERVER_BACKGROUND_QUOTA_KEEPER_H
#define SLICE_DIRSERVER_BACKGROUND_QUOTA_KEEPER_H

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/quota.h"
#include "dirserver/store/cell_store.h"
#include "service/access.h"
#include "service/context.h"
#include "service/managers.h"
#include "wire/quota.h"

namespace slice::dirserver {

class QuotaKeeper {
 public:
  // Between two reports; the shorter one where something was changed anywhere within kActive, and somebody is
  // near a limit: less than kNearPart of it is left, or this server has taken more of what was left than it
  // may before the others hear of it.
  static constexpr Duration kInterval = std::chrono::milliseconds(500),
                            kNearInterval = std::chrono::milliseconds(50), kActive = std::chrono::seconds(2);
  static constexpr std::uint64_t kNearPart = 4;  // of a limit: a quarter
  // Between two reports that promises wait for.
  static constexpr Duration kLeastInterval = std::chrono::milliseconds(5);
  // The most that a data server is promised ahead of what it needs.
  static constexpr std::uint64_t kMostAhead = 64 << 20;  // bytes

  // Both must outlive this.
  QuotaKeeper(service::ServiceContext& context, CellStore& cells);

  // At the start, and whenever settings become others; `sites`: that are here.
  void settings_changed(std::vector<SiteId> sites);
  // No more reports.
  void stop();
  bool used() const { return !settings_.now().quotas.empty(); }

  // Whether one of these, who are to own that much more, would have more than they may. Where `who`, the
  // caller, is the superuser, only a tree's quota keeps them from anything.
  bool exceeded(const service::Identity& who, std::span<const QuotaId> whose, QuotaUsage more);
  // Room for a data server. Of several directory servers together none promises more than its part of what
  // is left before the others have heard of it.
  Task<wire::RoomResult> promise(wire::RoomArgs args);
  // Up to where somebody may go now, 2^64 - 1 where nothing limits them; nothing: they have no quota.
  std::optional<QuotaUsage> most(QuotaId whose) const { return limits(whose, &QuotaLimit::most); }
  // The same as they are told it: QuotaLimit::told().
  std::optional<QuotaUsage> told_most(QuotaId whose) const { return limits(whose, &QuotaLimit::told); }
  // What somebody has on all servers' sites, as far as this one knows.
  QuotaUsage usage(QuotaId whose) const;

 private:
  // Who asked for whom.
  struct Promisee {
    std::uint32_t server = 0;
    QuotaOwners owners;
    auto operator<=>(const Promisee&) const = default;
  };
  struct Promise {
    std::uint64_t bytes = 0;
    MonoTime until{};
  };
  struct Sum {
    QuotaUsage usage;
    std::uint64_t promised = 0;
  };
  using Sums = std::map<QuotaId, Sum>;

  std::uint64_t now_s() const;
  using LimitNow = std::uint64_t (QuotaLimit::*)(std::uint32_t grace, std::uint64_t now) const;
  std::optional<QuotaUsage> limits(QuotaId whose, LimitNow which) const;
  // Whether somebody is.
  bool any_near() const;
  // What data servers were promised for somebody, but for one promise; by this server, and by all.
  std::uint64_t promised(QuotaId whose, const Promisee& without) const;
  std::uint64_t promised_here(QuotaId whose) const;
  // Whether this server has taken more since its last report than its part of what was left then.
  bool must_tell(QuotaId whose) const;
  void drop_old_promises();
  std::size_t data_servers() const;
  std::vector<wire::QuotaFigure> figures() const;
  static Task<void> report_forever(QuotaKeeper& self, std::weak_ptr<bool> alive);
  // One at a time.
  Task<void> report();
  Task<void> report_alone();
  void learn(const wire::QuotaReportResult& result, std::vector<wire::QuotaFigure> told, bool counted);

  service::ServiceContext& context_;
  CellStore& cells_;
  const SettingsReader settings_;
  service::Managers managers_;
  std::shared_ptr<bool> reporting_;  // as long as there are quotas
  AsyncMutex report_;

  // Of all servers, as the manager said last; and of these what was this server's own.
  Sums sums_, own_;
  bool own_known_ = false;          // else the sums have what this server had when it ran before
  std::uint64_t sums_version_ = 0;  // 0: there are none
  // The last report that reached the manager.
  std::vector<wire::QuotaFigure> told_;
  bool told_any_ = false;
  MonoTime reported_at_{}, active_until_{};
  std::uint64_t reported_version_ = 0;  // of usage and promises

  std::map<Promisee, Promise> promises_;
  std::uint64_t promises_version_ = 0;
  Counter &refused_, &promises_total_, &refused_room_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_BACKGROUND_QUOTA_KEEPER_H
