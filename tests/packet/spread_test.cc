// The program that sends NFS over TCP on to the proxy that has its client, frame by frame.
#include <bpf/bpf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/pkt_cls.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "tests/packet/xdp_harness.h"

namespace slice::packet {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr int kStays = TC_ACT_UNSPEC, kGoes = TC_ACT_REDIRECT;
constexpr size_t kTtlAt = 14 + 8, kProtocolAt = 14 + 9;
const Mac kOther{2, 0, 0, 0, 9, 3}, kOwn{2, 0, 0, 0, 9, 1};

// A segment of a TCP connection, told by its ports alone: the rest is of no account here.
Bytes tcp_frame(const Flow& flow, size_t data = 40) {
  Bytes frame = udp_frame(flow, Bytes(data + 12, 0x55), Checksum::kNone);
  frame[kProtocolAt] = 6;
  fix_ip_checksum(frame);
  return frame;
}

// What a router says of a packet that was too long for it.
Bytes icmp_frame(const Flow& about, uint8_t type = 3) {
  const Bytes inner = tcp_frame(about);
  Flow router = reversed(about);
  router.source = {10, 77, 1, 254};
  Bytes message{type, 4, 0, 0, 0, 0, 5, 0x78};
  message.insert(message.end(), inner.begin() + 14, inner.begin() + 14 + 28);
  // The builder's UDP header is where ICMP's message begins.
  Bytes frame = udp_frame(router, Bytes(message.size() - 8), Checksum::kNone);
  std::copy(message.begin(), message.end(), frame.begin() + 34);
  frame[kProtocolAt] = 1;
  fix_ip_checksum(frame);
  return frame;
}

// The same over IPv6.
Bytes tcp_frame(const Flow6& flow, size_t data = 40) {
  return ipv6_frame(flow, 6,
                    join({XdrWriter().u32(uint32_t{flow.source_port} << 16 | flow.destination_port).bytes(),
                          Bytes(data + 16, 0x55)}));
}
Bytes icmp_frame(const Flow6& about, uint8_t type = 2, uint8_t next = 58) {
  const Bytes inner = tcp_frame(about);
  Flow6 router = reversed(about);
  router.source = ipv6(0x000100fe);
  return ipv6_frame(router, next,
                    join({Bytes{type, 0, 0, 0, 0, 0, 5, 0}, Bytes(inner.begin() + 14, inner.end())}));
}

class SpreadTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { harness_ = new XdpHarness; }
  static void TearDownTestSuite() { delete std::exchange(harness_, nullptr); }
  SpreadTest() : original_(harness_->config()), original6_(harness_->config6()) {
    ifreq request{};
    std::strcpy(request.ifr_name, "clients");
    const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
    EXPECT_EQ(::ioctl(fd, SIOCGIFHWADDR, &request), 0);
    ::close(fd);
    std::memcpy(flow_.destination_mac.data(), request.ifr_hwaddr.sa_data, 6);
    flow6_.destination_mac = flow_.destination_mac;
    slice_way way{};
    std::memcpy(way.next_hop_mac, kOther.data(), 6);
    std::memcpy(way.source_mac, kOwn.data(), 6);
    way.ifindex = harness_->clients_ifindex;
    put("ways", 5, way);
  }
  ~SpreadTest() override {
    harness_->config() = original_;
    harness_->config6() = original6_;
    harness_->apply();
    for (uint32_t slot = 0; slot < SLICE_CLIENT_SLOTS; ++slot) put("spread", slot, uint64_t{0});
  }
  template <class Value>
  static void put(const char* map, uint32_t key, const Value& value) {
    ASSERT_EQ(bpf_map_update_elem(harness_->map_fd(map), &key, &value, BPF_ANY), 0) << map;
  }
  static uint32_t slot_of(const Ipv4& client) {
    uint32_t address = 0;
    std::memcpy(&address, client.data(), 4);
    return slice_client_slot(address);
  }
  static uint32_t slot_of(const Ipv6& client) {
    uint64_t halves[2];
    std::memcpy(halves, client.data(), 16);
    return slice_client_slot6(halves[0], halves[1]);
  }
  template <class Address>
  void give(const Address& client, uint64_t key) {
    put("spread", slot_of(client), key);
  }
  // As at the ingress of the clients' interface.
  int run(const Bytes& frame) {
    __sk_buff context{};
    context.ifindex = harness_->clients_ifindex;
    frame_.resize(frame.size() + 64);
    bpf_test_run_opts options{};
    options.sz = sizeof options;
    options.data_in = frame.data();
    options.data_size_in = static_cast<uint32_t>(frame.size());
    options.data_out = frame_.data();
    options.data_size_out = static_cast<uint32_t>(frame_.size());
    options.ctx_in = &context;
    options.ctx_size_in = sizeof context;
    options.repeat = 1;
    const auto before = harness_->counters();
    require(bpf_prog_test_run_opts(harness_->spread_program(), &options) == 0, "BPF_PROG_RUN");
    frame_.resize(options.data_size_out);
    moved_.clear();
    const auto after = harness_->counters();
    for (uint32_t i = 0; i < after.size(); ++i)
      if (after[i] != before[i]) moved_[i] = after[i] - before[i];
    return static_cast<int>(options.retval);
  }

  static XdpHarness* harness_;
  const slice_config original_;
  const slice_config6 original6_;
  Flow flow_;
  Flow6 flow6_;
  Bytes frame_;  // as the program left it
  std::map<uint32_t, uint64_t> moved_;
};
XdpHarness* SpreadTest::harness_ = nullptr;

TEST_F(SpreadTest, AClientOfAnotherProxyGoesThereAndNothingElseChanges) {
  give(flow_.source, 5);
  const Bytes frame = tcp_frame(flow_);
  EXPECT_EQ(run(frame), kGoes);
  EXPECT_THAT(moved_, ElementsAre(Pair(SLICE_OUTCOME_TCP_SPREAD, 1)));
  ASSERT_EQ(frame_.size(), frame.size());
  EXPECT_TRUE(std::equal(kOther.begin(), kOther.end(), frame_.begin()));
  EXPECT_TRUE(std::equal(kOwn.begin(), kOwn.end(), frame_.begin() + 6));
  EXPECT_EQ(frame_[kTtlAt], frame[kTtlAt] - 1);
  EXPECT_TRUE(ip_checksum_right(frame_));
  Bytes rest = frame_;
  rest[kTtlAt] = frame[kTtlAt];
  fix_ip_checksum(rest);
  EXPECT_TRUE(std::equal(frame.begin() + 12, frame.end(), rest.begin() + 12));
}

TEST_F(SpreadTest, SoItIsOverIpv6) {
  give(flow6_.source, 5);
  for (unsigned hops : {2, 64, 255}) {
    Bytes frame = tcp_frame(flow6_);
    frame[14 + 7] = static_cast<uint8_t>(hops);
    EXPECT_EQ(run(frame), kGoes);
    EXPECT_THAT(moved_, ElementsAre(Pair(SLICE_OUTCOME_TCP_SPREAD, 1)));
    ASSERT_EQ(frame_.size(), frame.size());
    EXPECT_TRUE(std::equal(kOther.begin(), kOther.end(), frame_.begin()));
    EXPECT_TRUE(std::equal(kOwn.begin(), kOwn.end(), frame_.begin() + 6));
    EXPECT_EQ(frame_[14 + 7], hops - 1);
    frame_[14 + 7] = static_cast<uint8_t>(hops);
    EXPECT_TRUE(std::equal(frame.begin() + 12, frame.end(), frame_.begin() + 12))
        << "and nothing else changes";
  }
  for (uint8_t hops = 0; hops < 2; ++hops) {
    Bytes frame = tcp_frame(flow6_);
    frame[14 + 7] = hops;
    EXPECT_EQ(run(frame), kStays);
    EXPECT_THAT(moved_, ElementsAre(Pair(SLICE_OUTCOME_SPREAD_LOOP, 1)));
  }
  give(flow6_.source, 0);
  EXPECT_EQ(run(tcp_frame(flow6_)), kStays);
}

TEST_F(SpreadTest, AllElseOfIpv6Stays) {
  for (uint32_t slot = 0; slot < SLICE_CLIENT_SLOTS; ++slot) put("spread", slot, uint64_t{5});
  Flow6 other = flow6_;
  other.destination_port = 20048;
  EXPECT_EQ(run(tcp_frame(other)), kStays) << "MOUNT";
  other = flow6_;
  other.destination = ipv6(2);
  EXPECT_EQ(run(tcp_frame(other)), kStays) << "another address";
  other = flow6_;
  other.destination_mac = {2, 0, 0, 0, 7, 7};
  EXPECT_EQ(run(tcp_frame(other)), kStays) << "a frame for another host";
  EXPECT_EQ(run(udp_frame(flow6_, Bytes(40))), kStays) << "UDP";
  for (uint8_t next : std::initializer_list<uint8_t>{0, 43, 44, 51, 60}) {
    Bytes frame = tcp_frame(flow6_);
    frame[14 + 6] = next;
    EXPECT_EQ(run(frame), kStays) << "an extension, or a fragment";
  }
  Bytes frame = tcp_frame(flow6_);
  frame[14] = 0x45;
  EXPECT_EQ(run(frame), kStays) << "not IPv6";
  for (size_t bytes = 14 + 40; bytes < 14 + 40 + 4; ++bytes) {
    frame = tcp_frame(flow6_);
    frame.resize(bytes);
    EXPECT_EQ(run(frame), kStays) << bytes;
  }
  EXPECT_EQ(run(tcp_frame(flow6_)), kGoes);
  std::memset(&harness_->config6(), 0, sizeof harness_->config6());
  harness_->apply();
  EXPECT_EQ(run(tcp_frame(flow6_)), kStays) << "there is no virtual address of IPv6";
}

TEST_F(SpreadTest, AnErrorOfIcmpv6GoesAfterItsConnection) {
  const Flow6 sent = reversed(flow6_);
  give(flow6_.source, 5);
  const auto to_us = [&](Bytes frame) {
    std::copy(flow6_.destination_mac.begin(), flow6_.destination_mac.end(), frame.begin());
    return frame;
  };
  for (uint8_t type : std::initializer_list<uint8_t>{1, 2}) {
    EXPECT_EQ(run(to_us(icmp_frame(sent, type))), kGoes) << "unreachable, too big";
    EXPECT_THAT(moved_, ElementsAre(Pair(SLICE_OUTCOME_ICMP_SPREAD, 1)));
  }
  EXPECT_EQ(run(to_us(icmp_frame(sent, 128))), kStays) << "a ping";
  EXPECT_EQ(run(to_us(icmp_frame(sent, 136))), kStays) << "a neighbour";
  EXPECT_EQ(run(to_us(icmp_frame(sent, 2, 1))), kStays) << "ICMP of IPv4";
  Bytes foreign = to_us(icmp_frame(sent));
  foreign[14 + 40 + 8 + 8 + 15] ^= 1;
  EXPECT_EQ(run(foreign), kStays) << "about what did not come from the virtual address";
  Bytes udp = to_us(icmp_frame(sent));
  udp[14 + 40 + 8 + 6] = 17;
  EXPECT_EQ(run(udp), kStays) << "about UDP";
  const Bytes frame = to_us(icmp_frame(sent));
  for (size_t bytes = 54; bytes + 1 < frame.size(); ++bytes) {
    const int verdict = run(Bytes(frame.begin(), frame.begin() + static_cast<long>(bytes)));
    EXPECT_EQ(verdict, bytes < 54 + 8 + 40 + 4 ? kStays : kGoes) << "and reads nothing beyond";
  }
}

TEST_F(SpreadTest, EveryTimeToLiveKeepsTheChecksumRight) {
  give(flow_.source, 5);
  for (unsigned ttl = 2; ttl < 256; ++ttl) {
    Bytes frame = tcp_frame(flow_);
    frame[kTtlAt] = static_cast<uint8_t>(ttl);
    fix_ip_checksum(frame);
    ASSERT_EQ(run(frame), kGoes);
    ASSERT_EQ(frame_[kTtlAt], ttl - 1);
    ASSERT_TRUE(ip_checksum_right(frame_)) << ttl;
  }
}

TEST_F(SpreadTest, OnesOwnClientsStay) {
  EXPECT_EQ(run(tcp_frame(flow_)), kStays);
  give(flow_.source, 9);
  EXPECT_EQ(run(tcp_frame(flow_)), kStays) << "nothing leads there";
  EXPECT_THAT(moved_, ElementsAre());
}

TEST_F(SpreadTest, AllElseStays) {
  give(flow_.source, 5);
  Flow other = flow_;
  other.destination_port = 20048;
  EXPECT_EQ(run(tcp_frame(other)), kStays) << "MOUNT";
  other = flow_;
  other.destination = {10, 77, 0, 2};
  EXPECT_EQ(run(tcp_frame(other)), kStays) << "another address";
  other = flow_;
  other.destination_mac = {2, 0, 0, 0, 7, 7};
  EXPECT_EQ(run(tcp_frame(other)), kStays) << "a frame for another host";
  EXPECT_EQ(run(udp_frame(flow_, Bytes(40))), kStays) << "UDP";
  Bytes frame = tcp_frame(flow_);
  frame[14] = 0x46;
  EXPECT_EQ(run(frame), kStays) << "IP options";
  frame = tcp_frame(flow_);
  frame[12] = 0x86;
  EXPECT_EQ(run(frame), kStays) << "not IPv4";
  frame = tcp_frame(flow_);
  frame[21] = 3;
  EXPECT_EQ(run(frame), kStays) << "a later fragment, which has no ports";
  for (size_t bytes = 14 + 20; bytes < 14 + 20 + 4; ++bytes) {
    frame = tcp_frame(flow_);
    frame.resize(bytes);
    EXPECT_EQ(run(frame), kStays) << bytes;
  }
  harness_->config().abi = 0;
  harness_->apply();
  EXPECT_EQ(run(tcp_frame(flow_)), kStays) << "no tables yet";
}

// Two proxies that each take the other for the client's would send it to and fro.
TEST_F(SpreadTest, APacketThatWasSentOnTooOftenStays) {
  give(flow_.source, 5);
  for (uint8_t ttl = 0; ttl < 2; ++ttl) {
    Bytes frame = tcp_frame(flow_);
    frame[kTtlAt] = ttl;
    fix_ip_checksum(frame);
    EXPECT_EQ(run(frame), kStays);
    EXPECT_THAT(moved_, ElementsAre(Pair(SLICE_OUTCOME_SPREAD_LOOP, 1)));
  }
}

TEST_F(SpreadTest, AnErrorAboutAConnectionGoesAfterIt) {
  Flow sent = reversed(flow_);  // from the virtual address to the client
  give(flow_.source, 5);
  Bytes frame = icmp_frame(sent);
  std::copy(flow_.destination_mac.begin(), flow_.destination_mac.end(), frame.begin());
  EXPECT_EQ(run(frame), kGoes);
  EXPECT_THAT(moved_, ElementsAre(Pair(SLICE_OUTCOME_ICMP_SPREAD, 1)));
  EXPECT_TRUE(ip_checksum_right(frame_));
  const auto stays = [&](Flow about, uint8_t type) {
    Bytes other = icmp_frame(about, type);
    std::copy(flow_.destination_mac.begin(), flow_.destination_mac.end(), other.begin());
    return run(other) == kStays;
  };
  EXPECT_TRUE(stays(sent, 8)) << "a ping";
  Flow foreign = sent;
  foreign.source = {10, 77, 0, 9};
  give(Ipv4{10, 77, 1, 254}, 0);
  Bytes other = icmp_frame(foreign);
  std::copy(flow_.destination_mac.begin(), flow_.destination_mac.end(), other.begin());
  std::copy(flow_.destination.begin(), flow_.destination.end(), other.begin() + 30);
  fix_ip_checksum(other);
  EXPECT_EQ(run(other), kStays) << "about what did not come from the virtual address";
  for (size_t bytes = 34; bytes + 1 < frame.size(); ++bytes) {
    Bytes cut(frame.begin(), frame.begin() + static_cast<long>(bytes));
    run(cut);  // and reads nothing beyond
  }
}

TEST_F(SpreadTest, AnyBytesAreBorne) {
  std::mt19937 random(7);
  for (uint32_t slot = 0; slot < SLICE_CLIENT_SLOTS; ++slot) put("spread", slot, uint64_t{slot % 7});
  const auto any = [&](int i) {
    if (i % 4 < 2) return i % 2 == 0 ? tcp_frame(flow_) : icmp_frame(reversed(flow_));
    return i % 2 == 0 ? tcp_frame(flow6_) : icmp_frame(reversed(flow6_));
  };
  for (int i = 0; i < 20000; ++i) {
    Bytes frame = any(i);
    std::copy(flow_.destination_mac.begin(), flow_.destination_mac.end(), frame.begin());
    for (unsigned changes = random() % 4; changes > 0; --changes)
      frame[12 + random() % (frame.size() - 12)] = static_cast<uint8_t>(random());
    const size_t least = i % 4 < 2 ? 34 : 54;  // that the kernel takes
    if (random() % 4 == 0) frame.resize(least + random() % (frame.size() - least) + 1);
    const int verdict = run(frame);
    ASSERT_TRUE(verdict == kStays || verdict == kGoes) << verdict;
    if (verdict == kGoes) ASSERT_EQ(frame_.size(), frame.size());
  }
}

}  // namespace
}  // namespace slice::packet
