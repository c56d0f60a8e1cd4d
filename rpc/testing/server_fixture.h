// ServerFixture: an rpc::Server of an EchoProgram on loopback, with a SocketChannel of a member's and sockets
// of clients' that call it.
#ifndef SLICE_RPC_TESTING_SERVER_FIXTURE_H
#define SLICE_RPC_TESTING_SERVER_FIXTURE_H

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "rpc/client.h"
#include "rpc/message.h"
#include "rpc/record.h"
#include "rpc/server.h"
#include "rpc/testing/test_programs.h"

namespace slice::rpc::testing {

using namespace std::chrono_literals;

inline constexpr std::uint32_t kLoopback = 0x7f000001;
// Clients.
inline constexpr std::uint32_t kFirst = 0x7f000101, kSecond = 0x7f000201, kThird = 0x7f000301;

// Bytes that the allocator has given out.
inline std::size_t heap() {
  auto figures = ::mallinfo2();
  return figures.uordblks + figures.hblkhd;
}

struct Answer {
  std::optional<Result<Response>> result;
};
inline Task<void> call_into(Channel& channel, Request request, Answer& out) {
  co_await rpc::call_into(channel, std::move(request), out.result);
}

class ServerFixture : public ::testing::Test {
 protected:
  ServerFixture() { dispatcher.add(echo); }
  ~ServerFixture() override {  // calls that still wait hold their connection
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
    address.sin_addr.s_addr = htonl(at.address.v4());
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

  // As one fragment behind what the stream has.
  static void add_record(XdrWriter& stream, const Buffer& record) {
    stream.u32(static_cast<std::uint32_t>(record.size()) | kLastFragment);
    stream.fixed(record.view());
  }
  static void send_record(int fd, const Buffer& record) {
    XdrWriter framed;
    add_record(framed, record);
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

}  // namespace slice::rpc::testing

#endif  // SLICE_RPC_TESTING_SERVER_FIXTURE_H
