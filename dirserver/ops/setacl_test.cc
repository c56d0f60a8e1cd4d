// SETACL, and what comes of the lists.
#include "dirserver/testing/fixture.h"

namespace slice::dirserver::testing {
namespace {

using nfs3::Acl;

constexpr Credential kOwner{1000, 100, {}}, kNamed{1001, 1, {}}, kMember{7, 50, {}}, kOther{7, 1, {}};
const Acl kRich{7, 5, 0, 7, {{1001, 6}}, {{50, 4}}};

class SetaclTest : public DirectoryFixture {
 protected:
  SetaclTest() {
    nfs3::SetAttributes open;
    open.mode = 0777;
    EXPECT_EQ(setattr(root(), open), NfsStatus::kOk);
  }
  NfsStatus set(const Handle& object, const std::optional<Acl>& access, Credential who = kOwner) {
    return setacl({.object = object, .mask = nfs3::kAclAccess, .access = access, .defaults = {}},
                  std::move(who));
  }
  NfsStatus set_defaults(const Handle& object, const std::optional<Acl>& defaults, Credential who = kOwner) {
    return setacl({.object = object, .mask = nfs3::kAclDefault, .access = {}, .defaults = defaults},
                  std::move(who));
  }
  std::uint32_t access(const Handle& object, Credential who) {
    nfs3::AccessOk ok;
    EXPECT_EQ(call(Procedure::kAccess, nfs3::AccessArgs{object, 0x3f}, ok, std::move(who)), NfsStatus::kOk);
    return ok.access;
  }
  static constexpr auto kReads = nfs3::kAccessRead, kWrites = nfs3::kAccessModify | nfs3::kAccessExtend;
};

TEST_F(SetaclTest, AModeIsAListAndAListAMode) {
  Handle file = create(root(), "f", kOwner, 0640).handle;
  EXPECT_EQ(getacl(file).access, (Acl{6, 4, 0, {}, {}, {}}));
  EXPECT_EQ(getacl(file).defaults, std::nullopt);
  const nfs3::Time before = attributes(file).ctime;
  ASSERT_EQ(set(file, kRich), NfsStatus::kOk);
  EXPECT_EQ(attributes(file).mode, 0770u);
  EXPECT_GT(attributes(file).ctime, before);
  EXPECT_EQ(getacl(file).access, kRich);
  EXPECT_EQ(fetch(file).access->users, kRich.users) << "data servers are told";
  restart();
  EXPECT_EQ(getacl(file).access, kRich);
  nfs3::SetAttributes chmod;
  chmod.mode = 0641;
  ASSERT_EQ(setattr(file, chmod, kOwner), NfsStatus::kOk);
  EXPECT_EQ(getacl(file).access, (Acl{6, 5, 1, 4, kRich.users, kRich.groups}))
      << "the group's bits are the mask";
  ASSERT_EQ(set(file, Acl{6, 4, 4, {}, {}, {}}), NfsStatus::kOk);
  EXPECT_EQ(attributes(file).mode, 0644u);
  EXPECT_EQ(fetch(file).access, nullptr);
}

TEST_F(SetaclTest, DecidesWhoMay) {
  Handle file = create(root(), "f", kOwner, 0640).handle;
  ASSERT_EQ(set(file, kRich), NfsStatus::kOk);
  EXPECT_EQ(access(file, kNamed), kReads | kWrites);
  EXPECT_EQ(access(file, kMember), kReads);
  EXPECT_EQ(access(file, kOther), 0u);
  EXPECT_EQ(truncate(file, 5, kNamed), NfsStatus::kOk);
  EXPECT_EQ(truncate(file, 5, kMember), NfsStatus::kAcces);

  Handle folder = mkdir(root(), "d", kOwner, 0700).handle;
  EXPECT_EQ(create(folder, "by-named", kNamed).status, NfsStatus::kAcces);
  ASSERT_EQ(set(folder, Acl{7, 0, 0, 7, {{1001, 7}}, {{50, 5}}}), NfsStatus::kOk);
  EXPECT_EQ(create(folder, "by-named", kNamed).status, NfsStatus::kOk);
  EXPECT_EQ(create(folder, "by-member", kMember).status, NfsStatus::kAcces);
  EXPECT_EQ(lookup(folder, "by-named", kMember).status, NfsStatus::kOk);
  EXPECT_EQ(lookup(folder, "by-named", kOther).status, NfsStatus::kAcces);
}

TEST_F(SetaclTest, IsItsOwnersToSet) {
  Handle file = create(root(), "f", kOwner, 0640).handle;
  EXPECT_EQ(set(file, kRich, kNamed), NfsStatus::kPerm);
  EXPECT_EQ(set(file, kRich, {}), NfsStatus::kOk) << "or the superuser's";
  EXPECT_EQ(set(file, kRich, kNamed), NfsStatus::kPerm) << "to be named is not to own";
  EXPECT_EQ(set_defaults(file, kRich), NfsStatus::kAcces) << "no directory";
  EXPECT_EQ(set_defaults(file, std::nullopt), NfsStatus::kOk);
  EXPECT_EQ(set(symlink(root(), "l", "f", kOwner).handle, kRich), NfsStatus::kNotSupp);
  EXPECT_EQ(setacl({.object = file, .mask = 16, .access = {}, .defaults = {}}, kOwner), NfsStatus::kInval);
  EXPECT_EQ(set(file, Acl{7, 7, 7, 7, {{~0u, 7}}, {}}), NfsStatus::kInval) << "nobody has that number";
  EXPECT_EQ(getacl(file).access, kRich);
  nfs3::SetAttributes remove_set_id;
  remove_set_id.mode = 02770;
  remove_set_id.gid = 55;
  ASSERT_EQ(setattr(file, remove_set_id), NfsStatus::kOk);
  ASSERT_EQ(set(file, kRich), NfsStatus::kOk);
  EXPECT_EQ(attributes(file).mode, 0770u) << "its owner is not in the group";
}

TEST_F(SetaclTest, ADefaultListIsWhatNewObjectsBeginWith) {
  Handle folder = mkdir(root(), "d", kOwner, 0755).handle;
  ASSERT_EQ(set_defaults(folder, kRich), NfsStatus::kOk);
  EXPECT_EQ(attributes(folder).mode, 0755u) << "it is not for the directory itself";
  EXPECT_EQ(getacl(folder).defaults, kRich);
  Made file = create(folder, "f", kOwner, 0666);
  EXPECT_EQ(file.attributes.mode, 0660u);
  EXPECT_EQ(getacl(file.handle).access, (Acl{6, 5, 0, 6, kRich.users, kRich.groups}));
  EXPECT_EQ(getacl(file.handle).defaults, std::nullopt);
  Made below = mkdir(folder, "below", kOwner, 0777);
  EXPECT_EQ(getacl(below.handle).access, kRich);
  EXPECT_EQ(getacl(below.handle).defaults, kRich);
  EXPECT_EQ(symlink(folder, "l", "f", kOwner).attributes.mode, 0777u);
  ASSERT_EQ(set_defaults(folder, std::nullopt), NfsStatus::kOk);
  EXPECT_EQ(create(folder, "g", kOwner, 0666).attributes.mode, 0666u);
  EXPECT_EQ(getacl(below.handle).defaults, kRich) << "it was given on";
}

TEST_F(SetaclTest, ACopyOfTheCallIsAnsweredAsTheFirst) {
  Handle file = create(root(), "f", kOwner, 0640).handle;
  const nfs3::SetaclArgs args{.object = file, .mask = nfs3::kAclAccess, .access = kRich, .defaults = {}};
  const std::string first(as_text(wait(send(Procedure::kSetacl, args, kOwner, 77))));
  nfs3::SetAttributes chmod;
  chmod.mode = 0600;
  ASSERT_EQ(setattr(file, chmod, kOwner), NfsStatus::kOk);
  restart();
  EXPECT_EQ(as_text(wait(send(Procedure::kSetacl, args, kOwner, 77))), first);
  EXPECT_EQ(attributes(file).mode, 0600u) << "and not done again";
}

}  // namespace
}  // namespace slice::dirserver::testing
