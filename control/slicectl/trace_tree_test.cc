#include "control/slicectl/trace_tree.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "control/slicectl/trace_commands.h"
#include "control/slicectl/trace_render.h"
#include "wire/internal.h"
#include "wire/mount3.h"
#include "wire/nfs3.h"

namespace slice::slicectl {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kProxy = 0, kDir = 2, kStore = 5;
const rpc::Endpoint kClient{0x0a4d0102, 800}, kDirAt{0x0a4d0302, 2049}, kStoreAt{0x0a4d0702, 2049};

TraceStep call_step(rpc::Endpoint to, std::uint32_t program, std::uint32_t procedure, std::uint32_t xid,
                    Duration began, Duration took) {
  return {.kind = TraceStep::Kind::kCall,
          .began = began,
          .took = took,
          .what = {},
          .address = to.address,
          .port = to.port,
          .program = program,
          .procedure = procedure,
          .xid = xid,
          .sends = 1};
}

class TraceTreeTest : public ::testing::Test {
 protected:
  // A WRITE that a proxy gave a storage node, whose disk took its time, and which told the authority.
  static wire::TraceRecord at_proxy() {
    wire::TraceRecord record = write_record();
    record.took = 212ms;
    record.steps.push_back(call_step(kStoreAt, nfs3::kProgram, 7, 500, 1ms, 210ms));
    return record;
  }
  static wire::TraceRecord at_store() {
    wire::TraceRecord record = write_record();
    record.took = 209ms;
    record.sender = kProxy;
    record.carried = 500;
    record.steps.push_back(
        {.kind = TraceStep::Kind::kSync, .began = 1ms, .took = 200ms, .what = "objects/1"});
    record.steps.push_back(call_step(kDirAt, wire::kAuthorityProgram, 2, 900, 201ms, 5ms));
    return record;
  }
  static wire::TraceRecord at_dir() {
    return {.took = 4ms,
            .client = {},
            .sender = kStore,
            .carried = 900,
            .internal = true,
            .program = wire::kAuthorityProgram,
            .procedure = 2,
            .steps = {}};
  }
  static wire::TraceRecord write_record() {
    return {.began = {1'700'000'000'000'000'000},
            .client = kClient,
            .xid = Xid{0x77},
            .carried = 0x77,
            .program = nfs3::kProgram,
            .procedure = 7,
            .file = FileId{9},
            .offset = 65536,
            .count = 32768,
            .stable = 2,
            .steps = {}};
  }

  TraceJoiner joiner_{{{.index = kProxy, .name = "proxy1", .endpoint = {0x0a4d0201, 2049}},
                       {.index = kDir, .name = "dir1", .endpoint = kDirAt},
                       {.index = kStore, .name = "store2", .endpoint = kStoreAt, .data = "/data/store2"}}};
};

TEST_F(TraceTreeTest, JoinsProxyServerAndWhoThatOneAsked) {
  joiner_.add(kDir, at_dir());
  joiner_.add(kStore, at_store());
  joiner_.add(kProxy, at_proxy());
  EXPECT_TRUE(joiner_.round().empty());  // more may come
  auto operations = joiner_.round();
  ASSERT_EQ(operations.size(), 1u);
  const Hop& proxy = *operations[0];
  EXPECT_EQ(proxy.server, kProxy);
  EXPECT_EQ(proxy.itself(), 2ms);
  ASSERT_NE(proxy.steps.at(0).there, nullptr);
  const Hop& store = *proxy.steps[0].there;
  EXPECT_EQ(store.server, kStore);
  EXPECT_EQ(store.itself(), 4ms);
  ASSERT_NE(store.steps.at(1).there, nullptr);
  EXPECT_EQ(store.steps[1].there->server, kDir);
  EXPECT_TRUE(has_part(proxy, kDir));
  EXPECT_FALSE(has_part(proxy, 17));
  const MostOfIt most = most_of_it(proxy);
  EXPECT_EQ(most.kind, MostOfIt::Kind::kWait);
  EXPECT_EQ(most.server, kStore);
  EXPECT_EQ(most.step.kind, TraceStep::Kind::kSync);
  EXPECT_EQ(most.took, 200ms);
  EXPECT_TRUE(joiner_.round(true).empty());
}

TEST_F(TraceTreeTest, AnotherClientsCallUnderTheSameXidIsNotTaken) {
  wire::TraceRecord others = at_store();
  others.client.port = 801;
  joiner_.add(kStore, others);
  joiner_.add(kProxy, at_proxy());
  joiner_.round();
  auto operations = joiner_.round();
  ASSERT_EQ(operations.size(), 1u);
  EXPECT_EQ(operations[0]->steps.at(0).there, nullptr);
  EXPECT_EQ(most_of_it(*operations[0]).kind, MostOfIt::Kind::kUnknown);
}

TEST_F(TraceTreeTest, WhatWasPassedOnWaitsForItsSenderUntilTheEnd) {
  joiner_.add(kStore, at_store());
  joiner_.round();
  EXPECT_TRUE(joiner_.round().empty());
  auto operations = joiner_.round(true);
  ASSERT_EQ(operations.size(), 1u);
  EXPECT_EQ(operations[0]->server, kStore);
}

TEST_F(TraceTreeTest, InternalCallsOfNoKnownOperationAreNotShown) {
  joiner_.add(kDir, at_dir());
  joiner_.round();
  EXPECT_TRUE(joiner_.round(true).empty());
}

// A peer that says that a call was answered by itself, or by each other, for ever.
TEST_F(TraceTreeTest, RecordsThatCallOneAnotherEnd) {
  for (int i = 0; i < 50; ++i) {
    wire::TraceRecord record = write_record();
    record.sender = i == 0 ? wire::kNoSender : kStore;
    record.carried = 1;
    record.steps.push_back(call_step(kStoreAt, nfs3::kProgram, 7, 1, 0ms, Duration(INT64_MAX / 2)));
    record.steps.push_back(
        call_step(kStoreAt, nfs3::kProgram, 7, 1, Duration(INT64_MAX / 2), Duration(INT64_MAX / 2)));
    joiner_.add(kStore, record);
  }
  auto operations = joiner_.round(true);
  ASSERT_GE(operations.size(), 1u);
  EXPECT_FALSE(render_operation(joiner_, *operations[0], {}).empty());
}

TEST_F(TraceTreeTest, NamesTheDiskThatTookTheTime) {
  for (const auto& [server, record] : {std::pair{kDir, at_dir()}, {kStore, at_store()}, {kProxy, at_proxy()}})
    joiner_.add(server, record);
  auto operations = joiner_.round(true);
  const std::string text = render_operation(joiner_, *operations.at(0), {{9, "/a/b"}});
  EXPECT_EQ(
      text,
      "22:13:20.000Z WRITE 212 ms NFS3_OK client=10.77.1.2:800 xid=0x77 file=/a/b offset=65536 count=32768 "
      "FILE_SYNC\n"
      "  proxy1 WRITE: 212 ms, itself 2.00 ms\n"
      "    store2 WRITE: 209 ms, itself 4.00 ms, from 1.00 ms on\n"
      "      sync of objects/1 in /data/store2: 200 ms, from 1.00 ms on\n"
      "      dir1 authority MERGE: 4.00 ms, itself 4.00 ms, from 201 ms on\n"
      "  most of it: store2, sync of objects/1 in /data/store2: 200 ms of 212 ms\n");
  auto json = operation_json(joiner_, *operations[0], {});
  EXPECT_EQ(json["most"]["server"], "store2");
  EXPECT_EQ(json["most"]["step"], "sync");
  EXPECT_EQ(json["most"]["data"], "/data/store2");
  EXPECT_EQ(json["hop"]["steps"][0]["there"]["steps"][1]["there"]["operation"], "authority MERGE");
}

// What a proxy asks for itself while it looks for the path is a part of that, and no operation of a client.
TEST_F(TraceTreeTest, AMountHasTheLookupsOfTheProxyBelowIt) {
  wire::TraceRecord lookup{.took = 3ms,
                           .client = {0x0a4d0201, 9},
                           .xid = Xid{800},
                           .sender = kProxy,
                           .carried = 800,
                           .internal = true,
                           .program = nfs3::kProgram,
                           .procedure = 3,
                           .status = 2,
                           .steps = {}};
  wire::TraceRecord mount{.began = {1'700'000'000'000'000'000},
                          .took = 5ms,
                          .client = kClient,
                          .xid = Xid{0x77},
                          .program = mount3::kProgram,
                          .procedure = 1,
                          .path = "/a\x1b",
                          .status = 2,
                          .steps = {}};
  mount.steps.push_back(call_step(kDirAt, nfs3::kProgram, 3, 800, 1ms, 4ms));
  joiner_.add(kDir, lookup);
  joiner_.add(kProxy, mount);
  auto operations = joiner_.round(true);
  ASSERT_EQ(operations.size(), 1u);
  EXPECT_EQ(render_operation(joiner_, *operations[0], {}),
            "22:13:20.000Z MNT 5.00 ms MNT3ERR_NOENT client=10.77.1.2:800 xid=0x77 path=\"/a\\u001b\"\n"
            "  proxy1 MNT: 5.00 ms, itself 1.00 ms, MNT3ERR_NOENT\n"
            "    dir1 LOOKUP: 3.00 ms, itself 3.00 ms, from 1.00 ms on, NFS3ERR_NOENT\n"
            "  most of it: dir1 itself: 3.00 ms of 5.00 ms\n");
  EXPECT_EQ(operation_json(joiner_, *operations[0], {})["path"], "/a\x1b");
}

TEST(TraceCommandsTest, TimesAndOperationsAreRead) {
  EXPECT_EQ(parse_time("50ms").value(), 50ms);
  EXPECT_EQ(parse_time("10s").value(), 10s);
  for (const char* wrong : {"", "5", "ms", "-1s", "1h", "99999999999s", "5msx"})
    EXPECT_FALSE(parse_time(wrong)) << wrong;
  EXPECT_EQ(parse_operation("write").value(), (wire::TraceOperation{nfs3::kProgram, 7}));
  EXPECT_EQ(parse_operation("mnt").value(), (wire::TraceOperation{mount3::kProgram, 1}));
  EXPECT_EQ(parse_operation("EXPORT").value(), (wire::TraceOperation{mount3::kProgram, 5}));
  EXPECT_NE(parse_operation("WRIET").error().message.find("WRITE"), std::string::npos);
  EXPECT_FALSE(parse_operation("NULL"));
}

}  // namespace
}  // namespace slice::slicectl
