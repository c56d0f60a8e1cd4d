// rpc::Server and rpc::SocketChannel over loopback.
#include <algorithm>

#include "rpc/bound_socket.h"
#include "rpc/testing/server_fixture.h"

namespace slice::rpc::testing {
namespace {

using ServerTest = ServerFixture;

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
  for (Answer& each : data) spawn(call_into(channel, request(1, Buffer(1 << 20), 60s), each));
  Request asked = request(8, number_argument(1 << 20), 60s);
  asked.long_answer = true;
  spawn(call_into(channel, std::move(asked), asked_behind));
  spawn(call_into(channel, request(1, number_argument(7), 30s), small));
  ASSERT_TRUE(loop.run_until([&] { return small.result.has_value(); }, 30s));
  EXPECT_TRUE(*small.result);
  EXPECT_FALSE(data.back().result.has_value()) << "what was called before is still under way";
  EXPECT_FALSE(asked_behind.result.has_value());
  ASSERT_TRUE(loop.run_until(
      [&] {
        return asked_behind.result &&
               std::all_of(data.begin(), data.end(), [](Answer& each) { return each.result.has_value(); });
      },
      60s));
  for (Answer& each : data) EXPECT_TRUE(*each.result);
  EXPECT_EQ(channel.connects(), 1 + SocketChannel::kDataConnections);
}

TEST_F(ServerTest, CallsFollowAServerThatIsElsewhere) {
  serve();
  const Endpoint nobody{0x7f000001, 1};
  std::vector<Answer> answers(5);
  for (std::uint32_t i = 0; i < answers.size(); ++i) {
    Request asked = request(1, i % 2 == 0 ? number_argument(i) : Buffer(64 << 10), 30s);
    asked.to = nobody;
    spawn(call_into(channel, std::move(asked), answers[i]));
  }
  EXPECT_FALSE(loop.run_until([&] { return answers[0].result.has_value(); }, 200ms));
  Answer other;
  Request late = request(1, number_argument(7), 1s);
  const Endpoint there = late.to;
  channel.moved(nobody, there);
  late.to = nobody;
  spawn(call_into(channel, std::move(late), other));
  for (Answer& each : answers) {
    ASSERT_TRUE(loop.run_until([&] { return each.result.has_value(); }, 5s));
    EXPECT_TRUE(*each.result);
  }
  ASSERT_TRUE(loop.run_until([&] { return other.result.has_value(); }, 5s));
  EXPECT_FALSE(*other.result) << "who calls later means who is there";
  channel.moved(there, nobody);  // nothing is under way, so nothing moves
  Answer again;
  spawn(call_into(channel, request(1, number_argument(7), 5s), again));
  ASSERT_TRUE(loop.run_until([&] { return again.result.has_value(); }, 5s));
  EXPECT_TRUE(*again.result);
}

TEST_F(ServerTest, LittleDataTakesOneConnection) {
  serve();
  for (int i = 0; i < 20; ++i) {
    Answer answer;
    spawn(call_into(channel, request(1, Buffer(64 << 10), 60s), answer));
    ASSERT_TRUE(loop.run_until([&] { return answer.result.has_value(); }, 30s));
    EXPECT_TRUE(*answer.result);
  }
  EXPECT_EQ(channel.connects(), 1u);
}

TEST_F(ServerTest, DataThatIsWaitedForOvertakesCopies) {
  serve();
  std::vector<Answer> copies(32);
  Answer waited_for;
  for (Answer& each : copies) {
    Request copy = request(1, Buffer(1 << 20), 60s);
    copy.urgency = Urgency::kBackground;
    spawn(call_into(channel, std::move(copy), each));
  }
  spawn(call_into(channel, request(1, Buffer(64 << 10), 30s), waited_for));
  ASSERT_TRUE(loop.run_until([&] { return waited_for.result.has_value(); }, 30s));
  EXPECT_TRUE(*waited_for.result);
  EXPECT_FALSE(copies.back().result.has_value()) << "what was called before is still under way";
  ASSERT_TRUE(loop.run_until([&] { return copies.back().result.has_value(); }, 60s));
  for (Answer& each : copies) EXPECT_TRUE(each.result && *each.result);
  EXPECT_EQ(channel.connects(), 2u);
}

TEST_F(ServerTest, ManyAndLargeRecords) {
  serve();
  std::vector<Answer> answers(300);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    Buffer big(i % 7 == 0 ? (1 << 20) : i * 4);
    std::fill(big.span().begin(), big.span().end(), static_cast<std::uint8_t>(i));
    spawn(call_into(channel, request(1, std::move(big), 60s), answers[i]));
  }
  ASSERT_TRUE(loop.run_until(
      [&] {
        return std::all_of(answers.begin(), answers.end(),
                           [](const Answer& a) { return a.result.has_value(); });
      },
      90s));
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
  XdrWriter stream;
  stream.u32(8 | kLastFragment);
  stream.u64(0x1122334455667788);
  add_record(stream, echo_call(Xid{6}, 1, {}));
  ASSERT_EQ(::send(fd, stream.view().data(), stream.size(), 0), static_cast<ssize_t>(stream.size()));
  EXPECT_EQ(read_exactly(fd, 28).size(), 28u);
  EXPECT_EQ(metrics.counter("rpc_records_not_calls_total").value(), 1u);
  ::close(fd);
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

TEST_F(ServerTest, ServesOverIpv6) {
  const IpAddress loopback = IpAddress::of_words(0, 1);
  server = std::make_unique<Server>(loop, dispatcher, metrics, Server::Options{.keys = &keys});
  auto bound = server->listen({loopback, 0});
  ASSERT_TRUE(bound) << bound.error().message;
  at = *bound;
  EXPECT_EQ(at.address, loopback);
  auto reply = call(1, Buffer(as_bytes(std::string_view("abcd"))));
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_TRUE(echo.last.internal);
  EXPECT_EQ(echo.last.client.address, loopback);
  const int fd = socket_for(loopback, SOCK_DGRAM);
  const SocketAddress to(at);
  ASSERT_EQ(::connect(fd, to.get(), to.length()), 0);
  Buffer call = echo_call(Xid{77}, 1, as_bytes(std::string_view("efgh")));
  ASSERT_EQ(::send(fd, call.data(), call.size(), 0), static_cast<ssize_t>(call.size()));
  EXPECT_EQ(read_exactly(fd, 28).substr(24), "efgh");
  EXPECT_TRUE(echo.last.datagram);
  EXPECT_EQ(echo.last.client, local_endpoint(fd));
  ::close(fd);
  const int of_v4 = socket_for(0x7f000001, SOCK_STREAM);
  const SocketAddress other({0x7f000001, at.port});
  EXPECT_NE(::connect(of_v4, other.get(), other.length()), 0) << "an address of IPv6 is none of IPv4";
  ::close(of_v4);
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
}  // namespace slice::rpc::testing
