#include "dirserver/testing/fixture.h"

namespace slice::dirserver::testing {
namespace {

using GetaclTest = DirectoryFixture;

TEST_F(GetaclTest, AnybodyIsToldOfAMode) {
  Handle folder = mkdir(root(), "d", {}, 0750).handle;
  const nfs3::GetaclOk ok = getacl(folder, nfs3::kAclAll, {.uid = 5, .gid = 5});
  EXPECT_EQ(ok.access, (nfs3::Acl{7, 5, 0, {}, {}, {}}));
  EXPECT_EQ(ok.defaults, std::nullopt);
  EXPECT_EQ(ok.attributes->mode, 0750u);
  EXPECT_EQ(getacl(folder, nfs3::kAclDefault).access, std::nullopt);
}

TEST_F(GetaclTest, OnlyTheNumberIsToldWhereItIsAskedFor) {
  Handle file = create(root(), "f", {}, 0640).handle;
  const nfs3::Acl rich{7, 5, 0, 7, {{1001, 6}}, {{50, 4}}};
  ASSERT_EQ(setacl({.object = file, .mask = nfs3::kAclAccess, .access = rich, .defaults = {}}),
            NfsStatus::kOk);
  EXPECT_EQ(getacl(file, nfs3::kAclAccessCount).access, std::nullopt);
  rpc::XdrReader in(wait(send(Procedure::kGetacl, nfs3::GetaclArgs{file, nfs3::kAclAccessCount})));
  in.skip(4 + 4 + nfs3::kAttributesSize + 4);
  EXPECT_EQ(in.u32(), 6u);
}

TEST_F(GetaclTest, WhatThereIsNotIsRefused) {
  Handle file = create(root(), "f").handle;
  nfs3::GetaclOk ok;
  EXPECT_EQ(call(Procedure::kGetacl, nfs3::GetaclArgs{file, 16}, ok), NfsStatus::kInval);
  ASSERT_EQ(remove(root(), "f"), NfsStatus::kOk);
  EXPECT_EQ(call(Procedure::kGetacl, nfs3::GetaclArgs{file, nfs3::kAclAll}, ok), NfsStatus::kStale);
}

}  // namespace
}  // namespace slice::dirserver::testing
