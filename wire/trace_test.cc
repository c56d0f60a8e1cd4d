#include "wire/trace.h"

#include <gtest/gtest.h>

#include <tuple>

#include "wire/internal.h"
#include "wire/mount3.h"
#include "wire/nfs3.h"

namespace slice::wire {
namespace {

using namespace std::chrono_literals;

template <class T>
Buffer encoded_trace(const T& message) {
  rpc::XdrWriter out;
  encode(out, message);
  return out.take();
}

// Whatever is cut off, or put behind, is noticed; no byte makes a decoder read beyond the end.
template <class T>
void expect_sound_decoder(const T& message) {
  const Buffer bytes = encoded_trace(message);
  T out;
  EXPECT_TRUE(decode(bytes.view(), out));
  for (std::size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(decode(bytes.view().first(n), out)) << n;
  Buffer longer = bytes.clone();
  longer.append(ByteView(bytes.view().first(4)));
  EXPECT_FALSE(decode(longer.view(), out));
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    Buffer changed = bytes.clone();
    changed.data()[n] ^= 0xff;
    (void)decode(changed.view(), out);
  }
}

TraceRecord sample_record() {
  TraceRecord record{.number = 7,
                     .began = {1'700'000'000'000'000'001},
                     .waited = 3us,
                     .took = 200ms,
                     .client = {0x0a4d0102, 800},
                     .xid = Xid{5},
                     .sender = 2,
                     .carried = 9,
                     .internal = true,
                     .program = nfs3::kProgram,
                     .procedure = 7,
                     .file = FileId{77},
                     .path = "/a",
                     .offset = 65536,
                     .count = 32768,
                     .stable = 2,
                     .answered = true,
                     .status = 5,
                     .received = 32900,
                     .sent = 120,
                     .steps = {},
                     .steps_left_off = 1};
  record.steps.push_back({.kind = TraceStep::Kind::kSync, .began = 1ms, .took = 190ms, .what = "objects/1"});
  record.steps.push_back({.kind = TraceStep::Kind::kCall,
                          .began = 191ms,
                          .took = 2ms,
                          .what = {},
                          .address = 0x0a4d0302,
                          .port = 2049,
                          .program = 0x20534c01,
                          .procedure = 2,
                          .xid = 11,
                          .sends = 1});
  return record;
}

TEST(TraceCodecTest, ARecordComesAsItWent) {
  const TraceResult sent{.refused = "no", .data = "/data/store1", .lost = 3, .records = {sample_record()}};
  TraceResult got;
  ASSERT_TRUE(decode(encoded_trace(sent).view(), got));
  EXPECT_EQ(got.data, sent.data);
  EXPECT_EQ(got.lost, 3u);
  ASSERT_EQ(got.records.size(), 1u);
  const TraceRecord &a = sent.records[0], &b = got.records[0];
  EXPECT_EQ(std::tie(a.number, a.took, a.client, a.xid, a.sender, a.carried, a.program, a.procedure, a.file),
            std::tie(b.number, b.took, b.client, b.xid, b.sender, b.carried, b.program, b.procedure, b.file));
  EXPECT_EQ(
      std::tie(a.offset, a.count, a.stable, a.answered, a.status, a.received, a.sent, a.steps_left_off),
      std::tie(b.offset, b.count, b.stable, b.answered, b.status, b.received, b.sent, b.steps_left_off));
  EXPECT_EQ(std::tie(a.internal, a.path), std::tie(b.internal, b.path));
  EXPECT_EQ(a.began.ns, b.began.ns);
  EXPECT_EQ(a.waited, b.waited);
  ASSERT_EQ(b.steps.size(), 2u);
  EXPECT_EQ(b.steps[0].what, "objects/1");
  EXPECT_EQ(b.steps[0].took, 190ms);
  EXPECT_EQ(b.steps[1].kind, TraceStep::Kind::kCall);
  EXPECT_EQ(b.steps[1].port, 2049);
  EXPECT_EQ(b.steps[1].xid, 11u);
}

TEST(TraceCodecTest, DecodersTrustNoLength) {
  expect_sound_decoder(TraceArgs{.watch = 1,
                                 .after = 2,
                                 .lease_ms = 3000,
                                 .filter = {.client = IpAddress(5),
                                            .operation = TraceOperation{nfs3::kProgram, 7},
                                            .file = FileId{9},
                                            .slower = 1ms}});
  expect_sound_decoder(
      TraceResult{.refused = {}, .data = "d", .records = {sample_record(), sample_record()}});
  expect_sound_decoder(TopArgs{.lease_ms = 1});
  TopResult top{.counted = 1s, .clients = {}, .files = {}, .procedures = {}};
  top.clients.push_back({.key = {.client = 0x0a4d0101}, .calls = 2});
  top.clients.push_back({.key = {.client = IpAddress::of_words(0xfd77ull << 48, 1)}, .calls = 2});
  top.files.push_back(
      {.key = {.number = 1}, .calls = 2, .received = 3, .sent = 4, .took = 5ms, .slowest = 6ms, .others = 0});
  expect_sound_decoder(top);
}

TEST(TraceCodecTest, LongListsAndLeasesAreRefused) {
  TraceArgs args{.lease_ms = kMaxTraceLease + 1, .filter = {}};
  EXPECT_FALSE(decode(encoded_trace(args).view(), args));
  TraceResult many{.refused = {}, .data = {}, .records = {}};
  many.records.resize(kMaxTraceRecords + 1);
  ASSERT_TRUE(decode(encoded_trace(many).view(), many));  // the encoder leaves off what is over
  EXPECT_EQ(many.records.size(), kMaxTraceRecords);
  rpc::XdrWriter out;
  out.text("");
  out.text("");
  out.u64(0);
  out.u32(0xffffffff);
  EXPECT_FALSE(decode(out.view(), many));
}

TEST(TraceCodecTest, OperationsHaveNames) {
  EXPECT_EQ(operation_name(nfs3::kProgram, 7), "WRITE");
  EXPECT_EQ(operation_name(mount3::kProgram, 1), "MNT");
  EXPECT_EQ(operation_name(nfs3::kAclProgram, 2), "SETACL");
  EXPECT_EQ(operation_name(nfs3::kAclProgram, 3), "?");
  EXPECT_EQ(operation_name(0x20534c01, 2), "authority MERGE");
  EXPECT_EQ(operation_name(0x20534c01, 99), "program 0x20534c01 procedure 99");
}

TEST(TraceCodecTest, OutcomesHaveNames) {
  TraceRecord record{.program = nfs3::kProgram, .procedure = 7, .status = 70, .steps = {}};
  EXPECT_EQ(outcome_name(record), "NFS3ERR_STALE");
  record = {.program = mount3::kProgram, .procedure = 1, .status = 13, .steps = {}};
  EXPECT_EQ(outcome_name(record), "MNT3ERR_ACCES");
  record.status = 4711;
  EXPECT_EQ(outcome_name(record), "MNT3ERR_?");
  record.procedure = 5;  // EXPORT, whose results begin with a boolean
  EXPECT_EQ(outcome_name(record), "answered");
  record.answered = false;
  EXPECT_EQ(outcome_name(record), "no answer");
}

TEST(TraceCodecTest, WhatAMemberAsksForItselfIsNoClients) {
  TraceRecord record{.program = nfs3::kProgram, .steps = {}};
  EXPECT_TRUE(of_client(record));
  record.program = mount3::kProgram;
  EXPECT_TRUE(of_client(record));
  record.program = nfs3::kProgram;
  record.internal = true;
  EXPECT_FALSE(of_client(record));
  EXPECT_FALSE(of_client({.program = kAuthorityProgram, .steps = {}}));
}

}  // namespace
}  // namespace slice::wire
