// Survey: what a manager without a state knows of the tables in use, by what processes tell: whether the
// ensemble is new, or which tables it has. Records of servers (records.h) go before all tables. Knows no
// network and no disk. One loop.
#ifndef SLICE_CONTROL_MANAGER_SURVEY_H
#define SLICE_CONTROL_MANAGER_SURVEY_H

#include <optional>
#include <string>
#include <vector>

#include "common/config.h"
#include "common/loop.h"
#include "control/manager/records.h"
#include "wire/manager.h"

namespace slice::manager {

// The states are those of docs/operations.md, "When manager.state is lost".
class Survey {
 public:
  // How long servers that do not come are waited for where others have tables. Where nobody has any they are
  // waited for as long as it takes: one of them may hold data.
  static constexpr Duration kPatience = std::chrono::seconds(10);

  // All outlive it; `members` are those of the configuration, `records` what the same processes have told.
  Survey(const EnsembleConfig& config, const std::vector<wire::ServerEntry>& members, const Records& records)
      : config_(config), members_(members), records_(records), said_(members.size()) {}

  // args.server is a member.
  void heard(const wire::HeartbeatArgs& args, MonoTime now);
  // Whether this process's tables are not known yet.
  bool wants(const wire::HeartbeatArgs& args) const;
  // Takes the tables of a process; kInvalid or kCorrupt: they do not fit the configuration
  // (routing::RoutingTables), or are not those that it told of.
  Status offered(const wire::OfferTablesArgs& args);

  struct Verdict {
    enum class Kind {
      kWait,      // `text`: for what
      kDeal,      // every server is there, and none has ever served: the ensemble is new
      kTakeOver,  // `tables`, which fit the configuration, are in force; `text`: whose
    };
    Kind kind = Kind::kWait;
    std::string text;
    wire::Tables tables;
  };
  Verdict verdict(MonoTime now) const;
  // Of all that were told.
  Verifier largest_seen() const { return largest_seen_; }

 private:
  struct Said {
    wire::Holding holding = wire::Holding::kNothing;
    Generation generation;
    std::uint64_t digest = 0;
    std::optional<wire::Tables> tables;  // that fit the configuration; they may have more servers
    std::string refused;                 // why the tables cannot be used; empty where they can
  };
  // The newest tables among the processes that hold them so; nothing where none does.
  std::optional<Verdict> newest(wire::Holding holding, MonoTime now) const;
  Generation newest_generation() const;  // of tables that anybody has, or had
  // Where a server has a record: what all records say, and of sites without one the newest tables.
  Verdict by_records(MonoTime now) const;
  // Names of the servers with sites of which `is(said)` holds; said is nullptr where nothing was.
  template <class Is>
  std::string servers(const Is& is) const;

  const EnsembleConfig& config_;
  const std::vector<wire::ServerEntry>& members_;
  const Records& records_;
  std::vector<std::optional<Said>> said_;  // by member
  std::optional<MonoTime> first_heard_;
  Verifier largest_seen_;
};

}  // namespace slice::manager

#endif  // SLICE_CONTROL_MANAGER_SURVEY_H
