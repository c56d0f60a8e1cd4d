// ManagerSession: what a process has to do with slice-managerd: its tables, its settings, its record of the
// sites that it has (service/ownership.h), its verifier, its heartbeat. Works without the manager as far as
// that is safe: tables come from the copy kept at the last start, and where there is none a server waits,
// since what it stores may lie by other tables than the configuration's; a verifier comes from the manager
// alone. One loop.
#ifndef SLICE_SERVICE_MANAGER_SESSION_H
#define SLICE_SERVICE_MANAGER_SESSION_H

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/settings.h"
#include "service/context.h"
#include "service/ownership.h"
#include "wire/manager.h"

namespace slice::service {

// The tables of a run before, of generation 1 and later, in a data directory; nothing where there are none
// that can be used.
Task<std::optional<wire::Tables>> read_kept_tables(storage::Disk& disk);
// Keeps them, in place of others. Durable when it ends well; calls must not overlap.
Task<Status> keep_tables(storage::Disk& disk, wire::Tables tables);

// Why a call to the manager failed, as operators are told of it.
std::string why_the_manager_refuses(const Error& error);

class ManagerSession {
 public:
  static constexpr Duration kInterval = std::chrono::seconds(1);  // between heartbeats
  static constexpr Duration kHeartbeatTimeout = std::chrono::seconds(3);
  static constexpr Duration kStartTimeout = std::chrono::seconds(1);  // of what a start waits for

  struct Seams {
    Loop& loop;
    rpc::Channel& channel;
    Metrics& metrics;
    storage::Disk& disk;  // where the copy of the tables is kept, `tables.copy`, and the record
    const EnsembleConfig& config;
    const ServerConfig& self;
    routing::TableHolder& tables;
    // That the server goes by; none: settings are no matter of it.
    LiveSettings* settings = nullptr;
    // Whether what it keeps is more than an empty server's: what it served. None: it is not.
    std::function<bool()> served_before = nullptr;
    // What tells one run of the server from another; 0: the process's pid.
    std::uint64_t pid = 0;
    // A proxy's tables of a run before (ServerKind::hints); none: it has none.
    std::function<std::optional<wire::Tables>()> hints = nullptr;
    // Called once, where the manager's tables have this server as removed: it must serve nothing any more.
    // Heartbeats end then.
    std::function<void()> removed = nullptr;
    // Called where the manager's tables have this server at another endpoint than this process is at, once or
    // more. None: it makes no difference.
    std::function<void(rpc::Endpoint)> moved = nullptr;
    // Called where the manager's tables have another server elsewhere than those in use before. None: nobody
    // calls it.
    std::function<void(rpc::Endpoint from, rpc::Endpoint to)> other_moved = nullptr;
  };
  explicit ManagerSession(const Seams& seams);
  ~ManagerSession();

  // Reads the record, and puts the kept copy into the holder, where there is a good one, else a proxy's
  // hints, and likewise the settings; first of all, so that heartbeats can tell of them. kCorrupt: the record
  // is damaged. kInvalid: it is another server's.
  Task<Status> load_kept();
  // The tables to start with: the manager's where it answers with some, else those kept. Else a server waits
  // for the manager as long as it takes; a proxy, which owns nothing, goes by the configuration's generation
  // 0, and so does the manager's own process until its role sets others. A server without a record waits
  // until the manager grants it one, too, and for ever where it had one before: its data is gone. Behind
  // them the settings, as SettingsKeeper::learn() has it.
  Task<void> load_tables();
  // What load_tables() waits for, as operators are told; empty where it does not.
  std::string waits_for() const;
  // The record that it goes by; lives as long as this.
  Ownership& ownership();
  // A verifier larger than every one drawn before; waits for the manager as long as it takes.
  Task<Verifier> draw_verifier();
  // Takes the manager's tables now. Ends when they are in use, or after kStartTimeout without an answer; who
  // comes while the manager is asked already gets that answer.
  Task<void> refresh();
  // The same, where the tables in use are older than this generation.
  Task<void> catch_up(Generation generation);
  // Takes the manager's settings, where those in force are older than this generation.
  Task<void> catch_up(SettingsGeneration generation);
  // Sends a heartbeat now and then once an interval until this is destroyed; keeps the tables at the
  // manager's generation, and offers its own where the manager asks. Never goes back to older tables. `fill`
  // sets free and total bytes, state and detail.
  using Fill = std::function<void(wire::HeartbeatArgs&)>;
  // What a heartbeat says, as of now.
  wire::HeartbeatArgs told(const VerifierClock& verifier, const Fill& fill);
  // Since the manager answered a heartbeat last; where it never did, since this was made.
  Duration manager_silent() const;
  // For how long newer tables or settings than those in use have been known of; 0: none are.
  Duration late() const;
  void start_heartbeats(VerifierClock& verifier, Fill fill);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // shared with calls under way
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_MANAGER_SESSION_H
