// What clients may take of an rpc::Server, and others have nevertheless (rpc/admission.h).
#include "rpc/testing/server_fixture.h"

namespace slice::rpc::testing {
namespace {

using ServerLimitsTest = ServerFixture;

bool is_third(IpAddress address) {
  return address == kThird;
}

TEST_F(ServerLimitsTest, ReadingStopsAtTheCallLimitAndGoesOn) {
  serve({.limits = {.connection_calls = 4}});
  int fd = raw_socket(SOCK_STREAM);
  XdrWriter stream;
  for (std::uint32_t i = 0; i < 20; ++i) {
    add_record(stream, echo_call(Xid{i}, 7, {}));
  }
  ASSERT_EQ(::send(fd, stream.view().data(), stream.size(), 0), static_cast<ssize_t>(stream.size()));
  for (int round = 0; round < 5; ++round) {
    loop.run_until([&] { return echo.waiting.size() > 4; }, 20ms);
    EXPECT_EQ(echo.waiting.size(), 4u) << "more calls under way than the limit";
    echo.release();
  }
  EXPECT_EQ(read_exactly(fd, 20 * 28).size(), 20u * 28);
  ::close(fd);
}

TEST_F(ServerLimitsTest, ReadingStopsWhileRepliesAreNotTaken) {
  serve({.limits = {.connection_memory = 1 << 20}});
  int fd = raw_socket(SOCK_STREAM);
  constexpr std::uint32_t kReplies = 200, kReplySize = 256 << 10;  // 50 MiB
  Buffer size = number_argument(kReplySize);
  for (std::uint32_t i = 0; i < kReplies; ++i) {
    XdrWriter framed;
    add_record(framed, echo_call(Xid{i}, 8, size.view()));
    ASSERT_EQ(::send(fd, framed.view().data(), framed.size(), 0), static_cast<ssize_t>(framed.size()));
  }
  loop.run_until([] { return false; }, 100ms);
  EXPECT_LT(echo.calls, 80u) << "replies pile up for a client that does not read";
  std::size_t expected = kReplies * (4 + 24 + 4 + std::size_t{kReplySize});
  EXPECT_EQ(read_exactly(fd, expected).size(), expected);
  EXPECT_EQ(echo.calls, kReplies);
  ::close(fd);
}

TEST_F(ServerLimitsTest, TotalLimitPausesAndResumesConnections) {
  serve({.limits = {.calls = 3}});
  int one = raw_socket(SOCK_STREAM), two = raw_socket(SOCK_STREAM);
  for (int fd : {one, two}) {
    XdrWriter stream;
    for (std::uint32_t i = 0; i < 4; ++i) {
      add_record(stream, echo_call(Xid{i}, 7, {}));
    }
    ASSERT_EQ(::send(fd, stream.view().data(), stream.size(), 0), static_cast<ssize_t>(stream.size()));
  }
  for (int round = 0; round < 4; ++round) {
    loop.run_until([&] { return echo.waiting.size() > 3; }, 20ms);
    EXPECT_LE(echo.waiting.size(), 3u);
    echo.release();
  }
  EXPECT_EQ(read_exactly(one, 4 * 28).size(), 4u * 28);
  EXPECT_EQ(read_exactly(two, 4 * 28).size(), 4u * 28);
  ::close(one);
  ::close(two);
}

TEST_F(ServerLimitsTest, ConnectionsOverTheLimitAreClosed) {
  serve({.limits = {.connections = 2}});
  int fds[3] = {raw_socket(SOCK_STREAM, kFirst), raw_socket(SOCK_STREAM, kSecond),
                raw_socket(SOCK_STREAM, kThird)};
  EXPECT_EQ(read_exactly(fds[2], 1), "");
  EXPECT_EQ(metrics.counter("rpc_connections_refused_total").value(), 1u);
  EXPECT_EQ(metrics.counter("rpc_connections").value(), 2u);
  for (int fd : fds) ::close(fd);
}

// One address with many connections loses the one that was idle longest, for somebody else's first.
TEST_F(ServerLimitsTest, IdleConnectionsOfOneAddressLockNobodyOut) {
  serve({.limits = {.connections = 8, .client_connections = 6}});
  std::vector<int> greedy;
  for (int i = 0; i < 20; ++i) greedy.push_back(raw_socket(SOCK_STREAM, kFirst));
  std::vector<int> others;
  for (std::uint32_t i = 0; i < 6; ++i) {
    int fd = raw_socket(SOCK_STREAM, kSecond + i);
    send_record(fd, echo_call(Xid{i}, 1, {}));
    EXPECT_EQ(read_exactly(fd, 28).size(), 28u) << i;
    others.push_back(fd);
  }
  EXPECT_EQ(metrics.counter("rpc_connections").value(), 8u);
  EXPECT_EQ(metrics.counter("connections_ended_total{why=\"crowded\"}").value(), 14u + 4);
  EXPECT_EQ(metrics.counter("rpc_connections_refused_total").value(), 0u);
  for (int fd : greedy) ::close(fd);
  for (int fd : others) ::close(fd);
}

TEST_F(ServerLimitsTest, TheEnsembleHasRoomOfItsOwn) {
  serve({.limits = {.connections = 2, .is_peer = is_third}});
  int first = raw_socket(SOCK_STREAM, kFirst), second = raw_socket(SOCK_STREAM, kSecond);
  for (int fd : {first, second}) send_record(fd, echo_call(Xid{1}, 7, {}));
  ASSERT_TRUE(poll_until([&] { return echo.waiting.size() == 2; }, 5s));
  int peer = raw_socket(SOCK_STREAM, kThird);
  send_record(peer, echo_call(Xid{2}, 1, {}));
  EXPECT_EQ(read_exactly(peer, 28).size(), 28u);
  for (int fd : {first, second, peer}) ::close(fd);
}

// A connection with a sealed call is the ensemble's: it is not counted among clients', and not idle.
TEST_F(ServerLimitsTest, ASealedCallMakesAPeer) {
  Server::Options options;
  options.limits.connections = 1;
  options.limits.tick = 10ms;
  options.limits.idle = options.limits.first_call = 50ms;
  serve(options);
  ASSERT_TRUE(call(1, number_argument(1)));
  int client = raw_socket(SOCK_STREAM, kSecond);
  send_record(client, echo_call(Xid{1}, 1, {}));
  EXPECT_EQ(read_exactly(client, 28).size(), 28u);
  EXPECT_EQ(read_exactly(client, 1), "") << "idle, and not closed";
  EXPECT_EQ(metrics.counter("connections_ended_total{why=\"idle\"}").value(), 1u);
  ASSERT_TRUE(call(1, number_argument(1)));
  EXPECT_EQ(channel.connects(), 1u);
  ::close(client);
}

TEST_F(ServerLimitsTest, AConnectionWithoutACallEnds) {
  Server::Options options;
  options.limits.tick = 10ms;
  options.limits.first_call = 50ms;
  serve(options);
  int fd = raw_socket(SOCK_STREAM);
  EXPECT_EQ(read_exactly(fd, 1), "");
  EXPECT_EQ(metrics.counter("connections_ended_total{why=\"idle\"}").value(), 1u);
  ::close(fd);
}

// Half a record, then nothing; and a byte now and then, which is as little.
TEST_F(ServerLimitsTest, ARecordMustComeAtSomeSpeed) {
  Server::Options options;
  options.limits.tick = 10ms;
  options.limits.patience = 100ms;
  serve(options);
  int silent = raw_socket(SOCK_STREAM), slow = raw_socket(SOCK_STREAM), steady = raw_socket(SOCK_STREAM);
  XdrWriter half;
  half.u32(100'000 | kLastFragment);
  half.u64(0);
  for (int fd : {silent, slow, steady}) ASSERT_EQ(::send(fd, half.view().data(), half.size(), 0), 12);
  Buffer call = echo_call(Xid{5}, 1, Buffer(100'000 - 40).view());
  std::size_t sent = 8;
  MonoTime end = loop.now() + 500ms;
  while (loop.now() < end) {
    loop.run_until([] { return false; }, 10ms);
    ::send(slow, half.view().data(), 1, MSG_NOSIGNAL);
    std::size_t n = std::min<std::size_t>(3000, 100'000 - sent);
    ASSERT_EQ(::send(steady, call.data() + sent, n, MSG_NOSIGNAL), static_cast<ssize_t>(n));
    sent += n;
  }
  EXPECT_EQ(metrics.counter("connections_ended_total{why=\"slow_record\"}").value(), 2u);
  EXPECT_EQ(metrics.counter("rpc_connections").value(), 1u);
  for (int fd : {silent, slow, steady}) ::close(fd);
}

TEST_F(ServerLimitsTest, WhatIsDeclaredTakesNoMemory) {
  serve();
  loop.run_until([] { return false; }, 10ms);
  std::vector<int> fds;
  std::size_t before = heap();
  std::string part(2048, 'x');
  for (int i = 0; i < 200; ++i) {
    fds.push_back(raw_socket(SOCK_STREAM, kFirst));
    std::uint8_t mark[4];
    store_be(mark, (1u << 20) | kLastFragment);
    ASSERT_EQ(::send(fds.back(), mark, 4, 0), 4);
    ASSERT_EQ(::send(fds.back(), part.data(), part.size(), 0), 2048);
    loop.run_until([] { return false; }, 1ms);
  }
  EXPECT_LT(heap() - before, 4u << 20) << "200 MiB were declared, 400 KiB sent";
  for (int fd : fds) ::close(fd);
}

// Sends a stream of calls again and again, as much as the connection takes.
struct Flood {
  int fd;
  ByteView calls;
  std::size_t sent = 0;

  void send() {
    ssize_t n = ::send(fd, calls.data() + sent, calls.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) sent = (sent + static_cast<std::size_t>(n)) % calls.size();
  }
};

// Clients that call and read nothing: memory stays within what is stated, others are answered meanwhile, and
// when the patience with them is over all is as before.
TEST_F(ServerLimitsTest, UnreadRepliesAreBoundedAndEnd) {
  Server::Options options;
  options.limits.memory = 8 << 20;
  options.limits.client_memory = 4 << 20;
  options.limits.connection_memory = 1 << 20;
  options.limits.tick = 10ms;
  options.limits.patience = 300ms;
  serve(options);
  // Replies are longer than calls: what the kernel keeps for the connections fills first.
  const Buffer size = number_argument(1024), call = echo_call(Xid{1}, 8, size.view());
  XdrWriter calls;
  for (std::uint32_t i = 0; i < 2000; ++i) add_record(calls, call);
  std::size_t before = heap(), most = 0;
  std::vector<Flood> floods;
  for (std::uint32_t i = 0; i < 16; ++i)
    floods.push_back({raw_socket(SOCK_STREAM, kFirst + i % 4), calls.view()});
  int good = raw_socket(SOCK_STREAM, kFirst + 9);
  int small = 4096;
  for (Flood& flood : floods) ::setsockopt(flood.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  auto& ended = metrics.counter("connections_ended_total{why=\"unread\"}");
  MonoTime until = loop.now() + 20s;
  for (std::uint32_t round = 0; loop.now() < until; ++round) {
    if (ended.value() > 0) break;
    for (Flood& flood : floods) flood.send();
    send_record(good, echo_call(Xid{round}, 1, {}));
    EXPECT_EQ(read_exactly(good, 28).size(), 28u);
    most = std::max(most, heap());
  }
  EXPECT_LT(most - before, 24u << 20);
  EXPECT_GT(ended.value(), 0u);
  EXPECT_TRUE(poll_until([&] { return metrics.counter("rpc_connections").value() <= 1; }, 10s));
  EXPECT_LT(heap() - before, 1u << 20) << "memory is not freed";
  for (Flood& flood : floods) ::close(flood.fd);
  ::close(good);
}

// While several call, none has more than its share of the calls under way.
TEST_F(ServerLimitsTest, AGreedyClientLeavesOthersTheirShare) {
  serve({.limits = {.calls = 64, .client_calls = 48, .shared_calls = 32}});
  std::vector<int> greedy;
  for (int i = 0; i < 8; ++i) greedy.push_back(raw_socket(SOCK_STREAM, kFirst));
  int other = raw_socket(SOCK_STREAM, kSecond);
  send_record(other, echo_call(Xid{1}, 1, {}));
  EXPECT_EQ(read_exactly(other, 28).size(), 28u);
  for (int fd : greedy) {
    for (std::uint32_t i = 0; i < 32; ++i) send_record(fd, echo_call(Xid{i}, 7, {}));
  }
  poll_until([] { return false; }, 50ms);
  EXPECT_EQ(echo.waiting.size(), 16u);
  for (std::uint32_t i = 0; i < 100; ++i) {
    send_record(other, echo_call(Xid{i}, 1, {}));
    ASSERT_EQ(read_exactly(other, 28).size(), 28u);
  }
  std::size_t answered = 0;
  while (answered < 8 * 32 && poll_until([&] { return !echo.waiting.empty(); }, 2s)) {
    answered += echo.waiting.size();
    echo.release();
  }
  EXPECT_EQ(answered, 8u * 32);
  for (int fd : greedy) {
    EXPECT_EQ(read_exactly(fd, 32 * 28).size(), 32u * 28);
    ::close(fd);
  }
  ::close(other);
}

// Datagrams of one address, as many as it likes and each with a call that takes long, keep out nobody else's.
TEST_F(ServerLimitsTest, DatagramsOfOneAddressLockNobodyOut) {
  serve();
  int greedy = raw_socket(SOCK_DGRAM, kFirst), other = raw_socket(SOCK_DGRAM, kSecond);
  for (std::uint32_t i = 0; i < 2000; ++i) {
    Buffer slow = echo_call(Xid{i}, 7, {});
    ASSERT_EQ(::send(greedy, slow.data(), slow.size(), 0), static_cast<ssize_t>(slow.size()));
    loop.run_until([] { return false; }, 0ms);
  }
  ASSERT_TRUE(poll_until([&] { return !echo.waiting.empty(); }, 5s));
  for (std::uint32_t i = 0; i < 100; ++i) {
    Buffer quick = echo_call(Xid{i}, 1, {});
    ASSERT_EQ(::send(other, quick.data(), quick.size(), 0), static_cast<ssize_t>(quick.size()));
    ASSERT_EQ(read_exactly(other, 24).size(), 24u) << i;
  }
  // A part of them was let in, and of those a part waited for others to end. None of these is lost.
  EXPECT_EQ(echo.waiting.size(), 64u);
  EXPECT_EQ(metrics.counter("rpc_udp_calls_dropped_total").value(), 2000u - 512u);
  std::size_t answered = 0;
  while (answered < 512 && poll_until([&] { return !echo.waiting.empty(); }, 2s)) {
    answered += echo.waiting.size();
    echo.release();
  }
  EXPECT_EQ(answered, 512u);
  for (int fd : {greedy, other}) ::close(fd);
}

// Long datagrams wait as short ones do, up to a bound in bytes, and go on when those before them have ended.
TEST_F(ServerLimitsTest, LongDatagramsWaitAndGoOn) {
  serve({.limits = {.connection_memory = 4 << 20}});
  int fd = raw_socket(SOCK_DGRAM, kFirst);
  auto& dropped = metrics.counter("rpc_udp_calls_dropped_total");
  Buffer slow = echo_call(Xid{1}, 7, Buffer(60'000).view());
  std::uint64_t sent = 0, answered = 0;
  for (; sent < 300 && dropped.value() == 0; ++sent) {
    ASSERT_EQ(::send(fd, slow.data(), slow.size(), 0), static_cast<ssize_t>(slow.size()));
    loop.run_until([] { return false; }, 1ms);
  }
  auto all = [&] {
    answered += echo.waiting.size();
    echo.release();
    return answered + dropped.value() == sent;
  };
  EXPECT_TRUE(poll_until(all, 5s)) << answered << " of " << sent;
  EXPECT_GT(answered, 100u);
  EXPECT_LT(answered, 160u) << "over 8 MiB";
  ::close(fd);
}

// Clients of many addresses take all the room that there is for datagrams, but not the ensemble's.
TEST_F(ServerLimitsTest, DatagramsOfTheEnsembleHaveRoomOfTheirOwn) {
  serve({.limits = {.is_peer = is_third}, .max_udp_calls = 8});
  std::vector<int> fds;
  for (std::uint32_t from = 0; from < 40; ++from) fds.push_back(raw_socket(SOCK_DGRAM, kFirst + from));
  Buffer slow = echo_call(Xid{1}, 7, {}), quick = echo_call(Xid{2}, 1, {});
  for (int fd : fds) {
    ASSERT_EQ(::send(fd, slow.data(), slow.size(), 0), static_cast<ssize_t>(slow.size()));
    loop.run_until([] { return false; }, 0ms);
  }
  ASSERT_TRUE(poll_until([&] { return echo.waiting.size() == 8; }, 5s));
  fds.push_back(raw_socket(SOCK_DGRAM, kThird));
  ASSERT_EQ(::send(fds.back(), quick.data(), quick.size(), 0), static_cast<ssize_t>(quick.size()));
  EXPECT_EQ(read_exactly(fds.back(), 24).size(), 24u);
  EXPECT_EQ(metrics.counter("rpc_udp_calls_dropped_total").value(), 32u);
  for (int fd : fds) ::close(fd);
}

// Senders that are silent are forgotten, and more addresses than there may be at once have their turn.
TEST_F(ServerLimitsTest, ManyAddressesSendDatagrams) {
  Server::Options options;
  options.max_udp_calls = 4;
  options.limits.tick = 10ms;
  serve(options);
  for (std::uint32_t from = 0; from < 100; ++from) {
    int fd = raw_socket(SOCK_DGRAM, kFirst + from);
    Buffer quick = echo_call(Xid{from}, 1, {});
    ASSERT_EQ(::send(fd, quick.data(), quick.size(), 0), static_cast<ssize_t>(quick.size()));
    EXPECT_EQ(read_exactly(fd, 24).size(), 24u) << from;
    ::close(fd);
    if (from == 50) poll_until([] { return false; }, 300ms);
  }
  EXPECT_EQ(metrics.counter("rpc_udp_calls_dropped_total").value(), 0u);
}

}  // namespace
}  // namespace slice::rpc::testing
