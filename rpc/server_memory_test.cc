// What clients of an rpc::Server held goes back to the system when they leave. Linked with the programs'
// allocator, which is not glibc's: what matters is the process's size as the system has it.
#include <fcntl.h>

#include <fstream>

#include "rpc/free_memory.h"
#include "rpc/testing/server_fixture.h"

namespace slice::rpc::testing {
namespace {

std::size_t resident() {
  std::ifstream statm("/proc/self/statm");
  std::size_t all = 0, in_memory = 0;
  statm >> all >> in_memory;
  return in_memory * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// What a server does not trouble the system with (rpc/admission.cc).
constexpr std::size_t kKept = 64 << 20;

class ServerMemoryTest : public ServerFixture {
 protected:
  void serve_impatiently() {
    Server::Options options;
    options.limits.tick = 10ms;
    options.limits.shared_calls = 64 << 10;  // nobody waits for others
    serve(options);
    // What the first calls take for good.
    int one = raw_socket(SOCK_STREAM);
    send_record(one, echo_call(Xid{1}, 1, {}));
    EXPECT_EQ(read_exactly(one, 28).size(), 28u);
    ::close(one);
    poll_until([] { return false; }, 50ms);
    give_back_free_memory();  // of a test before
  }
  void expect_shrinks_to(std::size_t size) {
    for (int fd : fds) ::close(fd);
    EXPECT_TRUE(poll_until([&] { return metrics.counter("rpc_connections").value() == 0; }, 10s));
    EXPECT_TRUE(poll_until([&] { return resident() < size; }, 1s))
        << "memory is not given back: " << (resident() >> 20) << " MiB of " << (size >> 20);
  }

  std::vector<int> fds;
};

TEST_F(ServerMemoryTest, OfLongRecords) {
  serve_impatiently();
  std::size_t before = resident();
  constexpr std::size_t kBytes = 900 << 10;
  XdrWriter part;
  part.u32((1u << 20) | kLastFragment);
  part.fixed(Buffer(kBytes).view());
  for (std::uint32_t i = 0; i < 240; ++i) {
    fds.push_back(raw_socket(SOCK_STREAM, kFirst + i % 4));
    ::fcntl(fds.back(), F_SETFL, O_NONBLOCK);
    std::size_t sent = 0;
    ASSERT_TRUE(poll_until(
        [&] {
          ssize_t n = ::send(fds.back(), part.view().data() + sent, part.size() - sent, MSG_NOSIGNAL);
          if (n > 0) sent += static_cast<std::size_t>(n);
          return sent == part.size();
        },
        5s));
  }
  ASSERT_TRUE(poll_until([&] { return resident() > before + 200 * kBytes; }, 5s));
  expect_shrinks_to(before + kKept);
}

// Calls under way, a few kilobytes each.
TEST_F(ServerMemoryTest, OfManyCalls) {
  serve_impatiently();
  std::size_t before = resident();
  Buffer call = echo_call(Xid{1}, 7, Buffer(24 << 10).view());
  for (std::uint32_t i = 0; i < 64; ++i) {
    fds.push_back(raw_socket(SOCK_STREAM, kFirst + i));
    for (int n = 0; n < 64; ++n) {
      send_record(fds.back(), call);
      loop.run_until([] { return false; }, 0ms);
    }
  }
  ASSERT_TRUE(poll_until([&] { return resident() > before + kKept + (16u << 20); }, 5s))
      << (resident() >> 20);
  echo.release();
  expect_shrinks_to(before + kKept);
}

}  // namespace
}  // namespace slice::rpc::testing
