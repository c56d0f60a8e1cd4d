// QuotaBook: how much users, groups and trees have on all directory servers together, which each of these
// tells of its own sites, and learns from here (docs/quotas.md). The limits are among the settings, durable;
// what is kept here is learned anew by each term. One loop.
#ifndef SLICE_CONTROL_MANAGER_QUOTA_BOOK_H
#define SLICE_CONTROL_MANAGER_QUOTA_BOOK_H

#include <map>
#include <vector>

#include "common/loop.h"
#include "common/metrics.h"
#include "control/manager/settings_book.h"
#include "wire/manager.h"
#include "wire/quota.h"

namespace slice::manager {

class QuotaBook {
 public:
  // Between two publications of who came to be over a soft limit, or is no more.
  static constexpr Duration kNotePause = std::chrono::seconds(1);

  struct Hooks {
    const LiveSettings& settings;
    const wire::Tables& tables;
    ChangeSettings change;
  };
  QuotaBook(Loop& loop, Metrics& metrics, Hooks hooks);

  wire::QuotaReportResult report(const wire::QuotaReportArgs& args);
  Task<wire::ChangeQuotaResult> change(wire::ChangeQuotaArgs args);
  // Of nobody where there is no such quota.
  wire::QuotaUsageResult usage(const wire::QuotaUsageArgs& args);

 private:
  struct Sum {
    QuotaUsage usage;
    std::uint64_t promised = 0;
    bool operator==(const Sum&) const = default;
  };
  // Whether every directory server that has sites has told what is on them.
  bool all_told() const;
  void add_up();
  // Has those noted who are over a soft limit and were not, or the other way round.
  void look_at_soft_limits();
  static Task<void> note_soft_limits(QuotaBook& self);
  // What over_since is to be, of a limit and how much there is.
  std::uint64_t over_since(const QuotaLimit& limit, std::uint64_t used) const;
  Sum sum_of(QuotaId whose) const;

  Loop& loop_;
  const Hooks hooks_;
  std::map<std::uint32_t, std::vector<wire::QuotaFigure>> told_;  // by server
  std::map<QuotaId, Sum> sums_;
  std::uint64_t version_;  // of them, grows
  MonoTime may_note_at_{};
  bool noting_ = false;
  Counter &quotas_, &over_, &reports_;
};

}  // namespace slice::manager

#endif  // SLICE_CONTROL_MANAGER_QUOTA_BOOK_H
