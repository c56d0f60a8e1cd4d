#include "tests/fuzz/corpus.h"

#include "wire/admin.h"
#include "wire/authority.h"
#include "wire/backing.h"
#include "wire/coordinator.h"
#include "wire/directory.h"
#include "wire/failover.h"
#include "wire/layout.h"
#include "wire/locks.h"
#include "wire/manager.h"
#include "wire/mount3.h"
#include "wire/moves.h"
#include "wire/nfs3_acl.h"
#include "wire/nlm4.h"
#include "wire/nsm1.h"
#include "wire/object.h"
#include "wire/portmap2.h"
#include "wire/quota.h"
#include "wire/routes.h"
#include "wire/rquota.h"
#include "wire/scan.h"
#include "wire/settings.h"
#include "wire/trace.h"
#include "wire/trees.h"

namespace slice::fuzz {
namespace {

// Collects messages; each function below adds those of one program.
class Maker {
 public:
  explicit Maker(const Volume& volume) : volume_(volume) {}

  std::vector<Message> take() { return std::move(messages_); }
  ByteView handle(std::size_t which) const {
    return as_bytes(volume_.handles[which % volume_.handles.size()]);
  }
  VolumeId volume() const { return VolumeId{volume_.id}; }

  template <class Procedure>
  void nfs(Procedure procedure, rpc::XdrWriter& arguments) {
    const nfs3::WireProcedure called = nfs3::on_the_wire(static_cast<std::uint32_t>(procedure));
    add(called.program, nfs3::kVersion, called.number, arguments, false);
  }
  template <class Args>
  void nfs(nfs3::Procedure procedure, const Args& args) {
    rpc::XdrWriter out;
    nfs3::encode_arguments(out, args);
    nfs(procedure, out);
  }
  template <class Procedure, class Args>
  void internal(std::uint32_t program, Procedure procedure, const Args& args) {
    rpc::XdrWriter out;
    wire::encode(out, args);
    add(program, wire::kInternalVersion, static_cast<std::uint32_t>(procedure), out, true);
  }
  template <class Procedure>
  void internal(std::uint32_t program, Procedure procedure) {
    rpc::XdrWriter none;
    add(program, wire::kInternalVersion, static_cast<std::uint32_t>(procedure), none, true);
  }
  void add(std::uint32_t program, std::uint32_t version, std::uint32_t procedure, rpc::XdrWriter& arguments,
           bool is_internal) {
    messages_.push_back({program, version, procedure, std::string(as_text(arguments.view())), is_internal});
  }

 private:
  const Volume& volume_;
  std::vector<Message> messages_;
};

nfs3::SetAttributes some_attributes() {
  nfs3::SetAttributes attributes;
  attributes.mode = 0640;
  attributes.uid = 1001;
  attributes.size = 70'000;
  attributes.set_mtime = nfs3::SetAttributes::TimeHow::kClientTime;
  attributes.mtime = {1'700'000'000, 5};
  return attributes;
}

void nfs_names(Maker& make) {
  using P = nfs3::Procedure;
  const nfs3::DirOpArgs where{make.handle(0), "fuzzed"};
  make.nfs(P::kLookup, where);
  make.nfs(P::kCreate, nfs3::CreateArgs{where, nfs3::CreateMode::kUnchecked, some_attributes(), {}});
  make.nfs(P::kCreate, nfs3::CreateArgs{where, nfs3::CreateMode::kExclusive, {}, {1, 2, 3}});
  make.nfs(P::kMkdir, nfs3::MkdirArgs{{make.handle(0), "folder"}, some_attributes()});
  make.nfs(P::kSymlink, nfs3::SymlinkArgs{{make.handle(0), "link"}, {}, "to/somewhere"});
  make.nfs(P::kMknod, nfs3::MknodArgs{{make.handle(0), "pipe"}, nfs3::FileType::kFifo, {}});
  make.nfs(P::kRemove, where);
  make.nfs(P::kRmdir, nfs3::DirOpArgs{make.handle(0), "folder"});
  make.nfs(P::kRename, nfs3::RenameArgs{where, {make.handle(0), "renamed"}});
  make.nfs(P::kLink, nfs3::LinkArgs{make.handle(1), {make.handle(0), "second"}});
  make.nfs(P::kReaddir, nfs3::ReaddirArgs{make.handle(0), 0, {}, 4096});
  make.nfs(P::kReaddirplus, nfs3::ReaddirplusArgs{make.handle(0), 0, {}, 4096, 8192});
}

void nfs_files(Maker& make) {
  using P = nfs3::Procedure;
  static const std::string bytes(1000, 'z');
  for (std::size_t which : {0U, 1U, 2U}) {
    for (P procedure : {P::kGetattr, P::kReadlink, P::kFsstat, P::kFsinfo, P::kPathconf}) {
      make.nfs(procedure, make.handle(which));
    }
    make.nfs(P::kSetattr, nfs3::SetattrArgs{make.handle(which), some_attributes(), nfs3::Time{5, 6}});
    make.nfs(P::kAccess, nfs3::AccessArgs{make.handle(which), 63});
    make.nfs(P::kGetacl, nfs3::GetaclArgs{make.handle(which), nfs3::kAclAll});
    make.nfs(P::kSetacl, nfs3::SetaclArgs{.object = make.handle(which),
                                          .mask = nfs3::kAclAccess | nfs3::kAclDefault,
                                          .access = nfs3::Acl{7, 6, 4, 7, {{1001, 6}, {1002, 7}}, {{50, 4}}},
                                          .defaults = nfs3::Acl{7, 6, 4, 7, {{1001, 6}}, {}}});
    for (std::uint64_t offset : {0ULL, 65'000ULL, 131'072ULL}) {
      make.nfs(P::kRead, nfs3::ReadArgs{make.handle(which), offset, 8192});
      make.nfs(P::kWrite, nfs3::WriteArgs{make.handle(which), offset, 1000, nfs3::Stable::kUnstable,
                                          as_bytes(std::string_view(bytes))});
    }
    make.nfs(P::kCommit, nfs3::CommitArgs{make.handle(which), 0, 0});
  }
}

void mount_and_portmap(Maker& make) {
  for (std::uint32_t procedure = 0; procedure < 6; ++procedure) {
    rpc::XdrWriter path;
    if (procedure == 1 || procedure == 3) mount3::encode_path(path, "/fuzz");
    make.add(mount3::kProgram, mount3::kVersion, procedure, path, false);
    rpc::XdrWriter mapping;
    if (procedure > 0 && procedure < 4) {
      portmap2::encode(mapping, portmap2::Mapping{nfs3::kProgram, nfs3::kVersion, portmap2::kTcp, 0});
    }
    if (procedure < 5) make.add(portmap2::kProgram, portmap2::kVersion, procedure, mapping, false);
  }
  rpc::XdrWriter routes;
  encode(routes, wire::RoutesArgs{Generation{1}});
  make.add(wire::kRoutesProgram, wire::kInternalVersion, 1, routes, false);
  rpc::XdrWriter callit;
  portmap2::encode(callit, portmap2::CallitArgs{mount3::kProgram, mount3::kVersion, 5, {}});
  make.add(portmap2::kProgram, portmap2::kVersion, 5, callit, false);
}

void locks(Maker& make) {
  using P = nlm4::Procedure;
  const auto add = [&](P procedure, const auto& args) {
    rpc::XdrWriter out;
    encode(out, args);
    make.add(nlm4::kProgram, nlm4::kVersion, static_cast<std::uint32_t>(procedure), out, false);
  };
  const ByteView cookie = as_bytes("1"), owner = as_bytes("me");
  for (std::uint64_t length : {0ULL, 5ULL, ~0ULL}) {
    const nlm4::Lock lock{.caller = "client",
                          .handle = make.handle(2),
                          .owner = owner,
                          .svid = 7,
                          .offset = 10,
                          .length = length};
    const nlm4::LockArgs wanted{.cookie = cookie, .block = true, .exclusive = true, .lock = lock, .state = 3};
    add(P::kLock, wanted);
    add(P::kNmLock, wanted);
    add(P::kTest, nlm4::TestArgs{cookie, true, lock});
    add(P::kCancel, nlm4::CancelArgs{cookie, true, true, lock});
    add(P::kUnlock, nlm4::UnlockArgs{cookie, lock});
    add(P::kGranted, nlm4::TestArgs{cookie, true, lock});
  }
  const nlm4::ShareArgs share{
      .cookie = cookie, .caller = "client", .handle = make.handle(2), .owner = owner, .mode = 2, .access = 1};
  add(P::kShare, share);
  add(P::kUnshare, share);
  add(P::kFreeAll, nlm4::FreeAllArgs{"client", 3});
  rpc::XdrWriter notice, free, grant;
  encode(notice, nsm1::NotifyArgs{"client", 5});
  make.add(nsm1::kProgram, nsm1::kVersion, static_cast<std::uint32_t>(nsm1::Procedure::kNotify), notice,
           false);
  encode(free, wire::FreeLocksArgs{.address = 0x0a4d0102, .host = "client", .keep = 3, .sites = {0, 1, 63}});
  make.add(wire::kLocksProgram, wire::kInternalVersion, 1, free, true);
  rpc::XdrWriter waits;
  encode(waits, wire::WaitsArgs{{{0x0a4d0102, "client", 7, "me"}}});
  make.add(wire::kLocksProgram, wire::kInternalVersion, 3, waits, true);
  encode(grant, wire::GrantArgs{});
  make.add(wire::kLocksProgram, wire::kInternalVersion, 2, grant, true);
}

void object_program(Maker& make) {
  using P = wire::ObjectProcedure;
  constexpr std::uint32_t kProgram = wire::kObjectProgram;
  static const std::string bytes(600, 'o');
  const ByteView data = as_bytes(std::string_view(bytes));
  for (auto kind : {wire::ObjectKind::kFile, wire::ObjectKind::kStore}) {
    const wire::ObjectName object{make.volume(), FileId{0x7fff0000'00000001}, kind};
    make.internal(kProgram, P::kRead, wire::ObjectReadArgs{object, 65'536, 4096});
    make.internal(kProgram, P::kWrite, wire::ObjectWriteArgs{object, 65'536, false, data});
    make.internal(kProgram, P::kTruncate, wire::ObjectTruncateArgs{object, 5, Epoch{1}});
    make.internal(kProgram, P::kRemove, wire::ObjectRemoveArgs{object});
    make.internal(kProgram, P::kStat, wire::ObjectStatArgs{object});
    make.internal(kProgram, P::kList, wire::ObjectListArgs{object, 10});
    make.internal(kProgram, P::kCommit, wire::ObjectCommitArgs{object, {}});
    make.internal(kProgram, P::kImage, wire::ObjectImageArgs{object, 8192});
  }
  wire::PlaceArgs place;
  place.handle = make.handle(2);
  place.offset = 65'536;
  place.data = data;
  make.internal(kProgram, P::kPlace, place);
  make.internal(kProgram, P::kPlaceFile,
                wire::PlaceFileArgs{.file = FileId{0x7fff0000'00000001}, .data = data});
  wire::ForwardArgs forward;
  forward.handle = make.handle(2);
  forward.version = 3;
  forward.offset = 65'536;
  forward.data = data;
  make.internal(kProgram, P::kRecall, wire::RecallArgs{FileId{5}, 7, 4, {1, 2}});
  make.internal(kProgram, P::kForward, forward);
  forward.data = {};
  forward.hole = 4096;
  make.internal(kProgram, P::kForward, forward);
  make.internal(kProgram, P::kCopy, wire::CopyArgs{make.handle(2), 1, 2, 3});
  make.internal(kProgram, P::kDiscard, wire::DiscardArgs{make.handle(2), 1, 2});
  make.internal(kProgram, P::kLeaving, wire::LeavingArgs{4});
}

void authority_and_coordinator(Maker& make) {
  using A = wire::AuthorityProcedure;
  using C = wire::CoordinatorProcedure;
  wire::MergeArgs merge;
  merge.files.push_back({make.handle(1), Epoch{0}, 100, nfs3::Time{5, 6}, {}});
  merge.files.push_back({make.handle(2), Epoch{1}, 70'000, {}, nfs3::Time{7, 8}});
  make.internal(wire::kAuthorityProgram, A::kFetch, wire::FetchArgs{make.handle(1), true});
  make.internal(wire::kAuthorityProgram, A::kMerge, merge);
  make.internal(wire::kAuthorityProgram, A::kPolicy, wire::PolicyArgs{});
  make.internal(wire::kAuthorityProgram, A::kRoom,
                wire::RoomArgs{.server = 3, .owners = {1001, 50, TreeId{3}}, .held = 5, .needed = 4096});
  constexpr std::uint32_t kProgram = wire::kCoordinatorProgram;
  make.internal(kProgram, C::kTruncate, wire::CoordinatorTruncateArgs{make.handle(2), 9, Epoch{1}});
  make.internal(kProgram, C::kRemove, wire::CoordinatorRemoveArgs{make.handle(2)});
  make.internal(kProgram, C::kSession, wire::SessionArgs{3, 0, 1 << 20});
  make.internal(kProgram, C::kEndSession, wire::EndSessionArgs{3, 1, true});
  make.internal(kProgram, C::kLayout, wire::LayoutArgs{make.handle(2), 1, true});
  make.internal(kProgram, C::kMissed, wire::MissedArgs{make.handle(2), 3, {1, 5}});
  make.internal(kProgram, C::kMap, wire::MapArgs{make.handle(2), 1});
  make.internal(kProgram, C::kMove, wire::MoveArgs{make.handle(2), 1, 9});
  make.internal(kProgram, C::kEmptied, wire::EmptiedArgs{3, Generation{1}});
  make.internal(kProgram, C::kSpread, wire::SpreadArgs{Generation{1}, {{3, 1}, {4, 2}}});
  make.internal(kProgram, C::kSpreading);
  make.internal(kProgram, C::kReceive,
                wire::ReceiveArgs{.move = 1,
                                  .attempt = 2,
                                  .number = 3,
                                  .begun = {{4, std::string(80, 'r')}},
                                  .ended = {5},
                                  .pieces = {{FileId{6}, {7, std::vector<std::uint32_t>(256, 3)}}},
                                  .removed = {8},
                                  .version = 9});
}

void directory_program(Maker& make) {
  using P = wire::DirectoryProcedure;
  constexpr std::uint32_t kProgram = wire::kDirectoryProgram;
  const wire::TransactionName id{SiteId{1}, 99, 5};
  const wire::CellName cell{SiteId{1}, FileId{0x7fff0000'00000001}, 1};
  wire::LockArgs lock;
  lock.id = id;
  for (auto kind : {wire::LockItem::Kind::kCell, wire::LockItem::Kind::kName, wire::LockItem::Kind::kPart}) {
    lock.items.push_back({kind, true, cell, 77, "name"});
  }
  wire::PrepareArgs prepare{id, {{SiteId{1}, std::string(40, 'r')}, {SiteId{2}, ""}}};
  make.internal(kProgram, P::kLock, lock);
  make.internal(kProgram, P::kPrepare, prepare);
  make.internal(kProgram, P::kFinish, wire::FinishArgs{id, false, SiteId{1}});
  make.internal(kProgram, P::kOwner, wire::OwnerArgs{SiteId{1}});
  make.internal(kProgram, P::kCells,
                wire::CellsArgs{wire::MoveId{1}, 2, 3, {{"key", "value"}, {"gone", std::nullopt}}});
  make.internal(kProgram, P::kOutcome, wire::OutcomeArgs{id});
  make.internal(kProgram, P::kRead, wire::CellReadArgs{cell, true});
  make.internal(kProgram, P::kTouch, wire::TouchArgs{cell, SiteId{2}, 1, 2});
  make.internal(kProgram, P::kRevoke, wire::RevokeArgs{FileId{5}});
  make.internal(kProgram, P::kList, wire::ListArgs{cell, 0, 4096, true});
  wire::ScanArgs scan;
  scan.keys = {"abc", std::string(20, 'k')};
  scan.begin = "a";
  scan.end = "z";
  make.internal(wire::kScanProgram, wire::ScanProcedure::kScan, scan);
  scan.snapshot = 9;
  make.internal(wire::kScanProgram, wire::ScanProcedure::kScan, scan);
  make.internal(wire::kScanProgram, wire::ScanProcedure::kSnapshot,
                wire::SnapshotArgs{wire::SnapshotStep::kTake, 9});
}

void moves_program(Maker& make) {
  using P = wire::MovesProcedure;
  constexpr std::uint32_t kProgram = wire::kMovesProgram;
  const wire::SiteMove move{wire::MoveId{1}, wire::Role::kStorage, 2, 3, Generation{1}, {1, 2}};
  make.internal(kProgram, P::kMove, wire::MoveSitesArgs{move});
  make.internal(kProgram, P::kAbort, wire::AbortMoveArgs{move});
  make.internal(kProgram, P::kPrepare, wire::PrepareSitesArgs{move, 5});
  make.internal(kProgram, P::kOffer, wire::OfferSitesArgs{move.id, 5, true, Verifier{6}});
  make.internal(kProgram, P::kTake, wire::TakeSitesArgs{move});
  make.internal(kProgram, P::kWithdraw, wire::WithdrawSitesArgs{move, 5});
  make.internal(kProgram, P::kLateWrites,
                wire::LateWritesArgs{move.id, 5, {{{1, 2}, 3, 4, 5, nfs3::Status::kOk, ""}}});
}

// Of a server that there is not.
void backing_program(Maker& make) {
  using P = wire::BackingProcedure;
  constexpr std::uint32_t kProgram = wire::kBackingProgram;
  const wire::BackingOwner owner{.server = 200, .epoch = BackingEpoch{1}, .instance = 7};
  const std::string path = "log/0000000000000001.log";
  make.internal(kProgram, P::kAttach, wire::BackingAttachArgs{.owner = owner, .empty = true});
  make.internal(kProgram, P::kRenew, wire::BackingOwnerArgs{owner});
  wire::BackingChangeArgs change{.owner = owner, .number = 1, .whole = true, .changes = {}};
  change.changes = {{.op = wire::BackingOp::kWrite, .path = path, .offset = 5, .bytes = as_bytes("fuzzed")},
                    {.op = wire::BackingOp::kRename, .path = path, .bytes = as_bytes("other")},
                    {.op = wire::BackingOp::kPunch, .path = "other", .offset = 1, .length = 4},
                    {.op = wire::BackingOp::kSync, .path = "other"}};
  make.internal(kProgram, P::kChange, change);
  make.internal(kProgram, P::kRead, wire::BackingReadArgs{owner, "other", 0, 4096, 1});
  make.internal(kProgram, P::kList, wire::BackingListArgs{owner, "", 1});
  make.internal(kProgram, P::kDigest, wire::BackingDigestArgs{owner, "other", 0, 16, 1});
  make.internal(kProgram, P::kLetGo, wire::BackingOwnerArgs{owner});
  using M = wire::ManagerProcedure;
  make.internal(wire::kManagerProgram, M::kBackingClaim, wire::BackingClaimArgs{200, 7, 6, 2});
  make.internal(wire::kManagerProgram, M::kBackingMembers, wire::BackingMembersArgs{owner, 1, {1, 2}});
  make.internal(wire::kManagerProgram, M::kBackingSpare, wire::BackingSpareArgs{200});
  make.internal(wire::kManagerProgram, M::kBackingSets);
  make.internal(wire::kManagerProgram, M::kBackingKeep,
                wire::BackingKeepArgs{{200, BackingEpoch{3}, 7, 2, 1, {1, 2}}});
  make.internal(wire::kManagerProgram, M::kBackingAdopt, wire::BackingAdoptArgs{200, {1, 2}});
  make.internal(wire::kManagerProgram, M::kStandby, wire::StandbyArgs{200, {0x0a4d0102, 2049}, 7});
  make.internal(wire::kManagerProgram, M::kFailover, wire::FailoverArgs{"nobody", 0x0a4d0102});
  make.internal(wire::kManagerProgram, M::kStandbys);
}

void manager_and_admin(Maker& make) {
  using P = wire::ManagerProcedure;
  wire::HeartbeatArgs heartbeat;
  heartbeat.server = 200;
  heartbeat.state = "serving";
  heartbeat.detail = "fuzzed";
  make.internal(wire::kManagerProgram, P::kHeartbeat, heartbeat);
  make.internal(wire::kManagerProgram, P::kDrawVerifier, wire::DrawVerifierArgs{200});
  make.internal(wire::kManagerProgram, P::kGetTables);
  make.internal(wire::kManagerProgram, P::kMembers);
  make.internal(wire::kManagerProgram, P::kGetState);
  make.internal(wire::kManagerProgram, P::kLeader);
  make.internal(wire::kManagerProgram, P::kOfferTables, wire::OfferTablesArgs{200, {}});
  make.internal(wire::kManagerProgram, P::kChangeServer, wire::ChangeServerArgs{});
  make.internal(wire::kManagerProgram, P::kClaim, wire::ClaimArgs{200, true, false, 1, {{1, Generation{1}}}});
  make.internal(wire::kManagerProgram, P::kMoveSites, wire::StartMovesArgs{wire::Role::kStorage, 200, {1}});
  make.internal(wire::kManagerProgram, P::kQuotaReport,
                wire::QuotaReportArgs{.server = 200,
                                      .counted = true,
                                      .figures = {{{QuotaKind::kUser, 1001}, {4096, 1}, 65536}},
                                      .seen = 3});
  make.internal(wire::kManagerProgram, P::kChangeQuota,
                wire::ChangeQuotaArgs{.whose = {QuotaKind::kGroup, 50}, .remove = true, .quota = {}});
  make.internal(wire::kManagerProgram, P::kChangeTree,
                wire::ChangeTreeArgs{.what = {.path = "/home", .above = {}}});
  make.internal(wire::kManagerProgram, P::kQuotaUsage, wire::QuotaUsageArgs{.all = true, .whose = {}});
  make.internal(wire::kManagerProgram, P::kMoves);
  make.internal(wire::kManagerProgram, P::kChangeMoves, wire::ChangeMovesArgs{});
  make.internal(wire::kAdminProgram, wire::AdminProcedure::kMetrics);
  make.internal(wire::kAdminProgram, wire::AdminProcedure::kMisdirected,
                wire::MisdirectedArgs{wire::Role::kStorage, SiteId{5}, Generation{1}});
  make.internal(wire::kAdminProgram, wire::AdminProcedure::kNewTables, wire::NewTablesArgs{Generation{1}});
  make.internal(wire::kAdminProgram, wire::AdminProcedure::kNewSettings,
                wire::SettingsNotice{SettingsGeneration{1}});
  make.internal(wire::kAdminProgram, wire::AdminProcedure::kGetSettings);
  make.internal(wire::kAdminProgram, wire::AdminProcedure::kReload);
  make.internal(wire::kAdminProgram, wire::AdminProcedure::kTrace,
                wire::TraceArgs{.watch = 1, .lease_ms = 1000, .filter = {}});
  make.internal(wire::kAdminProgram, wire::AdminProcedure::kTop, wire::TopArgs{.lease_ms = 1000});
}

}  // namespace

std::vector<Message> corpus(const Volume& volume) {
  Maker make(volume);
  nfs_names(make);
  nfs_files(make);
  mount_and_portmap(make);
  locks(make);
  object_program(make);
  authority_and_coordinator(make);
  directory_program(make);
  moves_program(make);
  backing_program(make);
  manager_and_admin(make);
  return make.take();
}

}  // namespace slice::fuzz
