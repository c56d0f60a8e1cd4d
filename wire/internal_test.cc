// The internal programs' messages, MOUNT and PORTMAP.
#include <gtest/gtest.h>

#include "wire/about.h"
#include "wire/admin.h"
#include "wire/authority.h"
#include "wire/configuration.h"
#include "wire/coordinator.h"
#include "wire/directory.h"
#include "wire/layout.h"
#include "wire/listed_site.h"
#include "wire/locks.h"
#include "wire/manager.h"
#include "wire/mount3.h"
#include "wire/moves.h"
#include "wire/nlm4.h"
#include "wire/nsm1.h"
#include "wire/object.h"
#include "wire/portmap2.h"
#include "wire/scan.h"
#include "wire/settings.h"
#include "wire/testing/codec_checks.h"

namespace slice::wire {

using NfsStatus = nfs3::Status;

namespace {

using wire_tests::check;
using wire_tests::check_message;

const std::string kHandleText(56, 'h');
ByteView handle() {
  return as_bytes(kHandleText);
}

nfs3::Attributes attributes() {
  return {.type = nfs3::FileType::kRegular,
          .mode = 0644,
          .nlink = 1,
          .uid = 2,
          .gid = 3,
          .size = 1ull << 40,
          .used = 5,
          .rdev_major = 6,
          .rdev_minor = 7,
          .fsid = 8,
          .fileid = FileId{9},
          .atime = {10, 11},
          .mtime = {12, 13},
          .ctime = {14, 999999999}};
}

TEST(AuthorityMessages, Codec) {
  check_message(HandlesArgs{{FileId{1}, FileId{2}}});
  HandlesResult handles{.files = {std::nullopt, HandlesResult::File{.size = 1ull << 40}}};
  handles.files[1]->handle.fill(7);
  check_message(handles);
  check_message(FetchArgs{handle(), true});
  check_message(FetchResult{NfsStatus::kOk, attributes(), true, {}});
  const auto access = std::make_shared<const nfs3::ExtendedAccess>(
      nfs3::ExtendedAccess{.group = 5, .users = {{1000, 6}, {1001, 0}}, .groups = {{50, 7}}});
  check_message(FetchResult{NfsStatus::kOk, attributes(), false, access});
  check_message(FetchResult{.status = NfsStatus::kStale});
  check_message(MergeArgs{{{.handle = handle(), .epoch = Epoch{3}, .size = 77},
                           {handle(), Epoch{3}, 77, nfs3::Time{1, 2}, nfs3::Time{3, 4}, 4096}},
                          1002});
  check_message(MergeArgs{});
  check_message(MergeResult{NfsStatus::kOk,
                            {{NfsStatus::kOk, attributes(), true, access}, {.status = NfsStatus::kStale}}});
  check_message(MergeResult{.status = NfsStatus::kJukebox});
  check_message(PolicyArgs{handle(), kPolicyCopies | kPolicyPlacement, {20, 3, 1}, true});
  check_message(PolicyResult{NfsStatus::kNotDir, {13, 2}});
}

TEST(AuthorityMessages, MoreFilesThanACallMayHaveAreRefused) {
  rpc::XdrWriter out;
  encode(out, MergeArgs{std::vector<FileMerge>(kMaxMerges, {.handle = handle()})});
  MergeArgs args;
  EXPECT_TRUE(decode(out.view(), args));
  out.rewind(0);
  encode(out, MergeArgs{std::vector<FileMerge>(kMaxMerges + 1, {.handle = handle()})});
  EXPECT_FALSE(decode(out.view(), args));
}

TEST(LayoutMessages, Codec) {
  check_message(SessionArgs{3, 1ull << 60});
  check_message(SessionResult{NfsStatus::kOk, 5, 3000, 1ull << 61});
  check_message(LayoutArgs{handle()});
  check_message(LayoutResult{.status = NfsStatus::kJukebox, .layout = {}, .owner = 7});
  check_message(
      LayoutResult{NfsStatus::kOk,
                   {.version = 1,
                    .changed = 2,
                    .missing = {{3, true, {{4, 5}, {6, kAllStripes}}, {{{4, 5}, 8}, {{6, 7}, kNotYet}}},
                                {7, false, {{0, 1}}, {}}},
                    .orders_since = {{3, 1ull << 60}, {9, 4}},
                    .others_order_since = 1ull << 59}});
  LayoutResult mapped{NfsStatus::kOk,
                      {.version = 1,
                       .changed = 2,
                       .moving = Moving{77, 5, true},
                       .piece = {3, std::vector<std::uint32_t>(256, 4095)}}};
  mapped.layout.piece.sites[1] = 1;
  check_message(mapped);
  check_message(LayoutArgs{handle(), 1ull << 40, true});
  check_message(MapArgs{handle(), 1ull << 40});
  check_message(MapResult{NfsStatus::kOk, mapped.layout.piece});
  check_message(MapResult{NfsStatus::kIo, {}});
  check_message(MoveArgs{handle(), 1ull << 40, 17});
  mapped.layout.piece.sites[2] = listed_site({7, 1022, 3});
  check_message(mapped);
  check_message(EmptiedArgs{3, Generation{9}});
  check_message(SpreadArgs{Generation{9}, {{3, 1ull << 40}, {4, 0}}});
  check_message(SpreadArgs{});
  check_message(SpreadingResult{});
  check_message(SpreadingResult{SpreadPhase::kGivenUp, 1ull << 40, 2, 3, 1ull << 33, 5, 6, "store2 is away"});
  check_message(EmptiedResult{NfsStatus::kJukebox, 12, "a pass goes on"});
  check_message(DiscardArgs{handle(), 9, 1ull << 40});
  check_message(EndSessionArgs{3, 1ull << 40, true});
  check_message(LeavingArgs{3});
  check_message(MissedArgs{handle(), 4, {1ull << 40, kAllStripes}});
  check_message(RecallArgs{FileId{5}, 6, 4, {}});
  check_message(RecallArgs{FileId{}, 6, 4, {1, 900}});
  check_message(ReceiveArgs{.move = 1,
                            .attempt = 2,
                            .number = 3,
                            .begun = {{4, "a record"}, {5, ""}},
                            .ended = {6, 7},
                            .pieces = {{FileId{8}, mapped.layout.piece}, {FileId{9}, {10, {}}}},
                            .removed = {11},
                            .version = 12});
  check_message(ReceiveArgs{});
  check_message(ForwardArgs{handle(), 1, 2, Epoch{3}, 4, {5, 6}, true, handle().first(7)});
  check_message(ForwardArgs{handle(), 1, 2, Epoch{3}, 4, {5, 6}, true, {}, nfs3::kMaxTransfer});
  check_message(ForwardResult{NfsStatus::kNotSync, Epoch{1}, 2, Verifier{3}});
  check_message(CopyArgs{handle(), 1, 2, 3});
}

TEST(LayoutMessages, RangesAreNotEmptyAndNotTooMany) {
  rpc::XdrWriter empty;
  encode(empty, MissedArgs{handle(), 4, {5, 5}});
  MissedArgs args;
  EXPECT_FALSE(decode(empty.view(), args));
  LayoutResult many{NfsStatus::kOk,
                    {.missing = {{3, false, std::vector<StripeRange>(kMaxStripeRanges + 1, {1, 2}), {}}}}};
  rpc::XdrWriter out;
  encode(out, many);
  EXPECT_FALSE(decode(out.view(), many));
  LayoutResult since{
      NfsStatus::kOk,
      {.missing = {{3, false, {}, std::vector<MissedSince>(kMaxMissedSince + 1, {{1, 2}, 3})}}}};
  rpc::XdrWriter noted;
  encode(noted, since);
  EXPECT_FALSE(decode(noted.view(), since));
  LayoutResult orderers{NfsStatus::kOk,
                        {.orders_since = std::vector<OrdersSince>(kMaxOrdersSince + 1, {1, 2})}};
  rpc::XdrWriter more;
  encode(more, orderers);
  EXPECT_FALSE(decode(more.view(), orderers));
}

TEST(LayoutMessages, AWriteThatWasSentTooEarlyIsAFailureToOthers) {
  rpc::XdrWriter out;
  encode_sent_too_early(out, {0x1234, 1ull << 60});
  EXPECT_EQ(decode_sent_too_early(out.view()), (rpc::LayoutStamp{0x1234, 1ull << 60}));
  rpc::XdrWriter plain;
  nfs3::encode_failure(plain, nfs3::Procedure::kWrite, NfsStatus::kJukebox);
  EXPECT_EQ(to_hex(out.view()), to_hex(plain.view()) + "00001234" + "1000000000000000");
  EXPECT_FALSE(decode_sent_too_early(plain.view()));
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_FALSE(decode_sent_too_early(out.view().first(i))) << i;
  Buffer other(out.view());
  other.data()[3] = 5;  // another failure
  EXPECT_FALSE(decode_sent_too_early(other.view()));
  store_be<std::uint32_t>(other.data(), static_cast<std::uint32_t>(NfsStatus::kJukebox));
  other.data()[12] = 1;  // no process has such an index
  EXPECT_FALSE(decode_sent_too_early(other.view()));
}

TEST(MovesMessages, Codec) {
  const SiteMove move{MoveId{77}, Role::kStorage, 3, 4, Generation{5}, {0, 9, 4095}};
  const MoveSitesResult told{MovePhase::kCopying, 1 << 20, 2 << 20, 3, 1500, "a disk is full"};
  check_message(MoveSitesArgs{move, 100, true});
  check_message(told);
  check_message(AbortMoveArgs{move});
  check_message(AbortMoveResult{MovePhase::kGiven, 12});
  check_message(PrepareSitesArgs{move, 12});
  check_message(OfferSitesArgs{MoveId{77}, 12, true, Verifier{13}});
  check_message(TakeSitesArgs{move});
  check_message(WithdrawSitesArgs{move, 12});
  check_message(MovesResult{NfsStatus::kStale, 13, "a later one"});
  check_message(LateWritesArgs{MoveId{77}, 12, {{{1, 2}, 3, 4, 5, NfsStatus::kOk, "reply"}}});
  check_message(StartMovesArgs{Role::kStorage, 4, {1, 2}});
  check_message(StartMovesResult{"no", true, {MoveId{1}, MoveId{2}}});
  check_message(MovesListResult{{true, 9}, {{move, told, true, 5, 6, 7}}});
  check_message(ChangeMovesArgs{ChangeMovesArgs::kAbort, {false, 8}, MoveId{77}});
  check_message(ChangeMovesResult{"no", {true, 1}});
}

TEST(MovesMessages, SitesAreInOrderAndNotTooMany) {
  auto decodes = [](std::vector<std::uint32_t> sites) {
    rpc::XdrWriter out;
    encode(out, AbortMoveArgs{{MoveId{1}, Role::kStorage, 0, 1, {}, std::move(sites)}});
    AbortMoveArgs args;
    return decode(out.view(), args);
  };
  EXPECT_TRUE(decodes({1, 2}));
  EXPECT_FALSE(decodes({2, 1}));
  EXPECT_FALSE(decodes({1, 1}));
  EXPECT_FALSE(decodes({}));
  EXPECT_FALSE(decodes({65536}));
  std::vector<std::uint32_t> many(kMaxSitesOfMove + 1);
  for (std::uint32_t i = 0; i < many.size(); ++i) many[i] = i;
  EXPECT_FALSE(decodes(many));
}

TEST(CoordinatorMessages, Codec) {
  check_message(CoordinatorTruncateArgs{handle(), 1ull << 33, Epoch{4}});
  check_message(CoordinatorRemoveArgs{handle()});
  check_message(CoordinatorResult{NfsStatus::kJukebox});
}

TEST(DirectoryMessages, Codec) {
  TransactionName id{SiteId{3}, 0x1122334455667788, 9};
  CellName cell{SiteId{63}, FileId{0x3000000000005}, 7};
  LockItem name{.kind = LockItem::Kind::kName, .exclusive = true, .cell = cell, .position = 44, .name = "a"};
  LockItem part{.kind = LockItem::Kind::kPart, .cell = cell, .name = {}};
  check_message(LockArgs{id, 1ull << 60, {name, part}});
  check_message(LockResult{PeerStatus::kOk, 5, {"", std::string(100, 'v')}});
  check_message(LockResult{.status = PeerStatus::kRefused, .values = {}});
  check_message(PrepareArgs{id, {{SiteId{1}, "steps"}, {SiteId{2}, ""}}});
  check_message(FinishArgs{id, true, SiteId{9}});
  check_message(OwnerArgs{SiteId{9}});
  check_message(OwnerResult{PeerStatus::kOk, 4});
  check_message(CellsArgs{MoveId{5}, 6, 7, {{"key", "value"}, {"gone", std::nullopt}, {"empty", ""}}});
  check_message(PeerResult{PeerStatus::kFailed});
  check_message(OutcomeArgs{id});
  check_message(OutcomeResult{PeerStatus::kOk, TransactionOutcome::kCommitted});
  check_message(OutcomeResult{.status = PeerStatus::kMisdirected});
  check_message(CellReadArgs{cell, true});
  check_message(CellResult{PeerStatus::kOk, std::string(200, 'c')});
  check_message(CellResult{.status = PeerStatus::kStale, .cell = {}});
  check_message(TouchArgs{cell, SiteId{5}, 6, 7});
  check_message(RevokeArgs{FileId{8}});
  check_message(ListArgs{cell, ~0ull >> 1, 65536, true});
  ListedName listed{FileId{8}, "name", 1ull << 50, std::string(kHandleSize, 'h'), attributes()};
  check_message(ListResult{
      PeerStatus::kOk, true, {std::vector<bool>(8, true)}, {listed, {FileId{9}, "bare", 3, {}, {}}}});
  check_message(ListResult{.status = PeerStatus::kFailed, .sites = {}, .names = {}});
}

TEST(ObjectMessages, Codec) {
  ObjectName name{VolumeId{1}, FileId{0x1122334455667788}, ObjectKind::kZone};
  check_message(ObjectReadArgs{name, 1ull << 40, 65536});
  check_message(ObjectReadResult{NfsStatus::kOk, true, handle().first(5)});
  check_message(ObjectReadResult{.status = NfsStatus::kNoEnt});
  check_message(ObjectWriteArgs{name, 7, true, handle()});
  check_message(ObjectWriteResult{NfsStatus::kOk, Verifier{8}});
  check_message(ObjectWriteResult{.status = NfsStatus::kNoSpc});
  check_message(ObjectTruncateArgs{name, 99, Epoch{2}, Generation{4}});
  check_message(ObjectRemoveArgs{name, Generation{4}});
  check_message(ObjectStatArgs{name});
  check_message(ObjectStatResult{NfsStatus::kOk, 1, 2, Epoch{3}, {{4, 5, 6}, {7, 8, 9}}});
  check_message(ObjectStatResult{.status = NfsStatus::kNoEnt});
  check_message(ObjectListArgs{name, 5});
  check_message(ObjectListResult{NfsStatus::kOk, {name, name}, false});
  check_message(ObjectListResult{.status = NfsStatus::kIo});
  check_message(ObjectCommitArgs{name, Verifier{12}, Generation{4}});
  check_message(ObjectCommitResult{NfsStatus::kOk, Verifier{1}, 2, {3, 4}, Epoch{5}});
  check_message(ObjectCommitResult{.status = NfsStatus::kIo});
  check_message(ObjectStatusResult{NfsStatus::kOk, {3, 9}});
  check_message(PlaceArgs{7, 8, handle(), 9, Epoch{2}, 65536, nfs3::Time{3, 4}, handle()});
  check_message(
      PlaceFileArgs{7, 8, 9, FileId{42}, PlaceFileArgs::What::kCut, Epoch{2}, 65536, nfs3::Time{3, 4}, {}});
  check_message(
      PlaceFileArgs{7, 8, 9, FileId{42}, PlaceFileArgs::What::kBytes, Epoch{2}, 5, {3, 4}, handle()});
  check_message(PlaceResult{NfsStatus::kNotSync, 5, Verifier{6}});
  check_message(ObjectImageArgs{name, 1 << 20});
  check_message(ObjectImageResult{NfsStatus::kOk, 9, Epoch{5}, {3, 4}, {{0, "abc"}, {8192, ""}}, 1 << 20});
  check_message(ObjectImageResult{.status = NfsStatus::kNoEnt, .mtime = {}, .runs = {}});
}

TEST(ScanMessages, Codec) {
  check_message(ScanArgs{SiteId{3}, {"a key", "another"}, "begin", "end", 77, 1ull << 40});
  check_message(SnapshotArgs{SnapshotStep::kDrop, 77});
  check_message(SnapshotResult{NfsStatus::kOk, {0, 5}});
  check_message(SnapshotResult{.status = NfsStatus::kJukebox, .sites = {}});
  check_message(ScanArgs{});
  ScanResult result{.values = {{}, {ScanValue::State::kPresent, "v"}, {ScanValue::State::kUnreadable, "why"}},
                    .cells = {{"k1", "v1"}, {"k2", ""}},
                    .gaps = {{"from", "to", "why"}},
                    .next = "k3"};
  check_message(result);
  check_message(ScanResult{.status = NfsStatus::kJukebox});
}

TEST(ScanMessages, CountsAndLengthsAreBounded) {
  rpc::XdrWriter out;
  encode(out, ScanArgs{.keys = std::vector<std::string>(kMaxScanKeys + 1, "k")});
  ScanArgs args;
  EXPECT_FALSE(decode(out.view(), args));
  out.rewind(0);
  encode(out, ScanArgs{.begin = std::string(kMaxScanKey + 1, 'k')});
  EXPECT_FALSE(decode(out.view(), args));
  out.rewind(0);
  encode(out, ScanResult{.cells = {{"k", std::string(kMaxScanValue + 1, 'v')}}});
  ScanResult result;
  EXPECT_FALSE(decode(out.view(), result));
}

TEST(ObjectMessages, KindsAndCountsAreBounded) {
  rpc::XdrWriter out;
  encode(out, ObjectRemoveArgs{{VolumeId{1}, FileId{2}, ObjectKind::kStore}});
  ObjectRemoveArgs args;
  EXPECT_TRUE(decode(out.view(), args));
  out.patch_u32(12, 4);
  EXPECT_FALSE(decode(out.view(), args));

  rpc::XdrWriter stat;
  ObjectStatResult many;
  many.extents.resize(2000);  // only 1024 travel
  encode(stat, many);
  ObjectStatResult decoded;
  EXPECT_TRUE(decode(stat.view(), decoded));
  EXPECT_EQ(decoded.extents.size(), 1024u);
  stat.patch_u32(4 + 8 + 8 + 4, 1025);
  EXPECT_FALSE(decode(stat.view(), decoded));
}

TEST(ManagerMessages, Codec) {
  HeartbeatArgs heartbeat{1,
                          2,
                          3,
                          Generation{4},
                          9,
                          Holding::kTables,
                          10,
                          Verifier{5},
                          6,
                          7,
                          8,
                          "serving",
                          "xdp generic",
                          SettingsGeneration{11},
                          12};
  ServerEntry entry{3,           Role::kProxy, {0x0a4d0202, 2049}, "proxy-1", 7ULL << 40, "h1",
                    "left rack", true,         Generation{4}};
  check_message(heartbeat);
  check_message(HeartbeatResult{Generation{1}, Verifier{2}, true, true, SettingsGeneration{3}});
  check_message(DrawVerifierArgs{7});
  check_message(DrawVerifierResult{Verifier{8}});
  Tables tables{.generation = Generation{9}, .servers = {entry, entry}};
  tables.sites[0] = {1, 2, 3};
  tables.sites[3] = {4};
  check_message(tables);
  Tables moved = tables;
  moved.layout_sites = {2, 3};
  check_message(moved);
  EXPECT_NE(digest(moved), digest(tables));
  check_message(OfferTablesArgs{3, tables});
  check_message(OfferTablesResult{true});
  check_message(ClaimArgs{3, true, false, 12, {{0, Generation{1}}, {4095, Generation{7}}}, {5, 6}});
  check_message(ClaimResult{ClaimVerdict::kLost, Generation{8}});
  check_message(ChangeServerArgs{ServerChange::kRemove, entry, ChangeServerArgs::kAll});
  check_message(ChangeServerResult{"it has this name already", entry, Generation{8}});
  check_message(ConfigurationResult{"", "slice 1", 7, "name = \"a\"\n"});
  check_message(ConfigurationResult{"ensemble.toml:1: no", "slice 1", 7, ""});
  check_message(MembersResult{Generation{1}, SettingsGeneration{2}, {{entry, heartbeat, 1500, true}}});
  Tables other = tables;
  EXPECT_EQ(digest(other), digest(tables));
  other.sites[3] = {5};
  EXPECT_NE(digest(other), digest(tables));
}

TEST(ManagerMessages, ClaimedSitesAreInOrderAndSitesAreFoundByName) {
  for (std::vector<OwnedSite> sites :
       {std::vector<OwnedSite>{{4, {}}, {4, {}}}, {{4, {}}, {3, {}}}, {{65536, {}}}}) {
    rpc::XdrWriter out;
    encode(out, ClaimArgs{.server = 1, .has_record = true, .sites = sites});
    ClaimArgs args;
    EXPECT_FALSE(decode(out.view(), args));
  }
  Tables tables{.generation = Generation{9},
                .servers = {{0, Role::kDirectory, {}, "dir1"}, {1, Role::kStorage, {}, "store1"}}};
  tables.sites[2] = {1, 0, 1};
  EXPECT_EQ(sites_of(tables, "store1"), (std::vector<std::uint32_t>{0, 2}));
  EXPECT_TRUE(sites_of(tables, "dir1").empty());
  EXPECT_TRUE(sites_of(tables, "store2").empty());
  ASSERT_NE(find_member(tables, "store1"), nullptr);
  EXPECT_EQ(find_member(tables, "store1")->server, 1u);
  tables.servers.push_back(tables.servers[1]);
  tables.servers[1].role = Role::kRemoved;
  tables.servers[2].server = 2;
  EXPECT_EQ(find_member(tables, "store1")->server, 2u) << "of this name was one before";
  tables.servers[2].role = Role::kRemoved;
  EXPECT_EQ(find_member(tables, "store1"), nullptr);
  EXPECT_NE(digest(sites_of(tables, "dir1")), 0u) << "a record of no sites is one, too";
}

TEST(ManagerMessages, PortsRolesAndListsAreBounded) {
  rpc::XdrWriter out;
  encode(out, Tables{.generation = Generation{1}, .servers = {{0, Role::kProxy, {1, 65535}, "n"}}});
  Tables tables;
  EXPECT_TRUE(decode(out.view(), tables));
  rpc::XdrWriter port(Buffer(out.view()));
  port.patch_u32(24, 65536);
  EXPECT_FALSE(decode(port.view(), tables));
  rpc::XdrWriter role(Buffer(out.view()));
  role.patch_u32(16, 7);
  EXPECT_FALSE(decode(role.view(), tables));
  rpc::XdrWriter count(Buffer(out.view()));
  count.patch_u32(8, 0x80000004);
  EXPECT_FALSE(decode(count.view(), tables));
}

TEST(ManagerMessages, TablesOfEveryFormAreToldApart) {
  Tables tables{.generation = Generation{9},
                .servers = {{.server = 0,
                             .role = Role::kStorage,
                             .endpoint = {1, 2},
                             .name = "a",
                             .drained = true,
                             .lost = Verifier{7},
                             .started = true}}};
  for (std::uint32_t site = 0; site < 4; ++site) tables.sites[2].push_back(0);
  tables.layout_sites = {0, 0, 0, 0};
  rpc::XdrWriter out;
  encode(out, tables);
  const std::size_t of_birth = out.view().size() - 4 - 4, unlost = of_birth - 4 - 8, places = unlost - 4 - 28,
                    unmoved = places - 4 - 4 * 4;
  for (auto [form, length] : {std::pair{TablesForm::kNow, out.view().size()},
                              {TablesForm::kOfBirth, of_birth},
                              {TablesForm::kUnlost, unlost},
                              {TablesForm::kPlaces, places},
                              {TablesForm::kUnmoved, unmoved}}) {
    for (TablesForm other : {TablesForm::kNow, TablesForm::kOfBirth, TablesForm::kUnlost, TablesForm::kPlaces,
                             TablesForm::kUnmoved}) {
      Tables read;
      EXPECT_EQ(decode(out.view().first(length), other, read), form == other);
      if (form != other) continue;
      EXPECT_EQ(read.servers[0].drained, form >= TablesForm::kUnlost);
      EXPECT_EQ(read.servers[0].lost.value, form >= TablesForm::kOfBirth ? 7u : 0u);
      EXPECT_EQ(read.servers[0].started, form == TablesForm::kNow);
      EXPECT_EQ(read.layout_sites.size(), form == TablesForm::kUnmoved ? 0u : 4u);
    }
  }
}

TEST(ListedSites, AreTheServersThatTheyList) {
  for (const std::vector<std::uint32_t>& servers :
       {std::vector<std::uint32_t>{0}, {1022, 0}, {5, 1022, 7}, {0, 1, 2}}) {
    const std::uint32_t site = listed_site(servers);
    EXPECT_TRUE(is_listed(site) && is_good_site(site));
    EXPECT_EQ(listed_servers(site), servers);
  }
  EXPECT_TRUE(is_good_site(0) && is_good_site(65535) && !is_good_site(65536));
  EXPECT_TRUE(listed_servers(7).empty());
  EXPECT_FALSE(is_good_site(listed_site({3, 3}))) << "one server twice";
  EXPECT_FALSE(is_good_site(listed_site({kNoListedServer, 3}))) << "none before one";
  EXPECT_FALSE(is_good_site(listed_site({3, kNoListedServer, 4})));
  EXPECT_FALSE(is_good_site(listed_site({kNoListedServer}))) << "none at all";
  EXPECT_FALSE(is_good_site(listed_site({3}) | 1u << 30));
}

TEST(ManagerMessages, LongTextsAreCutNotRefused) {
  rpc::XdrWriter out;
  encode(out, HeartbeatArgs{.state = std::string(1000, 's'), .detail = "d"});
  HeartbeatArgs decoded;
  ASSERT_TRUE(decode(out.view(), decoded));
  EXPECT_EQ(decoded.state.size(), 255u);
}

TEST(AdminMessages, Codec) {
  check_message(MetricsResult{"dird-1", "# TYPE slice_a_total counter\nslice_a_total 1\n"});
  check_message(MisdirectedArgs{Role::kStorage, SiteId{17}, Generation{9}});
  check_message(NewTablesArgs{Generation{9}});
  check_message(AboutResult{.name = "store1",
                            .version = "0.1.0",
                            .told = {.server = 3, .pid = 7, .state = "serving"},
                            .wall_ns = 1,
                            .state_ms = 2,
                            .manager_silent_ms = 3,
                            .late_ms = 4,
                            .shared = {{"name", "e"}, {"[volume] id", "1"}}});
}

TEST(MountMessages, Codec) {
  check_message(mount3::MntResult{mount3::Status::kOk, handle(), {1, 0}});
  check_message(mount3::MntResult{.status = mount3::Status::kAcces});
  check_message(std::vector<mount3::MountEntry>{{"host", "/"}, {"other", "/a"}});
  check_message(std::vector<mount3::ExportEntry>{{"/", {"10.77.0.0/16", "x"}}, {"/b", {}}});
  std::string_view path = "/export/path";
  check([&](rpc::XdrWriter& out) { mount3::encode_path(out, path); },
        [&](ByteView bytes) { return mount3::decode_path(bytes, path); });
  std::string longest(mount3::kMaxPath + 1, 'p');
  rpc::XdrWriter out;
  mount3::encode_path(out, longest);
  EXPECT_FALSE(mount3::decode_path(out.view(), path));
}

TEST(LockMessages, Codec) {
  const nlm4::Lock lock{.caller = "client",
                        .handle = handle(),
                        .owner = handle().first(7),
                        .svid = -3,
                        .offset = 1ull << 40,
                        .length = 9};
  const ByteView cookie = handle().first(4);
  check_message(nlm4::TestArgs{cookie, true, lock});
  check_message(nlm4::LockArgs{cookie, true, false, lock, true, 12});
  check_message(nlm4::CancelArgs{cookie, false, true, lock});
  check_message(nlm4::UnlockArgs{cookie, lock});
  check_message(nlm4::ShareArgs{cookie, "client", handle(), handle().first(3), 2, 1, true});
  check_message(nlm4::FreeAllArgs{"client", 5});
  check_message(nlm4::Result{cookie, nlm4::Status::kDeniedNoLocks});
  check_message(nlm4::ShareResult{cookie, nlm4::Status::kDeniedNoLocks, 7});
  check_message(nlm4::TestResult{cookie, nlm4::Status::kGranted, {}});
  check_message(nlm4::TestResult{cookie, nlm4::Status::kDenied, {true, 9, cookie, 5, 10}});
  check_message(nsm1::NotifyArgs{"client", 7});
  check_message(FreeLocksArgs{1, "client", 5, {1, 2}});
  check_message(FreeLocksArgs{1, "client", std::nullopt, {}});
  check_message(FreeLocksResult{{1, 63}});
  check_message(WaitsArgs{{{1, "client", -4, "oh"}, {2, "", 0, ""}}});
  check_message(WaitsResult{{{1, "client", -4, "oh"}}});
  check_message(GrantArgs{8, 1, Buffer(cookie)});
  check_message(GrantResult{Granting::kAnswered, nlm4::Status::kGranted, 8});
}

TEST(LockMessages, LengthsBeyondTheStandardsAreRefused) {
  const std::string large(2000, 'x');
  for (std::size_t size : {1024u, 1025u}) {
    rpc::XdrWriter out;
    encode(out, nlm4::UnlockArgs{as_bytes(large).first(size), {}});
    nlm4::UnlockArgs args;
    EXPECT_EQ(decode(out.view(), args), size <= nlm4::kMaxObject) << size;
  }
}

TEST(PortmapMessages, Codec) {
  using portmap2::Mapping;
  check_message(Mapping{100003, 3, portmap2::kTcp, 2049});
  check_message(std::vector<Mapping>{{1, 2, 3, 4}, {5, 6, 7, 8}});
  check_message(portmap2::CallitArgs{1, 2, 3, handle()});
  std::uint32_t port = 2049;
  check([&](rpc::XdrWriter& out) { portmap2::encode_port(out, port); },
        [&](ByteView bytes) { return portmap2::decode_port(bytes, port); });
  bool done = true;
  check([&](rpc::XdrWriter& out) { portmap2::encode_done(out, done); },
        [&](ByteView bytes) { return portmap2::decode_done(bytes, done); });
}

TEST(ListMessages, AnEndlessListIsRefusedNotFollowed) {
  rpc::XdrWriter out;
  for (int i = 0; i < 300'000; ++i) {
    out.boolean(true);
    for (int word = 0; word < 4; ++word) out.u32(1);
  }
  out.boolean(false);
  std::vector<portmap2::Mapping> mappings;
  EXPECT_FALSE(portmap2::decode(out.view(), mappings));
}

}  // namespace
}  // namespace slice::wire
