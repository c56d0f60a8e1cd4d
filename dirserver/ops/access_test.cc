#include "dirserver/testing/fixture.h"

namespace slice::dirserver::testing {
namespace {

using AccessTest = DirectoryFixture;

TEST_F(AccessTest, ByModeOwnerAndGroup) {
  constexpr std::uint32_t all = 0x3f;
  Handle file = create(root(), "f", {}, 0754).handle;
  nfs3::SetAttributes set;
  set.uid = 1000;
  set.gid = 100;
  ASSERT_EQ(setattr(file, set), NfsStatus::kOk);
  auto granted = [&](Credential who) {
    nfs3::AccessOk ok;
    EXPECT_EQ(call(Procedure::kAccess, nfs3::AccessArgs{file, all}, ok, who), NfsStatus::kOk);
    EXPECT_TRUE(ok.attributes.has_value());
    return ok.access;
  };
  constexpr auto read = nfs3::kAccessRead, write = nfs3::kAccessModify | nfs3::kAccessExtend,
                 execute = nfs3::kAccessExecute;
  EXPECT_EQ(granted({.uid = 1000, .gid = 1}), read | write | execute);
  EXPECT_EQ(granted({.uid = 1, .gid = 100}), read | execute);
  EXPECT_EQ(granted({.uid = 1, .gid = 1, .groups = {5, 100}}), read | execute);
  EXPECT_EQ(granted({.uid = 1, .gid = 1}), read);
  EXPECT_EQ(granted({}), read | write | execute);
}

TEST_F(AccessTest, OfADirectory) {
  Handle directory = mkdir(root(), "d", {}, 0555).handle;
  nfs3::AccessOk ok;
  ASSERT_EQ(call(Procedure::kAccess, nfs3::AccessArgs{directory, 0x3f}, ok, {.uid = 5, .gid = 5}),
            NfsStatus::kOk);
  EXPECT_EQ(ok.access, nfs3::kAccessRead | nfs3::kAccessLookup);
}

}  // namespace
}  // namespace slice::dirserver::testing
