// Sites that move between two storage nodes, with a fake directory server, and a manager who is the test.
#include "storagenode/sites.h"

#include <gmock/gmock.h>

#include "service/testing/side.h"
#include "storagenode/testing/server_fixture.h"
#include "wire/moves.h"

namespace slice::storagenode {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using wire::MovePhase;
using wire::MovesProcedure;

// One of the two nodes.
struct Side : service::testing::Side {
  using service::testing::Side::Side;
  std::unique_ptr<StorageServer> server;
  std::unique_ptr<rpc::Dispatcher> dispatcher;
};

// Keeps the first PLACE on its way until it is let go.
class HeldPlace : public rpc::Program {
 public:
  HeldPlace(rpc::Program& inner, OneShot<bool> go) : inner_(inner), go_(std::move(go)) {}
  std::uint32_t number() const override { return inner_.number(); }
  std::uint32_t version() const override { return inner_.version(); }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override {
    const bool place = call.procedure == static_cast<std::uint32_t>(wire::ObjectProcedure::kPlace);
    if (place && seen++ == 0) co_await go_;
    co_return co_await inner_.handle(call, results);
  }
  unsigned seen = 0;

 private:
  rpc::Program& inner_;
  OneShot<bool> go_;
};

class SitesTest : public ServiceFixture {
 protected:
  static constexpr std::uint64_t kUnit = 64 << 10;

  SitesTest() : ServiceFixture("manager1", sample_config()) {
    serve("dir1", authority);
    serve("manager1", manager);
    handle = authority.add(FileId{42});
    from = side("store1");
    to = side("store2");
    for (std::uint64_t stripe = 1; stripes.size() < 3; ++stripe) {
      if (owner_at(*from, stripe) == from->self.index) stripes.push_back(stripe);
    }
    move = {.id = wire::MoveId{5},
            .from = from->self.index,
            .to = to->self.index,
            .begun = Generation{1},
            .sites = {site_of(stripes[0])}};
  }
  ~SitesTest() override {
    for (Side* each : {from.get(), to.get()}) {
      bool ended = false;
      start_void(each->server->stop(), [&ended] { ended = true; });
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
    of.server = std::make_unique<StorageServer>(of.context);
    EXPECT_TRUE(run(of.server->start()));
    of.dispatcher = std::make_unique<rpc::Dispatcher>(of.metrics);
    for (auto* program : of.server->programs()) of.dispatcher->add(*program);
    attach(of, true);
  }
  void attach(Side& of, bool there) {
    const rpc::Endpoint at{of.self.address, of.self.port};
    of.network.attach(at, there ? of.dispatcher.get() : nullptr);
    client.attach(at, there ? of.dispatcher.get() : nullptr);
  }
  std::uint32_t site_of(std::uint64_t stripe) const {
    return tables_.get()->storage_site(handle.fileid, stripe * kUnit, handle.stripe_shift).value;
  }
  std::uint32_t owner_at(const Side& of, std::uint64_t stripe) const {
    return of.tables.get()->server_of(wire::Role::kStorage, SiteId{site_of(stripe)}).server;
  }

  // ---- what a client does ----
  Task<Result<rpc::Response>> send_write(const Side& at, std::uint64_t offset, ByteView data,
                                         Stable stable = Stable::kUnstable, std::uint32_t xid = 0) {
    rpc::XdrWriter out;
    auto bytes = handles_.mint(handle);
    nfs3::encode_arguments(
        out, nfs3::WriteArgs{bytes, offset, static_cast<std::uint32_t>(data.size()), stable, data});
    rpc::AuthSys who;
    who.uid = who.gid = 1000;
    rpc::Request request{.to = {at.self.address, at.self.port},
                         .program = nfs3::kProgram,
                         .version = nfs3::kVersion,
                         .procedure = static_cast<std::uint32_t>(Procedure::kWrite),
                         .arguments = out.take(),
                         .timeout = 20s,
                         .credential = who};
    // As a proxy passes on what a client has sent, again where the number is one of before.
    if (xid != 0) request.on_behalf = {.client = {0x0a4d0102, 900}, .xid = Xid{xid}};
    return (xid != 0 ? network_ : client).call(std::move(request));
  }
  static nfs3::WriteOk written(const Result<rpc::Response>& response) {
    EXPECT_TRUE(response) << response.error().message;
    NfsStatus status{};
    nfs3::WriteOk ok;
    rpc::XdrReader in(response->results());
    EXPECT_TRUE(nfs3::decode_result(in, status, ok));
    EXPECT_EQ(status, NfsStatus::kOk);
    return ok;
  }
  nfs3::WriteOk write(const Side& at, std::uint64_t offset, std::string_view data,
                      Stable stable = Stable::kUnstable, std::uint32_t xid = 0) {
    return written(run(send_write(at, offset, as_bytes(data), stable, xid)));
  }
  std::string read(const Side& at, std::uint64_t offset, std::uint32_t count) {
    rpc::XdrWriter out;
    auto bytes = handles_.mint(handle);
    nfs3::encode_arguments(out, nfs3::ReadArgs{bytes, offset, count});
    rpc::AuthSys who;
    who.uid = who.gid = 1000;
    auto response = run(client.call({.to = {at.self.address, at.self.port},
                                     .program = nfs3::kProgram,
                                     .version = nfs3::kVersion,
                                     .procedure = static_cast<std::uint32_t>(Procedure::kRead),
                                     .arguments = out.take(),
                                     .timeout = 20s,
                                     .credential = who}));
    EXPECT_TRUE(response);
    NfsStatus status{};
    nfs3::ReadOk ok;
    rpc::XdrReader in(response->results());
    EXPECT_TRUE(nfs3::decode_result(in, status, ok));
    return status == NfsStatus::kOk ? std::string(as_text(ok.data)) : std::string(nfs3::status_name(status));
  }
  // What the node's own disk has there.
  std::string stored(Side& at, std::uint64_t offset, std::size_t count) {
    Buffer bytes(count);
    auto got = run(at.server->node().store.read({config_.volume.id, handle.fileid, ObjectKind::kFile}, offset,
                                                bytes.span()));
    EXPECT_TRUE(got);
    return std::string(as_text(bytes.view().first(got->bytes)));
  }

  // ---- what the manager does ----
  template <class R, class Args>
  Result<R> ask(const Side& at, MovesProcedure procedure, const Args& args) {
    return run(service::internal_call<R>(network_, {at.self.address, at.self.port}, wire::kMovesProgram,
                                         procedure, args));
  }
  wire::MoveSitesResult tell() {
    auto answer =
        ask<wire::MoveSitesResult>(*from, MovesProcedure::kMove, wire::MoveSitesArgs{move, rate, paused});
    EXPECT_TRUE(answer);
    return answer.value_or(wire::MoveSitesResult{});
  }
  // Tells of the move until it is that far.
  bool until(MovePhase phase, Duration patience = 30s) {
    for (const MonoTime end = loop_.now() + patience; loop_.now() < end; loop_.advance(50ms)) {
      told = tell();
      if (told.phase == phase) return true;
    }
    return false;
  }
  template <class Args>
  std::vector<std::uint32_t> also(wire::ObjectProcedure procedure, Args args) {
    args.object = {config_.volume.id, handle.fileid, ObjectKind::kFile};
    using R = std::conditional_t<std::is_same_v<Args, wire::ObjectCommitArgs>, wire::ObjectCommitResult,
                                 wire::ObjectStatusResult>;
    auto result = run(service::internal_call<R>(network_, {from->self.address, from->self.port},
                                                wire::kObjectProgram, procedure, args));
    EXPECT_TRUE(result);
    return result->also;
  }

  FakeAuthority authority{loop_, handles_};
  FakeManager manager;
  routing::FileHandle handle;
  std::unique_ptr<Side> from, to;
  std::vector<std::uint64_t> stripes;  // of the file, on sites of `from`
  wire::SiteMove move;
  std::uint64_t rate = 0;
  bool paused = false;
  wire::MoveSitesResult told;
  rpc::InProcessNetwork client{network_, rpc::Endpoint{0x0a4d0102, 900}, 0};
};

TEST_F(SitesTest, BytesGoWithTheirSiteAndOthersStay) {
  write(*from, stripes[0] * kUnit, "moves");
  write(*from, stripes[1] * kUnit, "stays");
  ASSERT_TRUE(until(MovePhase::kDone));
  EXPECT_EQ(told.copied_bytes, kBlock);
  EXPECT_EQ(told.tries, 0u);
  EXPECT_EQ(stored(*to, stripes[0] * kUnit, 5), "moves");
  EXPECT_EQ(stored(*from, stripes[0] * kUnit, 5), std::string(5, '\0')) << "given back";
  EXPECT_EQ(stored(*from, stripes[1] * kUnit, 5), "stays");
  for (const Side* each : {from.get(), to.get()}) {
    EXPECT_EQ(owner_at(*each, stripes[0]), to->self.index);
    EXPECT_EQ(read(*each, stripes[0] * kUnit, 5), "moves") << "whoever is asked";
  }
  write(*from, stripes[0] * kUnit, "MOVED");
  EXPECT_EQ(stored(*to, stripes[0] * kUnit, 5), "MOVED");
}

TEST_F(SitesTest, WhatIsWrittenWhileItIsCopiedIsThereToo) {
  const std::string old(kUnit, 'a');
  write(*from, stripes[0] * kUnit, old, Stable::kFileSync);
  rate = kUnit / 4;
  ASSERT_TRUE(until(MovePhase::kCopying));
  loop_.advance(500ms);
  write(*from, stripes[0] * kUnit + 100, "new");
  write(*from, (stripes[0] + 1) * kUnit - 3, "end", Stable::kFileSync);
  EXPECT_EQ(tell().phase, MovePhase::kCopying);
  EXPECT_EQ(stored(*to, stripes[0] * kUnit + 100, 3), "new") << "before it was answered";
  rate = 0;
  ASSERT_TRUE(until(MovePhase::kDone));
  EXPECT_EQ(stored(*to, stripes[0] * kUnit + 99, 5), "anewa");
  EXPECT_EQ(stored(*to, (stripes[0] + 1) * kUnit - 4, 4), "aend");
}

// The link may be full, and the copy be long on its way: a client's write goes past it.
TEST_F(SitesTest, AWriteDoesNotWaitForTheCopyOfItsStripe) {
  write(*from, stripes[0] * kUnit, std::string(kUnit, 'a'), Stable::kFileSync);
  const OneShot<bool> go;
  std::unique_ptr<HeldPlace> held;
  rpc::Dispatcher dispatcher(to->metrics);
  for (auto* program : to->server->programs()) {
    if (program->number() == wire::kObjectProgram) {
      held = std::make_unique<HeldPlace>(*program, go);
      dispatcher.add(*held);
    } else {
      dispatcher.add(*program);
    }
  }
  to->network.attach(to->endpoint(), &dispatcher);
  ASSERT_TRUE(until(MovePhase::kCopying));
  ASSERT_TRUE(loop_.run_until([&] { return held->seen == 1; }, 1s));
  const MonoTime began = loop_.now();
  write(*from, stripes[0] * kUnit + 100, "new", Stable::kFileSync);
  EXPECT_LT(loop_.now() - began, 100ms);
  EXPECT_EQ(stored(*to, stripes[0] * kUnit + 100, 3), "new") << "before it was answered";
  go.set(true);
  ASSERT_TRUE(until(MovePhase::kDone));
  EXPECT_GE(held->seen, 3u) << "the copy that came late was refused, and made anew";
  EXPECT_EQ(stored(*to, stripes[0] * kUnit + 99, 5), "anewa");
  to->network.attach(to->endpoint(), to->dispatcher.get());
}

// What a crash of the new owner would lose is nothing that the old one had made durable.
TEST_F(SitesTest, TheNewOwnerHasEverythingDurablyBeforeTheSitesAreGiven) {
  write(*from, stripes[0] * kUnit, "durable", Stable::kFileSync);
  ASSERT_TRUE(until(MovePhase::kDone));
  to->disk.crash(storage::MemoryDisk::Crash::kDropUnsynced);
  auto file = run(to->disk.open(head_path({config_.volume.id, handle.fileid, ObjectKind::kFile}),
                                storage::Disk::Mode::kMustExist));
  ASSERT_TRUE(file);
  Buffer bytes(7);
  ASSERT_TRUE(run((*file)->read(kDataStart + stripes[0] * kUnit, bytes.span())));
  EXPECT_EQ(as_text(bytes.view()), "durable");
}

TEST_F(SitesTest, AWriteThatBeganBeforeIsWaitedFor) {
  std::optional<Result<rpc::Response>> answer;
  authority.truncating = true;  // its attributes do not come yet
  const std::string data = "slow";
  start(send_write(*from, stripes[0] * kUnit, as_bytes(data)),
        [&](Result<rpc::Response> response) { answer.emplace(std::move(response)); });
  loop_.advance(10ms);
  EXPECT_FALSE(until(MovePhase::kCopying, 3s));
  EXPECT_FALSE(answer);
  authority.truncating = false;
  ASSERT_TRUE(until(MovePhase::kDone));
  written(*answer);
  EXPECT_EQ(stored(*to, stripes[0] * kUnit, 4), "slow");
}

TEST_F(SitesTest, AWriteOverSeveralStripesEndsBeforeOneThatLeaves) {
  std::uint64_t first = 1;  // two behind one another that are here
  while (owner_at(*from, first) != from->self.index || owner_at(*from, first + 1) != from->self.index)
    ++first;
  move.sites = {site_of(first + 1)};
  const std::string data(2 * kUnit, 'x');
  EXPECT_EQ(write(*from, first * kUnit, data).count, 2 * kUnit);
  rate = 1000;
  ASSERT_TRUE(until(MovePhase::kCopying));
  EXPECT_EQ(write(*from, first * kUnit, data).count, kUnit);
  EXPECT_EQ(write(*from, (first + 1) * kUnit, data).count, kUnit);
  rate = 0;
  EXPECT_TRUE(until(MovePhase::kDone));
}

TEST_F(SitesTest, AWriteThatComesAgainIsKnownAtTheNewOwner) {
  write(*from, stripes[0] * kUnit, "first", Stable::kFileSync, 77);
  ASSERT_TRUE(until(MovePhase::kDone));
  write(*to, stripes[0] * kUnit, "later", Stable::kFileSync, 78);
  write(*to, stripes[0] * kUnit, "first", Stable::kFileSync, 77);
  EXPECT_EQ(stored(*to, stripes[0] * kUnit, 5), "later");
}

TEST_F(SitesTest, WithANewOwnerThatIsAwayWritesGoOnAndItIsTriedAgain) {
  write(*from, stripes[0] * kUnit, std::string(kUnit, 'a'));
  rate = kUnit / 8;
  ASSERT_TRUE(until(MovePhase::kCopying));
  attach(*to, false);
  write(*from, stripes[0] * kUnit, "alone");
  EXPECT_EQ(stored(*from, stripes[0] * kUnit, 5), "alone");
  EXPECT_TRUE(until(MovePhase::kWaiting));
  EXPECT_GE(told.tries, 1u);
  EXPECT_THAT(told.trouble, HasSubstr("new owner"));
  EXPECT_EQ(owner_at(*from, stripes[0]), from->self.index);
  attach(*to, true);
  rate = 0;
  ASSERT_TRUE(until(MovePhase::kDone, 60s));
  EXPECT_EQ(stored(*to, stripes[0] * kUnit, 6), "alonea");
}

TEST_F(SitesTest, WhatTheNewOwnerHadOfItBeforeIsGone) {
  write(*from, stripes[0] * kUnit, "old bytes, and many of them");
  ASSERT_TRUE(until(MovePhase::kDone));
  const wire::SiteMove there = move;
  move = {.id = wire::MoveId{6},
          .from = there.to,
          .to = there.from,
          .begun = Generation{2},
          .sites = there.sites};
  std::swap(from, to);
  ASSERT_TRUE(until(MovePhase::kDone));
  EXPECT_EQ(stored(*to, stripes[0] * kUnit, 9), "old bytes");
  write(*to, stripes[0] * kUnit, "new");
  EXPECT_EQ(read(*from, stripes[0] * kUnit, 9), "new bytes");
  EXPECT_EQ(stored(*from, stripes[0] * kUnit, 9), std::string());
}

TEST_F(SitesTest, UntilItIsGivenAMoveIsGivenUpWithoutATrace) {
  write(*from, stripes[0] * kUnit, std::string(kUnit, 'a'));
  rate = kUnit / 8;
  ASSERT_TRUE(until(MovePhase::kCopying));
  loop_.advance(1s);
  auto aborted = ask<wire::AbortMoveResult>(*from, MovesProcedure::kAbort, wire::AbortMoveArgs{move});
  EXPECT_EQ(aborted->phase, MovePhase::kAborted);
  for (int i = 0; i < 20; ++i) {
    auto withdrawn = ask<wire::MovesResult>(*to, MovesProcedure::kWithdraw,
                                            wire::WithdrawSitesArgs{move, aborted->attempt});
    if (withdrawn->status == NfsStatus::kOk) break;
    EXPECT_EQ(withdrawn->status, NfsStatus::kJukebox);
    loop_.advance(100ms);
  }
  EXPECT_EQ(stored(*to, stripes[0] * kUnit, 5), "");
  EXPECT_EQ(tell().phase, MovePhase::kAborted) << "a late copy of the manager's call";
  EXPECT_EQ(owner_at(*from, stripes[0]), from->self.index);
}

TEST_F(SitesTest, WhatIsLeftOfAFileThatWasRemovedMeanwhileGoesWithTheNextAttempt) {
  write(*from, stripes[0] * kUnit, std::string(kUnit, 'a'));
  rate = kUnit / 8;
  ASSERT_TRUE(until(MovePhase::kCopying));
  attach(*to, false);
  ASSERT_TRUE(until(MovePhase::kWaiting)) << "nobody tells the new owner of the removal";
  authority.remove(FileId{42});
  attach(*to, true);
  rate = 0;
  ASSERT_TRUE(until(MovePhase::kDone, 60s));
  auto listed = run(to->server->node().store.list(std::nullopt, 10));
  ASSERT_TRUE(listed);
  EXPECT_TRUE(listed->objects.empty());
}

TEST_F(SitesTest, OnceItIsGivenItIsTooLate) {
  ASSERT_TRUE(until(MovePhase::kDone));
  auto aborted = ask<wire::AbortMoveResult>(*from, MovesProcedure::kAbort, wire::AbortMoveArgs{move});
  EXPECT_EQ(aborted->phase, MovePhase::kGiven);
  auto withdrawn = ask<wire::MovesResult>(*to, MovesProcedure::kWithdraw,
                                          wire::WithdrawSitesArgs{move, ~std::uint64_t{0}});
  loop_.advance(1s);
  EXPECT_TRUE(to->ownership.owns_all(move.sites));
}

TEST_F(SitesTest, WhoLearnsOfTheMoveFromTablesIsToldToAskTheNewOwner) {
  write(*from, stripes[0] * kUnit, std::string(kUnit, 'a'));
  EXPECT_THAT(also(wire::ObjectProcedure::kCommit, wire::ObjectCommitArgs{}), IsEmpty());
  rate = kUnit / 8;
  ASSERT_TRUE(until(MovePhase::kCopying));
  EXPECT_THAT(also(wire::ObjectProcedure::kCommit, wire::ObjectCommitArgs{.known = Generation{9}}),
              ElementsAre(move.to));
  rate = 0;
  ASSERT_TRUE(until(MovePhase::kDone));
  EXPECT_THAT(also(wire::ObjectProcedure::kTruncate,
                   wire::ObjectTruncateArgs{.size = kMaxObjectSize, .epoch = Epoch{1}}),
              ElementsAre(move.to));
  wire::Tables published = from->tables.get()->wire();
  published.generation = Generation{4};
  from->ownership.saw(published);
  EXPECT_THAT(also(wire::ObjectProcedure::kRemove, wire::ObjectRemoveArgs{.known = Generation{3}}),
              ElementsAre(move.to));
  EXPECT_THAT(also(wire::ObjectProcedure::kRemove, wire::ObjectRemoveArgs{.known = Generation{4}}),
              IsEmpty());
}

// At an address that a server had before which was removed: whoever has tables of then means that one.
TEST_F(SitesTest, WhoKnowsOnlyOfTimesBeforeTheServerIsToldToAskAll) {
  wire::Tables tables = from->tables.get()->wire();
  tables.servers[move.from].since = Generation{7};
  tables.generation = Generation{8};
  from->tables.set(routing::RoutingTables::make(config_, tables).value());
  EXPECT_THAT(also(wire::ObjectProcedure::kCommit, wire::ObjectCommitArgs{.known = Generation{6}}),
              ::testing::Contains(move.to));
  EXPECT_THAT(also(wire::ObjectProcedure::kCommit, wire::ObjectCommitArgs{.known = Generation{7}}),
              IsEmpty());
}

TEST_F(SitesTest, LateWordsOfEarlierAttemptsChangeNothing) {
  write(*from, stripes[0] * kUnit, "moves");
  ASSERT_TRUE(ask<wire::MovesResult>(*to, MovesProcedure::kPrepare, wire::PrepareSitesArgs{move, 100}));
  loop_.advance(1s);
  EXPECT_EQ(ask<wire::MovesResult>(*to, MovesProcedure::kPrepare, wire::PrepareSitesArgs{move, 100})->status,
            NfsStatus::kOk);
  EXPECT_EQ(
      ask<wire::MovesResult>(*to, MovesProcedure::kOffer, wire::OfferSitesArgs{move.id, 100, true})->status,
      NfsStatus::kOk);
  auto late = ask<wire::MovesResult>(*to, MovesProcedure::kPrepare, wire::PrepareSitesArgs{move, 99});
  EXPECT_EQ(late->status, NfsStatus::kStale);
  EXPECT_EQ(late->attempt, 100u);
  EXPECT_EQ(ask<wire::MovesResult>(*to, MovesProcedure::kWithdraw, wire::WithdrawSitesArgs{move, 99})->status,
            NfsStatus::kOk);
  loop_.advance(1s);
  EXPECT_EQ(to->ownership.offered_by(move.id), 100u);
  EXPECT_EQ(
      ask<wire::MovesResult>(*to, MovesProcedure::kOffer, wire::OfferSitesArgs{move.id, 99, true})->status,
      NfsStatus::kStale);
}

TEST_F(SitesTest, WhatIsNotTheReceiversToMoveIsRefused) {
  wire::SiteMove strange = move;
  strange.sites = {site_of(stripes[0]) ^ 1};  // the other node's
  auto refused = ask<wire::MoveSitesResult>(*from, MovesProcedure::kMove, wire::MoveSitesArgs{strange});
  EXPECT_EQ(refused->phase, MovePhase::kAborted);
  EXPECT_EQ(ask<wire::MovesResult>(*from, MovesProcedure::kPrepare, wire::PrepareSitesArgs{move, 1})->status,
            NfsStatus::kInval);
  strange.sites = {1024};
  EXPECT_EQ(ask<wire::MovesResult>(*to, MovesProcedure::kPrepare, wire::PrepareSitesArgs{strange, 1})->status,
            NfsStatus::kInval);
  EXPECT_EQ(ask<wire::MovesResult>(*to, MovesProcedure::kTake, wire::TakeSitesArgs{move})->status,
            NfsStatus::kServerFault)
      << "nothing of it was offered";
}

TEST_F(SitesTest, PlacesOfNoAttemptAreRefused) {
  auto bytes = handles_.mint(handle);
  const std::string data = "forged";
  wire::PlaceArgs args{move.id.value, 1, bytes, 1, Epoch{0}, stripes[0] * kUnit, {}, as_bytes(data)};
  auto place = [&] {
    return run(service::internal_call<wire::PlaceResult>(network_, {to->self.address, to->self.port},
                                                         wire::kObjectProgram, wire::ObjectProcedure::kPlace,
                                                         args))
        ->status;
  };
  EXPECT_EQ(place(), NfsStatus::kStale);
  (void)ask<wire::MovesResult>(*to, MovesProcedure::kPrepare, wire::PrepareSitesArgs{move, 1});
  loop_.advance(1s);
  args.offset = stripes[1] * kUnit;
  EXPECT_EQ(place(), NfsStatus::kStale) << "a site that does not move";
  args.offset = (stripes[0] + 1) * kUnit - 1;
  EXPECT_EQ(place(), NfsStatus::kInval) << "over the end of a stripe";
  args.offset = stripes[0] * kUnit;
  EXPECT_EQ(place(), NfsStatus::kOk);
  EXPECT_EQ(place(), NfsStatus::kNotSync) << "the same again";
}

}  // namespace
}  // namespace slice::storagenode
