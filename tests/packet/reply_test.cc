// Replies, and fragments of requests and replies, through the XDP program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>

#include <cstring>

#include "bpf/shared/file_handle.h"
#include "tests/packet/packet_builder.h"
#include "tests/packet/xdp_harness.h"

namespace slice::packet {
namespace {

constexpr uint64_t at(uint64_t seconds) {
  return seconds << 32 | 5;
}

class ReplyTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { xdp_ = new XdpHarness; }
  static void TearDownTestSuite() { delete std::exchange(xdp_, nullptr); }
  void TearDown() override { xdp_->set_bucket(HandleFields{}.fileid, {}); }

  // Sends the request through under an xid of its own, and answers with the flow of its reply.
  Flow request(uint32_t procedure, const Bytes& arguments) {
    CallHeader header;
    header.xid = ++xid_;
    header.procedure = procedure;
    Outcome run = xdp_->run(udp_frame(Flow{}, rpc_call(header, arguments)));
    EXPECT_EQ(run.verdict, XDP_REDIRECT);
    return reversed(read_flow(run.frame));
  }

  Outcome reply(const Flow& flow, const Bytes& results, Checksum checksum = Checksum::kFull) {
    return xdp_->run(udp_frame(flow, rpc_reply(xid_, results), checksum));
  }

  static void expect_sent_to_client(const Outcome& run) {
    EXPECT_EQ(run.verdict, XDP_REDIRECT);
    Flow out = read_flow(run.frame);
    EXPECT_EQ(out.source, Flow{}.destination);
    EXPECT_EQ(out.source_port, 2049);
    EXPECT_EQ(out.destination, Flow{}.source);
    EXPECT_EQ(out.destination_port, Flow{}.source_port);
    EXPECT_EQ(out.destination_mac, Flow{}.source_mac);
    EXPECT_EQ(out.source_mac, Flow{}.destination_mac);
    EXPECT_TRUE(ip_checksum_right(run.frame));
    EXPECT_TRUE(udp_checksum_right(run.frame));
  }

  // fattr3 at `offset` bytes after the status.
  static Attributes fattr_at(const Outcome& run, size_t offset) {
    return read_fattr3(std::span(run.frame).subspan(kPayloadAt + 24 + 4 + offset));
  }

  Outcome getattr(const Attributes& a) {
    return reply(request(1, some_arguments(1, handle_bytes({}))), join({word(0), fattr3(a)}));
  }

  Outcome write(uint64_t offset, uint32_t count, const std::optional<Attributes>& after) {
    Flow flow = request(7, write_arguments(handle_bytes({}), offset, count, 16));
    std::optional<Attributes> room = after;  // which says where the WRITE ended
    if (room && room->nlink == 0) room->used = offset + count;
    return reply(flow, join({word(0), wcc(room), word(count), word(0), Bytes(8, 9)}));
  }

  static inline XdpHarness* xdp_ = nullptr;
  static inline uint32_t xid_ = 0x7000;  // of the last request
};

TEST_F(ReplyTest, GoesBackAsFromTheVirtualAddress) {
  for (uint32_t p = 1; p <= 21; p++) {
    if (p == 17) continue;
    SCOPED_TRACE(p);
    for (Checksum checksum : {Checksum::kFull, Checksum::kNone, Checksum::kUnfilled}) {
      Flow flow = request(p, some_arguments(p, handle_bytes({})));
      Bytes no_attributes = join({word(70), word(0), word(0), word(0), word(0), word(0)});
      expect_sent_to_client(reply(flow, no_attributes, checksum));
    }
  }
}

TEST_F(ReplyTest, LearnsThenFillsRoom) {
  Attributes known{.mode = 0640, .size = 9000, .fileid = HandleFields{}.fileid, .ctime = at(50)};
  Outcome learned = getattr(known);
  expect_sent_to_client(learned);
  EXPECT_EQ(learned.outcomes[SLICE_OUTCOME_REPLY_LEARNED], 1u);
  Flow flow = request(6, read_arguments(handle_bytes({}), 0, 4096));
  Attributes room{.mode = 0, .nlink = 0, .atime = at(70)};
  Outcome read = reply(flow, join({word(0), post_op(room), word(16), word(0), word(16), Bytes(16, 7)}));
  expect_sent_to_client(read);
  EXPECT_EQ(read.outcomes[SLICE_OUTCOME_REPLY_PATCHED], 1u);
  Attributes patched = fattr_at(read, 4);
  EXPECT_EQ(patched.mode, 0640u);
  EXPECT_EQ(patched.nlink, 1u);
  EXPECT_EQ(patched.size, 9000u);
  EXPECT_EQ(patched.atime, at(70));
  EXPECT_EQ(patched.fileid, HandleFields{}.fileid);
}

TEST_F(ReplyTest, WritesMoveSizeAndTimesOfLaterReplies) {
  getattr({.size = 100, .used = 512, .mtime = at(10), .ctime = at(10)});
  Outcome run = write(4096, 1000, Attributes{.mode = 0, .nlink = 0, .mtime = at(20)});
  expect_sent_to_client(run);
  EXPECT_EQ(fattr_at(run, 8).size, 5096u);  // absent pre_op, follows, fattr3
  EXPECT_EQ(fattr_at(run, 8).mtime, at(20));
  Outcome stale = getattr({.size = 100, .used = 512, .mtime = at(10), .ctime = at(10)});
  expect_sent_to_client(stale);
  EXPECT_EQ(fattr_at(stale, 0).size, 5096u);
  EXPECT_EQ(fattr_at(stale, 0).used, 512u + 4996);
  EXPECT_EQ(fattr_at(stale, 0).mtime, at(20));
  EXPECT_EQ(fattr_at(stale, 0).ctime, at(20));
  slice_attr_bucket bucket = xdp_->bucket(HandleFields{}.fileid);
  EXPECT_EQ(bucket.lock & 1, 0u);
  EXPECT_EQ(bucket.entry[0].size, 5096u);
  EXPECT_TRUE(bucket.flags[0] & SLICE_ATTR_DIRTY_SIZE);
  EXPECT_TRUE(bucket.flags[0] & SLICE_ATTR_DIRTY_MTIME);
}

TEST_F(ReplyTest, AnExplicitTimeStands) {
  getattr({.size = 100, .mtime = at(10), .ctime = at(10)});
  write(0, 100, Attributes{.mode = 0, .nlink = 0, .mtime = at(20)});
  Flow flow = request(2, some_arguments(2, handle_bytes({})));
  Attributes set{.size = 100, .site = 3 | SLICE_MTIME_SET, .mtime = at(3), .ctime = at(30)};
  EXPECT_EQ(fattr_at(reply(flow, join({word(0), wcc(set, true)})), 32).mtime,
            at(3));  // present pre_op: 28 bytes, follows
  set.site = 3;      // a change of the mode, say
  EXPECT_EQ(fattr_at(reply(flow, join({word(0), wcc(set, true)})), 32).mtime, at(20));
}

TEST_F(ReplyTest, AHigherEpochDropsTheOverlay) {
  getattr({.size = 100, .epoch = 4, .ctime = at(10)});
  write(100000, 1000, Attributes{.mode = 0, .nlink = 0, .epoch = 4, .mtime = at(20)});
  Outcome truncated = getattr({.size = 0, .epoch = 5, .ctime = at(30)});
  EXPECT_EQ(fattr_at(truncated, 0).size, 0u);
  // a late WRITE reply of the old epoch changes nothing
  write(100000, 1000, Attributes{.mode = 0, .nlink = 0, .epoch = 4, .mtime = at(40)});
  EXPECT_EQ(fattr_at(getattr({.size = 0, .epoch = 5, .ctime = at(30)}), 0).size, 0u);
}

// As relatime of mount(8): only the first READ after a change, or one a day.
TEST_F(ReplyTest, ReadsMoveTheAccessTimeNowAndThen) {
  getattr({.size = 100, .atime = at(5), .ctime = at(10)});
  auto atime_after_read = [this](uint64_t when) {
    Flow flow = request(6, read_arguments(handle_bytes({}), 0, 100));
    Attributes room{.mode = 0, .nlink = 0, .atime = when};
    reply(flow, join({word(0), post_op(room), word(0), word(1), word(0)}));
    return fattr_at(getattr({.size = 100, .atime = at(5), .ctime = at(10)}), 0).atime;
  };
  EXPECT_EQ(atime_after_read(at(20)), at(20));
  EXPECT_EQ(atime_after_read(at(30)), at(20));
  EXPECT_EQ(atime_after_read(at(20 + 86400)), at(20 + 86400));
}

// The data server has told the authority, or it would have left room.
TEST_F(ReplyTest, WriteWithoutAttributesIsSentOn) {
  EXPECT_EQ(write(0, 3000, std::nullopt).verdict, XDP_REDIRECT);
  EXPECT_EQ(fattr_at(getattr({.size = 3000, .ctime = at(9)}), 0).size, 3000u);
}

// What the authority sent before may still come, and does not count.
TEST_F(ReplyTest, WriteWithoutAttributesEndsWhatWasAskedBefore) {
  const auto hint = [] { return xdp_->bucket(HandleFields{}.fileid).hint[0]; };
  const auto later = [] {
    xdp_->config().now_ms += 50;
    xdp_->apply();
  };
  getattr({.size = 100, .ctime = at(9)});
  EXPECT_NE(hint(), 0u);
  Flow asked_before = request(1, some_arguments(1, handle_bytes({})));
  const uint32_t first = xid_;
  later();
  write(0, 3000, std::nullopt);
  EXPECT_EQ(hint(), 0u);
  later();
  const uint32_t last = std::exchange(xid_, first - 1);
  request(1, some_arguments(1, handle_bytes({})));  // again: its reply may be the first one's
  expect_sent_to_client(reply(asked_before, join({word(0), fattr3({.size = 100, .ctime = at(9)})})));
  EXPECT_EQ(hint(), 0u);
  xid_ = last;
  getattr({.size = 3000, .ctime = at(10)});
  EXPECT_EQ(hint(), slice_hint_encode(1, 1, 3000));
}

TEST_F(ReplyTest, LookupAndCreateAreAttributedToTheirHandle) {
  HandleFields child;
  child.fileid = 0x0009000000000123;
  child.site = 9;
  for (uint32_t p : {3u, 8u}) {
    xdp_->set_bucket(child.fileid, {});
    Flow flow = request(p, some_arguments(p, handle_bytes({})));
    Bytes object = XdrWriter().opaque(handle_bytes(child)).bytes();
    if (p == 8) object = join({word(1), object});
    Attributes attributes{.size = 5, .site = 9, .fileid = child.fileid};
    Outcome run = reply(flow, join({word(0), object, post_op(attributes), p == 8 ? wcc({}) : post_op({})}));
    expect_sent_to_client(run);
    slice_attr_bucket bucket = xdp_->bucket(child.fileid);
    EXPECT_EQ(bucket.fileid[0], child.fileid);
    EXPECT_EQ(bucket.entry[0].directory_site, 9u);
  }
}

TEST_F(ReplyTest, RoomThatCannotBeFilledIsDropped) {
  Outcome lost = write(0, 10, Attributes{.mode = 0, .nlink = 0});
  EXPECT_EQ(lost.verdict, XDP_DROP);
  EXPECT_EQ(lost.outcomes[SLICE_OUTCOME_PATCH_LOST], 1u);
  Flow flow = request(7, some_arguments(7, handle_bytes({})));
  slice_attr_bucket held{};
  held.lock = 1;
  xdp_->set_bucket(HandleFields{}.fileid, held);
  Outcome busy =
      reply(flow, join({word(0), wcc(Attributes{.mode = 0, .nlink = 0}), word(1), word(0), Bytes(8, 0)}));
  EXPECT_EQ(busy.verdict, XDP_DROP);
  EXPECT_EQ(busy.outcomes[SLICE_OUTCOME_PATCH_BUSY], 1u);
  EXPECT_EQ(busy.outcomes[SLICE_OUTCOME_ATTR_BUSY], 1u);
}

TEST_F(ReplyTest, UnmatchedRepliesPassUnlessTheyHoldRoom) {
  Flow flow;
  flow.source = {10, 77, 3, 9};
  flow.source_port = 2101;
  flow.destination = {10, 77, 1, 2};
  flow.destination_port = 901;
  xid_ = 0xdead0001;
  Outcome plain = reply(flow, word(0));
  EXPECT_EQ(plain.verdict, XDP_PASS);
  EXPECT_EQ(plain.outcomes[SLICE_OUTCOME_REPLY_UNMATCHED], 1u);
  Attributes room{.mode = 0, .nlink = 0};
  for (const Bytes& results : {join({word(0), post_op(room)}), join({word(0), wcc(room)})}) {
    Outcome run = reply(flow, results);
    EXPECT_EQ(run.verdict, XDP_DROP);
    EXPECT_EQ(run.outcomes[SLICE_OUTCOME_REPLY_ROOM_UNMATCHED], 1u);
  }
  xdp_->config().own_port_first = 900;
  xdp_->config().own_port_last = 999;
  xdp_->apply();
  EXPECT_EQ(reply(flow, join({word(0), post_op(room)})).verdict, XDP_PASS);
  xdp_->config().own_port_first = xdp_->config().own_port_last = 0;
  xdp_->apply();
}

TEST_F(ReplyTest, AReplyFromAnotherServerIsNotMatched) {
  Flow flow = request(1, some_arguments(1, handle_bytes({})));
  flow.source[3] ^= 1;
  EXPECT_EQ(reply(flow, word(70)).outcomes[SLICE_OUTCOME_REPLY_UNMATCHED], 1u);
}

TEST_F(ReplyTest, CutAtEveryLength) {
  Attributes a;
  const std::pair<uint32_t, Bytes> kReplies[] = {
      {1, join({word(0), fattr3(a)})},
      {3, join({word(0), XdrWriter().opaque(handle_bytes({})).bytes(), post_op(a), post_op({})})},
      {6, join({word(0), post_op(a), word(4), word(1), word(4), Bytes(4, 1)})},
      {7, join({word(0), wcc(a, true), word(4), word(2), Bytes(8, 1)})}};
  for (const auto& [procedure, results] : kReplies) {
    const size_t whole = rpc_reply(xid_, results).size();
    for (size_t length = 0; length <= whole; length++) {
      Flow flow = request(procedure, some_arguments(procedure, handle_bytes({})));
      Bytes payload = rpc_reply(xid_, results);
      Bytes cut(payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(length));
      Outcome run = xdp_->run(udp_frame(flow, cut));
      EXPECT_NE(run.verdict, XDP_ABORTED);
      if (run.verdict == XDP_REDIRECT) {
        expect_sent_to_client(run);
      } else if (length >= 12) {
        EXPECT_EQ(run.outcomes[SLICE_OUTCOME_REPLY_MALFORMED], 1u) << procedure << " " << length;
      }
    }
  }
}

// A bucket whose entries all have unsaved changes.
slice_attr_bucket full_bucket(std::uint32_t unsaved) {
  slice_attr_bucket full{};
  for (uint32_t way = 0; way < SLICE_ATTR_WAYS; way++) {
    full.fileid[way] = 1000 + way;
    full.flags[way] = SLICE_ATTR_VALID | unsaved;
    full.entry[way].size = 77 + way;
    full.entry[way].epoch = 3;
    full.entry[way].directory_site = 6;
  }
  full.next_way = 2;
  return full;
}

// Else the next GETATTR of such a file would show the size from before a write that was acknowledged.
TEST_F(ReplyTest, AnUnsavedSizeKeepsItsEntryAndIsSavedSoon) {
  slice_attr_bucket full = full_bucket(SLICE_ATTR_DIRTY_SIZE);
  xdp_->set_bucket(HandleFields{}.fileid, full);
  xdp_->evictions();
  Outcome run = getattr({.size = 1});
  expect_sent_to_client(run);
  EXPECT_EQ(run.outcomes[SLICE_OUTCOME_ATTR_NOT_EVICTED], 1u);
  auto saving = xdp_->evictions();
  ASSERT_EQ(saving.size(), 1u);
  EXPECT_EQ(saving[0].fileid, 1002u);
  EXPECT_EQ(saving[0].size, 79u);
  EXPECT_EQ(saving[0].epoch, 3u);
  EXPECT_EQ(saving[0].directory_site, 6u);
  EXPECT_EQ(saving[0].flags, SLICE_ATTR_DIRTY_SIZE);
  full = xdp_->bucket(HandleFields{}.fileid);
  EXPECT_EQ(full.fileid[2], 1002u);
  EXPECT_EQ(full.flags[2], SLICE_ATTR_VALID | SLICE_ATTR_SAVING);
  // the next one asks for another, and a WRITE that cannot be remembered was not done
  Outcome lost = write(0, 10, Attributes{.mode = 0, .nlink = 0});
  EXPECT_EQ(lost.verdict, XDP_DROP);
  EXPECT_EQ(lost.outcomes[SLICE_OUTCOME_PATCH_FULL], 1u);
  saving = xdp_->evictions();
  ASSERT_EQ(saving.size(), 1u);
  EXPECT_EQ(saving[0].fileid, 1003u);
  // a clean way goes before any
  full.flags[3] = SLICE_ATTR_VALID;
  xdp_->set_bucket(HandleFields{}.fileid, full);
  getattr({.size = 1});
  EXPECT_TRUE(xdp_->evictions().empty());
  EXPECT_EQ(xdp_->bucket(HandleFields{}.fileid).fileid[3], HandleFields{}.fileid);
}

TEST_F(ReplyTest, AnUnsavedAtimeLeavesThroughTheRing) {
  slice_attr_bucket full = full_bucket(SLICE_ATTR_DIRTY_SIZE);
  full.flags[0] = SLICE_ATTR_VALID | SLICE_ATTR_DIRTY_ATIME;
  xdp_->set_bucket(HandleFields{}.fileid, full);
  xdp_->evictions();
  Outcome run = getattr({.size = 1});
  EXPECT_EQ(run.outcomes[SLICE_OUTCOME_ATTR_EVICTED], 1u);
  auto gone = xdp_->evictions();
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0].fileid, 1000u);
  EXPECT_EQ(gone[0].flags, SLICE_ATTR_DIRTY_ATIME);
  EXPECT_EQ(xdp_->bucket(HandleFields{}.fileid).fileid[0], HandleFields{}.fileid);
}

TEST_F(ReplyTest, FullEvictionRingKeepsUnsavedChanges) {
  const slice_attr_bucket full = full_bucket(SLICE_ATTR_DIRTY_ATIME);
  xdp_->evictions();
  bool refused = false;
  for (int i = 0; i < 10000 && !refused; i++) {
    xdp_->set_bucket(HandleFields{}.fileid, full);
    refused = getattr({.size = 1}).outcomes.contains(SLICE_OUTCOME_ATTR_NOT_EVICTED);
  }
  EXPECT_TRUE(refused);
  EXPECT_EQ(xdp_->bucket(HandleFields{}.fileid).fileid[2], 1002u);
  // asked to save another, it keeps that marked as well
  slice_attr_bucket unsaved = full_bucket(SLICE_ATTR_DIRTY_SIZE);
  xdp_->set_bucket(HandleFields{}.fileid, unsaved);
  getattr({.size = 1});
  EXPECT_EQ(xdp_->bucket(HandleFields{}.fileid).flags[2], SLICE_ATTR_VALID | SLICE_ATTR_DIRTY_SIZE);
  EXPECT_FALSE(xdp_->evictions().empty());
}

TEST_F(ReplyTest, FragmentsFollowTheirFirst) {
  CallHeader header;
  header.xid = ++xid_;
  header.procedure = 7;
  Flow in;
  in.ip_id = 0x4321;
  auto frames = udp_fragments(in, rpc_call(header, write_arguments(handle_bytes({}), 70000, 32768, 32768)));
  ASSERT_EQ(frames.size(), 23u);
  std::vector<Bytes> out;
  for (const Bytes& frame : frames) {
    Outcome run = xdp_->run(frame);
    EXPECT_EQ(run.verdict, XDP_REDIRECT);
    EXPECT_TRUE(ip_checksum_right(run.frame));
    EXPECT_EQ(read_flow(run.frame).destination, read_flow(out.empty() ? run.frame : out[0]).destination);
    EXPECT_EQ(read_flow(run.frame).destination_mac,
              read_flow(out.empty() ? run.frame : out[0]).destination_mac);
    out.push_back(run.frame);
  }
  EXPECT_EQ(read_flow(out[0]).destination[2], 4);  // a storage site's server
  EXPECT_TRUE(udp_checksum_right(out));
}

TEST_F(ReplyTest, FragmentsOfRepliesAreFromTheVirtualAddress) {
  getattr({.size = 1 << 20, .ctime = at(3)});
  Flow flow = request(6, read_arguments(handle_bytes({}), 0, 32768));
  flow.ip_id = 0x5151;
  Attributes room{.mode = 0, .nlink = 0, .atime = at(9)};
  Bytes results = join({word(0), post_op(room), word(32768), word(0), word(32768), Bytes(32768, 0x5a)});
  auto frames = udp_fragments(flow, rpc_reply(xid_, results));
  std::vector<Bytes> out;
  for (const Bytes& frame : frames) {
    Outcome run = xdp_->run(frame);
    EXPECT_EQ(run.verdict, XDP_REDIRECT);
    EXPECT_TRUE(ip_checksum_right(run.frame));
    EXPECT_EQ(read_flow(run.frame).source, Flow{}.destination);
    EXPECT_EQ(read_flow(run.frame).destination_mac, Flow{}.source_mac);
    out.push_back(run.frame);
  }
  EXPECT_TRUE(udp_checksum_right(out));
  EXPECT_EQ(read_fattr3(std::span(out[0]).subspan(kPayloadAt + 32)).atime, at(9));
}

TEST_F(ReplyTest, FragmentBeforeItsFirstGoesToUserSpace) {
  CallHeader header;
  header.procedure = 7;
  Flow in;
  in.ip_id = 0x9999;
  auto frames = udp_fragments(in, rpc_call(header, write_arguments(handle_bytes({}), 0, 4096, 4096)));
  xdp_->orphans();
  Outcome early = xdp_->run(frames[1]);
  EXPECT_EQ(early.verdict, XDP_DROP);
  EXPECT_EQ(early.outcomes[SLICE_OUTCOME_FRAGMENT_ORPHAN], 1u);
  auto orphans = xdp_->orphans();
  ASSERT_EQ(orphans.size(), 1u);
  EXPECT_EQ(orphans[0].ifindex, xdp_->clients_ifindex);
  EXPECT_EQ(Bytes(orphans[0].frame, orphans[0].frame + orphans[0].length), frames[1]);
  xdp_->run(frames[0]);
  EXPECT_EQ(xdp_->run(frames[1]).outcomes[SLICE_OUTCOME_FRAGMENT_REQUEST], 1u);
  bool lost = false;
  in.ip_id = 0x9998;
  Bytes other = udp_fragments(in, rpc_call(header, write_arguments(handle_bytes({}), 0, 4096, 4096)))[1];
  for (int i = 0; i < 2000 && !lost; i++)
    lost = xdp_->run(other).outcomes.contains(SLICE_OUTCOME_FRAGMENT_LOST);
  EXPECT_TRUE(lost) << "a full ring is counted";
  xdp_->orphans();
}

TEST_F(ReplyTest, FragmentsShareTheFateOfAFirstThatIsPassed) {
  Flow in;
  in.ip_id = 0x7777;
  in.destination_port = 20048;
  auto frames = udp_fragments(in, Bytes(4000, 1));
  EXPECT_EQ(xdp_->run(frames[0]).verdict, XDP_PASS);
  Outcome later = xdp_->run(frames[1]);
  EXPECT_EQ(later.verdict, XDP_PASS);
  EXPECT_EQ(later.outcomes[SLICE_OUTCOME_FRAGMENT_PASSED], 1u);
}

}  // namespace
}  // namespace slice::packet
