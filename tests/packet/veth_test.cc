// Sockets of two hosts and the XDP program between them, on veth pairs, natively and generically: what
// sockets leave to hardware that is not there (checksums) arrives all the same, over either family.
#include <arpa/inet.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "tests/packet/xdp_harness.h"

namespace slice::packet {
namespace {

void shell(const std::string& words) {
  require(std::system(("set -e; " + words).c_str()) == 0, words.c_str());
}

// A network namespace; it lasts as long as this and the sockets made in it.
class Host {
 public:
  Host() {
    std::thread([this] {
      require(unshare(CLONE_NEWNET) == 0, "a network namespace");
      fd_ = ::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    }).join();
  }
  ~Host() { ::close(fd_); }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  template <class Action>
  void run(Action action) const {
    std::thread([&] {
      require(setns(fd_, CLONE_NEWNET) == 0, "entering a network namespace");
      action();
    }).join();
  }
  // Its end of a new pair, `name`-peer there; `name` stays here. Addresses end with 2 there and with 1 here.
  void connect(const std::string& name, int network) const {
    const std::string net4 = "10.77." + std::to_string(network), net6 = "fd77::" + std::to_string(network);
    const std::string mac = "02:00:00:00:0" + std::to_string(network);
    const std::string path = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd_);
    shell("ip link add " + name + " address " + mac + ":01 type veth peer name " + name + "-peer address " +
          mac + ":02; ip link set " + name + "-peer netns " + path + "; ip link set " + name +
          " up; ip address add " + net4 + ".1/24 dev " + name + "; ip address add " + net6 + ":1/112 dev " +
          name + " nodad");
    run([&] {
      shell("ip link set lo up; ip link set " + name + "-peer up; ethtool -K " + name +
            "-peer gro on; ip address add " + net4 + ".2/24 dev " + name + "-peer; ip address add " + net6 +
            ":2/112 dev " + name + "-peer nodad; ip route add default via " + net4 +
            ".1; ip route add default via " + net6 + ":1");
    });
  }
  int udp_socket(int family) const {
    int fd = -1;
    run([&] { fd = ::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0); });
    require(fd >= 0, "a socket");
    timeval patience{2, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return fd;
  }

 private:
  int fd_ = -1;
};

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

Address address(int family, const char* text, uint16_t port) {
  Address made;
  if (family == AF_INET) {
    auto* at = reinterpret_cast<sockaddr_in*>(&made.storage);
    *at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {}, .sin_zero = {}};
    require(::inet_pton(family, text, &at->sin_addr) == 1, text);
    made.size = sizeof *at;
  } else {
    auto* at = reinterpret_cast<sockaddr_in6*>(&made.storage);
    at->sin6_family = AF_INET6;
    at->sin6_port = htons(port);
    require(::inet_pton(family, text, &at->sin6_addr) == 1, text);
    made.size = sizeof *at;
  }
  return made;
}

struct Case {
  const char* name;
  int family;
  uint32_t attach;  // XDP_FLAGS_*
};

class VethTest : public testing::TestWithParam<Case> {
 protected:
  VethTest() {
    client_host_.connect("v-client", 8);
    server_host_.connect("v-server", 9);
    for (const char* name : {"v-client", "v-server"}) {
      const unsigned ifindex = if_nametoindex(name);
      require(bpf_xdp_attach(static_cast<int>(ifindex), xdp_.program(), GetParam().attach, nullptr) == 0,
              "attaching the program");
      xdp_.set_generic(ifindex, GetParam().attach == XDP_FLAGS_SKB_MODE);
    }
    const int family = GetParam().family;
    place_server(family);
    client_ = client_host_.udp_socket(family);
    server_ = server_host_.udp_socket(family);
    Address own = address(family, family == AF_INET ? "10.77.9.2" : "fd77::9:2", 2100);
    require(::bind(server_, own.get(), own.size) == 0, "bind");
    Address to = address(family, family == AF_INET ? "10.77.0.1" : "fd77::1", 2049);
    require(::connect(client_, to.get(), to.size) == 0, "connect");
  }
  ~VethTest() override {
    ::close(client_);
    ::close(server_);
    shell("ip link del v-client; ip link del v-server");
  }
  // Every site is at one server, of that family.
  void place_server(int family) {
    slice_server6 server{};
    const Mac next_hop{2, 0, 0, 0, 9, 2}, own{2, 0, 0, 0, 9, 1};
    server.server.port = 2100;
    server.server.ifindex = if_nametoindex("v-server");
    std::memcpy(server.server.next_hop_mac, next_hop.data(), 6);
    std::memcpy(server.server.source_mac, own.data(), 6);
    if (family == AF_INET) {
      const Ipv4 at{10, 77, 9, 2};
      std::memcpy(server.server.ipv4, at.data(), 4);
      xdp_.set_server(1, server.server);
    } else {
      std::memcpy(server.ipv6, ipv6(0x00090002).data(), 16);
      xdp_.set_server(1, {});
      xdp_.set_server6(1, server);
    }
    for (uint32_t c = 0; c < SLICE_CLASSES; c++) {
      for (uint32_t s = 0; s <= xdp_.config().site_mask[c]; s++) xdp_.bind(c, s, 1);
    }
  }
  static Bytes receive(int fd, Address* from = nullptr) {
    Bytes bytes(65536);
    Address any;
    any.size = sizeof any.storage;
    ssize_t n = ::recvfrom(fd, bytes.data(), bytes.size(), 0, any.get(), &any.size);
    bytes.resize(n < 0 ? 0 : static_cast<size_t>(n));
    if (from != nullptr) *from = any;
    return bytes;
  }
  // One call and its answer.
  void exchange(uint32_t procedure, const Bytes& arguments, const Bytes& results) {
    CallHeader header;
    header.xid = ++xid_;
    header.procedure = procedure;
    const Bytes call = rpc_call(header, arguments), answer = rpc_reply(xid_, results);
    ASSERT_EQ(::send(client_, call.data(), call.size(), 0), static_cast<ssize_t>(call.size()));
    Address from;
    const Bytes came = receive(server_, &from);
    ASSERT_EQ(came.size(), call.size()) << "the call did not come";
    ASSERT_EQ(::sendto(server_, answer.data(), answer.size(), 0, from.get(), from.size),
              static_cast<ssize_t>(answer.size()));
    ASSERT_EQ(receive(client_).size(), answer.size()) << "the answer did not come";
  }

  XdpHarness xdp_;
  Host client_host_, server_host_;
  int client_ = -1, server_ = -1;
  uint32_t xid_ = 0x8000;
};

TEST_P(VethTest, CallsAndAnswersArrive) {
  const auto before = xdp_.counters();
  const Bytes handle = handle_bytes({});
  Attributes known{.size = 100};
  exchange(1, some_arguments(1, handle), join({word(0), fattr3(known)}));
  for (uint32_t bytes = 0; bytes < 1200; bytes += 97) {
    const Bytes data(bytes + (4 - bytes % 4) % 4, static_cast<uint8_t>(bytes));
    exchange(7, write_arguments(handle, 0, bytes, data.size()),
             join({word(0), wcc({}), word(bytes), word(0), Bytes(8, 9)}));
    exchange(6, read_arguments(handle, 0, bytes),
             join({word(0), post_op(known), word(bytes), word(0), word(bytes), data}));
  }
  const auto after = xdp_.counters();
  const auto moved = [&](uint32_t outcome) { return after[outcome] - before[outcome]; };
  const bool generic = GetParam().attach == XDP_FLAGS_SKB_MODE;
  const bool over_ipv6 = GetParam().family == AF_INET6;
  EXPECT_EQ(moved(SLICE_OUTCOME_ROUTED_READ) + moved(SLICE_OUTCOME_ROUTED_WRITE), 26u);
  // Each came unfilled: else this would show nothing.
  EXPECT_EQ(moved(SLICE_OUTCOME_CHECKSUM_CLEARED), over_ipv6 ? 0u : 54u);
  EXPECT_EQ(moved(SLICE_OUTCOME_CHECKSUM_KEPT), over_ipv6 && generic ? 54u : 0u);
  EXPECT_EQ(moved(SLICE_OUTCOME_CHECKSUM_SUMMED), over_ipv6 && !generic ? 54u : 0u);
}

TEST_P(VethTest, FragmentsArrive) {
  const auto before = xdp_.counters();
  for (uint32_t bytes : {4096u, 32768u}) {
    exchange(7, write_arguments(handle_bytes({}), 0, bytes, bytes),
             join({word(0), wcc({}), word(bytes), word(0), Bytes(8, 9)}));
    exchange(6, read_arguments(handle_bytes({}), 0, bytes),
             join({word(0), post_op({}), word(bytes), word(0), word(bytes), Bytes(bytes, 0x5a)}));
  }
  const auto after = xdp_.counters();
  for (uint32_t outcome : {SLICE_OUTCOME_FRAGMENT_REQUEST, SLICE_OUTCOME_FRAGMENT_REPLY})
    EXPECT_GE(after[outcome] - before[outcome], 2u + 22) << slice_outcome_name(outcome);
}

INSTANTIATE_TEST_SUITE_P(EachWay, VethTest,
                         testing::Values(Case{"Ipv4Natively", AF_INET, XDP_FLAGS_DRV_MODE},
                                         Case{"Ipv4Generically", AF_INET, XDP_FLAGS_SKB_MODE},
                                         Case{"Ipv6Natively", AF_INET6, XDP_FLAGS_DRV_MODE},
                                         Case{"Ipv6Generically", AF_INET6, XDP_FLAGS_SKB_MODE}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace slice::packet
