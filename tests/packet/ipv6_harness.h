// What the tests of packets over IPv6 share: an ensemble whose servers have addresses of IPv6.
#ifndef SLICE_TESTS_PACKET_IPV6_HARNESS_H
#define SLICE_TESTS_PACKET_IPV6_HARNESS_H

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>

#include <cstring>
#include <utility>

#include "tests/packet/packet_builder.h"
#include "tests/packet/xdp_harness.h"

namespace slice::packet {

class Ipv6Test : public testing::Test {
 protected:
  static void SetUpTestSuite() { xdp_ = new XdpHarness; }
  static void TearDownTestSuite() { delete std::exchange(xdp_, nullptr); }
  void SetUp() override {
    original_ = xdp_->config();
    original6_ = xdp_->config6();
    xdp_->bind_default_sites6();
  }
  void TearDown() override {
    xdp_->config() = original_;
    xdp_->config6() = original6_;
    xdp_->apply();
    xdp_->ingress_ifindex = 0;
    xdp_->set_bucket(HandleFields{}.fileid, {});
  }

  // A call of an xid of its own, xid_ from then on.
  static Bytes call(uint32_t procedure, const Bytes& arguments, Checksum checksum = Checksum::kFull) {
    ++xid_;
    return call_again(procedure, arguments, {}, checksum);
  }
  static Bytes call_again(uint32_t procedure, const Bytes& arguments, const Flow6& flow = {},
                          Checksum checksum = Checksum::kFull) {
    CallHeader header;
    header.xid = xid_;
    header.procedure = procedure;
    return udp_frame(flow, rpc_call(header, arguments), checksum);
  }
  // Sends a request through; the flow of its reply.
  static Flow6 request(uint32_t procedure, const Bytes& arguments) {
    Outcome run = xdp_->run(call(procedure, arguments));
    EXPECT_EQ(run.verdict, static_cast<uint32_t>(XDP_REDIRECT));
    return reversed(read_flow6(run.frame));
  }
  static Outcome reply(const Flow6& flow, const Bytes& results, Checksum checksum = Checksum::kFull) {
    return xdp_->run(udp_frame(flow, rpc_reply(xid_, results), checksum));
  }

  // Checks that the frame went to a server of that class, with nothing else but its hint changed.
  static void expect_routed(const Outcome& run, const Bytes& in, uint32_t site_class) {
    ASSERT_EQ(run.verdict, static_cast<uint32_t>(XDP_REDIRECT));
    ASSERT_EQ(run.frame.size(), in.size());
    const Flow6 out = read_flow6(run.frame);
    EXPECT_THAT(std::vector<uint8_t>(out.destination.begin(), out.destination.begin() + 14),
                testing::ElementsAreArray(ipv6((2 + site_class) << 16).data(), 14));
    const uint32_t site = out.destination[15] - 1u;
    const slice_server server = xdp_->server6(XdpHarness::default_server(site_class, site)).server;
    EXPECT_EQ(out.destination_port, server.port);
    EXPECT_THAT(out.destination_mac, testing::ElementsAreArray(server.next_hop_mac));
    EXPECT_THAT(out.source_mac, testing::ElementsAreArray(server.source_mac));
    EXPECT_EQ(out.source, Flow6{}.source);
    EXPECT_EQ(out.source_port, Flow6{}.source_port);
    EXPECT_TRUE(udp6_checksum_right(run.frame));
    EXPECT_TRUE(std::equal(in.begin() + 12, in.begin() + 22, run.frame.begin() + 12)) << "hop limit and all";
    EXPECT_TRUE(std::equal(in.begin() + kPayloadAt6, in.begin() + kPayloadAt6 + 108,
                           run.frame.begin() + kPayloadAt6));
    EXPECT_TRUE(std::equal(in.begin() + kPayloadAt6 + 116, in.end(), run.frame.begin() + kPayloadAt6 + 116));
  }
  static void expect_sent_to_client(const Outcome& run) {
    EXPECT_EQ(run.verdict, static_cast<uint32_t>(XDP_REDIRECT));
    const Flow6 out = read_flow6(run.frame);
    EXPECT_EQ(out.source, Flow6{}.destination);
    EXPECT_EQ(out.source_port, 2049);
    EXPECT_EQ(out.destination, Flow6{}.source);
    EXPECT_EQ(out.destination_port, Flow6{}.source_port);
    EXPECT_EQ(out.destination_mac, Flow6{}.source_mac);
    EXPECT_EQ(out.source_mac, Flow6{}.destination_mac);
    EXPECT_TRUE(udp6_checksum_right(run.frame));
  }

  static void know(uint64_t size) { xdp_->know(HandleFields{}.fileid, size); }
  static uint64_t hint_of(const Outcome& sent) {
    uint64_t hint = 0;
    std::memcpy(&hint, &sent.frame[kPayloadAt6 + 72 + 4 + 32], 8);
    return SLICE_BE64(hint);
  }

  static inline XdpHarness* xdp_ = nullptr;
  static inline uint32_t xid_ = 0x5000;  // of the last request
  slice_config original_{};
  slice_config6 original6_{};
};

}  // namespace slice::packet

#endif  // SLICE_TESTS_PACKET_IPV6_HARNESS_H
