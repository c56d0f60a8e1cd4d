#include "rpc/udp_buffers.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "common/rights.h"

namespace slice::rpc {
namespace {

TEST(UdpBuffers, WithoutRightsTheSystemsLimitHolds) {
  std::thread([] {
    int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int limit = 0;
    std::ifstream("/proc/sys/net/core/rmem_max") >> limit;
    ASSERT_GT(limit, 0);
    EXPECT_TRUE(set_udp_buffers(fd, 65536, 65536));
    keep_capabilities({});
    EXPECT_FALSE(set_udp_buffers(fd, limit + 65536, 65536));
    int room = 0;
    socklen_t size = sizeof room;
    ASSERT_EQ(::getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, &size), 0);
    EXPECT_EQ(room / 2, limit) << "not all that may be had";
    ::close(fd);
  }).join();
}

}  // namespace
}  // namespace slice::rpc
