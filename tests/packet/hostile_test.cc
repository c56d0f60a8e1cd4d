// What a client or a host beside it sends to make the XDP program believe it: two requests under one xid,
// handles that nobody minted, answers that no server sent, sources that are not its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>

#include <algorithm>
#include <cstring>

#include "bpf/shared/attributes.h"
#include "tests/packet/packet_builder.h"
#include "tests/packet/xdp_harness.h"

namespace slice::packet {
namespace {

class HostileTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { xdp_ = new XdpHarness; }
  static void TearDownTestSuite() { delete std::exchange(xdp_, nullptr); }
  void TearDown() override {
    xdp_->ingress_ifindex = 0;
    xdp_->bind_default_sites();
    xdp_->set_bucket(kMine, {});
    xdp_->set_bucket(victim().fileid, {});
  }

  // Another file whose bytes the same small-file server has, and its attributes the same directory server.
  static HandleFields victim() {
    HandleFields fields;
    const uint32_t site = small_file_site(kMine);
    do fields.fileid++;
    while (small_file_site(fields.fileid) != site);
    return fields;
  }
  static uint32_t small_file_site(uint64_t fileid) {
    return (static_cast<uint32_t>(fileid * 0x61c88647) >> 16) & 63;
  }

  static Bytes call(uint32_t xid, uint32_t procedure, const Bytes& arguments, const Flow& flow = {}) {
    CallHeader header;
    header.xid = xid;
    header.procedure = procedure;
    return udp_frame(flow, rpc_call(header, arguments));
  }
  // Sends a request through; the flow of its reply.
  static Flow send(uint32_t xid, uint32_t procedure, const Bytes& arguments) {
    Outcome run = xdp_->run(call(xid, procedure, arguments));
    EXPECT_EQ(run.verdict, XDP_REDIRECT);
    return reversed(read_flow(run.frame));
  }
  static Outcome answer(const Flow& flow, uint32_t xid, const Bytes& results) {
    return xdp_->run(udp_frame(flow, rpc_reply(xid, results)));
  }
  static Outcome know(const HandleFields& file, uint64_t size) {
    Flow flow = send(++xid_, 1, some_arguments(1, handle_bytes(file)));
    return answer(flow, xid_,
                  join({word(0), fattr3({.size = size, .fileid = file.fileid, .ctime = seconds(9)})}));
  }
  static Bytes written(uint64_t fileid, uint64_t end) {
    Attributes room{.mode = 0, .nlink = 0, .used = end, .fileid = fileid, .mtime = seconds(70)};
    return join({word(0), wcc(room), word(4), word(0), Bytes(8, 9)});
  }
  static uint64_t hint_of(const Outcome& sent) {
    uint64_t hint = 0;
    std::memcpy(&hint, &sent.frame[kPayloadAt + 24 + 8 + 32 + 8 + 4 + 32], 8);
    return SLICE_BE64(hint);
  }
  // Another xid whose request takes the same entry.
  static uint32_t beside(uint32_t xid) {
    const uint32_t source = 0x02014d0a, port = SLICE_BE16(Flow{}.source_port);
    auto key = [&](uint32_t x) {
      return slice_pending_key(source, static_cast<uint16_t>(port), SLICE_BE32(x));
    };
    uint32_t other = xid + 1;
    while (key(other) != key(xid)) other++;
    return other;
  }
  // A request under `xid` that takes the place of another under it without being seen to.
  static Flow replace_unseen(uint32_t xid, uint32_t procedure, const Bytes& arguments) {
    send(beside(xid), 1, some_arguments(1, handle_bytes({})));
    return send(xid, procedure, arguments);
  }

  static constexpr uint64_t kMine = HandleFields{}.fileid;
  static inline XdpHarness* xdp_ = nullptr;
  static inline uint32_t xid_ = 0x9000;
};

TEST_F(HostileTest, TheSameXidTwiceTeachesNothing) {
  know({}, 10);
  know(victim(), 10);
  const slice_attr_bucket mine = xdp_->bucket(kMine), before = xdp_->bucket(victim().fileid);
  for (bool seen : {true, false}) {
    SCOPED_TRACE(seen);
    const uint32_t xid = ++xid_;
    send(xid, 7, write_arguments(handle_bytes({}), 0, 4, 4));
    Bytes second = write_arguments(handle_bytes(victim()), 60000, 4, 4);
    Flow flow = seen ? send(xid, 7, second) : replace_unseen(xid, 7, second);
    Outcome run = answer(flow, xid, written(kMine, 4));
    EXPECT_EQ(run.verdict, XDP_DROP) << "room reaches no client";
    EXPECT_EQ(run.outcomes[SLICE_OUTCOME_PATCH_REFUSED], 1u);
    EXPECT_EQ(run.outcomes[SLICE_OUTCOME_ATTR_FOREIGN], 1u);
    slice_attr_bucket after = xdp_->bucket(victim().fileid);
    EXPECT_EQ(std::memcmp(&after, &before, sizeof after), 0);
    after = xdp_->bucket(kMine);
    EXPECT_EQ(std::memcmp(&after, &mine, sizeof after), 0);
  }
}

// What was replaced and what replaced it are about the same file here: still nobody knows which it was.
TEST_F(HostileTest, AReplacedEntryTeachesNothing) {
  know({}, 10);
  const uint32_t xid = ++xid_;
  send(xid, 6, read_arguments(handle_bytes({}), 0, 100));
  Outcome second = xdp_->run(call(xid, 7, write_arguments(handle_bytes({}), 0, 4, 4)));
  EXPECT_EQ(hint_of(second), 0u) << "its answer is to bring no room, which would be dropped";
  Outcome run = answer(reversed(read_flow(second.frame)), xid, written(kMine, 4096));
  EXPECT_EQ(run.verdict, XDP_DROP);
  EXPECT_EQ(run.outcomes[SLICE_OUTCOME_PATCH_REFUSED], 1u);
  EXPECT_EQ(run.outcomes[SLICE_OUTCOME_ATTR_MUTE], 1u);
  // Sent again it is served, and what comes without room passes.
  Outcome again = xdp_->run(call(xid, 7, write_arguments(handle_bytes({}), 0, 4, 4)));
  EXPECT_EQ(hint_of(again), 0u);
  run =
      answer(reversed(read_flow(again.frame)), xid, join({word(0), wcc({}), word(4), word(0), Bytes(8, 9)}));
  EXPECT_EQ(run.verdict, XDP_REDIRECT);
  EXPECT_EQ(xdp_->bucket(kMine).entry[0].size, 10u);
  // A retransmission is no other request.
  const uint32_t next = ++xid_;
  for (int i = 0; i < 2; i++) {
    Outcome sent = xdp_->run(call(next, 6, read_arguments(handle_bytes({}), 0, 100)));
    EXPECT_EQ(hint_of(sent), slice_hint_encode(1, 1, 10));
  }
}

TEST_F(HostileTest, TheEndOfAWriteIsTheServersWord) {
  know({}, 10);
  Flow flow = send(++xid_, 7, write_arguments(handle_bytes({}), 50000, 4, 4));
  Outcome run = answer(flow, xid_, written(kMine, 4000));
  EXPECT_EQ(run.verdict, XDP_REDIRECT);
  EXPECT_EQ(xdp_->bucket(kMine).entry[0].size, 4000u);
}

// The bytes of a handle that nobody minted: its site is not believed.
TEST_F(HostileTest, TheDirectorySiteIsTheServersWord) {
  Flow flow = send(++xid_, 1, some_arguments(1, handle_bytes({.site = 3 + 16})));  // the same server
  answer(flow, xid_, join({word(0), fattr3({.size = 1, .site = 3})}));
  EXPECT_EQ(xdp_->bucket(kMine).fileid[0], kMine);
  EXPECT_EQ(xdp_->bucket(kMine).entry[0].directory_site, 3u);
}

// The bytes of a file, read as the answer to another procedure, would be attributes of any file.
TEST_F(HostileTest, DataIsNeverTakenForAttributes) {
  const uint64_t file = victim().fileid;
  Bytes forged = fattr3({.mode = 04755, .size = 1ull << 40, .fileid = file, .ctime = seconds(999)});
  // In a READ3resok without attributes eof and the data's length come before the data: as type and mode.
  const Bytes tail(forged.begin() + 8, forged.end());
  for (size_t more = 0; more <= 128; more += 4) {
    for (uint32_t as : {1u, 2u, 3u, 4u, 7u, 8u, 15u, 18u, 19u, 20u, 21u}) {
      for (bool shifted : {true, false}) {
        const uint32_t xid = ++xid_;
        Bytes data = shifted ? tail : join({word(1), forged});
        data.resize(data.size() + more, 0);
        auto length = static_cast<uint32_t>(data.size());
        send(xid, 6, read_arguments(handle_bytes({}), 0, length));
        Flow flow = replace_unseen(xid, as, some_arguments(as, handle_bytes(victim())));
        for (const auto& attributes :
             {std::optional<Attributes>{}, std::optional<Attributes>{{.nlink = 0, .size = 1ull << 32 | 1}}}) {
          Outcome run = answer(
              flow, xid, join({word(0), post_op(attributes), word(length), word(1), word(length), data}));
          EXPECT_FALSE(run.outcomes.contains(SLICE_OUTCOME_REPLY_LEARNED)) << as << " " << length;
          EXPECT_FALSE(run.outcomes.contains(SLICE_OUTCOME_REPLY_PATCHED)) << as << " " << length;
        }
      }
    }
  }
  const slice_attr_bucket bucket = xdp_->bucket(file);
  EXPECT_EQ(slice_attr_find(&bucket, file), SLICE_ATTR_WAYS);
}

// SETATTR3resok with the attributes from before, which the client chose: read as the answer to ACCESS, the
// size's upper half is a type, and the new size and space used are a fileID.
TEST_F(HostileTest, OneProceduresAttributesAreNotTakenForAnothers) {
  const uint64_t file = victim().fileid;
  const Bytes before = XdrWriter().u32(1).u32(04755).u32(1).u32(0).u32(0).u32(0).bytes();
  const Attributes after{.size = file >> 32, .used = file << 32};
  for (uint32_t as : {4u, 15u, 18u, 19u, 20u}) {
    SCOPED_TRACE(as);
    const uint32_t xid = ++xid_;
    send(xid, 2, some_arguments(2, handle_bytes({})));
    Flow flow = replace_unseen(xid, as, some_arguments(as, handle_bytes(victim())));
    Outcome run = answer(flow, xid, join({word(0), word(1), before, word(1), fattr3(after)}));
    EXPECT_EQ(run.verdict, XDP_DROP);
    EXPECT_EQ(run.outcomes[SLICE_OUTCOME_REPLY_MALFORMED], 1u);
    const slice_attr_bucket bucket = xdp_->bucket(file);
    EXPECT_EQ(slice_attr_find(&bucket, file), SLICE_ATTR_WAYS);
  }
}

// One byte of data that says "1" is a count, and a boolean, and the length is right for nothing else.
TEST_F(HostileTest, ABooleanIsZeroOrOne) {
  Flow flow = send(++xid_, 7, write_arguments(handle_bytes({}), 0, 4, 4));
  for (uint32_t follows : {2u, 0x100u, ~0u}) {
    Bytes results =
        join({word(0), word(0), word(follows), fattr3({.nlink = 1}), word(4), word(0), Bytes(8, 9)});
    Outcome run = answer(flow, xid_, results);
    EXPECT_EQ(run.verdict, XDP_DROP);
    EXPECT_EQ(run.outcomes[SLICE_OUTCOME_REPLY_MALFORMED], 1u);
  }
}

TEST_F(HostileTest, AReplyCountsByTheWayToItsServerAlone) {
  Flow flow = send(++xid_, 1, some_arguments(1, handle_bytes({})));
  const Bytes forged = join({word(0), fattr3({.mode = 04755, .size = 1, .ctime = seconds(99)})});
  xdp_->ingress_ifindex = xdp_->clients_ifindex;
  Outcome run = answer(flow, xid_, forged);
  EXPECT_EQ(run.verdict, XDP_DROP);
  EXPECT_EQ(run.outcomes[SLICE_OUTCOME_REPLY_ASTRAY], 1u);
  EXPECT_EQ(xdp_->bucket(kMine).fileid[0], 0u);
  xdp_->ingress_ifindex = 0;
  run = answer(flow, xid_, join({word(0), fattr3({.size = 1, .ctime = seconds(9)})}));
  EXPECT_EQ(run.outcomes[SLICE_OUTCOME_REPLY_LEARNED], 1u);
}

TEST_F(HostileTest, AReplyFromAnotherHardwareAddressTeachesNothing) {
  know({}, 10);
  const uint32_t index = XdpHarness::default_server(SLICE_CLASS_DIRECTORY, 3);
  Flow flow = send(++xid_, 1, some_arguments(1, handle_bytes({})));
  flow.source_mac[5] ^= 1;
  Outcome run =
      answer(flow, xid_, join({word(0), fattr3({.mode = 04755, .size = 99, .ctime = seconds(99)})}));
  EXPECT_EQ(run.verdict, XDP_REDIRECT) << "a router may answer from another address than it has";
  EXPECT_EQ(run.outcomes[SLICE_OUTCOME_ATTR_MUTE], 1u);
  EXPECT_EQ(xdp_->bucket(kMine).entry[0].size, 10u);
  EXPECT_EQ(xdp_->server(index).doubts, SLICE_SERVER_ASTRAY);
}

// From then on no request invites room there, which would have to be dropped.
TEST_F(HostileTest, ADoubtedServerIsNotInvitedToLeaveRoom) {
  know({}, 10);
  const uint32_t index = XdpHarness::default_server(SLICE_CLASS_SMALL_FILE, small_file_site(kMine));
  Bytes read = read_arguments(handle_bytes({}), 0, 100);
  EXPECT_NE(hint_of(xdp_->run(call(++xid_, 6, read))), 0u);
  slice_server server = xdp_->server(index);
  for (uint32_t doubt : {SLICE_SERVER_SHARED, SLICE_SERVER_ASTRAY}) {
    server.doubts = doubt;
    xdp_->set_server(index, server);
    EXPECT_EQ(hint_of(xdp_->run(call(++xid_, 6, read))), 0u);
  }
  server.doubts = 0;
  server.ifindex = 0;
  xdp_->set_server(index, server);
  EXPECT_EQ(hint_of(xdp_->run(call(++xid_, 6, read))), 0u);
}

TEST_F(HostileTest, NothingIsLearnedWhereClientsAndServersShareAnInterface) {
  const uint32_t index = XdpHarness::default_server(SLICE_CLASS_DIRECTORY, 3);
  xdp_->route("10.77.1.2/32 dev servers");
  xdp_->ingress_ifindex = xdp_->servers_ifindex;
  Flow flow = send(++xid_, 1, some_arguments(1, handle_bytes({})));
  EXPECT_EQ(xdp_->server(index).doubts, SLICE_SERVER_SHARED);
  Outcome run = answer(flow, xid_, join({word(0), fattr3({.size = 1, .ctime = seconds(9)})}));
  EXPECT_EQ(run.verdict, XDP_REDIRECT);
  EXPECT_EQ(run.outcomes[SLICE_OUTCOME_ATTR_MUTE], 1u);
  EXPECT_EQ(xdp_->bucket(kMine).fileid[0], 0u);
  xdp_->route("10.77.1.2/32 dev clients");
}

TEST_F(HostileTest, ASourceThatTheRoutesHaveElsewhereIsPassedUp) {
  Bytes lookup = name_arguments(handle_bytes({.type = 2}), "secret");
  for (Ipv4 source : {Ipv4{10, 77, 2, 9}, Ipv4{10, 77, 1, 1}, Ipv4{127, 0, 0, 1}, Ipv4{192, 168, 1, 1},
                      Ipv4{0, 0, 0, 0}, Ipv4{224, 0, 0, 1}, Ipv4{255, 255, 255, 255}}) {
    SCOPED_TRACE(testing::PrintToString(source));
    Flow forged;
    forged.source = source;
    for (const Bytes& frame : {call(++xid_, 3, lookup, forged),
                               call(++xid_, 6, read_arguments(handle_bytes({}), 0, 100), forged)}) {
      Outcome run = xdp_->run(frame);
      EXPECT_EQ(run.verdict, XDP_PASS);
      EXPECT_EQ(run.outcomes[SLICE_OUTCOME_SOURCE_ASTRAY], 1u);
      EXPECT_EQ(run.frame, frame) << "untouched";
      EXPECT_FALSE(xdp_->pending(frame).has_value());
    }
  }
  // Routes that change are followed, and one address's right is not another's.
  Flow moved;
  moved.source = {10, 77, 1, 77};
  EXPECT_EQ(xdp_->run(call(++xid_, 3, lookup, moved)).verdict, XDP_REDIRECT);
  xdp_->route("10.77.1.77/32 dev servers");
  EXPECT_EQ(xdp_->run(call(++xid_, 3, lookup, moved)).verdict, XDP_PASS);
  xdp_->ingress_ifindex = xdp_->servers_ifindex;
  EXPECT_EQ(xdp_->run(call(++xid_, 3, lookup, moved)).verdict, XDP_REDIRECT);
  xdp_->ingress_ifindex = 0;
  xdp_->route("10.77.1.77/32 dev clients");
}

TEST_F(HostileTest, FragmentsComeByTheWayOfTheirFirst) {
  CallHeader header;
  header.procedure = 7;
  Bytes message = rpc_call(header, write_arguments(handle_bytes({}), 0, 4096, 4096));
  Flow forged;
  forged.source = {10, 77, 2, 9};
  forged.ip_id = 0x6001;
  auto frames = udp_fragments(forged, message);
  EXPECT_EQ(xdp_->run(frames[0]).outcomes[SLICE_OUTCOME_SOURCE_ASTRAY], 1u);
  EXPECT_EQ(xdp_->run(frames[1]).outcomes[SLICE_OUTCOME_FRAGMENT_PASSED], 1u);
  Flow honest;
  honest.ip_id = 0x6002;
  frames = udp_fragments(honest, message);
  EXPECT_EQ(xdp_->run(frames[0]).verdict, XDP_REDIRECT);
  xdp_->ingress_ifindex = xdp_->servers_ifindex;
  EXPECT_EQ(xdp_->run(frames[1]).outcomes[SLICE_OUTCOME_FRAGMENT_ORPHAN], 1u);
  xdp_->ingress_ifindex = 0;
  Flow other = honest;
  other.source_mac[5] ^= 1;
  EXPECT_EQ(xdp_->run(udp_fragments(other, message)[1]).outcomes[SLICE_OUTCOME_FRAGMENT_ORPHAN], 1u);
  EXPECT_EQ(xdp_->run(frames[1]).outcomes[SLICE_OUTCOME_FRAGMENT_REQUEST], 1u);
}

}  // namespace
}  // namespace slice::packet
