// Listening sockets outlive the process that serves on them. Each "proxy" here is a child process that is
// killed; the guard is this program, as slice-proxyd is its own.
#include "proxy/front/listeners.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <functional>
#include <thread>

#include "proxy/front/listener_guard.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kLoopback = 0x7f000001;

rpc::Endpoint free_endpoint() {
  auto made = bind_socket(SOCK_STREAM, {kLoopback, 0}, Sharing::kNone).value();
  ::close(made.fd);
  return made.at;
}

// A client's connection; negative errno where it is refused.
int connect_to(rpc::Endpoint at) {
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(at.port);
  address.sin_addr.s_addr = htonl(at.address.v4());
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return fd;
  int error = errno;
  ::close(fd);
  return -error;
}

bool wait_for(const std::function<bool()>& done, Duration limit = 20s) {
  auto end = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

bool is_refused(rpc::Endpoint at) {
  int fd = connect_to(at);
  if (fd >= 0) ::close(fd);
  return fd == -ECONNREFUSED;
}

bool readable(int fd, int milliseconds = 10'000) {
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, milliseconds) == 1;
}

bool has_guard(rpc::Endpoint at) {
  int channel = connect_to_guard(at);
  if (channel >= 0) ::close(channel);
  return channel >= 0;
}

// A process that has listeners under a guard until it is killed.
class OtherProxy {
 public:
  OtherProxy(rpc::Endpoint at, std::chrono::milliseconds keep, int tcp_sockets) {
    std::array<int, 2> ready{};
    EXPECT_EQ(::pipe(ready.data()), 0);
    pid_ = ::fork();
    if (pid_ == 0) serve(at, keep, tcp_sockets, ready[1]);
    ::close(ready[1]);
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
  }
  ~OtherProxy() { kill(); }
  void kill() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, -1), nullptr, 0);
  }

 private:
  [[noreturn]] static void serve(rpc::Endpoint at, std::chrono::milliseconds keep, int tcp_sockets,
                                 int ready) {
    rpc::EpollLoop loop;
    Listeners listeners(loop, {.at = at, .keep = keep});
    bool good = bool(listeners.take_over());
    for (int i = 0; i < tcp_sockets; ++i) good &= bool(listeners.bind(SOCK_STREAM, at, Sharing::kWorkers));
    good &= bool(listeners.bind(SOCK_DGRAM, at, Sharing::kWorkers));
    listeners.keep();
    // So that the guard has all of them, and not a message under way alone.
    if (good && wait_for([&] { return has_guard(at); })) (void)!::write(ready, "r", 1);
    loop.run();
    std::_Exit(1);
  }
  pid_t pid_ = -1;
};

class ListenersTest : public ::testing::Test {
 protected:
  rpc::Endpoint at = free_endpoint();
  rpc::EpollLoop loop;
};

TEST_F(ListenersTest, ConnectionsMadeWhileTheProxyIsDeadAreAcceptedByTheNext) {
  OtherProxy killed(at, 5s, 2);
  killed.kill();
  std::array<int, 8> clients{};
  for (int& client : clients) {
    client = connect_to(at);
    ASSERT_GE(client, 0) << "refused while no proxy runs";
    ASSERT_EQ(::write(client, "x", 1), 1);
  }
  Listeners next(loop, {.at = at});
  ASSERT_TRUE(next.take_over());
  auto first = next.bind(SOCK_STREAM, at, Sharing::kWorkers),
       second = next.bind(SOCK_STREAM, at, Sharing::kWorkers);
  ASSERT_TRUE(first && second);
  ASSERT_TRUE(next.bind(SOCK_DGRAM, at, Sharing::kWorkers));
  EXPECT_EQ(next.taken_over(), 3u);
  std::size_t accepted = 0;
  for (int listener : {first->fd, second->fd}) {
    for (int fd = 0; (fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)) >= 0; ++accepted) {
      char byte = 0;
      EXPECT_TRUE(readable(fd));
      EXPECT_EQ(::read(fd, &byte, 1), 1);
      ::close(fd);
    }
  }
  EXPECT_EQ(accepted, clients.size());
  for (int client : clients) ::close(client);
  next.keep();
  next.release();
}

// Else the kernel would go on giving clients to a socket that nobody accepts from.
TEST_F(ListenersTest, WhatANextProxyWithFewerWorkersDoesNotUseIsClosed) {
  OtherProxy killed(at, 5s, 4);
  killed.kill();
  Listeners next(loop, {.at = at});
  ASSERT_TRUE(next.take_over());
  auto only = next.bind(SOCK_STREAM, at, Sharing::kWorkers);
  ASSERT_TRUE(only);
  next.keep();
  EXPECT_EQ(next.taken_over(), 1u);
  // The guard has them until it has heard of it.
  ASSERT_TRUE(wait_for([&] {
    for (int i = 0; i < 16; ++i) {
      int client = connect_to(at);
      if (client < 0) return false;
      bool mine = readable(only->fd, 100);
      int fd = ::accept4(only->fd, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd >= 0) ::close(fd);
      ::close(client);
      if (!mine) return false;
    }
    return true;
  }));
  next.release();
}

TEST_F(ListenersTest, ACleanStopMayBeARestart) {
  Listeners own(loop, {.at = at, .keep = 5s});
  ASSERT_TRUE(own.take_over());
  auto bound = own.bind(SOCK_STREAM, at, Sharing::kWorkers);
  ASSERT_TRUE(bound);
  own.keep();
  ASSERT_TRUE(wait_for([&] { return has_guard(at); }));
  own.release();
  ::close(bound->fd);
  EXPECT_FALSE(is_refused(at));
  Listeners next(loop, {.at = at, .keep = 300ms});
  ASSERT_TRUE(next.take_over());
  auto again = next.bind(SOCK_STREAM, at, Sharing::kWorkers);
  ASSERT_TRUE(again);
  EXPECT_EQ(next.taken_over(), 1u);
  EXPECT_FALSE(is_refused(at));
  next.keep();
  next.release();
  ::close(again->fd);
}

TEST_F(ListenersTest, ACleanStopClosesAllInTheEnd) {
  {
    Listeners own(loop, {.at = at, .keep = 5s});
    ASSERT_TRUE(own.take_over());
    auto bound = own.bind(SOCK_STREAM, at, Sharing::kWorkers);
    ASSERT_TRUE(bound);
    own.keep();
    ASSERT_FALSE(is_refused(at));
    own.release();
    ::close(bound->fd);
  }
  EXPECT_TRUE(wait_for([&] { return is_refused(at); }, 10s));
}

TEST_F(ListenersTest, WithoutANextProxyClientsAreRefusedAfterAWhile) {
  OtherProxy killed(at, 300ms, 1);
  killed.kill();
  int client = connect_to(at);
  ASSERT_GE(client, 0);
  EXPECT_TRUE(wait_for([&] { return is_refused(at); }));
  char byte = 0;
  EXPECT_TRUE(readable(client));
  EXPECT_LE(::read(client, &byte, 1), 0) << "who was in the queue is not told";
  ::close(client);
}

TEST_F(ListenersTest, AProcessThatLivesKeepsItsSockets) {
  OtherProxy serving(at, 1s, 1);
  Listeners second(loop, {.at = at});
  Status taken = second.take_over();
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, Errc::kUnavailable);
  EXPECT_FALSE(is_refused(at));
}

TEST_F(ListenersTest, AGuardThatWasKilledIsReplaced) {
  Listeners own(loop, {.at = at, .keep = 5s});
  ASSERT_TRUE(own.take_over());
  auto bound = own.bind(SOCK_STREAM, at, Sharing::kWorkers);
  ASSERT_TRUE(bound);
  own.keep();
  auto guard = [&] {
    ucred peer{};
    socklen_t size = sizeof peer;
    int channel = connect_to_guard(at);
    if (channel < 0) return -1;
    ::getsockopt(channel, SOL_SOCKET, SO_PEERCRED, &peer, &size);
    ::close(channel);
    return peer.pid;
  };
  ASSERT_TRUE(wait_for([&] { return guard() > 0; }));
  int killed = guard();
  ::kill(killed, SIGKILL);
  EXPECT_TRUE(
      wait_for([&] { return loop.run_until([&] { return guard() > 0 && guard() != killed; }, 50ms); }, 20s));
  own.release();
  ::close(bound->fd);
  EXPECT_TRUE(wait_for([&] { return is_refused(at); }, 10s));
}

}  // namespace
}  // namespace slice::proxy

int main(int argc, char** argv) {
  if (auto code = slice::proxy::run_guard(argc, argv)) return *code;
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
