#include "service/settings_keeper.h"

#include <gtest/gtest.h>

#include "rpc/xdr.h"
#include "service/admin_program.h"
#include "service/managers.h"
#include "service/testing/service_fixture.h"
#include "storage/durable_file.h"

namespace slice::service {
namespace {

using namespace std::chrono_literals;

Settings settings(std::uint64_t generation, std::uint32_t network = 0x0a4d0000) {
  return {.generation = SettingsGeneration{generation},
          .exports = {{.clients = Network::of_v4(network, 0xffff0000), .read_only = true}},
          .reserves = {{"store1", 5}}};
}

class SettingsKeeperTest : public testing::ServiceFixture {
 protected:
  SettingsKeeperTest() : ServiceFixture("store1") { restart(); }
  void restart() {
    settings_.set(settings_of(config_));
    keepers_.push_back(std::make_unique<SettingsKeeper>(SettingsKeeper::Seams{.loop = loop_,
                                                                              .channel = network_,
                                                                              .disk = disk_,
                                                                              .live = settings_,
                                                                              .tables = tables_,
                                                                              .self = self_,
                                                                              .managers = managers_}));
  }
  SettingsKeeper& keeper() { return *keepers_.back(); }
  // Lets a process have these.
  void has(const std::string& name, const Settings& what) {
    processes_.push_back(std::make_unique<AdminProgram>(
        name, metrics_,
        AdminProgram::Hooks{.refresh = {},
                            .misdirected = {},
                            .new_tables = {},
                            .settings = [what] { return what; },
                            .new_settings = [](SettingsGeneration) -> Task<void> { co_return; },
                            .reload = {}}));
    silence(name);
    serve(name, *processes_.back());
  }
  void run_void(Task<void> task) {
    bool ended = false;
    start_void(std::move(task), [&] { ended = true; });
    ASSERT_TRUE(loop_.run_until([&] { return ended; }, 30s));
  }
  std::uint64_t generation() const { return settings_.get()->generation.value; }

  Managers managers_{config_};
  std::vector<std::unique_ptr<SettingsKeeper>> keepers_;
  std::vector<std::unique_ptr<AdminProgram>> processes_;
};

// Of versions before slow_operation_ms, and before failover_ms: the exports go on to count.
TEST_F(SettingsKeeperTest, ACopyOfAnEarlierVersionIsRead) {
  for (const auto& [format, lacks] : {std::pair{1u, 4u}, {2u, 0u}}) {
    rpc::XdrWriter out;
    out.u32(0x534c5345);
    out.u32(format);
    encode(out, wire::SettingsResult{settings(7)});
    out.rewind(out.size() - lacks);
    ASSERT_TRUE(run(storage::replace_file(disk_, "settings.copy", out.take())));
    auto kept = run(read_kept_settings(disk_));
    ASSERT_TRUE(kept.has_value()) << format;
    EXPECT_EQ(*kept, settings(7));
  }
}

TEST_F(SettingsKeeperTest, ACopyHasQuotas) {
  Settings with = settings(7);
  with.quotas[{QuotaKind::kUser, 1001}].files.hard = 5;
  auto kept = decode_kept_settings(Result<Buffer>(encode_kept_settings(with)));
  ASSERT_TRUE(kept);
  EXPECT_EQ(*kept, with);
}

TEST_F(SettingsKeeperTest, AStartTakesTheManagersAndKeepsThemForOneWithoutIt) {
  has("manager1", settings(4));
  run_void(keeper().load_kept());
  EXPECT_EQ(generation(), 0u) << "there are none yet";
  run_void(keeper().learn());
  EXPECT_EQ(*settings_.get(), settings(4));

  silence("manager1");
  restart();
  run_void(keeper().load_kept());
  EXPECT_EQ(*settings_.get(), settings(4));
  const MonoTime began = loop_.now();
  run_void(keeper().learn());
  EXPECT_EQ(generation(), 4u);
  EXPECT_LE(loop_.now() - began, 2 * SettingsKeeper::kTimeout) << "nobody answers: it does not wait for long";
}

TEST_F(SettingsKeeperTest, WithoutTheManagerTheNewestThatAnyProcessHasCount) {
  has("dir1", settings(6));
  has("store2", settings(7));
  has("proxy1", settings(0));
  run_void(keeper().learn());
  EXPECT_EQ(generation(), 7u);
}

TEST_F(SettingsKeeperTest, NeverGoesBackToOlderOnes) {
  has("manager1", settings(4));
  run_void(keeper().catch_up(SettingsGeneration{4}));
  EXPECT_EQ(generation(), 4u);
  has("manager1", settings(3, 0x0b000000));
  run_void(keeper().learn());
  run_void(keeper().catch_up(SettingsGeneration{5}));
  EXPECT_EQ(*settings_.get(), settings(4));
}

TEST_F(SettingsKeeperTest, AsksOnlyWhereTheyAreOlder) {
  has("manager1", settings(4));
  run_void(keeper().catch_up(SettingsGeneration{0}));
  EXPECT_EQ(generation(), 0u);
  run_void(keeper().catch_up(SettingsGeneration{2}));
  EXPECT_EQ(generation(), 4u) << "those of now, not those that were told of";
}

TEST_F(SettingsKeeperTest, WhatCannotBeUsedIsNoCopy) {
  EXPECT_FALSE(run(read_kept_settings(disk_)));
  for (std::size_t bytes : {0u, 7u, 8u, 40u}) {
    rpc::XdrWriter out;
    out.u32(0x534c5345);
    out.u32(1);
    encode(out, wire::SettingsResult{settings(3)});
    ASSERT_TRUE(run(storage::replace_file(disk_, "settings.copy", Buffer(out.view().first(bytes)))));
    EXPECT_FALSE(run(read_kept_settings(disk_))) << bytes << " bytes of it";
  }
  ASSERT_TRUE(run(keep_settings(disk_, settings(0))));
  EXPECT_FALSE(run(read_kept_settings(disk_))) << "a file's are nobody's to keep";
  ASSERT_TRUE(run(keep_settings(disk_, settings(3))));
  EXPECT_EQ(run(read_kept_settings(disk_)), settings(3));
}

TEST_F(SettingsKeeperTest, ThoseThatCannotBeKeptCountAllTheSame) {
  disk_.set_fault([](const auto& access) -> std::optional<Error> {
    if (access.operation == storage::MemoryDisk::Operation::kSync) return Error{Errc::kIo, "bad disk"};
    return std::nullopt;
  });
  has("manager1", settings(4));
  run_void(keeper().learn());
  EXPECT_EQ(generation(), 4u);
}

}  // namespace
}  // namespace slice::service
