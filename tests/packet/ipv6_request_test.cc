// Requests over IPv6 through the XDP program: what is of IPv6 alone. Sites, hints and clamping are those of
// request_test.cc, whose code it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "bpf/shared/file_handle.h"
#include "tests/packet/ipv6_harness.h"

namespace slice::packet {
namespace {

class Ipv6RequestTest : public Ipv6Test {};

TEST_F(Ipv6RequestTest, EveryProcedureGoesToItsSite) {
  for (uint32_t procedure = 1; procedure <= 21; procedure++) {
    if (procedure == 17) continue;
    SCOPED_TRACE(procedure);
    Bytes in = call(procedure, some_arguments(procedure, handle_bytes({})));
    Outcome run = xdp_->run(in);
    const uint32_t site_class = procedure == 6 || procedure == 7 ? 1 : procedure == 21 ? 3 : 0;
    expect_routed(run, in, site_class);
    if (site_class == 0) {
      const uint32_t site = procedure == 15 ? 5 : 3;
      EXPECT_EQ(read_flow6(run.frame).destination, ipv6(0x00020001 + site));
    }
    EXPECT_EQ(run.outcomes[procedure], 1u);
    EXPECT_EQ(run.outcomes[SLICE_OUTCOME_OVER_IPV6], 1u);
    auto pending = xdp_->pending6(in);
    ASSERT_TRUE(pending.has_value());
    EXPECT_EQ(pending->procedure, procedure);
    EXPECT_EQ(pending->fileid, HandleFields{}.fileid);
    EXPECT_EQ(pending->ifindex, xdp_->clients_ifindex);
  }
}

TEST_F(Ipv6RequestTest, AReadIsClampedAndAHintStamped) {
  know(5000);
  Bytes in = call(6, read_arguments(handle_bytes({}), 0, 65537));
  Outcome run = xdp_->run(in);
  EXPECT_EQ(run.outcomes[SLICE_OUTCOME_READ_CLAMPED], 1u);
  EXPECT_EQ(hint_of(run), (3ULL << 62) | 5000);
  EXPECT_TRUE(udp6_checksum_right(run.frame));
}

TEST_F(Ipv6RequestTest, AReadOfAMirroredFileGoesToACopyAndThenToTheNext) {
  const uint32_t one = XdpHarness::default_server(2, 1), two = XdpHarness::default_server(2, 5);
  for (uint32_t site = 0; site < 1024; site++) xdp_->set_copies(site, one, two);
  const Bytes in = call(6, read_arguments(handle_bytes({.flags = SLICE_HANDLE_MIRRORED}), 1 << 16, 100));
  for (uint32_t server : {two, one, two}) {
    Outcome run = xdp_->run(in);
    EXPECT_EQ(run.outcomes[SLICE_OUTCOME_ROUTED_READ], 1u);
    EXPECT_EQ(read_flow6(run.frame).destination, std::to_array(xdp_->server6(server).ipv6));
    EXPECT_TRUE(udp6_checksum_right(run.frame));
  }
  for (uint32_t site = 0; site < 1024; site++) xdp_->set_copies(site, 0, 0);
  EXPECT_EQ(xdp_->run(in).outcomes[SLICE_OUTCOME_MIRRORED], 1u);
}

TEST_F(Ipv6RequestTest, NameHashingGoesByTheSameHash) {
  xdp_->config().policy = SLICE_POLICY_NAME_HASHING;
  for (uint32_t hash : {SLICE_NAME_HASH_MD5, SLICE_NAME_HASH_SIPHASH13}) {
    xdp_->config().name_hash = hash;
    xdp_->apply();
    for (int i = 0; i < 50; i++) {
      const Bytes arguments = name_arguments(handle_bytes({}), "name" + std::to_string(i));
      xdp_->bind_default_sites();
      CallHeader header;
      header.procedure = 3;
      Flow over_ipv4 = read_flow(xdp_->run(udp_frame(Flow{}, rpc_call(header, arguments))).frame);
      xdp_->bind_default_sites6();
      Flow6 out = read_flow6(xdp_->run(call(3, arguments)).frame);
      EXPECT_EQ(out.destination, ipv6(0x00020000u + over_ipv4.destination[3]));
    }
  }
}

// 0 stands for "none", which IPv6 has not.
TEST_F(Ipv6RequestTest, AChecksumIsNeverZero) {
  unsigned all_ones = 0;
  for (uint32_t word = 0; word < 0x10000; word++) {
    CallHeader header;
    header.procedure = 1;
    header.credential[2] = static_cast<uint8_t>(word >> 8);
    header.credential[3] = static_cast<uint8_t>(word);
    Pass run = xdp_->pass(udp_frame(Flow6{}, rpc_call(header, some_arguments(1, handle_bytes({})))));
    ASSERT_EQ(run.verdict, static_cast<uint32_t>(XDP_REDIRECT));
    ASSERT_TRUE(udp6_checksum_right(run.frame)) << word;
    all_ones += udp6_checksum_field(run.frame) == 0xffff;
  }
  EXPECT_EQ(all_ones, 1u) << "every checksum but 0 comes once, and 0xffff for it";
}

TEST_F(Ipv6RequestTest, AnUnfilledChecksumIsFilledIn) {
  for (size_t odd = 0; odd < 9; odd++) {
    for (size_t data : {0, 500, 505, 507, 508, 509, 1200, 8000}) {
      SCOPED_TRACE(testing::Message() << data << " bytes and " << odd);
      CallHeader header;
      header.procedure = 7;
      Bytes arguments = write_arguments(handle_bytes({}), 0, 64, data);
      arguments.insert(arguments.end(), odd, 0xa7);
      Bytes in = udp_frame(Flow6{}, rpc_call(header, arguments), Checksum::kUnfilled);
      Outcome run = xdp_->run(in);
      expect_routed(run, in, 1);
      EXPECT_EQ(run.outcomes[SLICE_OUTCOME_CHECKSUM_SUMMED], 1u);
    }
  }
}

TEST_F(Ipv6RequestTest, AGenericProgramLeavesItUnfilled) {
  xdp_->set_generic(xdp_->clients_ifindex, true);
  know(5000);
  Bytes in = call(6, read_arguments(handle_bytes({}), 0, 65537), Checksum::kUnfilled);
  Outcome run = xdp_->run(in);
  EXPECT_EQ(run.outcomes[SLICE_OUTCOME_CHECKSUM_KEPT], 1u);
  EXPECT_EQ(udp6_checksum_field(run.frame), udp6_pseudo_sum(run.frame)) << "of the new addresses";
  EXPECT_NE(read_flow6(run.frame).destination, Flow6{}.destination);
  // What comes filled is moved as ever.
  run = xdp_->run(call(6, read_arguments(handle_bytes({}), 0, 65537)));
  EXPECT_TRUE(udp6_checksum_right(run.frame));
  xdp_->set_generic(xdp_->clients_ifindex, false);
}

// One of 65,535 sums that are full looks like one that is not.
TEST_F(Ipv6RequestTest, AFullChecksumThatLooksUnfilledIsAChecksum) {
  unsigned met = 0;
  for (bool generic : {false, true}) {
    xdp_->set_generic(xdp_->clients_ifindex, generic);
    for (uint32_t word = 0; word < 0x10000; word++) {
      CallHeader header;
      header.procedure = 1;
      header.credential[2] = static_cast<uint8_t>(word >> 8);
      header.credential[3] = static_cast<uint8_t>(word);
      Bytes in = udp_frame(Flow6{}, rpc_call(header, some_arguments(1, handle_bytes({}))));
      if (udp6_checksum_field(in) != udp6_pseudo_sum(in)) continue;
      met++;
      Outcome run = xdp_->run(in);
      EXPECT_TRUE(udp6_checksum_right(run.frame));
      EXPECT_FALSE(run.outcomes.contains(SLICE_OUTCOME_CHECKSUM_SUMMED));
      EXPECT_FALSE(run.outcomes.contains(SLICE_OUTCOME_CHECKSUM_KEPT));
    }
  }
  EXPECT_GE(met, 2u);
  xdp_->set_generic(xdp_->clients_ifindex, false);
}

TEST_F(Ipv6RequestTest, OnNetworkCardsASumThatLooksUnfilledIsASum) {
  xdp_->config().flags |= SLICE_CONFIG_CARDS;
  xdp_->apply();
  Outcome run = xdp_->run(call(1, some_arguments(1, handle_bytes({})), Checksum::kUnfilled));
  EXPECT_EQ(run.verdict, static_cast<uint32_t>(XDP_REDIRECT));
  EXPECT_FALSE(run.outcomes.contains(SLICE_OUTCOME_CHECKSUM_SUMMED));
}

TEST_F(Ipv6RequestTest, EveryOtherOutcome) {
  Flow6 elsewhere, portmap;
  elsewhere.destination = ipv6(0x00090009);
  portmap.destination_port = 111;
  const Bytes message = rpc_call({.procedure = 1}, some_arguments(1, handle_bytes({})));
  const Bytes good = udp_frame(Flow6{}, message);
  Bytes longer = good;
  longer.insert(longer.end(), 4, 0);
  const Bytes extension{17, 0, 1, 4, 0, 0, 0, 0};  // PadN; UDP follows
  const Bytes chain = join({Bytes{60, 0, 1, 4, 0, 0, 0, 0}, extension});
  Bytes atomic{17, 0, 0, 0, 1, 2, 3, 4};
  Bytes fragment = udp_fragments(Flow6{}, message, 64)[0];
  fragment[14 + 40] = 60;
  const Refused kTable[] = {
      {"NULL is answered by the proxy", call(0, {}), SLICE_OUTCOME_ROUTED_NULL},
      {"to another address, no RPC reply", udp_frame(elsewhere, Bytes(64, 0)), SLICE_OUTCOME_NOT_OURS},
      {"to another address, TCP", ipv6_frame(elsewhere, 6, Bytes(64, 0)), SLICE_OUTCOME_NOT_OURS},
      {"TCP", ipv6_frame(Flow6{}, 6, Bytes(64, 0)), SLICE_OUTCOME_NOT_UDP},
      {"a neighbour's solicitation", ipv6_frame(Flow6{}, 58, Bytes(32, 0)), SLICE_OUTCOME_NOT_UDP},
      {"no next header", ipv6_frame(Flow6{}, 59, {}), SLICE_OUTCOME_NOT_UDP},
      {"PORTMAP", udp_frame(portmap, rpc_call({.program = 100000, .version = 2}, {})),
       SLICE_OUTCOME_OTHER_PORT},
      {"version 4 in a frame of IPv6", edited(good, 14, {0x45}), SLICE_OUTCOME_NOT_IPV4},
      {"a header cut short", Bytes(good.begin(), good.begin() + 14 + 39), SLICE_OUTCOME_NOT_IPV4},
      {"hop-by-hop options", udp_frame(Flow6{}, message, Checksum::kFull, 0, extension),
       SLICE_OUTCOME_IP_EXTENSIONS},
      {"destination options", udp_frame(Flow6{}, message, Checksum::kFull, 60, extension),
       SLICE_OUTCOME_IP_EXTENSIONS},
      {"a chain of them", udp_frame(Flow6{}, message, Checksum::kFull, 0, chain),
       SLICE_OUTCOME_IP_EXTENSIONS},
      {"a routing header", udp_frame(Flow6{}, message, Checksum::kFull, 43, extension),
       SLICE_OUTCOME_IP_EXTENSIONS},
      {"AH", udp_frame(Flow6{}, message, Checksum::kFull, 51, extension), SLICE_OUTCOME_IP_EXTENSIONS},
      {"ESP", udp_frame(Flow6{}, message, Checksum::kFull, 50, extension), SLICE_OUTCOME_IP_EXTENSIONS},
      {"mobility", udp_frame(Flow6{}, message, Checksum::kFull, 135, extension), SLICE_OUTCOME_IP_EXTENSIONS},
      {"the only fragment of a datagram", udp_frame(Flow6{}, message, Checksum::kFull, 44, atomic),
       SLICE_OUTCOME_IP_EXTENSIONS},
      {"a fragment's header that is cut", edited(ipv6_frame(Flow6{}, 44, Bytes(4, 0)), 18, {0, 8}),
       SLICE_OUTCOME_IP_EXTENSIONS},
      {"options within a first fragment", fragment, SLICE_OUTCOME_IP_EXTENSIONS},
      {"no checksum", call(1, some_arguments(1, handle_bytes({})), Checksum::kNone),
       SLICE_OUTCOME_NO_CHECKSUM},
      {"an unfilled one of more than is summed",
       udp_frame(Flow6{}, rpc_call({.procedure = 7}, write_arguments(handle_bytes({}), 0, 8, 9216)),
                 Checksum::kUnfilled),
       SLICE_OUTCOME_NOT_SUMMED},
      {"a jumbogram says length 0, and has an option",
       edited(udp_frame(Flow6{}, message, Checksum::kFull, 0, extension), 18, {0, 0}),
       SLICE_OUTCOME_IP_EXTENSIONS},
      {"length 0 without the option", edited(good, 18, {0, 0}), SLICE_OUTCOME_MALFORMED},
      {"lengths of 0 in both headers", edited(edited(good, 18, {0, 0}), 58, {0, 0}), SLICE_OUTCOME_TRAILER},
      {"bytes after the datagram", longer, SLICE_OUTCOME_TRAILER},
      {"IP says more than the frame has", edited(good, 18, {1, 0}), SLICE_OUTCOME_MALFORMED},
      {"UDP length 4", edited(good, 58, {0, 4}), SLICE_OUTCOME_MALFORMED},
      {"UDP's header is not all there", ipv6_frame(Flow6{}, 17, Bytes(7, 1)), SLICE_OUTCOME_MALFORMED},
      {"a reply", udp_frame(Flow6{}, rpc_call({.message_type = 1}, {})), SLICE_OUTCOME_NOT_A_CALL},
      {"READDIRPLUS", call(17, some_arguments(17, handle_bytes({}))), SLICE_OUTCOME_TO_USER_SPACE},
      {"arguments end early", call(6, XdrWriter().opaque(handle_bytes({})).u64(0).bytes()),
       SLICE_OUTCOME_TRUNCATED},
  };
  for (const Refused& r : kTable) {
    SCOPED_TRACE(r.description);
    Outcome run = xdp_->run(r.frame);
    EXPECT_EQ(run.outcomes[r.outcome], 1u) << testing::PrintToString(run.outcomes);
    EXPECT_FALSE(run.outcomes.contains(SLICE_OUTCOME_OVER_IPV6));
    EXPECT_EQ(run.verdict, r.outcome >= 64 ? XDP_DROP : XDP_PASS);
    EXPECT_EQ(run.frame, r.frame) << "a packet that is not routed is not touched";
  }
}

TEST_F(Ipv6RequestTest, AServerOfTheOtherFamilyIsLeftToUserSpace) {
  const Bytes in = call(1, some_arguments(1, handle_bytes({})));
  const Bytes over_ipv4 = udp_frame(Flow{}, rpc_call({.procedure = 1}, some_arguments(1, handle_bytes({}))));
  EXPECT_EQ(xdp_->run(over_ipv4).outcomes[SLICE_OUTCOME_OTHER_FAMILY], 1u);
  xdp_->bind_default_sites();
  EXPECT_EQ(xdp_->run(over_ipv4).verdict, XDP_REDIRECT);
  Outcome run = xdp_->run(in);
  EXPECT_EQ(run.outcomes[SLICE_OUTCOME_OTHER_FAMILY], 1u);
  EXPECT_EQ(run.verdict, XDP_PASS);
  EXPECT_EQ(run.frame, in);
  xdp_->bind(0, 3, 900);
  EXPECT_EQ(xdp_->run(in).outcomes[SLICE_OUTCOME_SITE_UNBOUND], 1u) << "nor has it one of IPv4";
  xdp_->bind(0, 3, 0);
  EXPECT_EQ(xdp_->run(in).outcomes[SLICE_OUTCOME_SITE_UNBOUND], 1u);
}

TEST_F(Ipv6RequestTest, WithoutAVirtualAddressOfIpv6AllOfItPasses) {
  std::memset(&xdp_->config6(), 0, sizeof xdp_->config6());
  xdp_->apply();
  Flow6 unspecified;
  unspecified.destination = {};
  for (const Bytes& frame :
       {call(1, some_arguments(1, handle_bytes({}))),
        udp_frame(unspecified, rpc_call({.procedure = 1}, some_arguments(1, handle_bytes({})))),
        udp_frame(reversed(Flow6{}), rpc_reply(1, word(0)))}) {
    Outcome run = xdp_->run(frame);
    EXPECT_EQ(run.outcomes[SLICE_OUTCOME_NOT_IPV4], 1u);
    EXPECT_EQ(run.verdict, XDP_PASS);
  }
}

TEST_F(Ipv6RequestTest, WithoutTablesEverythingPasses) {
  xdp_->config().abi = 0;
  xdp_->apply();
  Outcome run = xdp_->run(call(1, some_arguments(1, handle_bytes({}))));
  EXPECT_EQ(run.verdict, XDP_PASS);
  EXPECT_EQ(run.outcomes[SLICE_OUTCOME_NO_CONFIG], 1u);
}

TEST_F(Ipv6RequestTest, WithoutItsProgramAllOfItPasses) {
  xdp_->use_ipv6_program(false);
  Outcome run = xdp_->run(call(1, some_arguments(1, handle_bytes({}))));
  EXPECT_EQ(run.verdict, XDP_PASS);
  EXPECT_EQ(run.outcomes[SLICE_OUTCOME_NOT_IPV4], 1u);
  xdp_->use_ipv6_program(true);
}

TEST_F(Ipv6RequestTest, UnknownNextHopLeavesForwardingToTheStack) {
  slice_server6 server = xdp_->server6(XdpHarness::default_server(0, 3));
  server.server.ifindex = 0;
  xdp_->set_server6(XdpHarness::default_server(0, 3), server);
  Outcome run = xdp_->run(call(1, some_arguments(1, handle_bytes({}))));
  EXPECT_EQ(run.verdict, XDP_PASS);
  EXPECT_EQ(run.outcomes[SLICE_OUTCOME_NO_NEXT_HOP], 1u);
  EXPECT_THAT(read_flow6(run.frame).destination, testing::ElementsAreArray(server.ipv6));
  EXPECT_TRUE(udp6_checksum_right(run.frame));
}

// Whatever is changed in frames: what is sent on has a right checksum, and what is not is not touched.
TEST_F(Ipv6RequestTest, AnyBytesAreBorne) {
  std::mt19937 random(8);
  const std::vector<uint8_t> next{0, 6, 17, 17, 17, 43, 44, 44, 50, 51, 58, 59, 60, 135};
  const Bytes write = write_arguments(handle_bytes({}), 0, 4096, 4096);
  unsigned sent = 0, fragments = 0;
  for (unsigned i = 0; i < 50000; i++) {
    Flow6 flow;
    flow.id = i;
    const uint32_t procedure = random() % 22;
    Bytes frame = call_again(procedure, some_arguments(procedure, handle_bytes({})), flow,
                             random() % 8 == 0 ? Checksum::kUnfilled : Checksum::kFull);
    if (i % 4 == 1) frame = udp_fragments(flow, rpc_call({.procedure = 7}, write), 1448)[random() % 3];
    if (i % 4 == 2) frame = udp_frame(reversed(flow), rpc_reply(xid_, Bytes(200, 0)));
    for (unsigned changes = random() % 4; changes > 0; changes--) {
      const size_t at = random() % 4 == 0 ? random() % frame.size() : 12 + random() % 60;
      frame[std::min(at, frame.size() - 1)] = static_cast<uint8_t>(random());
    }
    if (random() % 8 == 0) frame[20] = next[random() % next.size()];
    if (random() % 16 == 0) frame.resize(14 + random() % (frame.size() - 14) + 1);
    const Pass run = xdp_->pass(frame);
    if (run.verdict == XDP_PASS || run.verdict == XDP_DROP) {
      ASSERT_EQ(run.frame, frame);
      continue;
    }
    ASSERT_EQ(run.verdict, static_cast<uint32_t>(XDP_REDIRECT));
    fragments += frame[20] == 44;
    if (frame[20] == 44 || !udp6_checksum_right(frame)) continue;
    sent++;
    ASSERT_TRUE(udp6_checksum_right(run.frame)) << i;
  }
  EXPECT_GT(sent, 3000u);
  EXPECT_GT(fragments, 1000u);
}

// As over IPv4: nothing is read beyond, and no piece of a call is sent on.
TEST_F(Ipv6RequestTest, CutAtEveryLength) {
  for (uint32_t p = 0; p <= 21; p++) {
    Bytes payload = rpc_call({.procedure = p}, some_arguments(p, handle_bytes({}), "eleven-char"));
    size_t needed = payload.size();
    if (p == 2 || p == 4) needed = 132;
    if (p == 7) needed = 152;
    if (p >= 8 && p <= 11) needed = 148;
    for (size_t length = 0; length <= payload.size(); length++) {
      Bytes cut(payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(length));
      Outcome run = xdp_->run(udp_frame(Flow6{}, cut));
      if (length < needed) {
        EXPECT_EQ(run.outcomes[SLICE_OUTCOME_TRUNCATED], 1u) << "procedure " << p << " length " << length;
      } else {
        EXPECT_NE(run.verdict, XDP_DROP) << "procedure " << p << " length " << length;
      }
    }
    Bytes frame = udp_frame(Flow6{}, payload);
    for (size_t length = 14; length < frame.size(); length++) {
      Outcome run = xdp_->run(Bytes(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(length)));
      EXPECT_NE(run.verdict, XDP_ABORTED);
      if (length < kPayloadAt6 + needed) {
        EXPECT_NE(run.verdict, XDP_REDIRECT) << "procedure " << p << " length " << length;
      }
    }
  }
}

}  // namespace
}  // namespace slice::packet
