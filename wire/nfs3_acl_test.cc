#include "wire/nfs3_acl.h"

#include <gtest/gtest.h>

#include "wire/testing/codec_checks.h"

namespace slice::nfs3 {
namespace {

using wire_tests::check;

// An entry as it is on the wire.
struct Word3 {
  std::uint32_t tag, id, permissions;
};

Buffer setacl(const std::vector<Word3>& entries, std::optional<std::uint32_t> said = {}) {
  rpc::XdrWriter out;
  out.opaque(as_bytes("handle"));
  out.u32(kAclAccess);
  out.u32(said.value_or(static_cast<std::uint32_t>(entries.size())));
  out.u32(static_cast<std::uint32_t>(entries.size()));
  for (const Word3& entry : entries) {
    out.u32(entry.tag);
    out.u32(entry.id);
    out.u32(entry.permissions);
  }
  out.u32(0);
  out.u32(0);
  return out.take();
}

std::optional<Acl> access_in(const std::vector<Word3>& entries) {
  SetaclArgs args;
  EXPECT_TRUE(decode_arguments(setacl(entries).view(), args));
  return args.valid ? args.access : std::nullopt;
}

const Acl kRich{7, 5, 1, 6, {{1000, 6}, {1001, 4}}, {{50, 7}}};

TEST(Nfs3Acl, Codec) {
  Attributes attributes;
  attributes.uid = 77;
  for (const std::optional<Acl>& access : {std::optional<Acl>(), std::optional(kRich)}) {
    for (std::uint32_t mask : {kAclAccess | kAclDefault, kAclAll}) {
      SetaclArgs args{.object = as_bytes("handle"), .mask = mask, .access = access, .defaults = kRich};
      rpc::XdrWriter out;
      encode_arguments(out, args);
      SetaclArgs back;
      ASSERT_TRUE(decode_arguments(out.view(), back));
      EXPECT_TRUE(back.valid && back.mask == mask && back.access == access && back.defaults == kRich);
      for (std::size_t size = 0; size < out.size(); ++size)
        EXPECT_FALSE(decode_arguments(out.view().first(size), back)) << size;
      GetaclOk ok{.attributes = attributes, .mask = mask, .access = access, .defaults = kRich};
      Status status{};
      check([&](rpc::XdrWriter& out) { encode_result(out, ok); },
            [&](ByteView bytes) {
              rpc::XdrReader in(bytes);
              return decode_result(in, status, ok) && ok.access == access && ok.defaults == kRich;
            });
    }
  }
}

// As Linux' clients have it: a list without a mask is sent with one that takes nothing away.
TEST(Nfs3Acl, AMaskThatTakesNothingAwayIsNone) {
  EXPECT_EQ(access_in({{1, 0, 6}, {4, 0, 4}, {0x10, 0, 4}, {0x20, 0, 0}}), (Acl{6, 4, 0, {}, {}, {}}));
  EXPECT_EQ(access_in({{1, 0, 6}, {4, 0, 4}, {0x20, 0, 0}}), (Acl{6, 4, 0, {}, {}, {}}));
  EXPECT_EQ(access_in({{1, 0, 6}, {4, 0, 6}, {0x10, 0, 4}, {0x20, 0, 0}}), (Acl{6, 6, 0, 4, {}, {}}));
}

TEST(Nfs3Acl, IsOneOfAllThatItNeeds) {
  const Word3 owner{1, 0, 7}, group{4, 0, 5}, other{0x20, 0, 1}, mask{0x10, 0, 7};
  const auto in_order = access_in({owner, {2, 5, 7}, {2, 6, 4}, group, {8, 5, 3}, mask, other});
  ASSERT_TRUE(in_order);
  EXPECT_EQ(access_in({other, mask, {2, 6, 4}, {8, 5, 3}, {2, 5, 7}, group, owner}), in_order)
      << "any order will do";
  EXPECT_FALSE(access_in({owner, group})) << "no others";
  EXPECT_FALSE(access_in({owner, group, other, other}));
  EXPECT_FALSE(access_in({owner, group, mask, mask, other}));
  EXPECT_FALSE(access_in({owner, {2, 5, 7}, group, other})) << "somebody is named, and there is no mask";
  EXPECT_FALSE(access_in({owner, {2, 5, 7}, {2, 5, 7}, group, mask, other})) << "twice";
  EXPECT_FALSE(access_in({owner, {2, ~0u, 7}, group, mask, other})) << "nobody";
  EXPECT_FALSE(access_in({{1, 0, 8}, group, other}));
  EXPECT_FALSE(access_in({owner, group, other, {3, 0, 7}})) << "no such tag";
}

TEST(Nfs3Acl, LiesAboutNumbersAreRefused) {
  const std::vector<Word3> plain{{1, 0, 7}, {4, 0, 5}, {0x20, 0, 1}};
  SetaclArgs args;
  EXPECT_FALSE(decode_arguments(setacl(plain, 2).view(), args));
  EXPECT_TRUE(decode_arguments(setacl(plain, 1024).view(), args) && !args.valid);
  EXPECT_FALSE(decode_arguments(setacl(plain, 1025).view(), args));
  rpc::XdrWriter out;
  out.opaque(as_bytes("handle"));
  for (std::uint32_t word : {kAclAccess, 1024u, 1024u}) out.u32(word);
  EXPECT_FALSE(decode_arguments(out.view(), args)) << "the entries are not there";
}

// As a Linux client sends it for a new directory whose parent has a default list that says no more than a
// mode.
TEST(Nfs3Acl, WhatIsSentBehindTheListsIsNothing) {
  rpc::XdrWriter out;
  encode_arguments(
      out,
      SetaclArgs{
          .object = as_bytes("handle"), .mask = kAclAccess | kAclDefault, .access = {}, .defaults = kRich});
  for (unsigned i = 0; i < 12; ++i) out.u32(0xffffffff);
  SetaclArgs args;
  ASSERT_TRUE(decode_arguments(out.view(), args));
  EXPECT_TRUE(args.valid);
  EXPECT_EQ(args.access, std::nullopt);
  EXPECT_EQ(args.defaults, kRich);
}

TEST(Nfs3Acl, AndAModeSayTheSame) {
  EXPECT_EQ(mode_of(kRich), 0761u) << "the mask is the group's bits";
  EXPECT_EQ(acl_of(0761, beyond_mode(kRich).get()), kRich);
  EXPECT_EQ(beyond_mode(acl_of(0751, nullptr)), nullptr);
  EXPECT_EQ(mode_of(acl_of(0751, nullptr)), 0751u);
}

TEST(Nfs3Acl, GivesWhatWasAskedForAtMost) {
  std::uint32_t mode = 02640;
  SharedAccess access = inherit(kRich, mode);
  ASSERT_TRUE(access);
  EXPECT_EQ(mode, 02640u) << "6 of 7, mask 4 of 6, 0 of 1";
  EXPECT_EQ(*access, (ExtendedAccess{5, kRich.users, kRich.groups}));
  mode = 0777;
  EXPECT_EQ(inherit(Acl{7, 5, 0, {}, {}, {}}, mode), nullptr);
  EXPECT_EQ(mode, 0750u);
}

}  // namespace
}  // namespace slice::nfs3
