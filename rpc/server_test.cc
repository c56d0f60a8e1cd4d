// rpc::Server and rpc::SocketChannel over loopback.
#include "rpc/server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "rpc/client.h"
#include "rpc/message.h"
#include "rpc/record.h"
#include "rpc/test_programs.h"

namespace slice::rpc {
namespace {

using namespace std::chrono_literals;
constexpr std::uint32_t kLoopback = 0x7f000001;
constexpr std::uint32_t kFirst = 0x7f000101, kSecond = 0x7f000201, kThird = 0x7f000301;  // clients

// Bytes that the allocator has given out.
std::size_t heap() {
  auto figures = ::mallinfo2();
  return figures.uordblks + figures.hblkhd;
}

struct Answer {
  std::optional<Result<Response>> result;
};
Task<void> call_into(Channel& channel, Request request, Answer& out) {
  out.result.emplace(co_await channel.call(std::move(request)));
}

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() { dispatcher.add(echo); }
  ~ServerTest() override {  // calls that still wait hold their connection
    server.reset();
    echo.release();
  }

  void serve(Server::Options options = {}) {
    options.keys = &keys;
    server = std::make_unique<Server>(loop, dispatcher, metrics, options);
    auto bound = server->listen({kLoopback, at.port});
    ASSERT_TRUE(bound) << bound.error().message;
    at = *bound;
  }
  Request request(std::uint32_t procedure, Buffer arguments, Duration timeout = 5s) {
    return {.to = at,
            .program = EchoProgram::kNumber,
            .version = 2,
            .procedure = procedure,
            .arguments = std::move(arguments),
            .timeout = timeout};
  }
  Result<Response> call(std::uint32_t procedure, Buffer arguments, Duration timeout = 5s) {
    Answer answer;
    spawn(call_into(channel, request(procedure, std::move(arguments), timeout), answer));
    EXPECT_TRUE(loop.run_until([&] { return answer.result.has_value(); }, 20s));
    return std::move(*answer.result);
  }
  // Runs the loop until `done`, asking every millisecond, since what it asks may not be an event of the loop.
  bool poll_until(const std::function<bool()>& done, Duration limit) {
    MonoTime end = loop.now() + limit;
    while (loop.now() < end) {
      if (loop.run_until(done, 1ms)) return true;
    }
    return false;
  }
  // What arrives at a socket of our own, until n bytes or its end.
  std::string read_exactly(int fd, std::size_t n) {
    std::string got;
    std::string bytes(256 << 10, 0);
    auto read = [&] {
      ssize_t r = 1;
      while (r > 0 && got.size() < n) {
        r = ::recv(fd, bytes.data(), std::min(bytes.size(), n - got.size()), MSG_DONTWAIT);
        if (r > 0) got.append(bytes, 0, static_cast<std::size_t>(r));
      }
      return got.size() == n || r == 0 || (r < 0 && errno != EAGAIN);
    };
    poll_until(read, 10s);
    return got;
  }
  // From that address of the loopback network, where one is given: another client.
  int raw_socket(int type, std::uint32_t from = 0) {
    int fd = ::socket(AF_INET, type, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    if (from != 0) {
      address.sin_addr.s_addr = htonl(from);
      EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    }
    address.sin_addr.s_addr = htonl(at.address);
    address.sin_port = htons(at.port);
    EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return fd;
  }
  Buffer echo_call(Xid xid, std::uint32_t procedure, ByteView arguments) {
    XdrWriter out;
    encode_call(out, {.xid = xid,
                      .program = EchoProgram::kNumber,
                      .version = 2,
                      .procedure = procedure,
                      .arguments = arguments});
    return out.take();
  }

  static void send_record(int fd, const Buffer& record) {
    XdrWriter framed;
    framed.u32(static_cast<std::uint32_t>(record.size()) | kLastFragment);
    framed.fixed(record.view());
    EXPECT_EQ(::send(fd, framed.view().data(), framed.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(framed.size()));
  }

  Metrics metrics;
  EpollLoop loop;
  EchoProgram echo;
  KeyRing keys{kTestKey};
  Dispatcher dispatcher{metrics};
  Endpoint at{kLoopback, 0};
  std::unique_ptr<Server> server;
  SocketChannel channel{loop, {.keys = &keys, .sender = 7, .generation = [] { return Generation{3}; }}};
};

TEST_F(ServerTest, AnswersASealedCall) {
  serve();
  auto reply = call(1, number_argument(0xabcd));
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(to_hex(reply->results()), "0000abcd");
  EXPECT_TRUE(echo.last.internal);
  EXPECT_FALSE(echo.last.forwarded);
  EXPECT_EQ(echo.last.sender, 7u);
  EXPECT_EQ(echo.last.generation, Generation{3});
  EXPECT_EQ(echo.last.client.address, kLoopback);
}

TEST_F(ServerTest, EveryOutcomeBecomesItsError) {
  serve();
  EXPECT_EQ(call(3, {}).error().code, Errc::kInvalid);
  EXPECT_EQ(call(4, {}).error().code, Errc::kIo);
  EXPECT_EQ(call(5, {}).error().code, Errc::kDenied);
  EXPECT_EQ(call(6, {}).error().code, Errc::kInvalid);
  EXPECT_EQ(call(2, {}, 50ms).error().code, Errc::kTimedOut);
  EXPECT_TRUE(call(0, {}));
  EXPECT_TRUE(call(9, {}));
}

TEST_F(ServerTest, CallsOutOfOrderFindTheirCallers) {
  serve();
  Answer slow, fast;
  spawn(call_into(channel, request(7, number_argument(1)), slow));
  spawn(call_into(channel, request(1, number_argument(2)), fast));
  ASSERT_TRUE(loop.run_until([&] { return fast.result.has_value(); }, 5s));
  EXPECT_FALSE(slow.result.has_value());
  echo.release();
  ASSERT_TRUE(loop.run_until([&] { return slow.result.has_value(); }, 5s));
  EXPECT_EQ(to_hex((*slow.result)->results()), "00000001");
  EXPECT_EQ(to_hex((*fast.result)->results()), "00000002");
  EXPECT_EQ(channel.connects(), 1u);
}

TEST_F(ServerTest, AShortCallOvertakesData) {
  serve();
  std::vector<Answer> data(32);
  Answer asked_behind, small;
  for (Answer& each : data) spawn(call_into(channel, request(1, Buffer(1 << 20)), each));
  Request asked = request(8, number_argument(1 << 20));
  asked.long_answer = true;
  spawn(call_into(channel, std::move(asked), asked_behind));
  spawn(call_into(channel, request(1, number_argument(7)), small));
  ASSERT_TRUE(loop.run_until([&] { return small.result.has_value(); }, 5s));
  EXPECT_TRUE(*small.result);
  EXPECT_FALSE(data.back().result.has_value()) << "what was called before is still under way";
  EXPECT_FALSE(asked_behind.result.has_value());
  ASSERT_TRUE(loop.run_until([&] { return asked_behind.result.has_value(); }, 20s));
  for (Answer& each : data) EXPECT_TRUE(each.result && *each.result);
  EXPECT_EQ(channel.connects(), 2u);
}

TEST_F(ServerTest, ManyAndLargeRecords) {
  serve();
  std::vector<Answer> answers(300);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    Buffer big(i % 7 == 0 ? (1 << 20) : i * 4);
    std::fill(big.span().begin(), big.span().end(), static_cast<std::uint8_t>(i));
    spawn(call_into(channel, request(1, std::move(big)), answers[i]));
  }
  ASSERT_TRUE(loop.run_until(
      [&] {
        return std::all_of(answers.begin(), answers.end(),
                           [](const Answer& a) { return a.result.has_value(); });
      },
      20s));
  for (std::size_t i = 0; i < answers.size(); ++i) {
    ASSERT_TRUE(*answers[i].result) << (*answers[i].result).error().message;
    ByteView results = (*answers[i].result)->results();
    ASSERT_EQ(results.size(), i % 7 == 0 ? (1u << 20) : i * 4);
    EXPECT_TRUE(std::all_of(results.begin(), results.end(),
                            [&](std::uint8_t b) { return b == static_cast<std::uint8_t>(i); }));
  }
}

TEST_F(ServerTest, FragmentsAreJoinedHoweverTheyArrive) {
  serve();
  int fd = raw_socket(SOCK_STREAM);
  std::string payload(5000, 'x');
  Buffer record = echo_call(Xid{5}, 1, as_bytes(payload));
  // Fragments of 1, 0, 999 and the rest, sent in pieces of 7 bytes.
  std::string stream;
  std::size_t sent = 0;
  auto fragment = [&](std::size_t n, bool last) {
    std::uint8_t mark[4];
    store_be(mark, static_cast<std::uint32_t>(n) | (last ? kLastFragment : 0));
    stream.append(reinterpret_cast<char*>(mark), 4);
    stream.append(as_text(record.view().subspan(sent, n)));
    sent += n;
  };
  fragment(1, false);
  fragment(0, false);
  fragment(999, false);
  fragment(record.size() - sent, true);
  for (std::size_t i = 0; i < stream.size(); i += 7) {
    std::size_t n = std::min<std::size_t>(7, stream.size() - i);
    ASSERT_EQ(::send(fd, stream.data() + i, n, 0), static_cast<ssize_t>(n));
    if (i % 70 == 0) loop.run_until([] { return false; }, 100us);
  }
  std::string reply = read_exactly(fd, 4 + 24 + 5000);
  ASSERT_EQ(reply.size(), 4u + 24 + 5000);
  EXPECT_EQ(reply.substr(28), payload);
  ::close(fd);
}

TEST_F(ServerTest, ARecordOverTheLimitClosesTheConnection) {
  serve({.max_record = 1000});
  int fd = raw_socket(SOCK_STREAM);
  std::uint8_t mark[4];
  store_be(mark, 1001u | kLastFragment);
  ASSERT_EQ(::send(fd, mark, 4, 0), 4);
  EXPECT_EQ(read_exactly(fd, 1), "");
  EXPECT_EQ(metrics.counter("rpc_connections_broken_total").value(), 1u);
  loop.run_until([&] { return metrics.counter("rpc_connections").value() == 0; }, 1s);
  EXPECT_EQ(metrics.counter("rpc_connections").value(), 0u);
  ::close(fd);
}

TEST_F(ServerTest, GarbageIsIgnoredAndTheConnectionGoesOn) {
  serve();
  int fd = raw_socket(SOCK_STREAM);
  Buffer good = echo_call(Xid{6}, 1, {});
  XdrWriter stream;
  stream.u32(8 | kLastFragment);
  stream.u64(0x1122334455667788);
  stream.u32(static_cast<std::uint32_t>(good.size()) | kLastFragment);
  stream.fixed(good.view());
  ASSERT_EQ(::send(fd, stream.view().data(), stream.size(), 0), static_cast<ssize_t>(stream.size()));
  EXPECT_EQ(read_exactly(fd, 28).size(), 28u);
  EXPECT_EQ(metrics.counter("rpc_records_not_calls_total").value(), 1u);
  ::close(fd);
}

TEST_F(ServerTest, ReadingStopsAtTheCallLimitAndGoesOn) {
  serve({.limits = {.connection_calls = 4}});
  int fd = raw_socket(SOCK_STREAM);
  XdrWriter stream;
  for (std::uint32_t i = 0; i < 20; ++i) {
    Buffer one = echo_call(Xid{i}, 7, {});
    stream.u32(static_cast<std::uint32_t>(one.size()) | kLastFragment);
    stream.fixed(one.view());
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

TEST_F(ServerTest, ReadingStopsWhileRepliesAreNotTaken) {
  serve({.limits = {.connection_memory = 1 << 20}});
  int fd = raw_socket(SOCK_STREAM);
  constexpr std::uint32_t kReplies = 200, kReplySize = 256 << 10;  // 50 MiB
  Buffer size = number_argument(kReplySize);
  for (std::uint32_t i = 0; i < kReplies; ++i) {
    Buffer one = echo_call(Xid{i}, 8, size.view());
    XdrWriter framed;
    framed.u32(static_cast<std::uint32_t>(one.size()) | kLastFragment);
    framed.fixed(one.view());
    ASSERT_EQ(::send(fd, framed.view().data(), framed.size(), 0), static_cast<ssize_t>(framed.size()));
  }
  loop.run_until([] { return false; }, 100ms);
  EXPECT_LT(echo.calls, 80u) << "replies pile up for a client that does not read";
  std::size_t expected = kReplies * (4 + 24 + 4 + std::size_t{kReplySize});
  EXPECT_EQ(read_exactly(fd, expected).size(), expected);
  EXPECT_EQ(echo.calls, kReplies);
  ::close(fd);
}

TEST_F(ServerTest, TotalLimitPausesAndResumesConnections) {
  serve({.limits = {.calls = 3}});
  int one = raw_socket(SOCK_STREAM), two = raw_socket(SOCK_STREAM);
  for (int fd : {one, two}) {
    XdrWriter stream;
    for (std::uint32_t i = 0; i < 4; ++i) {
      Buffer call = echo_call(Xid{i}, 7, {});
      stream.u32(static_cast<std::uint32_t>(call.size()) | kLastFragment);
      stream.fixed(call.view());
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

TEST_F(ServerTest, ConnectionsOverTheLimitAreClosed) {
  serve({.limits = {.connections = 2}});
  int fds[3] = {raw_socket(SOCK_STREAM, kFirst), raw_socket(SOCK_STREAM, kSecond),
                raw_socket(SOCK_STREAM, kThird)};
  EXPECT_EQ(read_exactly(fds[2], 1), "");
  EXPECT_EQ(metrics.counter("rpc_connections_refused_total").value(), 1u);
  EXPECT_EQ(metrics.counter("rpc_connections").value(), 2u);
  for (int fd : fds) ::close(fd);
}

// One address with many connections loses the one that was idle longest, for somebody else's first.
TEST_F(ServerTest, IdleConnectionsOfOneAddressLockNobodyOut) {
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

TEST_F(ServerTest, TheEnsembleHasRoomOfItsOwn) {
  serve({.limits = {.connections = 2, .peers = {kThird}}});
  int first = raw_socket(SOCK_STREAM, kFirst), second = raw_socket(SOCK_STREAM, kSecond);
  for (int fd : {first, second}) send_record(fd, echo_call(Xid{1}, 7, {}));
  ASSERT_TRUE(poll_until([&] { return echo.waiting.size() == 2; }, 5s));
  int peer = raw_socket(SOCK_STREAM, kThird);
  send_record(peer, echo_call(Xid{2}, 1, {}));
  EXPECT_EQ(read_exactly(peer, 28).size(), 28u);
  for (int fd : {first, second, peer}) ::close(fd);
}

// A connection with a sealed call is the ensemble's: it is not counted among clients', and not idle.
TEST_F(ServerTest, ASealedCallMakesAPeer) {
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

TEST_F(ServerTest, AConnectionWithoutACallEnds) {
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
TEST_F(ServerTest, ARecordMustComeAtSomeSpeed) {
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

TEST_F(ServerTest, WhatIsDeclaredTakesNoMemory) {
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

// NULL calls, as many as the connection takes.
struct Flood {
  int fd;
  std::size_t sent = 0;

  static const Buffer& calls() {
    static const Buffer stream = [] {
      XdrWriter out, call;
      encode_call(call, {.xid = Xid{1}, .program = EchoProgram::kNumber, .version = 2, .procedure = 0});
      for (std::uint32_t i = 0; i < 2000; ++i) {
        out.u32(static_cast<std::uint32_t>(call.size()) | kLastFragment);
        out.fixed(call.view());
      }
      return out.take();
    }();
    return stream;
  }
  void send() {
    ByteView rest = calls().view().subspan(sent);
    ssize_t n = ::send(fd, rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) sent = (sent + static_cast<std::size_t>(n)) % calls().size();
  }
};

// Clients that call and read nothing: memory stays within what is stated, others are answered meanwhile, and
// when the patience with them is over all is as before.
TEST_F(ServerTest, UnreadRepliesAreBoundedAndEnd) {
  Server::Options options;
  options.limits.memory = 8 << 20;
  options.limits.client_memory = 4 << 20;
  options.limits.connection_memory = 1 << 20;
  options.limits.tick = 10ms;
  options.limits.patience = 300ms;
  serve(options);
  std::size_t before = heap(), most = 0;
  std::vector<Flood> floods;
  for (std::uint32_t i = 0; i < 16; ++i) floods.push_back({raw_socket(SOCK_STREAM, kFirst + i % 4)});
  int good = raw_socket(SOCK_STREAM, kFirst + 9);
  int small = 4096;
  for (Flood& flood : floods) ::setsockopt(flood.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  // What the kernel keeps for the connections fills first.
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
  EXPECT_LT(heap() - before, 1u << 20) << "memory is not given back";
  for (Flood& flood : floods) ::close(flood.fd);
  ::close(good);
}

// While several call, a round of the loop takes no more than some hundred kilobytes from one of them.
TEST_F(ServerTest, LongCallsOfOneClientDoNotFillARound) {
  serve();
  constexpr std::size_t kLong = 100'000;
  int other = raw_socket(SOCK_STREAM, kSecond);
  std::vector<int> greedy;
  for (int i = 0; i < 20; ++i) greedy.push_back(raw_socket(SOCK_STREAM, kFirst));
  send_record(other, echo_call(Xid{1}, 1, {}));
  EXPECT_EQ(read_exactly(other, 28).size(), 28u);
  send_record(greedy[0], echo_call(Xid{1}, 1, {}));
  EXPECT_EQ(read_exactly(greedy[0], 28).size(), 28u);
  const Buffer data(kLong);
  for (int fd : greedy) send_record(fd, echo_call(Xid{2}, 1, data.view()));
  std::uint64_t before = echo.calls, most = 0;
  EpollLoop::RoundEnd each;
  each = loop.at_round_end([&] {
    most = std::max(most, echo.calls - std::exchange(before, echo.calls));
    each.want();
  });
  each.want();
  const std::uint64_t all = echo.calls + greedy.size();
  ASSERT_TRUE(poll_until([&] { return echo.calls == all; }, 5s));
  EXPECT_LE(most, 7u) << "512 KiB, and what has begun";
  for (int fd : greedy) ::close(fd);
  ::close(other);
}

// While several call, none has more than its share of the calls under way.
TEST_F(ServerTest, AGreedyClientLeavesOthersTheirShare) {
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

TEST_F(ServerTest, UdpAnswersFromTheAddressThatWasAsked) {
  at = {0, 0};  // any address
  server = std::make_unique<Server>(loop, dispatcher, metrics);
  auto bound = server->listen(at, Server::Protocols::kUdp);
  ASSERT_TRUE(bound) << bound.error().message;
  at = {0x7f000002, bound->port};   // 127.0.0.2
  int fd = raw_socket(SOCK_DGRAM);  // connected: takes answers from that address alone
  std::string payload(32 << 10, 'u');
  Buffer call = echo_call(Xid{77}, 1, as_bytes(payload));
  ASSERT_EQ(::send(fd, call.data(), call.size(), 0), static_cast<ssize_t>(call.size()));
  std::string reply;
  poll_until(
      [&] {
        char bytes[65536];
        ssize_t n = ::recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n > 0) reply.assign(bytes, static_cast<std::size_t>(n));
        return n > 0;
      },
      5s);
  ASSERT_EQ(reply.size(), 24 + payload.size());
  EXPECT_EQ(reply.substr(24), payload);
  EXPECT_TRUE(echo.last.datagram);
  ::close(fd);
}

TEST_F(ServerTest, AUdpReplyMuchLongerThanItsCallIsWithheld) {
  serve({.max_udp_growth = 4});
  int fd = raw_socket(SOCK_DGRAM);
  for (std::uint32_t size : {4u, 1000u}) {
    Buffer call = echo_call(Xid{size}, 8, number_argument(size).view());
    ASSERT_EQ(::send(fd, call.data(), call.size(), 0), static_cast<ssize_t>(call.size()));
    std::uint8_t bytes[2048];
    ssize_t n = -1;
    ASSERT_TRUE(poll_until([&] { return (n = ::recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0; }, 5s));
    auto header = decode_reply({bytes, static_cast<std::size_t>(n)});
    ASSERT_TRUE(header);
    EXPECT_EQ(header->xid, Xid{size});
    EXPECT_EQ(header->accept_stat, size == 4 ? AcceptStat::kSuccess : AcceptStat::kSystemError);
    EXPECT_LE(static_cast<std::size_t>(n), 4 * call.size());
  }
  EXPECT_EQ(metrics.counter("rpc_udp_replies_withheld_total").value(), 1u);
  ::close(fd);
}

TEST_F(ServerTest, UdpReplyOverADatagramIsDroppedAndCounted) {
  serve();
  int fd = raw_socket(SOCK_DGRAM);
  Buffer call = echo_call(Xid{1}, 8, number_argument(70000).view());
  ASSERT_EQ(::send(fd, call.data(), call.size(), 0), static_cast<ssize_t>(call.size()));
  loop.run_until([&] { return metrics.counter("rpc_udp_replies_too_large_total").value() == 1; }, 2s);
  EXPECT_EQ(metrics.counter("rpc_udp_replies_too_large_total").value(), 1u);
  ::close(fd);
}

TEST_F(ServerTest, ACallWaitsForAServerThatIsNotThereYet) {
  serve();
  server.reset();  // the port stays known
  Answer answer;
  spawn(call_into(channel, request(1, number_argument(1)), answer));
  loop.run_until([] { return false; }, 100ms);
  EXPECT_FALSE(answer.result.has_value());
  serve();
  ASSERT_TRUE(loop.run_until([&] { return answer.result.has_value(); }, 5s));
  EXPECT_TRUE(*answer.result);
}

TEST_F(ServerTest, ACallIsSentAgainWhenTheConnectionBreaks) {
  serve();
  Answer answer;
  spawn(call_into(channel, request(7, number_argument(9)), answer));
  ASSERT_TRUE(loop.run_until([&] { return echo.waiting.size() == 1; }, 5s));
  server.reset();
  echo.release();  // answered into nowhere
  loop.run_until([] { return false; }, 30ms);
  EXPECT_FALSE(answer.result.has_value());
  serve();
  ASSERT_TRUE(loop.run_until([&] { return echo.waiting.size() == 1; }, 5s));
  echo.release();
  ASSERT_TRUE(loop.run_until([&] { return answer.result.has_value(); }, 5s));
  ASSERT_TRUE(*answer.result);
  EXPECT_EQ(to_hex((*answer.result)->results()), "00000009");
  EXPECT_EQ(echo.calls, 2u);
}

TEST_F(ServerTest, APeerThatTalksNonsenseIsTriedNowAndThen) {
  int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(kLoopback);
  socklen_t length = sizeof address;
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(listener, 16), 0);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
  at.port = ntohs(address.sin_port);
  Answer answer;
  spawn(call_into(channel, request(1, number_argument(1), 1s), answer));
  auto babble = [&] {
    int fd = ::accept(listener, nullptr, nullptr);
    if (fd >= 0) {
      EXPECT_EQ(::send(fd, "\xff\xff\xff\xff", 4, MSG_NOSIGNAL), 4);
      ::close(fd);
    }
    return answer.result.has_value();
  };
  ASSERT_TRUE(poll_until(babble, 20s));
  ::close(listener);
  EXPECT_FALSE(*answer.result);
  EXPECT_GE(channel.connects(), 2u);
  EXPECT_LE(channel.connects(), 10u);  // 20, 40, 80, 160, 320, 500 ms between them
}

TEST_F(ServerTest, NobodyThereIsUnavailableAfterTheTimeOut) {
  serve();
  server.reset();
  MonoTime start = loop.now();
  auto reply = call(1, {}, 200ms);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::kUnavailable);
  EXPECT_GE(loop.now() - start, 200ms);
  EXPECT_LT(loop.now() - start, 2s);
}

// A process that is down is told from a link that is: by its host, which refuses.
TEST_F(ServerTest, WhereNobodyListensACallMayGiveUpEarly) {
  serve();
  server.reset();
  auto ask = [&](Duration refused_patience, Duration timeout) {
    Request asked = request(1, {}, timeout);
    asked.refused_patience = refused_patience;
    Answer answer;
    const MonoTime start = loop.now();
    spawn(call_into(channel, std::move(asked), answer));
    EXPECT_TRUE(loop.run_until([&] { return answer.result.has_value(); }, 10s));
    EXPECT_EQ(answer.result->error().code, Errc::kUnavailable);
    return loop.now() - start;
  };
  const Duration early = ask(300ms, 8s);
  EXPECT_GE(early, 290ms);
  EXPECT_LT(early, 4s);
  EXPECT_GE(ask(Duration(0), 1s), 990ms);
}

TEST_F(ServerTest, AWrongKeyIsDenied) {
  serve();
  EnsembleKey wrong = kTestKey;
  wrong[0] ^= 1;
  KeyRing other(wrong);
  SocketChannel stranger(loop, {.keys = &other});
  Answer answer;
  spawn(call_into(stranger, request(1, {}), answer));
  ASSERT_TRUE(loop.run_until([&] { return answer.result.has_value(); }, 5s));
  EXPECT_EQ(answer.result->error().code, Errc::kDenied);
  EXPECT_EQ(echo.calls, 0u);
}

TEST_F(ServerTest, APlainClientWithAuthSysIsNotInternal) {
  serve();
  SocketChannel plain(loop, {});
  Answer answer;
  Request asked = request(1, {});
  asked.credential = AuthSys{.machine_name = "laptop", .uid = 1000, .gid = 100, .groups = {4, 5}};
  spawn(call_into(plain, std::move(asked), answer));
  ASSERT_TRUE(loop.run_until([&] { return answer.result.has_value(); }, 5s));
  ASSERT_TRUE(*answer.result);
  EXPECT_FALSE(echo.last.internal);
  EXPECT_TRUE(echo.last.has_auth_sys);
  EXPECT_EQ(echo.last.credential.uid, 1000u);
  EXPECT_EQ(echo.last.credential.groups, (std::vector<std::uint32_t>{4, 5}));
}

TEST_F(ServerTest, AServerMayGoWhileCallsAreUnderWay) {
  serve();
  Answer answer;
  spawn(call_into(channel, request(7, {}, 100ms), answer));
  ASSERT_TRUE(loop.run_until([&] { return echo.waiting.size() == 1; }, 5s));
  server.reset();
  ASSERT_TRUE(loop.run_until([&] { return answer.result.has_value(); }, 5s));
  echo.release();
  EXPECT_FALSE(*answer.result);
}

}  // namespace
}  // namespace slice::rpc
