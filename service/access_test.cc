#include "service/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace slice::service {
namespace {

using ::testing::ElementsAre;

nfs3::Attributes file_of(std::uint32_t uid, std::uint32_t gid, std::uint32_t mode) {
  nfs3::Attributes attributes;
  attributes.mode = mode;
  attributes.uid = uid;
  attributes.gid = gid;
  return attributes;
}
nfs3::Attributes folder_of(std::uint32_t uid, std::uint32_t gid, std::uint32_t mode) {
  nfs3::Attributes attributes = file_of(uid, gid, mode);
  attributes.type = nfs3::FileType::kDirectory;
  return attributes;
}
Identity user(std::uint32_t uid, std::uint32_t gid, std::vector<std::uint32_t> groups = {}) {
  return {.uid = uid, .gid = gid, .groups = std::move(groups), .read_only = false};
}

class IdentifyTest : public ::testing::Test {
 protected:
  IdentifyTest() {
    settings_.exports.push_back({.clients = Network::of_v4(0x0a4d0100, 0xffffff00),
                                 .read_only = true,
                                 .squash = ExportConfig::Squash::kNone});
    settings_.exports.push_back({.clients = Network::of_v4(0x0a4d0000, 0xffff0000),
                                 .squash = ExportConfig::Squash::kRoot,
                                 .anonymous_uid = 99,
                                 .anonymous_gid = 98});
    settings_.exports.push_back({.clients = Network::of_v4(0x0b000000, 0xff000000),
                                 .squash = ExportConfig::Squash::kAll,
                                 .anonymous_uid = 77,
                                 .anonymous_gid = 76});
  }
  static rpc::Call call(std::uint32_t client, std::uint32_t uid, std::uint32_t gid,
                        std::vector<std::uint32_t> groups = {}) {
    rpc::Call call;
    call.client.address = client;
    call.has_auth_sys = true;
    call.credential.uid = uid;
    call.credential.gid = gid;
    call.credential.groups = std::move(groups);
    return call;
  }
  Settings settings_;
};

TEST_F(IdentifyTest, ATreesOwnEntriesCountInItAlone) {
  settings_.exports.push_back({.path = "/home",
                               .clients = Network::of_v4(0x0c000000, 0xff000000),
                               .squash = ExportConfig::Squash::kNone});
  settings_.trees = {{TreeId{7}, {.path = "/home", .above = {}}},
                     {TreeId{8}, {.path = "/home/ann", .above = {7}}}};
  for (const std::uint16_t tree : {std::uint16_t{7}, std::uint16_t{8}}) {
    EXPECT_TRUE(identify(settings_, TreeId{tree}, call(0x0c000001, 0, 0))->superuser());
    EXPECT_EQ(identify(settings_, TreeId{tree}, call(0x0a4d0207, 5, 5)).error(), Stranger::kNoExport);
    EXPECT_EQ(identify_beside(settings_, TreeId{tree}, call(0x0a4d0207, 5, 5)).error(), Stranger::kNoExport);
  }
  EXPECT_EQ(identify(settings_, TreeId{}, call(0x0c000001, 0, 0)).error(), Stranger::kNoExport);
  EXPECT_TRUE(identify(settings_, TreeId{}, call(0x0a4d0207, 5, 5)));
  EXPECT_EQ(identify(settings_, TreeId{9}, call(0x0a4d0207, 5, 5)).error(), Stranger::kNoExport)
      << "no such tree";
  EXPECT_TRUE(identify_beside(settings_, call(0x0c000001, 0, 0))) << "about nothing in particular";
  rpc::Call own = call(0x01020304, 5, 5);
  own.internal = true;
  EXPECT_TRUE(identify(settings_, TreeId{9}, own)->superuser());
}

TEST_F(IdentifyTest, TakesTheFirstEntryThatFits) {
  auto who = identify(settings_, TreeId{}, call(0x0a4d0107, 0, 0));
  ASSERT_TRUE(who);
  EXPECT_TRUE(who->superuser());
  EXPECT_TRUE(who->read_only);
  EXPECT_FALSE(identify(settings_, TreeId{}, call(0x0a4d0207, 5, 5))->read_only);
}

TEST_F(IdentifyTest, RefusesAClientThatNoEntryNames) {
  auto who = identify(settings_, TreeId{}, call(0xc0a80001, 0, 0));
  ASSERT_FALSE(who);
  EXPECT_EQ(who.error(), Stranger::kNoExport);
}

TEST_F(IdentifyTest, TakesReservedPortsAloneWhereTheExportIsSecure) {
  rpc::Call user = call(0x0a4d0107, 1000, 100);
  user.client.port = 1023;
  EXPECT_TRUE(identify(settings_, TreeId{}, user));
  for (std::uint16_t port : std::initializer_list<std::uint16_t>{1024, 40000, 65535}) {
    user.client.port = port;
    auto who = identify(settings_, TreeId{}, user);
    ASSERT_FALSE(who) << port;
    EXPECT_EQ(who.error(), Stranger::kUnreservedPort);
  }
  // The client's own port counts, not that of the proxy which passes its call on.
  user.forwarded = true;
  EXPECT_FALSE(identify(settings_, TreeId{}, user));
  settings_.exports[1].secure = false;  // of another network
  EXPECT_FALSE(identify(settings_, TreeId{}, user));
  settings_.exports[0].secure = false;
  EXPECT_TRUE(identify(settings_, TreeId{}, user));
  rpc::Call own = call(0x0a4d0107, 0, 0);
  own.client.port = 2049;
  own.internal = true;
  EXPECT_TRUE(identify(settings_, TreeId{}, own));
}

TEST_F(IdentifyTest, TakesCallsAsTheExportWantsThemToCome) {
  using enum TransportSecurity;
  rpc::Call user = call(0x0a4d0107, 1000, 100);
  ExportConfig& entry = settings_.exports[0];
  entry.transports = TransportSecurities::none();
  entry.transports.add(kMutualTls);
  for (TransportSecurity how : {kNone, kTls}) {
    user.security.transport = how;
    auto who = identify(settings_, TreeId{}, user);
    ASSERT_FALSE(who);
    EXPECT_EQ(who.error(), Stranger::kTransport);
    EXPECT_EQ(refused(who.error()), rpc::Refused::kTransport);
    EXPECT_TRUE(identify_beside(settings_, user)) << "protocols beside NFS";
  }
  user.security.transport = kMutualTls;
  EXPECT_TRUE(identify(settings_, TreeId{}, user));
  rpc::Call own = call(0x0a4d0107, 0, 0);
  own.internal = true;
  EXPECT_TRUE(identify(settings_, TreeId{}, own));
  EXPECT_TRUE(identify(settings_, TreeId{}, call(0x0a4d0207, 5, 5))) << "another export";
}

TEST_F(IdentifyTest, TakesCallsOfTheFlavorsThatTheExportWants) {
  using enum SecurityFlavor;
  rpc::Call user = call(0x0a4d0107, 1000, 100);
  ExportConfig& entry = settings_.exports[0];
  EXPECT_TRUE(identify(settings_, TreeId{}, user));
  user.security.flavor = kKrb5p;
  EXPECT_FALSE(identify(settings_, TreeId{}, user)) << "by itself that of clients without Kerberos alone";
  entry.flavors = SecurityFlavors::none();
  entry.flavors.add(kKrb5i);
  entry.flavors.add(kKrb5p);
  EXPECT_TRUE(identify(settings_, TreeId{}, user));
  for (SecurityFlavor how : {kSys, kKrb5}) {
    user.security.flavor = how;
    auto who = identify(settings_, TreeId{}, user);
    ASSERT_FALSE(who);
    EXPECT_EQ(who.error(), Stranger::kFlavor);
    EXPECT_EQ(refused(who.error()), rpc::Refused::kFlavor);
    EXPECT_TRUE(identify_beside(settings_, user)) << "protocols beside NFS";
  }
}

TEST_F(IdentifyTest, WhoHasNoAccountIsNobody) {
  auto who = identify(settings_, TreeId{}, call(0x0a4d0207, rpc::kNoUser, rpc::kNoUser, {rpc::kNoUser}));
  ASSERT_TRUE(who);
  EXPECT_EQ(who->uid, 99u);
  EXPECT_EQ(who->gid, 98u);
  EXPECT_TRUE(who->groups.empty());
}

TEST_F(IdentifyTest, SquashesRootAloneByDefault) {
  auto root = identify(settings_, TreeId{}, call(0x0a4d0207, 0, 0, {0, 4, 5}));
  EXPECT_EQ(root->uid, 99u);
  EXPECT_EQ(root->gid, 98u);
  EXPECT_THAT(root->groups, ElementsAre(98, 4, 5));
  auto other = identify(settings_, TreeId{}, call(0x0a4d0207, 1000, 100, {4}));
  EXPECT_EQ(other->uid, 1000u);
  EXPECT_EQ(other->gid, 100u);
  EXPECT_THAT(other->groups, ElementsAre(4));
  // A user of the root group must not keep it.
  EXPECT_EQ(identify(settings_, TreeId{}, call(0x0a4d0207, 1000, 0))->gid, 98u);
}

TEST_F(IdentifyTest, SquashesEverybodyWhereTold) {
  auto who = identify(settings_, TreeId{}, call(0x0b000001, 1000, 100, {4}));
  EXPECT_EQ(who->uid, 77u);
  EXPECT_EQ(who->gid, 76u);
  EXPECT_TRUE(who->groups.empty());
}

TEST_F(IdentifyTest, TakesAuthNoneForTheAnonymousUser) {
  rpc::Call none = call(0x0a4d0107, 0, 0);
  none.has_auth_sys = false;
  EXPECT_EQ(identify(settings_, TreeId{}, none)->uid, 65534u);
}

TEST_F(IdentifyTest, TrustsTheEnsembleItself) {
  rpc::Call own = call(0xc0a80001, 5, 5);
  own.internal = true;
  EXPECT_TRUE(identify(settings_, TreeId{}, own)->superuser());
  // A call that a proxy forwards is the client's.
  rpc::Call forwarded = call(0xc0a80001, 0, 0);
  forwarded.forwarded = true;
  EXPECT_FALSE(identify(settings_, TreeId{}, forwarded));
}

TEST(May, TakesTheMostPersonalClassAlone) {
  auto odd = file_of(1000, 100, 0046);  // the owner has less than the others
  EXPECT_FALSE(may(user(1000, 100), odd, kMayRead));
  EXPECT_TRUE(may(user(2000, 100), odd, kMayRead));
  EXPECT_FALSE(may(user(2000, 100), odd, kMayWrite));
  EXPECT_TRUE(may(user(2000, 5, {7, 100}), odd, kMayRead));
  EXPECT_FALSE(may(user(2000, 5, {7, 100}), odd, kMayWrite));
  EXPECT_TRUE(may(user(2000, 200), odd, kMayRead | kMayWrite));
  EXPECT_FALSE(may(user(2000, 200), odd, kMayExecute));
}

// The mask takes from all but the owner and the others; who is named is in no group any more.
TEST(May, GoesByAnExtendedList) {
  const nfs3::ExtendedAccess access{
      .group = 7, .users = {{1001, 7}, {1002, 0}}, .groups = {{50, 4}, {51, 2}, {52, 6}}};
  auto file = file_of(1000, 100, 0667);
  const auto allows = [&](const Identity& who, unsigned wanted) { return may(who, {file, &access}, wanted); };
  EXPECT_TRUE(allows(user(1000, 1), kMayRead | kMayWrite));
  EXPECT_FALSE(allows(user(1000, 1), kMayExecute)) << "the owner's bits are the mode's";
  EXPECT_TRUE(allows(user(1001, 1), kMayRead | kMayWrite));
  EXPECT_FALSE(allows(user(1001, 1), kMayExecute)) << "the mask has no x";
  EXPECT_FALSE(allows(user(1002, 100), kMayRead)) << "named, and so in no group";
  EXPECT_TRUE(allows(user(7, 100), kMayRead | kMayWrite));
  EXPECT_FALSE(allows(user(7, 100), kMayExecute));
  EXPECT_TRUE(allows(user(7, 1, {50}), kMayRead));
  EXPECT_FALSE(allows(user(7, 1, {50}), kMayWrite));
  EXPECT_FALSE(allows(user(7, 1, {50, 51}), kMayRead | kMayWrite)) << "one group must give all of it";
  EXPECT_TRUE(allows(user(7, 1, {50, 51, 52}), kMayRead | kMayWrite));
  EXPECT_FALSE(allows(user(7, 1, {51}), kMayExecute)) << "a member of a group is no other";
  EXPECT_TRUE(allows(user(7, 1), kMayExecute)) << "others, whom no mask concerns";
  EXPECT_TRUE(allows(user(0, 0), kMayRead | kMayWrite | kMayExecute));
  file.mode = 0607;
  EXPECT_FALSE(allows(user(1001, 1), kMayRead)) << "the mask went with the mode";
  EXPECT_TRUE(may_transfer(user(1000, 1), {file, &access}, true));
  EXPECT_FALSE(may_transfer(user(1001, 1), {file, &access}, true));
  EXPECT_EQ(access_mask(user(1001, 1), {file, &access}, 63), 0u);
}

TEST(May, LetsTheSuperuserExecuteOnlyWhatSomebodyMay) {
  EXPECT_TRUE(may(user(0, 0), file_of(5, 5, 0), kMayRead | kMayWrite));
  EXPECT_FALSE(may(user(0, 0), file_of(5, 5, 0666), kMayExecute));
  EXPECT_TRUE(may(user(0, 0), file_of(5, 5, 0001), kMayExecute));
  EXPECT_TRUE(may(user(0, 0), folder_of(5, 5, 0), kMayExecute));
}

TEST(MayTransfer, LetsTheOwnerAndRunnersOfProgramsThrough) {
  EXPECT_TRUE(may_transfer(user(1000, 100), file_of(1000, 100, 0), true));
  EXPECT_TRUE(may_transfer(user(1000, 100), file_of(1000, 100, 0), false));
  EXPECT_TRUE(may_transfer(user(2000, 100), file_of(1000, 100, 0010), false));
  EXPECT_FALSE(may_transfer(user(2000, 100), file_of(1000, 100, 0010), true));
  EXPECT_FALSE(may_transfer(user(2000, 200), file_of(1000, 100, 0660), false));
  EXPECT_TRUE(may_transfer(user(2000, 100), file_of(1000, 100, 0660), true));
}

TEST(AccessMask, AnswersWhatWasAskedAlone) {
  constexpr std::uint32_t kAll = 63;
  auto file = file_of(1000, 100, 0754);
  EXPECT_EQ(access_mask(user(1000, 100), file, kAll),
            nfs3::kAccessRead | nfs3::kAccessModify | nfs3::kAccessExtend | nfs3::kAccessExecute);
  EXPECT_EQ(access_mask(user(2000, 100), file, kAll), nfs3::kAccessRead | nfs3::kAccessExecute);
  EXPECT_EQ(access_mask(user(2000, 200), file, kAll), nfs3::kAccessRead);
  EXPECT_EQ(access_mask(user(2000, 200), file, nfs3::kAccessModify), 0u);
  auto folder = folder_of(1000, 100, 0752);
  EXPECT_EQ(access_mask(user(1000, 100), folder, kAll), kAll & ~nfs3::kAccessExecute);
  EXPECT_EQ(access_mask(user(2000, 100), folder, kAll), nfs3::kAccessRead | nfs3::kAccessLookup);
  // Write without search permission changes nothing in a directory.
  EXPECT_EQ(access_mask(user(2000, 200), folder, kAll), 0u);
}

TEST(AccessMask, GrantsNoChangeOverAReadOnlyExport) {
  Identity who = user(0, 0);
  who.read_only = true;
  EXPECT_EQ(access_mask(who, file_of(1, 1, 0777), 63), nfs3::kAccessRead | nfs3::kAccessExecute);
  EXPECT_EQ(access_mask(who, folder_of(1, 1, 0777), 63), nfs3::kAccessRead | nfs3::kAccessLookup);
}

}  // namespace
}  // namespace slice::service
