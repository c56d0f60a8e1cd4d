// Failovers: the manager's part in failover (docs/failover.md): which runs of servers stand by, and on which
// of them a server goes on that has fallen silent, or that an operator wants elsewhere. Where a server is
// served is in the state; what else this knows it hears anew within a second. One loop.
#ifndef SLICE_CONTROL_MANAGER_FAILOVERS_H
#define SLICE_CONTROL_MANAGER_FAILOVERS_H

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "common/log.h"
#include "control/manager/state.h"
#include "service/context.h"
#include "wire/failover.h"

namespace slice::manager {

class Failovers {
 public:
  static constexpr std::size_t kMaxOfOne = 8;  // standbys of a server
  static constexpr Duration kInterval = std::chrono::milliseconds(250);
  // Who was not heard of for longer has missed a heartbeat, and is asked.
  static constexpr Duration kAskedAfter = std::chrono::milliseconds(1250);
  static constexpr Duration kPause = std::chrono::seconds(5);  // after a server's last one
  // A run that is to serve has so long until its first heartbeat, from when it asked for something last: it
  // waits for the session of the run before it, and gets what the server knows.
  static constexpr Duration kTakeOver = std::chrono::seconds(15);
  // Who leads is soon heard by all, but not at once.
  static constexpr Duration kHeadStart = std::chrono::seconds(1);

  struct Hooks {
    const ManagerState& state;
    ChangeState change;
    // Has the process there take the tables in force.
    std::function<void(rpc::Endpoint process)> tell;
    // The state is not known yet.
    std::function<bool()> surveys;
  };
  Failovers(service::ServiceContext& context, Hooks hooks);

  // Watches, until stop().
  void run();
  void stop() { stopped_ = true; }

  // A member's heartbeat.
  void heard(const wire::HeartbeatArgs& args);
  // A run of this server claims its backing set.
  void claims(std::uint32_t server, std::uint64_t instance);
  // That run was told that it is to serve, and nothing has changed since.
  bool is_to_serve(std::uint32_t server, std::uint64_t instance) const;

  // kError while there is a survey, and for a server that cannot have a backing set.
  Task<rpc::Outcome> standby(wire::StandbyArgs args, rpc::XdrWriter& results);
  Task<wire::FailoverResult> failover(wire::FailoverArgs args);
  wire::StandbysResult list() const;

 private:
  // A run that asked whether it is to serve.
  struct Run {
    rpc::Endpoint endpoint;
    std::uint64_t instance = 0;
    MonoTime asked;
  };
  // Who beats: a process, by what its heartbeats say.
  struct Process {
    std::uint64_t pid = 0, started_ns = 0;
    bool operator==(const Process&) const = default;
  };
  struct Watched {
    std::vector<Run> standbys;  // by endpoint; some may be no more
    std::optional<Run> takes;   // who was told to serve last
    std::optional<MonoTime> heard, moved;
    std::optional<Process> beats;   // last
    std::optional<Process> former;  // from before the last failover: its heartbeats count for nothing
    bool begins = false;            // who is to serve has sent no heartbeat
    bool asked = false;             // an answer of the server is waited for
    bool moving = false;
  };

  const wire::ServerEntry& entry_of(std::uint32_t server) const {
    return hooks_.state.tables.servers.at(server);
  }
  bool stands_by(std::uint32_t server, const Run& run) const;
  // Why this run cannot stand by; none: it does.
  Status note_standby(const wire::StandbyArgs& args);
  void note_taker(Watched& watched, const wire::StandbyArgs& args);
  // Where a server is to go on: at this address, where one is given. None: nobody stands by there.
  std::optional<rpc::Endpoint> choose(std::uint32_t server, IpAddress address) const;
  std::size_t members_at(IpAddress address) const;
  // For how long nothing was heard of it, as far as this could hear.
  Duration silence(const Watched& watched) const;
  // How long that may be; none: for ever.
  std::optional<Duration> patience(const Watched& watched) const;
  bool is_silent(const Watched& watched) const;
  void look();
  void look_at(std::uint32_t server);
  Task<void> ask(std::uint32_t server);
  Task<void> replace_silent(std::uint32_t server, rpc::Endpoint to);
  // The tables have the server there. kStale: something else has become of it meanwhile.
  Task<Status> move(std::uint32_t server, rpc::Endpoint to, bool asked);
  // Why an operator's wish is not carried out; empty: it can be.
  std::string objection(const wire::FailoverArgs& args) const;

  service::ServiceContext& context_;
  Hooks hooks_;
  std::map<std::uint32_t, Watched> watched_;  // by server
  MonoTime since_{};                          // from when on it counts who is silent
  MonoTime looked_{};
  bool stopped_ = false;
  LogLimiter refused_log_{1}, answers_log_{1}, stays_log_{1};
  Counter &asked_, &silent_, &refused_, &standing_by_;
};

}  // namespace slice::manager

#endif  // SLICE_CONTROL_MANAGER_FAILOVERS_H
