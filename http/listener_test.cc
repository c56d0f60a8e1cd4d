// The listener as its clients see it, good and hostile ones, over loopback.
#include "http/listener.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "rpc/bound_socket.h"

namespace slice::http {
namespace {

using namespace std::chrono_literals;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::uint32_t kLoopback = 0x7f000001;
constexpr std::string_view kGet = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";

// A client's connection from an address of 127.0.0.0/8.
class Peer {
 public:
  Peer(rpc::Endpoint to, std::uint32_t from, int receive_buffer = 0)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    const rpc::SocketAddress own({from, 0}), at(to);
    EXPECT_EQ(::bind(fd_, own.get(), own.length()), 0);
    EXPECT_EQ(::connect(fd_, at.get(), at.length()), 0);
  }
  ~Peer() { ::close(fd_); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // False where the server has closed.
  bool send(std::string_view bytes) {
    return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
           static_cast<ssize_t>(bytes.size());
  }
  // Takes what is there; true when the server has closed.
  bool closed() {
    char bytes[65536];
    while (true) {
      const ssize_t n = ::recv(fd_, bytes, sizeof bytes, MSG_DONTWAIT);
      if (n > 0) {
        said_.append(bytes, static_cast<std::size_t>(n));
        continue;
      }
      return n == 0 || errno != EAGAIN;
    }
  }
  const std::string& said() const { return said_; }

 private:
  int fd_;
  std::string said_;
};

class ListenerTest : public ::testing::Test {
 protected:
  void serve(Listener::Options options) {
    options.page = [this](std::string_view path) {
      ++asked_;
      if (path == "/metrics") return Page{Status::kOk, "text/plain", body_};
      return Page{Status::kNotFound, "text/plain", std::make_shared<const std::string>("no\n")};
    };
    listener_.emplace(loop_, metrics_, std::move(options));
    at_ = listener_->listen({kLoopback, 0}).value();
  }
  std::unique_ptr<Peer> peer(std::uint32_t from = kLoopback, int receive_buffer = 0) {
    return std::make_unique<Peer>(at_, from, receive_buffer);
  }
  // The answer, the connection being closed after it.
  std::string get(std::string_view request, std::uint32_t from = kLoopback) {
    auto one = peer(from);
    one->send(request);
    EXPECT_TRUE(loop_.run_until([&] { return one->closed(); }, 5s));
    return one->said();
  }
  void pump(Duration time = 50ms) {
    loop_.run_until([] { return false; }, time);
  }
  std::uint64_t metric(std::string_view name) { return metrics_.counter(name).value(); }
  std::uint64_t ended(const char* why) {
    return metric(fmt::format("http_connections_ended_total{{why=\"{}\"}}", why));
  }

  rpc::EpollLoop loop_;
  Metrics metrics_;
  std::shared_ptr<const std::string> body_ = std::make_shared<const std::string>("slice_up 1\n");
  int asked_ = 0;
  rpc::Endpoint at_;
  std::optional<Listener> listener_;
};

TEST_F(ListenerTest, AnswersAndCloses) {
  serve({});
  EXPECT_EQ(get(kGet),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 11\r\n"
            "Content-Security-Policy: default-src 'self'; frame-ancestors 'none'\r\n"
            "X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
            "slice_up 1\n");
  EXPECT_THAT(get("GET / HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 404 Not Found\r\n"));
  EXPECT_THAT(get("PUT /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), HasSubstr("405 Method Not Allowed\r\n"));
  EXPECT_THAT(get("PUT /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), HasSubstr("\r\nAllow: GET\r\n"));
  EXPECT_THAT(get("nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400 Bad Request\r\n"));
  EXPECT_EQ(asked_, 2);
  EXPECT_EQ(metric("http_requests_total{code=\"200\"}"), 1u);
  EXPECT_EQ(metric("http_requests_total{code=\"405\"}"), 2u);
  EXPECT_EQ(metric("http_requests_total{code=\"400\"}"), 1u);
  pump();
  EXPECT_EQ(metric("http_connections"), 0u);
}

TEST_F(ListenerTest, TakesOnlyWhomItIsTold) {
  serve({.takes = [](IpAddress address) { return address == kLoopback + 1; }});
  EXPECT_EQ(get(kGet), "");
  EXPECT_THAT(get(kGet, kLoopback + 1), EndsWith("slice_up 1\n"));
  EXPECT_EQ(metric("http_connections_refused_total"), 1u);
}

TEST_F(ListenerTest, AnswersToItsNamesAlone) {
  Listener::Options options;
  options.answers_to = [](std::string_view host) { return host == "localhost"; };
  serve(options);
  EXPECT_THAT(get("GET /metrics HTTP/1.1\r\nHost: localhost:2080\r\n\r\n"), HasSubstr("200 OK\r\n"));
  EXPECT_THAT(get("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
              HasSubstr("421 Misdirected Request\r\n"));
  EXPECT_EQ(asked_, 1);
}

TEST_F(ListenerTest, EndsHalfSentAndSilentRequests) {
  serve({.request = 300ms});
  auto half = peer(), silent = peer(), slow = peer();
  half->send("GET /metrics HTT");
  bool half_closed = false, silent_closed = false, slow_closed = false;
  for (int i = 0; i < 20 && !(half_closed && silent_closed && slow_closed); ++i) {
    slow->send("G");  // each byte in time is no request in time
    pump(100ms);
    half_closed = half_closed || half->closed();
    silent_closed = silent_closed || silent->closed();
    slow_closed = slow_closed || slow->closed();
  }
  EXPECT_TRUE(half_closed && silent_closed && slow_closed);
  EXPECT_EQ(ended("slow_request"), 3u);
  EXPECT_EQ(listener_->connections(), 0u);
  EXPECT_THAT(get(kGet), EndsWith("slice_up 1\n"));
}

TEST_F(ListenerTest, TenThousandHeadersAreRefusedUnread) {
  serve({});
  auto hostile = peer();
  std::string many(kGet.substr(0, kGet.size() - 2));
  for (int i = 0; i < 10'000; ++i) many += "X-Header: value of a header\r\n";
  std::size_t sent = 0;
  EXPECT_TRUE(loop_.run_until(
      [&] {
        if (sent < many.size() && hostile->send(std::string_view(many).substr(sent, 1000))) sent += 1000;
        return hostile->closed();
      },
      5s));
  EXPECT_THAT(hostile->said(), StartsWith("HTTP/1.1 431 "));
  EXPECT_EQ(asked_, 0);
}

TEST_F(ListenerTest, AnswersTheFirstOfPipelinedRequests) {
  serve({});
  std::string many;
  for (int i = 0; i < 50; ++i) many += kGet;
  const std::string said = get(many);
  EXPECT_THAT(said, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(said, EndsWith("\r\n\r\nslice_up 1\n"));
  EXPECT_EQ(asked_, 1);
}

TEST_F(ListenerTest, EndsReadersThatDoNotRead) {
  body_ = std::make_shared<const std::string>(std::string(64 << 20, 'x'));
  serve({.answer = 500ms});
  auto slow = peer(kLoopback, 4096);
  slow->send(kGet);
  ASSERT_TRUE(loop_.run_until([&] { return asked_ == 1; }, 5s));
  body_ = std::make_shared<const std::string>("slice_up 1\n");
  EXPECT_THAT(get(kGet), EndsWith("slice_up 1\n"));  // beside it
  EXPECT_TRUE(loop_.run_until([&] { return ended("slow_reader") == 1; }, 5s));
  EXPECT_EQ(listener_->connections(), 0u);
}

TEST_F(ListenerTest, GivesALongAnswerToAReaderThatReads) {
  std::string text;
  while (text.size() < 10 << 20) text += fmt::format("line {}\n", text.size());
  body_ = std::make_shared<const std::string>(std::move(text));
  serve({});
  const std::string said = get(kGet);
  EXPECT_EQ(said.substr(said.size() - body_->size()), *body_);
}

TEST_F(ListenerTest, WhoHoldsConnectionsKeepsNobodyOut) {
  serve({.connections = 20, .connections_of_address = 4});
  std::vector<std::unique_ptr<Peer>> held;
  for (std::uint32_t i = 0; i < 60; ++i) held.push_back(peer(kLoopback + 1));
  pump();
  EXPECT_EQ(listener_->connections(), 4u);
  EXPECT_EQ(ended("crowded"), 56u);
  for (std::uint32_t i = 0; i < 40; ++i) held.push_back(peer(kLoopback + 2 + i));
  pump();
  EXPECT_EQ(listener_->connections(), 20u);
  EXPECT_THAT(get(kGet, kLoopback + 100), EndsWith("slice_up 1\n"));
  EXPECT_THAT(get(kGet, kLoopback + 1), EndsWith("slice_up 1\n"));  // the hostile one's own address, too
  EXPECT_LE(listener_->connections(), 20u);
}

TEST_F(ListenerTest, ClientsMayGoAtAnyTime) {
  body_ = std::make_shared<const std::string>(std::string(8 << 20, 'x'));
  serve({});
  for (int i = 0; i < 30; ++i) {
    auto one = peer();
    if (i % 3 > 0) one->send(kGet);
    if (i % 3 > 1) pump(5ms);
    one.reset();
    pump(5ms);
  }
  pump();
  EXPECT_EQ(listener_->connections(), 0u);
}

TEST_F(ListenerTest, EndsWithOpenConnections) {
  serve({});
  auto one = peer();
  pump();
  EXPECT_EQ(listener_->connections(), 1u);
  listener_.reset();
  pump();
  EXPECT_TRUE(one->closed());
}

}  // namespace
}  // namespace slice::http
