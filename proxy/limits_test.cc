// What one client can take of a worker, and what others have meanwhile.
#include <gtest/gtest.h>

#include "proxy/testing/toy_ensemble.h"
#include "rpc/message.h"

namespace slice::proxy::testing {
namespace {

using namespace std::chrono_literals;
using wire::Role;

constexpr std::uint32_t kGreedy = 0x7f000101, kNormal = 0x7f000201;

// The first `n` bytes of a record, and its mark.
void send_begin(WireClient& client, const Buffer& record, std::size_t n) {
  std::uint8_t mark[4];
  store_be(mark, rpc::kLastFragment | static_cast<std::uint32_t>(record.size()));
  client.send(mark);
  client.send(record.view().first(n));
}

std::uint64_t ended(ToyEnsemble& ensemble, std::string_view why) {
  return ensemble.metrics.counter(fmt::format("connections_ended_total{{why=\"{}\"}}", why)).value();
}

ToyOptions large_records() {
  return {.threshold = 1 << 20, .stripe_shift = 20};
}

TEST(Limits, WhatIsDeclaredHoldsNothing) {
  ToyOptions options = large_records();
  options.limits = Worker::client_limits(64 << 20);
  ToyEnsemble ensemble(options);
  Buffer write = ensemble.write_call(Xid{1}, 7, 0, pattern(1 << 20, 1));
  std::vector<std::unique_ptr<WireClient>> slow;
  for (int i = 0; i < 200; ++i) {
    slow.push_back(ensemble.connect(kGreedy));
    send_begin(*slow.back(), write, 2048);
  }
  auto other = ensemble.connect(kNormal), beside = ensemble.connect(kGreedy);
  for (auto* client : {other.get(), beside.get()}) {
    EXPECT_EQ(status_of(ensemble.ask(*client, ensemble.getattr_call(Xid{2}, 7))), nfs3::Status::kOk);
    EXPECT_EQ(status_of(ensemble.ask(*client, write)), nfs3::Status::kOk);
  }
  EXPECT_LT(ensemble.worker->memory_in_use(), 8u << 20);
}

// A little of a long record at a time: no chunk is kept for a few bytes of it.
TEST(Limits, MemoryOfSlowRecordsIsWhatCame) {
  ToyOptions options = large_records();
  options.limits = toy_limits(64 << 20);
  ToyEnsemble ensemble(options);
  Buffer write = ensemble.write_call(Xid{1}, 7, 0, pattern(1 << 20, 1));
  std::vector<std::unique_ptr<WireClient>> slow;
  for (int i = 0; i < 50; ++i) {
    slow.push_back(ensemble.connect(kGreedy));
    send_begin(*slow.back(), write, 100'000);
  }
  for (std::size_t part = 0; part < 20; ++part) {
    ensemble.run_until([] { return false; }, 5ms);
    for (auto& client : slow) client->send(write.view().subspan(100'000 + part * 1000, 1000));
  }
  ensemble.run_until([] { return false; }, 50ms);
  EXPECT_LT(ensemble.worker->memory_in_use(), 40u << 20) << "6 MB were sent";
  for (auto& client : slow) client->send(write.view().subspan(120'000));
  ASSERT_TRUE(ensemble.run_until(
      [&] { return std::all_of(slow.begin(), slow.end(), [](auto& c) { return c->replies.size() == 1; }); }));
  for (auto& client : slow) EXPECT_EQ(status_of(client->replies[0]), nfs3::Status::kOk);
}

TEST(Limits, ALongRecordIsRefusedByItsHead) {
  ToyEnsemble ensemble(large_records());
  auto client = ensemble.connect();
  auto data = pattern(1 << 20, 1);
  Buffer good = ensemble.write_call(Xid{1}, 7, 0, data), bad = good.clone();
  auto handle = ensemble.handle(7);
  auto at = std::search(bad.span().begin(), bad.span().end(), handle.begin(), handle.end());
  *(at + SLICE_HANDLE_SIZE - 1) ^= 1;  // of the MAC
  send_begin(*client, bad, 900'000);
  ASSERT_TRUE(ensemble.run_until([&] { return client->unsent() == 0; }));
  ensemble.run_until([] { return false; }, 20ms);
  EXPECT_LT(ensemble.worker->memory_in_use(), 600u << 10) << "its data is kept";
  client->send(bad.view().subspan(900'000));
  ASSERT_TRUE(ensemble.run_until([&] { return client->replies.size() == 1; }));
  EXPECT_EQ(status_of(client->replies[0]), nfs3::Status::kBadHandle);
  EXPECT_EQ(status_of(ensemble.ask(*client, good)), nfs3::Status::kOk) << "the stream is out of step";
  ensemble.config.exports[0].secure = true;
  ensemble.settings->set(settings_of(ensemble.config));
  EXPECT_EQ(status_of(ensemble.ask(*client, good)), nfs3::Status::kAcces) << "from an unreserved port";
  ensemble.config.exports.clear();
  ensemble.settings->set(settings_of(ensemble.config));
  EXPECT_EQ(status_of(ensemble.ask(*client, good)), nfs3::Status::kAcces);
  Buffer no_write = ensemble.call(Xid{9}, nfs3::Procedure::kGetattr, pattern(100'000, 1));
  std::copy(handle.begin(), handle.end(), no_write.data() + no_write.size() - 100'000 + 4);
  store_be(no_write.data() + no_write.size() - 100'000, std::uint32_t{SLICE_HANDLE_SIZE});
  auto reply = ensemble.ask(*client, no_write);
  EXPECT_EQ(rpc::decode_reply(reply.view())->accept_stat, rpc::AcceptStat::kGarbageArguments);
  EXPECT_EQ(ensemble.metrics.counter("proxy_long_records_refused_total").value(), 4u);
}

// What waits for a server that is away keeps nobody busy: its client's other calls go on, beside those of
// others.
TEST(Limits, ACallForAServerThatIsAwayHoldsUpNoOther) {
  ToyOptions options = large_records();
  options.limits = Worker::client_limits(256 << 20);
  ToyEnsemble ensemble(options);
  auto client = ensemble.connect(kGreedy), other = ensemble.connect(kNormal);
  const auto goes_on = [&](WireClient& who, Xid xid) {
    who.send_record(ensemble.getattr_call(xid, 8).view());
    return ensemble.run_until(
        [&] {
          return std::ranges::any_of(
              who.replies, [&](auto& reply) { return load_be<std::uint32_t>(reply.data()) == xid.value; });
        },
        3s);
  };
  EXPECT_TRUE(goes_on(*client, Xid{1}) && goes_on(*other, Xid{2}));
  const SiteId site = ensemble.tables->small_file_site(FileId{7});
  ToyServer& away = *ensemble.servers.at(ensemble.tables->server_of(Role::kSmallFile, site).server);
  away.stop();
  constexpr std::uint32_t kWrites = 6;
  for (std::uint32_t i = 0; i < kWrites; ++i)
    client->send_record(ensemble.write_call(Xid{100 + i}, 7, 0, pattern(1 << 20, i)).view());
  EXPECT_TRUE(goes_on(*other, Xid{3}));
  EXPECT_TRUE(goes_on(*client, Xid{4}));
  EXPECT_EQ(client->replies.size(), 2u);
  away.start();
  EXPECT_TRUE(ensemble.run_until([&] { return client->replies.size() == 2 + kWrites; }, 20s));
  EXPECT_TRUE(goes_on(*client, Xid{5}));
}

TEST(Limits, SlowRecordsAndUnreadRepliesEnd) {
  ToyOptions options = large_records();
  options.limits.tick = 20ms;
  options.limits.patience = 200ms;
  ToyEnsemble ensemble(options);
  auto data = pattern(1 << 20, 1);
  Buffer write = ensemble.write_call(Xid{1}, 7, 0, data);
  auto good = ensemble.connect(), slow = ensemble.connect(), unread = ensemble.connect();
  ensemble.ask(*good, write);
  send_begin(*slow, write, 200'000);
  unread->set_reading(false);
  for (std::uint32_t i = 0; i < 20; ++i) {
    unread->send_record(ensemble.read_call(Xid{i}, 7, 0, 1 << 20).view());
  }
  ASSERT_TRUE(ensemble.run_until([&] { return ensemble.worker->clients() == 1; }));
  EXPECT_EQ(ended(ensemble, "slow_record"), 1u);
  EXPECT_EQ(ended(ensemble, "unread"), 1u);
  EXPECT_EQ(status_of(ensemble.ask(*good, write)), nfs3::Status::kOk);
}

TEST(Limits, IdleConnectionsOfOneAddressLockNobodyOut) {
  ToyOptions options;
  options.limits.connections = 50;
  ToyEnsemble ensemble(options);
  std::vector<std::unique_ptr<WireClient>> idle, others;
  for (int i = 0; i < 60; ++i) idle.push_back(ensemble.connect(kGreedy));
  for (std::uint32_t i = 0; i < 10; ++i) {
    others.push_back(ensemble.connect(kNormal + i));
    EXPECT_EQ(status_of(ensemble.ask(*others.back(), ensemble.getattr_call(Xid{i}, 7))), nfs3::Status::kOk);
  }
  EXPECT_EQ(ensemble.worker->clients(), 50u);
  EXPECT_EQ(ended(ensemble, "crowded"), 20u);
}

TEST(Limits, ThoseOfTheSettingsCountWhileItServes) {
  ToyOptions options;
  options.limits.connections = 50;
  ToyEnsemble ensemble(options);
  auto open_to = [&](std::size_t count) {
    std::vector<std::unique_ptr<WireClient>> idle;
    for (int i = 0; i < 60; ++i) idle.push_back(ensemble.connect(kGreedy));
    ensemble.run_until([&] { return ensemble.worker->clients() == count; }, 2s);
    return ensemble.worker->clients();
  };
  EXPECT_EQ(open_to(50), 50u);
  ASSERT_TRUE(ensemble.run_until([&] { return ensemble.worker->clients() == 0; }));
  ensemble.settings->set({.limits = {.connections = 20}});
  ensemble.run_until([] { return false; }, 1100ms);  // its next tick
  EXPECT_EQ(open_to(20), 20u);
  ASSERT_TRUE(ensemble.run_until([&] { return ensemble.worker->clients() == 0; }));
  ensemble.settings->set({});
  ensemble.run_until([] { return false; }, 1100ms);
  EXPECT_EQ(open_to(50), 50u);
}

// While others call, a client has no more than its share under way at the servers.
TEST(Limits, AGreedyClientLeavesOthersTheirShare) {
  ToyEnsemble ensemble;
  auto& directory = ensemble.server(Role::kDirectory);
  std::vector<std::unique_ptr<WireClient>> normal, greedy;
  for (std::uint32_t i = 0; i < 20; ++i) {
    normal.push_back(ensemble.connect(kNormal + i));
    ensemble.ask(*normal.back(), ensemble.getattr_call(Xid{i}, 7));
  }
  directory.hold = true;
  for (int c = 0; c < 8; ++c) {
    greedy.push_back(ensemble.connect(kGreedy));
    for (std::uint32_t i = 0; i < 50; ++i) {
      greedy.back()->send_record(ensemble.getattr_call(Xid{i}, 7).view());
    }
  }
  ensemble.run_until([&] { return directory.held() > 16; }, 100ms);
  EXPECT_EQ(directory.held(), 16u);
  for (auto& client : normal) client->send_record(ensemble.getattr_call(Xid{77}, 7).view());
  ASSERT_TRUE(ensemble.run_until([&] { return directory.held() == 16 + 20; }));
  directory.release();
  ASSERT_TRUE(ensemble.run_until([&] {
    return std::all_of(greedy.begin(), greedy.end(), [](auto& c) { return c->replies.size() == 50; });
  }));
  for (auto& client : normal) EXPECT_EQ(client->replies.size(), 2u);
}

// Calls that ask for much count as several.
TEST(Limits, AGreedyReaderLeavesOthersTheirShare) {
  ToyEnsemble ensemble;
  ensemble.sizes[7] = 1 << 20;
  std::vector<std::unique_ptr<WireClient>> normal, greedy;
  for (std::uint32_t i = 0; i < 20; ++i) {
    normal.push_back(ensemble.connect(kNormal + i));
    ensemble.ask(*normal.back(), ensemble.getattr_call(Xid{i}, 7));
  }
  auto each = [&](auto what) {
    for (std::size_t i = 0; i < 3; ++i) what(ensemble.server(Role::kStorage, i));
  };
  auto held = [&] {
    std::size_t sum = 0;
    each([&](ToyServer& server) { sum += server.held(); });
    return sum;
  };
  each([](ToyServer& server) { server.hold = true; });
  for (int c = 0; c < 8; ++c) {
    greedy.push_back(ensemble.connect(kGreedy));
    for (std::uint32_t i = 0; i < 10; ++i) {
      greedy.back()->send_record(ensemble.read_call(Xid{i}, 7, (1 + i) << 16, 1 << 16).view());
    }
  }
  ensemble.run_until([&] { return held() > 4; }, 100ms);
  EXPECT_EQ(held(), 4u);
  for (auto& client : normal) client->send_record(ensemble.read_call(Xid{77}, 7, 1 << 17, 4096).view());
  ASSERT_TRUE(ensemble.run_until([&] { return held() == 4 + 20; }));
  each([](ToyServer& server) { server.release(); });
  ASSERT_TRUE(ensemble.run_until([&] {
    return std::all_of(greedy.begin(), greedy.end(), [](auto& c) { return c->replies.size() == 10; });
  }));
  for (auto& client : normal) EXPECT_EQ(client->replies.size(), 2u);
}

}  // namespace
}  // namespace slice::proxy::testing
