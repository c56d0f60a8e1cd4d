// Two managers that share their state: what a role does when it begins to lead, and when it does not any
// more.
#include "control/manager/role.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/manager/file_store.h"
#include "control/manager/shared_store.h"
#include "control/manager/testing/memory_registry.h"
#include "service/internal_call.h"
#include "service/testing/service_fixture.h"

namespace slice::manager {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::MemoryRegistry;

EnsembleConfig two_managers() {
  EnsembleConfig config = service::testing::sample_config();
  service::testing::add_server(config, "manager2", ServerRole::kManager);
  service::testing::add_server(config, "proxy2", ServerRole::kProxy);
  return config;
}

class RoleTest : public service::testing::ServiceFixture {
 protected:
  // A process with a disk, tables and settings of its own.
  struct Process {
    Process(RoleTest& test, const std::string& its_name)
        : name(its_name),
          disk(test.loop_),
          tables(test.tables_.get()),
          settings(settings_of(test.config_)),
          context{.loop = test.loop_,
                  .channel = test.network_,
                  .metrics = metrics,
                  .disk = disk,
                  .config = test.config_,
                  .self = *test.config_.find(its_name),
                  .handles = test.handles_,
                  .tables = tables,
                  .settings = settings,
                  .verifier = verifier,
                  .random = test.context_.random,
                  .crash = test.crash_points_} {}
    const std::string name;
    Metrics metrics;
    storage::MemoryDisk disk;
    routing::TableHolder tables;
    LiveSettings settings;
    service::VerifierClock verifier{Verifier{1}};
    service::ServiceContext context;
    MemoryRegistry* registry = nullptr;
    std::unique_ptr<ManagerRole> role;
  };

  RoleTest() : ServiceFixture("manager1", two_managers()) {}

  Process& start_process(const std::string& name, bool has_file = false) {
    Process& process = *processes_.emplace_back(std::make_unique<Process>(*this, name));
    if (has_file) {
      FileStore file(process.disk);
      EXPECT_TRUE(run(save_state(file, state_)));
    }
    auto registry = std::make_unique<MemoryRegistry>(shared_);
    process.registry = registry.get();
    process.role = std::make_unique<ManagerRole>(
        process.context, std::make_unique<SharedStore>(SharedStore::Seams{.loop = loop_,
                                                                          .metrics = process.metrics,
                                                                          .self = name,
                                                                          .lease = 2s,
                                                                          .random = context_.random},
                                                       std::move(registry)));
    EXPECT_TRUE(run(process.role->start()));
    serve(name, *process.role);
    return process;
  }
  bool until_leads(Process& process) {
    return loop_.run_until([&] { return process.role->leads(); }, 5s);
  }
  // Dead, and its lease with it.
  void kill(Process& process) {
    silence(process.name);
    process.registry->silent = true;
  }
  void bring_back(Process& process) {
    process.registry->silent = false;
    serve(process.name, *process.role);
  }
  template <class R, class Args = service::NoArguments>
  Result<R> ask(Process& process, wire::ManagerProcedure procedure, const Args& args = {}) {
    return run(service::internal_call<R>(network_, endpoint(process.name), wire::kManagerProgram, procedure,
                                         args, 1s));
  }
  Result<wire::DrawVerifierResult> draw(Process& process) {
    return ask<wire::DrawVerifierResult>(process, wire::ManagerProcedure::kDrawVerifier,
                                         wire::DrawVerifierArgs{2});
  }
  // What the manager that leads, or another, says to a proxy.
  Result<wire::HoldAddressResult> ask_for_address(Process& process, const std::string& proxy, bool holds) {
    const std::uint32_t server = config_.find(proxy)->index;
    return ask<wire::HoldAddressResult>(
        process, wire::ManagerProcedure::kHoldAddress,
        wire::HoldAddressArgs{.server = server, .ready = true, .holds = holds, .number = ++questions_});
  }
  wire::Tables dealt() const {
    wire::Tables tables = routing::RoutingTables::initial(config_);
    tables.generation = Generation{1};
    return tables;
  }
  void TearDown() override {
    for (auto& each : processes_) run(stopped(*each->role));
    loop_.advance(60s);
    processes_.clear();
    loop_.advance(20s);
  }
  static Task<bool> stopped(ManagerRole& role) {
    co_await role.stop();
    co_return true;
  }

  ManagerState state_{.drawn = Verifier{40}, .volume = config_.volume, .tables = dealt()};
  MemoryRegistry::Shared shared_{loop_};
  std::vector<std::unique_ptr<Process>> processes_;
  std::uint64_t questions_ = 0;
};

TEST_F(RoleTest, TheOthersSayWhoLeadsAndAnswerNothingElse) {
  Process& first = start_process("manager1", true);
  ASSERT_TRUE(until_leads(first));
  Process& second = start_process("manager2");
  loop_.advance(1s);
  EXPECT_EQ(draw(first)->verifier, Verifier{41});
  EXPECT_EQ(draw(second).error().code, Errc::kIo);
  auto said = ask<wire::LeaderResult>(second, wire::ManagerProcedure::kLeader);
  ASSERT_TRUE(said);
  EXPECT_FALSE(said->leads);
  EXPECT_EQ(said->leader, "manager1");
  EXPECT_EQ(said->places.size(), 1u);
  said = ask<wire::LeaderResult>(first, wire::ManagerProcedure::kLeader);
  EXPECT_TRUE(said->leads);
  EXPECT_EQ(said->leader, "manager1");
  EXPECT_EQ(second.role->state(), "serving");
  EXPECT_EQ(second.role->detail(), "stands by; manager1 leads");
  EXPECT_THAT(first.role->detail(), HasSubstr("leads; 0 of 9"));
  EXPECT_THAT(run(second.role->reload()).refused, HasSubstr("manager1 does"));
  EXPECT_EQ(second.metrics.counter("manager_not_leading_total").value(), 1u);
}

TEST_F(RoleTest, AnotherGoesOnWhereTheLeaderDied) {
  Process& first = start_process("manager1", true);
  ASSERT_TRUE(until_leads(first));
  Process& second = start_process("manager2");
  EXPECT_EQ(draw(first)->verifier, Verifier{41});
  wire::ServerEntry entry{.role = wire::Role::kStorage, .endpoint = {0x0a4d2002, 2049}, .name = "store3"};
  auto added = ask<wire::ChangeServerResult>(first, wire::ManagerProcedure::kChangeServer,
                                             wire::ChangeServerArgs{.entry = entry});
  ASSERT_TRUE(added);
  EXPECT_EQ(added->refused, "");
  kill(first);
  ASSERT_TRUE(until_leads(second));
  EXPECT_EQ(draw(second)->verifier, Verifier{42});
  auto tables = ask<wire::Tables>(second, wire::ManagerProcedure::kGetTables);
  EXPECT_EQ(tables->servers.back().name, "store3");
  EXPECT_EQ(tables->generation, Generation{2});
  EXPECT_EQ(second.tables.get()->generation(), Generation{2});
  EXPECT_EQ(second.settings.get()->generation, SettingsGeneration{1});
}

TEST_F(RoleTest, WhoIsBackAfterItsLeaseChangesNothing) {
  Process& first = start_process("manager1", true);
  ASSERT_TRUE(until_leads(first));
  Process& second = start_process("manager2");
  first.registry->silent = true;
  ASSERT_TRUE(until_leads(second));
  EXPECT_FALSE(draw(first)) << "it does not lead by its own clock";
  EXPECT_EQ(draw(second)->verifier, Verifier{41});
  first.registry->silent = false;
  loop_.advance(2s);
  EXPECT_FALSE(draw(first));
  EXPECT_EQ(draw(second)->verifier, Verifier{42});
  kill(second);
  ASSERT_TRUE(until_leads(first));
  EXPECT_EQ(draw(first)->verifier, Verifier{43}) << "by what is shared, not by what it had itself";
  EXPECT_EQ(first.metrics.counter("manager_terms_total").value(), 2u);
}

TEST_F(RoleTest, ACallThatIsUnderWayWhenTheTermEndsHasNoAnswer) {
  Process& first = start_process("manager1", true);
  ASSERT_TRUE(until_leads(first));
  Process& second = start_process("manager2");
  loop_.advance(1s);
  first.registry->silent = true;
  EXPECT_FALSE(draw(first));
  ASSERT_TRUE(until_leads(second));
  const std::uint64_t drawn = draw(second)->verifier.value;
  EXPECT_TRUE(drawn == 41 || drawn == 42) << drawn;
}

TEST_F(RoleTest, TheStateOfAFileIsBroughtAlongOnce) {
  Process& first = start_process("manager1", true);
  ASSERT_TRUE(until_leads(first));
  EXPECT_EQ(draw(first)->verifier, Verifier{41});
  FileStore file(first.disk);
  EXPECT_EQ(run(file.read(kStateFile)).error().code, Errc::kNotFound);
  EXPECT_TRUE(run(file.read("manager.state.shared")));
  kill(first);
  Process& second = start_process("manager2", true);
  ASSERT_TRUE(until_leads(second));
  EXPECT_EQ(draw(second)->verifier, Verifier{42}) << "its own file is not the ensemble's state";
}

TEST_F(RoleTest, WhatCannotBeReadIsLeftToOthers) {
  Process& first = start_process("manager1");
  shared_.names[kStateFile] = {"damaged", ++shared_.revision};
  ASSERT_FALSE(until_leads(first));
  EXPECT_THAT(first.role->state(), HasSubstr("its checksum does not fit"));
  EXPECT_THAT(ask<wire::LeaderResult>(first, wire::ManagerProcedure::kLeader)->trouble,
              HasSubstr("checksum"));
  EXPECT_EQ(shared_.names[kStateFile].first, "damaged");
}

TEST_F(RoleTest, WithoutTheRegistryNobodyLeadsUntilItIsBack) {
  Process& first = start_process("manager1", true);
  Process& second = start_process("manager2");
  ASSERT_TRUE(until_leads(first));
  first.registry->silent = second.registry->silent = true;
  loop_.advance(10s);
  EXPECT_FALSE(first.role->leads() || second.role->leads());
  EXPECT_EQ(first.role->state(), "waiting: no manager leads");
  first.registry->silent = second.registry->silent = false;
  ASSERT_TRUE(loop_.run_until([&] { return first.role->leads() || second.role->leads(); }, 3s));
  EXPECT_EQ(draw(first.role->leads() ? first : second)->verifier, Verifier{41});
}

// Which proxy has the virtual address the next manager does not know (address_lease.h).
TEST_F(RoleTest, ANewLeaderGivesTheAddressToNobodyBeforeItsHolderMustHaveBeenHeardOf) {
  const Duration patience = std::chrono::milliseconds(config_.proxy.address_patience_ms);
  const std::uint32_t one = config_.find("proxy1")->index, two = config_.find("proxy2")->index;
  Process& first = start_process("manager1", true);
  ASSERT_TRUE(until_leads(first));
  Process& second = start_process("manager2");
  ASSERT_FALSE(ask_for_address(first, "proxy1", false)->known);
  loop_.advance(patience / 2);
  ASSERT_FALSE(ask_for_address(first, "proxy1", false)->known);
  loop_.advance(patience / 2 + 1ms);
  ASSERT_EQ(ask_for_address(first, "proxy1", false)->holder, one);
  EXPECT_EQ(ask_for_address(first, "proxy2", false)->holder, one);
  EXPECT_FALSE(ask_for_address(second, "proxy2", false)) << "it does not lead";

  // The leader falls silent, and the holder lives.
  kill(first);
  ASSERT_TRUE(until_leads(second));
  const MonoTime leads = loop_.now();
  for (bool heard = false; loop_.now() - leads <= patience; loop_.advance(300ms)) {
    EXPECT_FALSE(ask_for_address(second, "proxy2", false)->known);
    if (std::exchange(heard, true)) EXPECT_FALSE(ask_for_address(second, "proxy1", true)->known);
  }
  EXPECT_EQ(ask_for_address(second, "proxy2", false)->holder, one);
  EXPECT_EQ(second.metrics.counter("manager_address_moves_total").value(), 0u);

  // The next one dies together with the holder.
  EXPECT_EQ(ask_for_address(second, "proxy1", true)->holder, one);
  const MonoTime died = loop_.now();
  second.registry->silent = true;
  bring_back(first);
  ASSERT_TRUE(until_leads(first));
  bool given = false;
  while (!given) {
    const auto told = ask_for_address(first, "proxy2", false);
    ASSERT_TRUE(told);
    given = told->known;
    EXPECT_TRUE(!given || loop_.now() - died > patience);
    EXPECT_EQ(told->holder, given ? two : wire::kNoServer);
    loop_.advance(100ms);
  }
  EXPECT_EQ(ask_for_address(first, "proxy1", false)->holder, two) << "it is back, without the address";
}

// The only manager, with its file, leads always.
TEST_F(RoleTest, AloneItLeadsAtOnceAndAnErrorOfItsStateIsItsOwn) {
  Process process(*this, "manager1");
  FileStore file(process.disk);
  EXPECT_TRUE(run(save_state(file, state_)));
  ManagerRole role(process.context);
  EXPECT_FALSE(role.leads());
  ASSERT_TRUE(run(role.start()));
  EXPECT_TRUE(role.leads());
  EXPECT_EQ(role.detail(), "0 of 9 processes alive");
  EXPECT_TRUE(role.leader().places.empty());
  run(stopped(role));
  EXPECT_TRUE(role.leads());
  ASSERT_TRUE(process.disk.corrupt(kStateFile, 12, 1));
  ManagerRole damaged(process.context);
  EXPECT_EQ(run(damaged.start()).error().code, Errc::kCorrupt);
  loop_.advance(5s);
}

}  // namespace
}  // namespace slice::manager
