// ManagerFixture: a manager over a simulated disk, and what processes tell it.
#ifndef SLICE_CONTROL_MANAGER_TESTING_MANAGER_FIXTURE_H
#define SLICE_CONTROL_MANAGER_TESTING_MANAGER_FIXTURE_H

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "control/manager/file_store.h"
#include "control/manager/manager.h"
#include "service/internal_call.h"
#include "service/testing/service_fixture.h"

namespace slice::manager::testing {

class ManagerFixture : public service::testing::ServiceFixture {
 protected:
  // `has_state`: of a volume whose tables are those of the configuration, generation 1.
  explicit ManagerFixture(bool has_state = true) : ServiceFixture("manager1") {
    if (has_state) {
      ManagerState state{.drawn = {}, .volume = config_.volume, .tables = dealt(1)};
      EXPECT_TRUE(run(save_state(store_, state)));
    }
    restart().value();
  }
  wire::Tables dealt(std::uint64_t generation) const {
    wire::Tables tables = routing::RoutingTables::initial(config_);
    tables.generation = Generation{generation};
    return tables;
  }

  // How many bytes tables end with that older formats do not have.
  static std::size_t later_than_places(const wire::Tables& tables) { return 12 + tables.servers.size() * 40; }

  // A new manager over what the disk holds.
  Result<bool> restart() {
    silence("manager1");
    if (manager_) retired_.push_back(std::move(manager_));
    manager_ = std::make_unique<Manager>(context_, store_);
    Status started = run(manager_->start());
    if (!started) return fail(std::move(started).error());
    serve("manager1", *manager_);
    return true;
  }
  template <class R, class Args>
  Result<R> ask(wire::ManagerProcedure procedure, const Args& args) {
    return run(
        service::internal_call<R>(network_, endpoint("manager1"), wire::kManagerProgram, procedure, args));
  }
  Result<wire::HeartbeatResult> beat(const std::string& name, std::uint64_t generation = 0,
                                     std::uint64_t seen = 0) {
    wire::HeartbeatArgs args;
    args.server = config_.find(name)->index;
    args.pid = 100 + args.server;
    args.generation = Generation{generation};
    args.largest_seen = Verifier{seen};
    args.state = "serving";
    return ask<wire::HeartbeatResult>(wire::ManagerProcedure::kHeartbeat, args);
  }
  // A process with these tables beats, and offers them where it is asked to. What the manager told it.
  wire::HeartbeatResult beat_with(const std::string& name, const wire::Tables& tables,
                                  wire::Holding holding = wire::Holding::kTables) {
    wire::HeartbeatArgs args;
    args.server = config_.find(name)->index;
    args.generation = tables.generation;
    args.tables_digest = wire::digest(tables);
    args.holding = holding;
    args.largest_seen = Verifier{70};
    auto result = ask<wire::HeartbeatResult>(wire::ManagerProcedure::kHeartbeat, args);
    if (result->offer) {
      auto offered = ask<wire::OfferTablesResult>(wire::ManagerProcedure::kOfferTables,
                                                  wire::OfferTablesArgs{args.server, tables});
      EXPECT_TRUE(offered);
      taken_ = offered->taken;
    }
    return *result;
  }
  void beat_holding(const std::string& name, wire::Holding holding) {
    wire::HeartbeatArgs args;
    args.server = config_.find(name)->index;
    args.holding = holding;
    EXPECT_TRUE(ask<wire::HeartbeatResult>(wire::ManagerProcedure::kHeartbeat, args));
  }
  // The claim of a server with a record of the sites that it has by these tables.
  Result<wire::ClaimResult> claim(const std::string& name, const wire::Tables& by) {
    wire::ClaimArgs args{.server = config_.find(name)->index,
                         .has_record = true,
                         .sites = {},
                         .layout_sites = wire::layout_sites_of(by, name)};
    for (std::uint32_t site : wire::sites_of(by, name)) args.sites.push_back({site, by.generation});
    return ask<wire::ClaimResult>(wire::ManagerProcedure::kClaim, args);
  }
  Result<wire::ClaimResult> claim_nothing(const std::string& name, bool has_data) {
    return ask<wire::ClaimResult>(
        wire::ManagerProcedure::kClaim,
        wire::ClaimArgs{.server = config_.find(name)->index, .has_data = has_data, .sites = {}});
  }
  // Whether the manager asks a server for the record that it has by these tables.
  bool asks_for_record(const std::string& name, const wire::Tables& by) {
    wire::HeartbeatArgs args;
    args.server = config_.find(name)->index;
    args.holding = wire::Holding::kTables;
    args.generation = by.generation;
    args.tables_digest = wire::digest(by);
    args.record_digest = wire::digest(wire::sites_of(by, name));
    return ask<wire::HeartbeatResult>(wire::ManagerProcedure::kHeartbeat, args)->claim;
  }
  Result<wire::Tables> tables_told() {
    return ask<wire::Tables>(wire::ManagerProcedure::kGetTables, service::NoArguments{});
  }
  Result<wire::DrawVerifierResult> draw() {
    return ask<wire::DrawVerifierResult>(wire::ManagerProcedure::kDrawVerifier, wire::DrawVerifierArgs{2});
  }
  wire::Member member(const std::string& name) {
    auto result = ask<wire::MembersResult>(wire::ManagerProcedure::kMembers, service::NoArguments{});
    return result->members.at(config_.find(name)->index);
  }

  FileStore store_{disk_};
  std::unique_ptr<Manager> manager_;
  std::vector<std::unique_ptr<Manager>> retired_;
  bool taken_ = false;  // the last offer
};

}  // namespace slice::manager::testing

#endif  // SLICE_CONTROL_MANAGER_TESTING_MANAGER_FIXTURE_H
