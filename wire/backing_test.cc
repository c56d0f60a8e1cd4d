// The backing program's messages, and those of backing sets of the manager.
#include "wire/backing.h"

#include <gtest/gtest.h>

#include "wire/failover.h"
#include "wire/testing/codec_checks.h"

namespace slice::wire {
namespace {

using wire_tests::check_message;

constexpr BackingOwner kOwner{.server = 3, .epoch = BackingEpoch{7}, .instance = 0x1234567890abcdef};
const BackingSet kSet{
    .server = 3, .epoch = BackingEpoch{7}, .instance = 9, .copies = 2, .change = 4, .members = {5, 6}};

TEST(BackingMessages, Codec) {
  check_message(BackingAttachArgs{kOwner, 8, true, 12});
  check_message(BackingAttachResult{.status = BackingStatus::kHeld,
                                    .wait_ms = 2900,
                                    .known = BackingEpoch{6},
                                    .changed = BackingEpoch{5},
                                    .applied = 1ull << 40,
                                    .free_bytes = 1,
                                    .total_bytes = 2});
  check_message(BackingOwnerArgs{kOwner});
  check_message(BackingStatusResult{BackingStatus::kGap});
  check_message(BackingStatusResult{BackingStatus::kLeaving});
  const Buffer data(as_bytes("some bytes of a record"));
  check_message(BackingChangeArgs{
      kOwner,
      11,
      true,
      {{.op = BackingOp::kCreate, .path = "log/0000000000000001.log"},
       {.op = BackingOp::kWrite, .path = "log/0000000000000001.log", .offset = 4096, .bytes = data.view()},
       {.op = BackingOp::kRename, .path = "a", .bytes = as_bytes("b/c")},
       {.op = BackingOp::kPunch, .path = "zones/0000002a.zone", .offset = 1, .length = 1ull << 40},
       {.op = BackingOp::kSync, .path = "log/0000000000000001.log"},
       {.op = BackingOp::kSyncFolder, .path = ""}}});
  check_message(BackingChangeResult{BackingStatus::kNoSpace, 10, 1, 2});
  check_message(BackingReadArgs{kOwner, "maps", 5, 6, 7});
  check_message(BackingReadResult{BackingStatus::kOk, data.view()});
  check_message(BackingListArgs{kOwner, "maps", 7});
  check_message(BackingListResult{BackingStatus::kOk, {{"a", 1, 2}, {"b/c", 3, 4}}, true});
  check_message(BackingDigestArgs{kOwner, "maps", 1, 2, 3});
  check_message(BackingDigestResult{BackingStatus::kOk, 1 << 21, {1, 2}});
  check_message(BackingClaimArgs{3, 9, 8, 2});
  check_message(BackingClaimResult{.made = true, .set = kSet});
  check_message(BackingClaimResult{.refused = "another run is alive"});
  check_message(BackingMembersArgs{kOwner, 3, {5}});
  check_message(BackingMembersResult{.set = kSet});
  check_message(BackingMembersResult{.refused = "no"});
  check_message(BackingSpareArgs{3});
  check_message(BackingSpareResult{true, 8});
  check_message(BackingSetsResult{{kSet, kSet}});
  check_message(BackingKeepArgs{kSet});
  check_message(BackingKeepResult{"no"});
  check_message(BackingAdoptArgs{3, {5, 6}});
  check_message(BackingMembersFile{kSet});
}

TEST(BackingMessages, PathsStayBelowTheSetsFolder) {
  for (const char* good : {"a", "log/00.log", "a/b/c", "x-y_z.1", "spread"}) {
    EXPECT_TRUE(is_backing_path(good)) << good;
  }
  for (const char* bad :
       {"", "/", "/a", "a/", "a//b", "..", "a/../b", ".hidden", "a/.b", "a b", "a\nb", "a\\b"}) {
    EXPECT_FALSE(is_backing_path(bad)) << bad;
  }
  EXPECT_FALSE(is_backing_path(std::string_view("a\0b", 3)));
  EXPECT_TRUE(is_backing_path(std::string(kMaxBackingPath, 'p')));
  EXPECT_FALSE(is_backing_path(std::string(kMaxBackingPath + 1, 'p')));
}

template <class Message>
bool decodes(const Message& message) {
  rpc::XdrWriter out;
  encode(out, message);
  Message again;
  return decode(out.view(), again);
}

TEST(BackingMessages, WhatNoOwnerMaySayDoesNotDecode) {
  auto change = [](BackingChange one) {
    return decodes(BackingChangeArgs{kOwner, 1, true, {std::move(one)}});
  };
  EXPECT_TRUE(change({.op = BackingOp::kSyncFolder, .path = ""}));
  EXPECT_FALSE(change({.op = BackingOp::kWrite, .path = ""}));
  EXPECT_FALSE(change({.op = BackingOp::kWrite, .path = "../state"}));
  EXPECT_FALSE(change({.op = BackingOp::kRename, .path = "a", .bytes = as_bytes("../b")}));
  EXPECT_FALSE(change({.op = BackingOp::kTruncate, .path = "a", .offset = 1, .length = ~std::uint64_t{0}}));
  EXPECT_FALSE(
      change({.op = BackingOp::kWrite, .path = "a", .offset = ~std::uint64_t{0}, .bytes = as_bytes("b")}));
  EXPECT_FALSE(decodes(BackingChangeArgs{kOwner, 0, true, {}})) << "they are numbered from 1";
  EXPECT_FALSE(decodes(BackingReadArgs{kOwner, "..", 0, 1, 0}));
  EXPECT_FALSE(decodes(BackingReadArgs{kOwner, "a", 0, kMaxBackingBytes + 1, 0}));
  EXPECT_FALSE(decodes(BackingReadArgs{kOwner, "a", ~std::uint64_t{0}, 2, 0}));
  EXPECT_FALSE(decodes(BackingDigestArgs{kOwner, "a", 0, kMaxBackingDigests + 1, 0}));
  EXPECT_FALSE(decodes(BackingDigestArgs{kOwner, "a", ~std::uint64_t{0}, 1, 0}));
  EXPECT_FALSE(decodes(BackingMembersArgs{kOwner, 1, {}})) << "a set always has somebody";
  EXPECT_FALSE(decodes(BackingMembersArgs{kOwner, 1, {5, 5}}));
  EXPECT_FALSE(decodes(BackingClaimArgs{3, 0, 8, 2})) << "no run";
  EXPECT_FALSE(decodes(BackingClaimArgs{3, 9, 8, 0}));
  EXPECT_FALSE(decodes(BackingClaimArgs{3, 9, 8, 4}));
}

TEST(FailoverMessages, Codec) {
  check_message(StandbyArgs{3, {0x0a4d0102, 2049}, 7});
  check_message(StandbyResult{true, {0x0a4d0102, 2049}});
  check_message(FailoverArgs{"dir1", 0x0a4d0102});
  check_message(FailoverResult{"no", {0x0a4d0102, 2049}, Generation{5}});
  check_message(StandbysResult{{{3, {0x0a4d0102, 2049}, 99}, {4, {0x0a4d0103, 2050}, 1}}});
  EXPECT_FALSE(decodes(StandbyArgs{3, {0x0a4d0102, 2049}, 0})) << "no run";
}

}  // namespace
}  // namespace slice::wire
