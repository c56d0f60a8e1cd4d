// Sites that move between two small-file servers, with a fake directory server, and a manager who is the
// test.
#include "smallfile/sites.h"

#include <gmock/gmock.h>

#include "service/testing/side.h"
#include "smallfile/testing/server_fixture.h"
#include "wire/moves.h"

namespace slice::smallfile {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using wire::MovePhase;
using wire::MovesProcedure;
using wire::ObjectProcedure;

// One of the two servers.
struct Side : service::testing::Side {
  using service::testing::Side::Side;
  storage::MemoryMedium medium;
  storage::MemoryStore* records = nullptr;  // the server's
  std::unique_ptr<SmallFileServer> server;
  std::unique_ptr<rpc::Dispatcher> dispatcher;
};

EnsembleConfig two_servers() {
  EnsembleConfig config = service::testing::sample_config();
  service::testing::add_server(config, "small2", ServerRole::kSmallFile);
  return config;
}

class SitesTest : public service::testing::ServiceFixture {
 protected:
  SitesTest() : ServiceFixture("manager1", two_servers()) {
    serve("dir1", authority);
    from = side("small1");
    to = side("small2");
    for (std::uint64_t id = 1; files.size() < 3; ++id) {
      if (!from->tables.get()->owns(from->self.index, wire::Role::kSmallFile, site_of(id))) continue;
      authority.add({id});
      files.push_back(id);
    }
    move = {.id = wire::MoveId{5},
            .site_class = wire::Role::kSmallFile,
            .from = from->self.index,
            .to = to->self.index,
            .begun = Generation{1},
            .sites = {site_of(files[0]).value}};
  }
  ~SitesTest() override {
    for (Side* each : {from.get(), to.get()}) {
      bool ended = false;
      spawn([](Side& of, bool& over) -> Task<void> {
        co_await of.server->stop();
        over = true;
      }(*each, ended));
      loop_.run_until([&ended] { return ended; });
    }
    loop_.advance(20s);
  }

  std::unique_ptr<Side> side(const std::string& name) {
    auto made = std::make_unique<Side>(loop_, config_, handles_, network_, name);
    EXPECT_TRUE(run(made->ownership.grant(made->tables.get()->wire())));
    boot(*made);
    return made;
  }
  void boot(Side& of) {
    of.server = std::make_unique<SmallFileServer>(
        of.context, [this, &of](service::ServiceContext&) -> Result<std::unique_ptr<storage::KvStore>> {
          auto store = std::make_unique<storage::MemoryStore>(loop_, of.medium);
          of.records = store.get();
          return store;
        });
    EXPECT_TRUE(run(of.server->start()));
    of.dispatcher = std::make_unique<rpc::Dispatcher>(of.metrics);
    for (auto* program : of.server->programs()) of.dispatcher->add(*program);
    attach(of, true);
  }
  void attach(Side& of, bool there) {
    of.network.attach(of.endpoint(), there ? of.dispatcher.get() : nullptr);
    clients.attach(of.endpoint(), there ? of.dispatcher.get() : nullptr);
  }
  // Power off and on: what was not durable is gone.
  void power_cut(Side& of) {
    attach(of, false);
    of.disk.crash(storage::MemoryDisk::Crash::kDropUnsynced);
    of.records->crash();
    loop_.advance(10s);
    of.server.reset();
    of.dispatcher.reset();
    boot(of);
  }
  SiteId site_of(std::uint64_t id) const { return tables_.get()->small_file_site({id}); }
  void swap_sides() {
    std::swap(move.from, move.to);
    std::swap(from, to);
    ++move.id.value;
    ++move.begun.value;
  }

  // ---- what a client does ----
  template <class Args>
  Task<Result<rpc::Response>> ask(const Side& at, nfs3::Procedure procedure, const Args& args,
                                  std::uint32_t xid = 0) {
    rpc::XdrWriter out;
    nfs3::encode_arguments(out, args);
    rpc::AuthSys who;
    who.uid = who.gid = 1000;
    rpc::Request request{.to = at.endpoint(),
                         .program = nfs3::kProgram,
                         .version = nfs3::kVersion,
                         .procedure = static_cast<std::uint32_t>(procedure),
                         .arguments = out.take(),
                         .timeout = 20s,
                         .credential = who};
    // As a proxy passes on what a client has sent, again where the number is one of before.
    if (xid != 0) request.on_behalf = {.client = {0x0a4d0102, 900}, .xid = Xid{xid}};
    return (xid != 0 ? network_ : clients).call(std::move(request));
  }
  template <class Ok>
  static Ok result_of(const Result<rpc::Response>& response, NfsStatus expected = NfsStatus::kOk) {
    EXPECT_TRUE(response) << response.error().message;
    NfsStatus status{};
    Ok ok{};
    if (response) {
      rpc::XdrReader in(response->results());
      EXPECT_TRUE(nfs3::decode_result(in, status, ok));
      EXPECT_EQ(status, expected);
    }
    return ok;
  }
  routing::HandleBytes handle(std::uint64_t id) {
    return handles_.mint({.type = nfs3::FileType::kRegular,
                          .fileid = {id},
                          .directory_site = {0},
                          .generation = 1,
                          .cell_key = id});
  }
  // As by a proxy that fills attributes in: the authority is told within a second.
  routing::HandleBytes hinted(std::uint64_t id) {
    routing::HandleBytes bytes = handle(id);
    store_be(bytes.data() + 32, std::uint64_t{1} << 63);
    return bytes;
  }
  nfs3::WriteOk write(const Side& at, std::uint64_t id, std::uint64_t offset, std::string_view data,
                      nfs3::Stable stable = nfs3::Stable::kUnstable, std::uint32_t xid = 0) {
    const auto bytes = hinted(id);
    return result_of<nfs3::WriteOk>(run(ask(at, nfs3::Procedure::kWrite,
                                            nfs3::WriteArgs{.file = bytes,
                                                            .offset = offset,
                                                            .count = static_cast<std::uint32_t>(data.size()),
                                                            .stable = stable,
                                                            .data = as_bytes(data)},
                                            xid)));
  }
  std::string read(const Side& at, std::uint64_t id, std::uint64_t offset, std::uint32_t count) {
    const auto bytes = handle(id);
    auto response =
        run(ask(at, nfs3::Procedure::kRead, nfs3::ReadArgs{.file = bytes, .offset = offset, .count = count}));
    return std::string(as_text(result_of<nfs3::ReadOk>(response).data));
  }
  Verifier commit(const Side& at, std::uint64_t id) {
    const auto bytes = handle(id);
    return result_of<nfs3::CommitOk>(run(ask(at, nfs3::Procedure::kCommit, nfs3::CommitArgs{.file = bytes})))
        .verifier;
  }
  // What the server itself has; nothing: not even an epoch.
  std::optional<std::string> stored(Side& at, std::uint64_t id) {
    Store& store = at.server->store();
    auto seen = store.look({id});
    if (!seen || (seen->end == 0 && seen->epoch == Epoch{})) return std::nullopt;
    std::string bytes(seen->end, '?');
    auto read = run(store.read({id}, 0, {reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()}));
    EXPECT_TRUE(read);
    return bytes;
  }
  std::uint64_t zone_bytes(Side& at) {
    auto file = run(at.disk.open(DiskZoneStore::path(SiteId{move.sites[0]}), storage::Disk::Mode::kCreate));
    return (*file)->size();
  }

  // ---- what directory servers, coordinators and the manager do ----
  template <class R, class Args>
  R manage(const Side& at, ObjectProcedure procedure, std::uint64_t id, Args args) {
    args.object = {config_.volume.id, {id}, wire::ObjectKind::kFile};
    return run(service::internal_call<R>(network_, at.endpoint(), wire::kObjectProgram, procedure, args))
        .value();
  }
  wire::ObjectStatusResult truncate(const Side& at, std::uint64_t id, std::uint64_t size) {
    authority.truncate({id}, size);
    const Epoch epoch{authority.attributes({id}).rdev_major};
    return manage<wire::ObjectStatusResult>(at, ObjectProcedure::kTruncate, id,
                                            wire::ObjectTruncateArgs{.size = size, .epoch = epoch});
  }
  wire::ObjectStatusResult remove(const Side& at, std::uint64_t id) {
    authority.remove({id});
    return manage<wire::ObjectStatusResult>(at, ObjectProcedure::kRemove, id, wire::ObjectRemoveArgs{});
  }
  template <class R, class Args>
  Result<R> ask_moves(const Side& at, MovesProcedure procedure, const Args& args) {
    return run(service::internal_call<R>(network_, at.endpoint(), wire::kMovesProgram, procedure, args));
  }
  // Tells of the move until it is that far.
  bool until(MovePhase phase, Duration patience = 30s) {
    for (const MonoTime end = loop_.now() + patience; loop_.now() < end; loop_.advance(50ms)) {
      told = ask_moves<wire::MoveSitesResult>(*from, MovesProcedure::kMove,
                                              wire::MoveSitesArgs{move, rate, paused})
                 .value_or(wire::MoveSitesResult{});
      if (told.phase == phase) return true;
    }
    return false;
  }
  // Until a file of 8000 bytes was copied, and stays at that for long.
  void begin_slowly() {
    write(*from, files[0], 0, std::string(8000, 'a'), nfs3::Stable::kFileSync);
    rate = 100;
    ASSERT_TRUE(until(MovePhase::kCopying));
    loop_.advance(500ms);
    ASSERT_EQ(stored(*to, files[0]), std::string(8000, 'a'));
  }

  service::testing::FakeAuthority authority{loop_, handles_};
  rpc::InProcessNetwork clients{network_, rpc::Endpoint{0x0a4d0102, 900}, 0};
  std::unique_ptr<Side> from, to;
  std::vector<std::uint64_t> files;  // of `from`; the first one's site moves
  wire::SiteMove move;
  std::uint64_t rate = 0;
  bool paused = false;
  wire::MoveSitesResult told;
};

TEST_F(SitesTest, AFileGoesWithItsSiteAndOthersStay) {
  write(*from, files[0], 20'000, "behind a hole");
  write(*from, files[0], 3, "begin");
  write(*from, files[1], 0, "stays", nfs3::Stable::kFileSync);
  const auto before = from->server->store().look({files[0]});
  ASSERT_TRUE(until(MovePhase::kDone));
  const std::string all = std::string(3, '\0') + "begin" + std::string(19'992, '\0') + "behind a hole";
  EXPECT_EQ(stored(*to, files[0]), all);
  const auto after = to->server->store().look({files[0]});
  EXPECT_EQ(after->mtime, before->mtime);
  EXPECT_EQ(after->end, before->end);
  EXPECT_EQ(to->server->store().stored({files[0]}).value(), 8192u) << "the hole is none";
  EXPECT_EQ(stored(*from, files[0]), std::nullopt) << "given back";
  EXPECT_EQ(stored(*from, files[1]), "stays");
  EXPECT_EQ(told.copied_bytes, 8u + 3629);
  for (const Side* each : {from.get(), to.get()}) EXPECT_EQ(read(*each, files[0], 3, 5), "begin");
  write(*from, files[0], 3, "BEGIN");
  EXPECT_EQ(stored(*to, files[0])->substr(3, 5), "BEGIN") << "it is passed on";
}

TEST_F(SitesTest, WhatIsSavedGoesAsWellAsWhatIsNot) {
  write(*from, files[0], 0, "saved");
  loop_.advance(Store::kSaveAfter + 1s);
  ASSERT_TRUE(from->server->store().idle());
  std::uint64_t fresh = files.back() + 1;
  while (site_of(fresh) != site_of(files[0])) ++fresh;
  authority.add({fresh});
  write(*from, fresh, 0, "fresh");
  ASSERT_TRUE(until(MovePhase::kDone));
  EXPECT_EQ(stored(*to, files[0]), "saved");
  EXPECT_EQ(stored(*to, fresh), "fresh");
  EXPECT_EQ(zone_bytes(*from), 0u) << "its room is given back";
}

TEST_F(SitesTest, WhatAFileWithoutBytesRemembersGoesToo) {
  write(*from, files[0], 0, "all of it is cut");
  ASSERT_EQ(truncate(*from, files[0], 0).status, NfsStatus::kOk);
  ASSERT_TRUE(until(MovePhase::kDone));
  EXPECT_EQ(to->server->store().look({files[0]})->epoch, Epoch{1});
  power_cut(*to);
  EXPECT_EQ(to->server->store().look({files[0]})->epoch, Epoch{1});
}

TEST_F(SitesTest, AHoleAtTheEndGoesToo) {
  write(*from, files[0], 0, "begin");
  write(*from, files[0], 30'000, "end");
  ASSERT_EQ(truncate(*from, files[0], 20'000).status, NfsStatus::kOk);
  ASSERT_TRUE(until(MovePhase::kDone));
  EXPECT_EQ(to->server->store().look({files[0]})->end, 20'000u);
  power_cut(*to);
  EXPECT_EQ(to->server->store().look({files[0]})->end, 20'000u);
}

TEST_F(SitesTest, WhatIsWrittenWhileItIsCopiedIsThereTooBeforeItIsAnswered) {
  begin_slowly();
  write(*from, files[0], 10, "new");
  EXPECT_EQ(stored(*to, files[0])->substr(9, 5), "anewa");
  EXPECT_EQ(to->server->store().look({files[0]})->mtime, from->server->store().look({files[0]})->mtime);
  std::uint64_t fresh = files.back() + 1;
  while (site_of(fresh) != site_of(files[0])) ++fresh;
  authority.add({fresh});
  authority.truncate({fresh}, 0);
  write(*from, fresh, 0, "fresh", nfs3::Stable::kFileSync);
  EXPECT_EQ(stored(*to, fresh), "fresh");
  EXPECT_EQ(to->server->store().look({fresh})->epoch, Epoch{1});
  rate = 0;
  ASSERT_TRUE(until(MovePhase::kDone));
  EXPECT_EQ(read(*to, files[0], 9, 5), "anewa");
}

TEST_F(SitesTest, WhatIsCutWhileItIsCopiedIsCutThereTooBeforeItIsAnswered) {
  begin_slowly();
  EXPECT_THAT(truncate(*from, files[0], 5).also, IsEmpty());
  EXPECT_EQ(stored(*to, files[0]), "aaaaa");
  EXPECT_EQ(to->server->store().look({files[0]})->epoch, Epoch{1});
  rate = 0;
  ASSERT_TRUE(until(MovePhase::kDone));
  EXPECT_EQ(read(*to, files[0], 0, 100), "aaaaa");
}

TEST_F(SitesTest, WhatIsRemovedWhileItIsCopiedIsRemovedThereTooBeforeItIsAnswered) {
  begin_slowly();
  EXPECT_THAT(remove(*from, files[0]).also, IsEmpty());
  EXPECT_EQ(stored(*to, files[0]), std::nullopt);
  rate = 0;
  ASSERT_TRUE(until(MovePhase::kDone));
  loop_.advance(Store::kSaveAfter + 1s);
  EXPECT_EQ(to->server->store().list({}, 10)->files, std::vector<FileId>{});
}

// What a crash of the new owner would lose is nothing that the old one had acknowledged.
TEST_F(SitesTest, TheNewOwnerHasEverythingDurablyBeforeTheSitesAreGiven) {
  write(*from, files[0], 0, "not committed yet");
  ASSERT_TRUE(until(MovePhase::kDone));
  power_cut(*to);
  EXPECT_EQ(stored(*to, files[0]), "not committed yet");
}

TEST_F(SitesTest, NothingOfItComesBackWithTheJournal) {
  write(*from, files[0], 0, "in the journal", nfs3::Stable::kFileSync);
  write(*from, files[1], 0, "as this is", nfs3::Stable::kFileSync);
  ASSERT_TRUE(until(MovePhase::kDone));
  power_cut(*from);
  EXPECT_EQ(stored(*from, files[0]), std::nullopt);
  EXPECT_EQ(stored(*from, files[1]), "as this is");
  loop_.advance(Store::kSaveAfter + 1s);
  EXPECT_EQ(zone_bytes(*from), 0u);
}

TEST_F(SitesTest, WhatTheNewOwnerHadOfItBeforeIsGone) {
  write(*from, files[0], 0, "old bytes, and many of them", nfs3::Stable::kFileSync);
  loop_.advance(Store::kSaveAfter + 1s);
  ASSERT_TRUE(until(MovePhase::kDone));
  ASSERT_EQ(truncate(*to, files[0], 3).status, NfsStatus::kOk);
  swap_sides();
  ASSERT_TRUE(until(MovePhase::kDone));
  EXPECT_EQ(stored(*to, files[0]), "old");
  loop_.advance(Store::kSaveAfter + 1s);
  EXPECT_EQ(zone_bytes(*to), kLeastExtent) << "its room of then is used again";
  power_cut(*to);
  EXPECT_EQ(stored(*to, files[0]), "old");
  EXPECT_EQ(stored(*from, files[0]), std::nullopt);
}

// A server forgets what it knew of a file of which nobody tells it any more.
TEST_F(SitesTest, ASizeFromBeforeTheSiteWentIsNotBelieved) {
  write(*from, files[0], 0, "a long one", nfs3::Stable::kFileSync);
  ASSERT_TRUE(until(MovePhase::kDone));
  ASSERT_EQ(truncate(*to, files[0], 1).status, NfsStatus::kOk);
  const MonoTime began = loop_.now();
  swap_sides();
  ASSERT_TRUE(until(MovePhase::kDone));
  ASSERT_LT(loop_.now() - began, 1s) << "the test means a cache that is not too old";
  EXPECT_EQ(read(*to, files[0], 0, 5), "a");
}

// Else a COMMIT there could be answered with the verifier of the writes that were lost.
TEST_F(SitesTest, TheNewOwnersVerifierIsNotSmallerThanOneUnderWhichBytesWereLost) {
  from->verifier.see(Verifier{7});
  to->verifier.see(Verifier{7});
  const Verifier lost = write(*from, files[0], 0, "lost").verifier;
  power_cut(*from);
  from->verifier.see(Verifier{8});  // as it is drawn at a start
  ASSERT_TRUE(until(MovePhase::kDone));
  EXPECT_GT(commit(*to, files[0]), lost);
}

TEST_F(SitesTest, ACommitAtTheNewOwnerTellsTheAuthority) {
  write(*from, files[0], 0, "not told yet");
  power_cut(*to);  // which knows nothing
  ASSERT_TRUE(until(MovePhase::kCopying) || told.phase >= MovePhase::kGiven);
  ASSERT_TRUE(until(MovePhase::kDone));
  authority.attributes({files[0]}).size = 0;  // the old owner died before it told
  commit(*to, files[0]);
  EXPECT_EQ(authority.attributes({files[0]}).size, 12u);
}

TEST_F(SitesTest, AWriteThatComesAgainIsKnownAtTheNewOwner) {
  write(*from, files[0], 0, "first", nfs3::Stable::kFileSync, 77);
  ASSERT_TRUE(until(MovePhase::kDone));
  write(*to, files[0], 0, "later", nfs3::Stable::kFileSync, 78);
  write(*to, files[0], 0, "first", nfs3::Stable::kFileSync, 77);
  EXPECT_EQ(stored(*to, files[0]), "later");
}

TEST_F(SitesTest, WithANewOwnerThatIsAwayChangesGoOnAndItIsTriedAgain) {
  begin_slowly();
  attach(*to, false);
  write(*from, files[0], 0, "alone");
  EXPECT_EQ(truncate(*from, files[0], 10).status, NfsStatus::kOk);
  EXPECT_TRUE(until(MovePhase::kWaiting));
  EXPECT_THAT(told.trouble, HasSubstr("new owner"));
  attach(*to, true);
  rate = 0;
  ASSERT_TRUE(until(MovePhase::kDone, 60s));
  EXPECT_EQ(stored(*to, files[0]), "aloneaaaaa");
}

TEST_F(SitesTest, UntilItIsGivenAMoveIsGivenUpWithoutATrace) {
  begin_slowly();
  auto aborted = ask_moves<wire::AbortMoveResult>(*from, MovesProcedure::kAbort, wire::AbortMoveArgs{move});
  EXPECT_EQ(aborted->phase, MovePhase::kAborted);
  for (int i = 0; i < 20; ++i) {
    auto withdrawn = ask_moves<wire::MovesResult>(*to, MovesProcedure::kWithdraw,
                                                  wire::WithdrawSitesArgs{move, aborted->attempt});
    if (withdrawn->status == NfsStatus::kOk) break;
    loop_.advance(100ms);
  }
  EXPECT_EQ(stored(*to, files[0]), std::nullopt);
  power_cut(*to);
  EXPECT_EQ(stored(*to, files[0]), std::nullopt);
  EXPECT_EQ(read(*from, files[0], 0, 3), "aaa");
}

TEST_F(SitesTest, WhoAsksByOlderTablesIsSentToTheNewOwner) {
  write(*from, files[0], 0, "moves", nfs3::Stable::kFileSync);
  ASSERT_TRUE(until(MovePhase::kDone));
  auto cut = truncate(*from, files[0], 2);
  EXPECT_EQ(cut.status, NfsStatus::kOk);
  EXPECT_THAT(cut.also, ElementsAre(move.to));
  EXPECT_THAT(truncate(*to, files[0], 2).also, IsEmpty());
  EXPECT_EQ(stored(*to, files[0]), "mo");
  auto committed = manage<wire::ObjectCommitResult>(*from, ObjectProcedure::kCommit, files[0],
                                                    wire::ObjectCommitArgs{.largest_seen = Verifier{5}});
  EXPECT_EQ(committed.status, NfsStatus::kOk);
  EXPECT_THAT(committed.also, ElementsAre(move.to));
  EXPECT_THAT(remove(*from, files[0]).also, ElementsAre(move.to));
  EXPECT_THAT(remove(*to, files[0]).also, IsEmpty());
  std::uint64_t strange = 1;
  while (!to->tables.get()->owns(to->self.index, wire::Role::kSmallFile, site_of(strange)) ||
         site_of(strange) == site_of(files[0]))
    ++strange;
  authority.add({strange});
  EXPECT_EQ(truncate(*from, strange, 2).status, NfsStatus::kJukebox) << "it never was here";
}

// The new owner takes no more when the switch has come so far.
TEST_F(SitesTest, ATruncationThatComesWithTheSwitchIsDoneByWhoHasTheSiteThen) {
  write(*from, files[0], 0, "to be cut", nfs3::Stable::kFileSync);
  authority.truncate({files[0]}, 2);
  std::optional<wire::ObjectStatusResult> answer;
  from->crash.set([&](std::string_view point) {
    if (point == "site.offered") {
      attach(*to, false);
      from->disk.set_delay(50ms, 50ms);  // it comes before they are given
      start(service::internal_call<wire::ObjectStatusResult>(
                network_, from->endpoint(), wire::kObjectProgram, ObjectProcedure::kTruncate,
                wire::ObjectTruncateArgs{.object = {config_.volume.id, {files[0]}, wire::ObjectKind::kFile},
                                         .size = 2,
                                         .epoch = Epoch{1}},
                30s),
            [&](Result<wire::ObjectStatusResult> result) { answer = result.value(); });
    }
    return false;
  });
  ASSERT_TRUE(until(MovePhase::kGiven));
  attach(*to, true);
  ASSERT_TRUE(until(MovePhase::kDone));
  ASSERT_TRUE(loop_.run_until([&] { return answer.has_value(); }));
  EXPECT_EQ(answer->status, NfsStatus::kOk);
  EXPECT_EQ(stored(*to, files[0]), "to be cut");
  EXPECT_THAT(answer->also, ElementsAre(move.to));
}

// Which no switch waits for.
TEST_F(SitesTest, ATruncationThatWaitsForAnotherChangesNothingOnceTheSiteIsGone) {
  write(*from, files[0], 0, "to be cut", nfs3::Stable::kFileSync);
  std::vector<wire::ObjectStatusResult> answers;
  from->crash.set([&](std::string_view point) {
    if (point == "site.given") attach(*to, true);
    if (point != "site.offered") return false;
    attach(*to, false);
    from->disk.set_delay(20ms, 20ms);
    for (std::uint64_t size : {5, 2}) {
      start(service::internal_call<wire::ObjectStatusResult>(
                network_, from->endpoint(), wire::kObjectProgram, ObjectProcedure::kTruncate,
                wire::ObjectTruncateArgs{.object = {config_.volume.id, {files[0]}, wire::ObjectKind::kFile},
                                         .size = size,
                                         .epoch = Epoch{static_cast<std::uint32_t>(9 - size)}},
                30s),
            [&](Result<wire::ObjectStatusResult> result) { answers.push_back(result.value()); });
    }
    return false;
  });
  ASSERT_TRUE(until(MovePhase::kDone, 60s));
  ASSERT_TRUE(loop_.run_until([&] { return answers.size() == 2; }));
  for (const auto& answer : answers) EXPECT_THAT(answer.also, ElementsAre(move.to));
  EXPECT_EQ(stored(*from, files[0]), std::nullopt);
}

TEST_F(SitesTest, PlacesOfNoAttemptAreRefused) {
  const std::string data = "forged";
  wire::PlaceFileArgs args{.move = move.id.value,
                           .attempt = 1,
                           .number = 1,
                           .file = {files[0]},
                           .mtime = {},
                           .data = as_bytes(data)};
  auto place = [&] {
    return run(service::internal_call<wire::PlaceResult>(network_, to->endpoint(), wire::kObjectProgram,
                                                         ObjectProcedure::kPlaceFile, args))
        ->status;
  };
  EXPECT_EQ(place(), NfsStatus::kStale);
  (void)ask_moves<wire::MovesResult>(*to, MovesProcedure::kPrepare, wire::PrepareSitesArgs{move, 1});
  loop_.advance(1s);
  args.file = {files[1]};
  EXPECT_EQ(place(), NfsStatus::kStale) << "a site that does not move";
  args.file = {files[0]};
  args.offset = kThreshold - 5;
  EXPECT_EQ(place(), NfsStatus::kInval) << "over the threshold";
  args.offset = ~std::uint64_t{0};
  EXPECT_EQ(place(), NfsStatus::kInval);
  args.offset = 0;
  EXPECT_EQ(place(), NfsStatus::kOk);
  EXPECT_EQ(place(), NfsStatus::kNotSync) << "the same again";
}

}  // namespace
}  // namespace slice::smallfile
