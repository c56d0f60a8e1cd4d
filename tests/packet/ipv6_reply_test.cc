// Replies and fragments over IPv6 through the XDP program, and what hosts send to make it believe them. What
// attributes teach is the code of reply_test.cc and hostile_test.cc; here is how it is known what to believe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>

#include <cstring>

#include "tests/packet/ipv6_harness.h"

namespace slice::packet {
namespace {

class Ipv6ReplyTest : public Ipv6Test {
 protected:
  static Bytes attributes(uint64_t size) {
    return join({word(0), fattr3({.size = size, .ctime = seconds(9)})});
  }
  static Outcome getattr(uint64_t size) {
    return reply(request(1, some_arguments(1, handle_bytes({}))), attributes(size));
  }
  static Bytes written(uint64_t end) {
    Attributes room{.mode = 0, .nlink = 0, .used = end, .mtime = seconds(70)};
    return join({word(0), wcc(room), word(4), word(0), Bytes(8, 9)});
  }
};

TEST_F(Ipv6ReplyTest, GoesBackAsFromTheVirtualAddress) {
  for (uint32_t p = 1; p <= 21; p++) {
    if (p == 17) continue;
    SCOPED_TRACE(p);
    for (Checksum checksum : {Checksum::kFull, Checksum::kUnfilled}) {
      Flow6 flow = request(p, some_arguments(p, handle_bytes({})));
      Outcome run = reply(flow, join({word(70), word(0), word(0), word(0), word(0), word(0)}), checksum);
      expect_sent_to_client(run);
      EXPECT_EQ(run.outcomes[SLICE_OUTCOME_OVER_IPV6], 1u);
      EXPECT_EQ(run.outcomes[SLICE_OUTCOME_CHECKSUM_SUMMED], checksum == Checksum::kUnfilled ? 1u : 0u);
    }
  }
}

TEST_F(Ipv6ReplyTest, LearnsThenFillsRoom) {
  Outcome learned = getattr(9000);
  expect_sent_to_client(learned);
  EXPECT_EQ(learned.outcomes[SLICE_OUTCOME_REPLY_LEARNED], 1u);
  Flow6 flow = request(6, read_arguments(handle_bytes({}), 0, 4096));
  Attributes room{.mode = 0, .nlink = 0, .atime = seconds(70)};
  const Bytes results = join({word(0), post_op(room), word(16), word(0), word(16), Bytes(16, 7)});
  for (Checksum checksum : {Checksum::kFull, Checksum::kUnfilled}) {
    Outcome read = reply(flow, results, checksum);
    expect_sent_to_client(read);
    EXPECT_EQ(read.outcomes[SLICE_OUTCOME_REPLY_PATCHED], 1u);
    EXPECT_EQ(read_fattr3(std::span(read.frame).subspan(kPayloadAt6 + 32)).size, 9000u);
  }
}

TEST_F(Ipv6ReplyTest, AGenericProgramLeavesAReplyUnfilled) {
  getattr(9000);
  xdp_->set_generic(xdp_->servers_ifindex, true);
  Flow6 flow = request(6, read_arguments(handle_bytes({}), 0, 4096));
  Attributes room{.mode = 0, .nlink = 0, .atime = seconds(70)};
  Outcome read = reply(flow, join({word(0), post_op(room), word(4), word(0), word(4), Bytes(4, 7)}),
                       Checksum::kUnfilled);
  EXPECT_EQ(read.outcomes[SLICE_OUTCOME_REPLY_PATCHED], 1u);
  EXPECT_EQ(read.outcomes[SLICE_OUTCOME_CHECKSUM_KEPT], 1u);
  EXPECT_EQ(udp6_checksum_field(read.frame), udp6_pseudo_sum(read.frame));
  xdp_->set_generic(xdp_->servers_ifindex, false);
}

TEST_F(Ipv6ReplyTest, WithoutAChecksumItStays) {
  Flow6 flow = request(1, some_arguments(1, handle_bytes({})));
  Outcome run = reply(flow, attributes(1), Checksum::kNone);
  EXPECT_EQ(run.verdict, XDP_PASS);
  EXPECT_EQ(run.outcomes[SLICE_OUTCOME_NO_CHECKSUM], 1u);
  EXPECT_EQ(xdp_->bucket(HandleFields{}.fileid).fileid[0], 0u) << "and teaches nothing";
}

// Each field by which a reply is known, wrong by one bit.
TEST_F(Ipv6ReplyTest, AForgedReplyIsNotMatched) {
  const Flow6 honest = request(1, some_arguments(1, handle_bytes({})));
  const auto refused = [&](const Flow6& flow, uint32_t xid) {
    Outcome run = xdp_->run(udp_frame(flow, rpc_reply(xid, attributes(1))));
    return run.verdict == XDP_PASS && run.outcomes[SLICE_OUTCOME_REPLY_UNMATCHED] == 1;
  };
  for (size_t byte = 0; byte < 16; byte++) {
    SCOPED_TRACE(byte);
    Flow6 forged = honest;
    forged.source[byte] ^= 4;
    EXPECT_TRUE(refused(forged, xid_)) << "another server";
    forged = honest;
    forged.destination[byte] ^= 4;
    EXPECT_TRUE(refused(forged, xid_)) << "another client";
  }
  Flow6 forged = honest;
  forged.source_port ^= 4;
  EXPECT_TRUE(refused(forged, xid_));
  forged = honest;
  forged.destination_port ^= 4;
  EXPECT_TRUE(refused(forged, xid_));
  EXPECT_TRUE(refused(honest, xid_ ^ 4));
  expect_sent_to_client(reply(honest, attributes(1)));
}

TEST_F(Ipv6ReplyTest, AServerThatMovedIsNotBelievedAtItsOldAddress) {
  const uint32_t index = XdpHarness::default_server(SLICE_CLASS_DIRECTORY, 3);
  Flow6 flow = request(1, some_arguments(1, handle_bytes({})));
  slice_server6 server = xdp_->server6(index);
  server.ipv6[15] ^= 0x40;
  xdp_->set_server6(index, server);
  EXPECT_EQ(reply(flow, attributes(1)).outcomes[SLICE_OUTCOME_REPLY_UNMATCHED], 1u);
}

TEST_F(Ipv6ReplyTest, RoomThatNobodyRemembersIsDropped) {
  Flow6 flow = reversed(Flow6{});
  flow.source = ipv6(0x00030009);
  Outcome run = reply(flow, written(4));
  EXPECT_EQ(run.verdict, XDP_DROP);
  EXPECT_EQ(run.outcomes[SLICE_OUTCOME_REPLY_ROOM_UNMATCHED], 1u);
}

TEST_F(Ipv6ReplyTest, AReplyCountsByTheWayToItsServerAlone) {
  Flow6 flow = request(1, some_arguments(1, handle_bytes({})));
  xdp_->ingress_ifindex = xdp_->clients_ifindex;
  Outcome run = reply(flow, attributes(1));
  EXPECT_EQ(run.verdict, XDP_DROP);
  EXPECT_EQ(run.outcomes[SLICE_OUTCOME_REPLY_ASTRAY], 1u);
  xdp_->ingress_ifindex = 0;
  flow.source_mac[5] ^= 1;
  run = reply(flow, attributes(1));
  expect_sent_to_client(run);
  EXPECT_EQ(run.outcomes[SLICE_OUTCOME_ATTR_MUTE], 1u);
  EXPECT_EQ(xdp_->bucket(HandleFields{}.fileid).fileid[0], 0u);
  const uint32_t index = XdpHarness::default_server(SLICE_CLASS_DIRECTORY, 3);
  EXPECT_EQ(xdp_->server6(index).server.doubts, SLICE_SERVER_ASTRAY);
}

TEST_F(Ipv6ReplyTest, NothingIsLearnedWhereClientsAndServersShareAnInterface) {
  xdp_->route("fd77::1:2/128 dev servers");
  xdp_->ingress_ifindex = xdp_->servers_ifindex;
  Flow6 flow = request(1, some_arguments(1, handle_bytes({})));
  Outcome run = reply(flow, attributes(1));
  EXPECT_EQ(run.outcomes[SLICE_OUTCOME_ATTR_MUTE], 1u);
  const uint32_t index = XdpHarness::default_server(SLICE_CLASS_DIRECTORY, 3);
  EXPECT_EQ(xdp_->server6(index).server.doubts, SLICE_SERVER_SHARED);
  xdp_->route("fd77::1:2/128 dev clients");
}

// Another request of the same client under the same xid, with another file's handle.
TEST_F(Ipv6ReplyTest, AReplacedEntryTeachesNothing) {
  getattr(10);
  request(7, write_arguments(handle_bytes({}), 0, 4, 4));
  HandleFields victim;
  do victim.fileid++;  // until the same small-file server has it
  while (((static_cast<uint32_t>(victim.fileid * 0x61c88647) ^
           static_cast<uint32_t>(HandleFields{}.fileid * 0x61c88647)) >>
              16 &
          63) != 0);
  Outcome second = xdp_->run(call_again(7, write_arguments(handle_bytes(victim), 60000, 4, 4)));
  EXPECT_EQ(hint_of(second), 0u);
  Outcome run = reply(reversed(read_flow6(second.frame)), written(4096));
  EXPECT_EQ(run.verdict, XDP_DROP);
  EXPECT_EQ(run.outcomes[SLICE_OUTCOME_PATCH_REFUSED], 1u);
  EXPECT_EQ(xdp_->bucket(HandleFields{}.fileid).entry[0].size, 10u);
  // A retransmission is no other request.
  Bytes read = call(6, read_arguments(handle_bytes({}), 0, 100));
  for (int i = 0; i < 2; i++) EXPECT_NE(hint_of(xdp_->run(read)), 0u);
}

// Clients whose addresses differ in the network or the middle alone are two clients.
TEST_F(Ipv6ReplyTest, ClientsAreToldApartByTheirWholeAddress) {
  xdp_->route("fd00::/8 dev clients");
  getattr(10);
  const Bytes read = read_arguments(handle_bytes({}), 0, 100);
  for (size_t byte : {7u, 8u, 9u}) {
    SCOPED_TRACE(byte);
    // One that takes the same entry.
    Flow6 other;
    uint32_t tried = 0;
    ++xid_;
    const auto key = [](const Flow6& flow) {
      return slice_pending_key6(slice_load64(flow.source.data()), slice_load64(flow.source.data() + 8),
                                SLICE_BE16(flow.source_port), SLICE_BE32(xid_));
    };
    other.source[byte] ^= 1;
    while (key(other) != key(Flow6{}) && ++tried < 1u << 24)
      for (size_t i = 0; i < 3; i++) other.source[3 + i] = static_cast<uint8_t>(tried >> 8 * i);
    ASSERT_EQ(key(other), key(Flow6{}));
    Outcome mine = xdp_->run(call_again(6, read));
    ASSERT_EQ(mine.verdict, static_cast<uint32_t>(XDP_REDIRECT));
    Outcome theirs = xdp_->run(call_again(6, read, other));
    ASSERT_EQ(theirs.verdict, static_cast<uint32_t>(XDP_REDIRECT));
    EXPECT_NE(hint_of(theirs), 0u) << "no request of theirs was replaced";
    EXPECT_EQ(reply(reversed(read_flow6(mine.frame)), word(70)).outcomes[SLICE_OUTCOME_REPLY_UNMATCHED], 1u);
    Outcome answer = reply(reversed(read_flow6(theirs.frame)), join({word(70), word(0)}));
    EXPECT_EQ(answer.verdict, static_cast<uint32_t>(XDP_REDIRECT));
    EXPECT_EQ(read_flow6(answer.frame).destination, other.source);
  }
  std::system("ip route del fd00::/8 dev clients");
}

TEST_F(Ipv6ReplyTest, ASourceThatTheRoutesHaveElsewhereIsPassedUp) {
  const Bytes lookup = name_arguments(handle_bytes({.type = 2}), "secret");
  Ipv6 mapped = ipv6(0x0a4d0102, 0);
  mapped[10] = mapped[11] = 0xff;
  // Even where a route says so: none of these is another host's own.
  for (const char* network : {"::ffff:0:0/96", "::/96", "fe80::/10", "ff00::/8"})
    xdp_->route(std::string(network) + " dev clients metric 1");
  for (const Ipv6& source : {ipv6(0x00020009), ipv6(0x00010001), ipv6(1), ipv6(0, 0), ipv6(1, 0), mapped,
                             ipv6(0x0a4d0102, 0), ipv6(0x00010002, 0xfe80), ipv6(0x00010002, 0xfebf),
                             ipv6(1, 0xff02), ipv6(1, 0xff05), ipv6(2, 0x2001)}) {
    SCOPED_TRACE(testing::PrintToString(source));
    Flow6 forged;
    forged.source = source;
    ++xid_;
    for (const Bytes& frame :
         {call_again(3, lookup, forged), call_again(6, read_arguments(handle_bytes({}), 0, 100), forged)}) {
      Outcome run = xdp_->run(frame);
      EXPECT_EQ(run.verdict, XDP_PASS);
      EXPECT_EQ(run.outcomes[SLICE_OUTCOME_SOURCE_ASTRAY], 1u);
      EXPECT_EQ(run.frame, frame) << "untouched";
      EXPECT_FALSE(xdp_->pending6(frame).has_value());
    }
  }
  for (const char* network : {"::ffff:0:0/96", "::/96", "fe80::/10", "ff00::/8"})
    std::system((std::string("ip route del ") + network + " dev clients metric 1").c_str());
  // Routes that change are followed, and one address's right is not another's.
  Flow6 moved;
  moved.source = ipv6(0x00010077);
  ++xid_;
  EXPECT_EQ(xdp_->run(call_again(3, lookup, moved)).verdict, XDP_REDIRECT);
  xdp_->route("fd77::1:77/128 dev servers");
  EXPECT_EQ(xdp_->run(call_again(3, lookup, moved)).verdict, XDP_PASS);
  xdp_->ingress_ifindex = xdp_->servers_ifindex;
  EXPECT_EQ(xdp_->run(call_again(3, lookup, moved)).verdict, XDP_REDIRECT);
  xdp_->ingress_ifindex = 0;
  xdp_->route("fd77::1:77/128 dev clients");
}

TEST_F(Ipv6ReplyTest, FragmentsFollowTheirFirst) {
  const Bytes message =
      rpc_call({.xid = ++xid_, .procedure = 7}, write_arguments(handle_bytes({}), 70000, 32768, 32768));
  const auto frames = udp_fragments(Flow6{}, message);
  ASSERT_EQ(frames.size(), 23u);
  std::vector<Bytes> out;
  for (const Bytes& frame : frames) {
    Outcome run = xdp_->run(frame);
    EXPECT_EQ(run.verdict, XDP_REDIRECT);
    EXPECT_EQ(run.outcomes[out.empty() ? SLICE_OUTCOME_ROUTED_WRITE : SLICE_OUTCOME_FRAGMENT_REQUEST], 1u);
    out.push_back(run.frame);
    EXPECT_EQ(read_flow6(run.frame).destination, read_flow6(out[0]).destination);
    EXPECT_EQ(read_flow6(run.frame).destination_mac, read_flow6(out[0]).destination_mac);
  }
  EXPECT_EQ(read_flow6(out[0]).destination[13], 4);  // a storage site's server
  EXPECT_TRUE(udp6_checksum_right(out));
}

TEST_F(Ipv6ReplyTest, FragmentsOfRepliesAreFromTheVirtualAddress) {
  getattr(1 << 20);
  Flow6 flow = request(6, read_arguments(handle_bytes({}), 0, 32768));
  Attributes room{.mode = 0, .nlink = 0, .atime = seconds(70)};
  Bytes results = join({word(0), post_op(room), word(32768), word(0), word(32768), Bytes(32768, 0x5a)});
  std::vector<Bytes> out;
  for (const Bytes& frame : udp_fragments(flow, rpc_reply(xid_, results))) {
    Outcome run = xdp_->run(frame);
    EXPECT_EQ(run.verdict, XDP_REDIRECT);
    EXPECT_EQ(read_flow6(run.frame).source, Flow6{}.destination);
    EXPECT_EQ(read_flow6(run.frame).destination_mac, Flow6{}.source_mac);
    out.push_back(run.frame);
  }
  EXPECT_TRUE(udp6_checksum_right(out));
  EXPECT_EQ(read_fattr3(std::span(out[0]).subspan(kPayloadAt6 + 8 + 32)).atime, seconds(70));
}

TEST_F(Ipv6ReplyTest, FragmentBeforeItsFirstGoesToUserSpace) {
  Flow6 in;
  in.id = 0x99990001;
  const Bytes message = rpc_call({.procedure = 7}, write_arguments(handle_bytes({}), 0, 4096, 4096));
  const auto frames = udp_fragments(in, message);
  xdp_->orphans();
  EXPECT_EQ(xdp_->run(frames[1]).outcomes[SLICE_OUTCOME_FRAGMENT_ORPHAN], 1u);
  auto orphans = xdp_->orphans();
  ASSERT_EQ(orphans.size(), 1u);
  EXPECT_EQ(orphans[0].ifindex, xdp_->clients_ifindex);
  EXPECT_EQ(Bytes(orphans[0].frame, orphans[0].frame + orphans[0].length), frames[1]);
  xdp_->run(frames[0]);
  EXPECT_EQ(xdp_->run(frames[1]).outcomes[SLICE_OUTCOME_FRAGMENT_REQUEST], 1u);
  // By another interface, from another host or under another id it is another datagram's.
  xdp_->ingress_ifindex = xdp_->servers_ifindex;
  EXPECT_EQ(xdp_->run(frames[1]).outcomes[SLICE_OUTCOME_FRAGMENT_ORPHAN], 1u);
  xdp_->ingress_ifindex = 0;
  for (size_t changed = 0; changed < 4; changed++) {
    Flow6 other = in;
    if (changed == 0) other.source_mac[5] ^= 1;
    if (changed == 1) other.id ^= 0x01000000;
    if (changed == 2) other.source[6] ^= 1;
    if (changed == 3) other.source[9] ^= 1;
    EXPECT_EQ(xdp_->run(udp_fragments(other, message)[1]).outcomes[SLICE_OUTCOME_FRAGMENT_ORPHAN], 1u)
        << changed;
  }
  xdp_->orphans();
}

TEST_F(Ipv6ReplyTest, FragmentsShareTheFateOfAFirstThatIsPassed) {
  Flow6 forged;
  forged.source = ipv6(0x00020009);
  const Bytes message = rpc_call({.procedure = 7}, write_arguments(handle_bytes({}), 0, 4096, 4096));
  auto frames = udp_fragments(forged, message);
  EXPECT_EQ(xdp_->run(frames[0]).outcomes[SLICE_OUTCOME_SOURCE_ASTRAY], 1u);
  EXPECT_EQ(xdp_->run(frames[1]).outcomes[SLICE_OUTCOME_FRAGMENT_PASSED], 1u);
  Flow6 mount;
  mount.id = 0x7777;
  mount.destination_port = 20048;
  frames = udp_fragments(mount, Bytes(4000, 1));
  EXPECT_EQ(xdp_->run(frames[0]).verdict, XDP_PASS);
  EXPECT_EQ(xdp_->run(frames[1]).outcomes[SLICE_OUTCOME_FRAGMENT_PASSED], 1u);
}

}  // namespace
}  // namespace slice::packet
