#include "dirserver/cells/cells.h"

#include <gtest/gtest.h>

#include "bpf/shared/nfs_offsets.h"

namespace slice::dirserver {
namespace {

Target target(std::uint64_t file, nfs3::FileType type = nfs3::FileType::kRegular) {
  return {
      .cell = {SiteId{7}, FileId{file}, 99}, .type = type, .flags = 1, .stripe_shift = 17, .cell_key = 0xabc};
}

AttributeCell sample(nfs3::FileType type) {
  AttributeCell cell;
  cell.self = target(0x7000000000005, type);
  cell.mode = 04755;
  cell.nlink = 3;
  cell.uid = 1;
  cell.gid = 2;
  cell.size = 1ull << 40;
  cell.rdev_major = 8;
  cell.rdev_minor = 9;
  cell.atime = {1, 2};
  cell.mtime = {3, 4};
  cell.ctime = {5, 6};
  cell.epoch = Epoch{17};
  cell.striped = true;
  cell.truncating = true;
  cell.mtime_set = {7, 8};
  return cell;
}

// Proxies learn both from attributes: of a handle, which they cannot check, they believe nothing.
TEST(CellsTest, AttributesOfARegularFileTellItsEpochAndSite) {
  AttributeCell cell = sample(nfs3::FileType::kRegular);
  cell.mtime_set = {};
  const nfs3::Attributes file = attributes_of(cell, VolumeId{1});
  EXPECT_EQ(file.rdev_major, 17u);
  EXPECT_EQ(file.rdev_minor, 7u);
  const nfs3::Attributes device = attributes_of(sample(nfs3::FileType::kCharacter), VolumeId{1});
  EXPECT_EQ(device.rdev_major, 8u);
  EXPECT_EQ(device.rdev_minor, 9u);
}

// A write from before that, which the directory server has not heard of, must not take its place.
TEST(CellsTest, AttributesTellThatMtimeWasSet) {
  AttributeCell cell = sample(nfs3::FileType::kRegular);
  EXPECT_EQ(attributes_of(cell, VolumeId{1}).rdev_minor, 7u | SLICE_MTIME_SET);
  cell.mtime = {7, 9};  // of a write since
  EXPECT_EQ(attributes_of(cell, VolumeId{1}).rdev_minor, 7u);
  EXPECT_EQ(attributes_of(sample(nfs3::FileType::kCharacter), VolumeId{1}).rdev_minor, 9u);
}

TEST(CellsTest, AttributeCellsComeBackWhole) {
  AttributeCell directory = sample(nfs3::FileType::kDirectory);
  directory.parent = {SiteId{3}, FileId{4}, 5};
  directory.entries = 1000000007;
  AttributeCell file = sample(nfs3::FileType::kRegular);
  file.exclusive_verifier = {1, 2, 3, 4, 5, 6, 7, 8};
  file.stored = {{3, 4096}, {9, 1ull << 40}};
  AttributeCell link = sample(nfs3::FileType::kSymlink);
  link.symlink_target = std::string(4095, 't');
  AttributeCell listed = directory;
  listed.access = std::make_shared<const nfs3::ExtendedAccess>(
      nfs3::ExtendedAccess{.group = 5, .users = {{1000, 7}, {1001, 0}}, .groups = {{50, 3}}});
  listed.defaults = std::make_shared<const nfs3::Acl>(nfs3::Acl{7, 5, 0, 6, {{1000, 6}}, {{50, 4}, {51, 2}}});
  AttributeCell shut = directory;
  shut.defaults = std::make_shared<const nfs3::Acl>(nfs3::Acl{7, 0, 0, {}, {}, {}});
  for (const AttributeCell& cell : {directory, file, link, listed, shut}) {
    std::string value = encode(cell);
    auto back = decode_attribute_cell(SiteId{7}, value);
    ASSERT_TRUE(back.has_value()) << back.error().message;
    EXPECT_EQ(encode(*back), value);
    EXPECT_EQ(back->self, cell.self);
    EXPECT_EQ(back->entries, cell.entries);
    EXPECT_EQ(back->parent, cell.parent);
    EXPECT_EQ(back->symlink_target, cell.symlink_target);
    EXPECT_EQ(back->exclusive_verifier, cell.exclusive_verifier);
    EXPECT_EQ(back->mtime_set, cell.mtime_set);
    if (cell.regular()) EXPECT_EQ(back->stored, cell.stored);
    ASSERT_EQ(back->access != nullptr, cell.access != nullptr);
    if (cell.access) EXPECT_EQ(*back->access, *cell.access);
    ASSERT_EQ(back->defaults != nullptr, cell.defaults != nullptr);
    if (cell.defaults) EXPECT_EQ(*back->defaults, *cell.defaults);
    // Every shorter value, and one that is longer, is refused.
    for (std::size_t size = 0; size < std::min<std::size_t>(value.size(), 300); ++size) {
      EXPECT_FALSE(decode_attribute_cell(SiteId{7}, value.substr(0, size)).has_value()) << size;
    }
    EXPECT_FALSE(decode_attribute_cell(SiteId{7}, value + "x").has_value());
    EXPECT_FALSE(decode_attribute_cell(SiteId{8}, value).has_value());
    value[0] = 2;
    EXPECT_EQ(decode_attribute_cell(SiteId{7}, value).error().code, Errc::kCorrupt);
  }
}

TEST(CellsTest, ListsThatMakeNoSenseAreRefused) {
  AttributeCell cell = sample(nfs3::FileType::kDirectory);
  const auto refused = [&cell] { return !decode_attribute_cell(SiteId{7}, encode(cell)).has_value(); };
  const auto has = [&cell](nfs3::ExtendedAccess access) {
    cell.access = std::make_shared<const nfs3::ExtendedAccess>(std::move(access));
  };
  has({.group = 8, .users = {}, .groups = {}});
  EXPECT_TRUE(refused());
  has({.group = 7, .users = {{2, 7}, {1, 7}}, .groups = {}});
  EXPECT_TRUE(refused()) << "not in order";
  has({.group = 7, .users = {}, .groups = {{1, 9}}});
  EXPECT_TRUE(refused());
  has({.group = 7, .users = {{1, 7}, {2, 7}}, .groups = {}});
  EXPECT_FALSE(refused());
  cell.defaults = std::make_shared<const nfs3::Acl>(nfs3::Acl{7, 7, 7, {}, {{1, 7}}, {}});
  EXPECT_TRUE(refused()) << "somebody is named, and there is no mask";
}

// Files from before servers told what they store: all of their size counts, until they are emptied.
TEST(CellsTest, WithoutWhatIsStoredAFileCountsAsWhole) {
  AttributeCell cell = sample(nfs3::FileType::kRegular);
  cell.stored.reset();
  auto old = decode_attribute_cell(SiteId{7}, encode(cell));
  ASSERT_TRUE(old.has_value());
  EXPECT_FALSE(old->stored.has_value());
  EXPECT_FALSE(old->note_stored({3, 4096}));
  EXPECT_EQ(attributes_of(*old, VolumeId{1}).used, 1ull << 40);
  old->cut(0);
  old->size = 1 << 20;
  EXPECT_TRUE(old->note_stored({3, 4096}));
  EXPECT_FALSE(old->note_stored({3, 4096}));
  EXPECT_EQ(attributes_of(*old, VolumeId{1}).used, 4096u);
}

TEST(CellsTest, WhatIsStoredOfAFileThatWasCutIsAGuessUntilItIsEmptied) {
  AttributeCell cell = sample(nfs3::FileType::kRegular);
  const Epoch before = cell.epoch;
  cell.cut(2ull << 40);
  EXPECT_FALSE(cell.guessed) << "nothing was taken away";
  EXPECT_EQ(cell.epoch.value, before.value + 1);
  EXPECT_EQ(cell.size, 2ull << 40);
  cell.cut(4096);
  cell.cut(8192);
  EXPECT_TRUE(cell.guessed);
  auto stored = decode_attribute_cell(SiteId{7}, encode(cell));
  ASSERT_TRUE(stored.has_value());
  EXPECT_TRUE(stored->guessed);
  cell.cut(0);
  EXPECT_FALSE(cell.guessed);
  EXPECT_FALSE(decode_attribute_cell(SiteId{7}, encode(cell))->guessed);
}

TEST(CellsTest, BucketsKeepSlotsStable) {
  NameBucket bucket;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(bucket.insert("n" + std::to_string(i), target(i + 1u)));
  bucket.erase("n2");
  EXPECT_EQ(bucket.find("n4")->slot, 4u);
  ASSERT_TRUE(bucket.insert("again", target(9)));
  EXPECT_EQ(bucket.find("again")->slot, 2u);
  auto back = decode_name_bucket(encode(bucket));
  ASSERT_TRUE(back.has_value());
  ASSERT_EQ(back->entries.size(), 5u);
  EXPECT_EQ(back->entries[2].name, "again");
  EXPECT_EQ(back->entries[2].target, target(9));
  std::string value = encode(bucket);
  for (std::size_t size = 0; size < value.size(); ++size) {
    EXPECT_FALSE(decode_name_bucket(value.substr(0, size)).has_value()) << size;
  }
}

TEST(CellsTest, OtherRecordsComeBackWhole) {
  DuplicateRecord duplicate{{1, Xid{2}, 3, 4, {5, 6, 7}}, WallTime{5}, "reply"};
  auto d = decode_duplicate(encode(duplicate));
  ASSERT_TRUE(d.has_value());
  EXPECT_EQ(d->call, duplicate.call);
  EXPECT_EQ(d->reply, "reply");
  TruncationRecord truncation{.file = target(5),
                              .size = 6,
                              .epoch = Epoch{7},
                              .striped = true,
                              .call = duplicate.call,
                              .before = {8, {9, 10}, {11, 12}},
                              .changed = {13, 14}};
  auto t = decode_truncation(encode(truncation));
  ASSERT_TRUE(t.has_value());
  EXPECT_EQ(encode(*t), encode(truncation));
  EXPECT_EQ(t->before.ctime, (nfs3::Time{11, 12}));
  CutRecord cut{.id = {SiteId{1}, 2, 3},
                .call = duplicate.call,
                .client = {4, 5},
                .credential = rpc::AuthSys{.machine_name = "m", .uid = 6, .gid = 7, .groups = {8, 9}},
                .directory = FileId{10},
                .position = Position{11},
                .file = target(5),
                .size = 12,
                .changed = {13, 14}};
  auto c = decode_cut(encode(cut));
  ASSERT_TRUE(c.has_value());
  EXPECT_EQ(encode(*c), encode(cut));
  EXPECT_EQ(c->credential->groups, (std::vector<std::uint32_t>{8, 9}));
  cut.client = {IpAddress::of_words(0xfd77ull << 48, 2), 5};
  cut.call.address = cut.client.address;
  c = decode_cut(encode(cut));
  ASSERT_TRUE(c.has_value());
  EXPECT_EQ(c->client, cut.client);
  EXPECT_EQ(c->call, cut.call);
  cut.credential.reset();
  EXPECT_FALSE(decode_cut(encode(cut))->credential.has_value());
  auto r = decode_reclaim(encode(ReclaimRecord{target(5), true}));
  ASSERT_TRUE(r.has_value());
  EXPECT_TRUE(r->striped);
  EXPECT_EQ(decode_number(encode_number(1ull << 47)).value(), 1ull << 47);
  EXPECT_FALSE(decode_number("").has_value());
}

TEST(CellsTest, ADirectorysNamesAreContiguousAndInOrder) {
  KeyRange range = range_of_directory(SiteId{3}, FileId{50});
  EXPECT_LE(range.begin, name_key(SiteId{3}, FileId{50}, Position{1}));
  EXPECT_LT(name_key(SiteId{3}, FileId{50}, Position{(1ull << 44) - 1}), range.end);
  EXPECT_LT(name_key(SiteId{3}, FileId{50}, Position{9}), name_key(SiteId{3}, FileId{50}, Position{10}));
  EXPECT_GE(name_key(SiteId{3}, FileId{51}, Position{1}), range.end);
  EXPECT_LT(name_key(SiteId{3}, FileId{49}, Position{(1ull << 44) - 1}), range.begin);
  EXPECT_EQ(last_number(name_key(SiteId{3}, FileId{50}, Position{77})), 77u);
  KeyRange all = range_of(SiteId{3}, CellKind::kName);
  EXPECT_LT(all.begin, range.begin);
  EXPECT_LT(range.end, all.end);
}

TEST(CellsTest, CookiesHoldSitePositionAndSlot) {
  Cookie cookie{SiteId{63}, Position{(1ull << 44) - 1}, 15};
  EXPECT_EQ(decode_cookie(encode_cookie(cookie)), cookie);
  EXPECT_EQ(encode_cookie(cookie) >> 48, 63u);  // where the routing core looks for the site
  EXPECT_EQ(encode_cookie(cookie) >> 63, 0u);   // clients take cookies for signed numbers
  EXPECT_GT(encode_cookie({SiteId{0}, position_of(0), 0}), kCookieOfDotDot);
}

}  // namespace
}  // namespace slice::dirserver
