// The owner of a backing set (service/backing/) over real nodes on disks that forget what was not synced:
// nothing acknowledged is lost when nodes, owners and both go, and two owners never answer at once.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "service/backing/backed_disk.h"
#include "service/backing/fenced_program.h"
#include "service/testing/service_fixture.h"
#include "storage/durable_file.h"
#include "storage/log.h"
#include "storagenode/backing/backing_program.h"
#include "wire/failover.h"

namespace slice::storagenode {
namespace {

using namespace std::chrono_literals;
using storage::MemoryDisk;

EnsembleConfig three_nodes() {
  EnsembleConfig config = service::testing::sample_config();
  service::testing::add_server(config, "store3", ServerRole::kStorage);
  return config;
}

// The manager's part, without its durability.
class FakeManager : public service::InternalProgram {
 public:
  FakeManager(routing::TableHolder& tables, std::vector<std::uint32_t> nodes)
      : InternalProgram(wire::kManagerProgram), nodes_(std::move(nodes)) {
    using P = wire::ManagerProcedure;
    on<service::NoArguments>(P::kGetTables, [&tables](const auto&) { return tables.get()->wire(); });
    on<wire::StandbyArgs>(P::kStandby,
                          [](const auto& args) { return wire::StandbyResult{true, args.endpoint}; });
    on<wire::BackingClaimArgs>(P::kBackingClaim, [this](const auto& args) { return claim(args); });
    on<wire::BackingMembersArgs>(P::kBackingMembers, [this](const auto& args) { return members(args); });
    on<wire::BackingSpareArgs>(P::kBackingSpare, [this](const auto&) { return spare(); });
    on<wire::BackingKeepArgs>(P::kBackingKeep, [this](const auto& args) {
      kept = args.set;
      forgot = forgot && never_learns;
      return wire::BackingKeepResult{};
    });
  }

  wire::BackingSet set;
  std::optional<wire::BackingSet> kept;  // as its owner has said last
  bool forgot = false;                   // it has lost its state, and nobody has told it since
  bool never_learns = false;             // also when it is told
  unsigned changes = 0;
  std::size_t least = wire::kMaxBackingMembers;  // members at any time
  std::set<std::uint32_t> silent;                // nodes

 private:
  wire::BackingClaimResult claim(const wire::BackingClaimArgs& args) {
    const bool made = set.members.empty();
    if (made) set.members.assign(nodes_.begin(), nodes_.begin() + args.copies);
    set.server = args.server;
    set.copies = args.copies;
    if (set.instance != args.instance) ++set.epoch.value, set.change = 0;
    set.instance = args.instance;
    return {.refused = "", .made = made, .set = set};
  }
  wire::BackingMembersResult members(const wire::BackingMembersArgs& args) {
    if (forgot) return {.refused = "no such set", .set = {}};
    if (args.owner.epoch != set.epoch || args.owner.instance != set.instance) {
      return {.refused = "the epoch is another's", .set = set};
    }
    set.members = args.members;
    set.change = args.change;
    least = std::min(least, set.members.size());
    ++changes;
    return {.refused = "", .set = set};
  }
  wire::BackingSpareResult spare() {
    for (std::uint32_t node : nodes_) {
      const bool member = std::find(set.members.begin(), set.members.end(), node) != set.members.end();
      if (!member && !silent.contains(node)) return {true, node};
    }
    return {};
  }

  std::vector<std::uint32_t> nodes_;
};

struct NodeHost {
  NodeHost(ManualLoop& loop, rpc::InProcessNetwork& all, rpc::Endpoint at)
      : loop(loop), all(all), at(at), disk(loop) {}
  void start() {
    session = disk.session();
    metrics = std::make_unique<Metrics>();
    files = std::make_unique<BackingFiles>(BackingFiles::Seams{
        .loop = loop, .disk = *session, .metrics = *metrics, .reserve = [] { return 0; }});
    program = std::make_unique<BackingProgram>(*files, *metrics);
    dispatcher = std::make_unique<rpc::Dispatcher>(*metrics);
    dispatcher->add(*program);
    spawn([](BackingFiles& each) -> Task<void> { EXPECT_TRUE(co_await each.start()); }(*files));
    all.attach(at, dispatcher.get());
  }
  // The process ends; with it what was not synced, where the host goes too.
  void end(MemoryDisk::Crash how = MemoryDisk::Crash::kDropUnsynced) {
    all.attach(at, nullptr);
    disk.crash(how);
    retired.push_back({std::move(session), std::move(metrics), std::move(files), std::move(program),
                       std::move(dispatcher)});
  }
  void restart() {
    end();
    start();
  }
  void cut() { all.attach(at, nullptr); }
  void join() { all.attach(at, dispatcher.get()); }

  struct Run {
    std::unique_ptr<storage::Disk> session;
    std::unique_ptr<Metrics> metrics;
    std::unique_ptr<BackingFiles> files;
    std::unique_ptr<BackingProgram> program;
    std::unique_ptr<rpc::Dispatcher> dispatcher;
  };
  ManualLoop& loop;
  rpc::InProcessNetwork& all;
  rpc::Endpoint at;
  MemoryDisk disk;
  std::unique_ptr<storage::Disk> session;
  std::unique_ptr<Metrics> metrics;
  std::unique_ptr<BackingFiles> files;
  std::unique_ptr<BackingProgram> program;
  std::unique_ptr<rpc::Dispatcher> dispatcher;
  std::vector<Run> retired;  // calls may still be under way in them
};

// Calls of one process, which may be cut off from all others.
class OwnChannel : public rpc::Channel {
 public:
  OwnChannel(Loop& loop, rpc::Channel& all) : loop_(loop), all_(all) {}
  Task<Result<rpc::Response>> call(rpc::Request request) override {
    if (!cut) co_return co_await all_.call(std::move(request));
    co_await loop_.sleep(request.timeout);
    co_return fail(Errc::kTimedOut, "cut off");
  }
  bool cut = false;

 private:
  Loop& loop_;
  rpc::Channel& all_;
};

// One run of the server whose set it is.
struct Owner {
  std::unique_ptr<Metrics> metrics = std::make_unique<Metrics>();
  std::unique_ptr<service::Managers> managers;
  std::unique_ptr<OwnChannel> channel;
  std::unique_ptr<storage::Disk> local;
  std::unique_ptr<service::BackingSet> set;
  std::unique_ptr<service::BackedDisk> disk;
  std::string lost;
};

class OwnerTest : public service::testing::ServiceFixture {
 protected:
  OwnerTest() : ServiceFixture("manager1", three_nodes()), manager_(tables_, nodes_of(config_)) {
    serve("manager1", manager_);
    for (std::uint32_t node : nodes_of(config_)) {
      hosts_.push_back(std::make_unique<NodeHost>(loop_, network_, endpoint(config_.servers[node].name)));
      hosts_.back()->start();
    }
  }
  void TearDown() override {
    for (auto& owner : owners_) owner->set.reset();
    for (auto& host : hosts_) host->end();
    ServiceFixture::TearDown();
  }
  static std::vector<std::uint32_t> nodes_of(const EnsembleConfig& config) {
    std::vector<std::uint32_t> nodes;
    for (const ServerConfig& each : config.servers) {
      if (each.role == ServerRole::kStorage) nodes.push_back(each.index);
    }
    return nodes;
  }

  // A run of dir1 at a host with this disk; not yet open.
  Owner& make_owner(MemoryDisk& local) {
    auto owner = std::make_unique<Owner>();
    owner->managers = std::make_unique<service::Managers>(config_);
    owner->channel = std::make_unique<OwnChannel>(loop_, network_);
    owner->local = local.session();
    owner->set = std::make_unique<service::BackingSet>(service::BackingSet::Seams{
        .loop = loop_,
        .channel = *owner->channel,
        .metrics = *owner->metrics,
        .managers = *owner->managers,
        .server = 0,
        .name = "dir1",
        .copies = copies_,
        .local = *owner->local,
        .random = context_.random,
        .drained = [this](std::uint32_t node) { return drained_.contains(node); },
        .lost = [made = owner.get()](const std::string& why) { made->lost = why; }});
    owner->disk = std::make_unique<service::BackedDisk>(*owner->set);
    owners_.push_back(std::move(owner));
    return *owners_.back();
  }
  Owner& begin(MemoryDisk& local) {
    Owner& owner = make_owner(local);
    Status opened = run(owner.set->open());
    EXPECT_TRUE(opened) << opened.error().message;
    return owner;
  }
  // kill -9: nobody hears of it any more.
  void kill(Owner& owner) { owner.channel->cut = true; }

  Status write(Owner& owner, const std::string& path, std::string_view text, std::uint64_t at = 0) {
    auto file = run(owner.disk->open(path, storage::Disk::Mode::kCreate));
    if (!file) return fail(file.error());
    SLICE_RETURN_IF_ERROR(run((*file)->write(at, as_bytes(text))));
    return run((*file)->sync());
  }
  std::string read(Owner& owner, const std::string& path) {
    auto file = run(owner.disk->open(path, storage::Disk::Mode::kMustExist));
    if (!file) return "no file";
    Buffer bytes((*file)->size());
    auto got = run((*file)->read(0, bytes.span()));
    if (!got) return got.error().message;
    return std::string(as_text(bytes.view().first(*got)));
  }
  const std::vector<std::uint32_t>& members() const { return manager_.set.members; }
  // Of the last owner.
  std::uint64_t count(std::string_view name) { return owners_.back()->metrics->counter(name).value(); }
  std::uint64_t differing() {
    return owners_.back()->metrics->gauge("backing_differing_pieces", "as its owner has it").value();
  }
  // Of a node's copy, behind its back.
  void change_on(std::size_t i, const std::string& name,
                 const std::function<Task<Status>(storage::File& file)>& change) {
    auto file = run(host(i).session->open(fmt::format("backing/{:08x}/files/{}", manager_.set.server, name),
                                          storage::Disk::Mode::kMustExist));
    ASSERT_TRUE(file);
    ASSERT_TRUE(run(change(**file)));
  }
  void damage(std::size_t i, const std::string& name, std::uint64_t at) {
    change_on(i, name, [at](storage::File& file) { return file.write(at, as_bytes("#")); });
  }
  std::string contents_on(std::size_t i, const std::string& name) {
    std::string contents;
    change_on(i, name, [&contents](storage::File& file) -> Task<Status> {
      contents.resize(file.size());
      auto got = co_await file.read(0, {reinterpret_cast<std::uint8_t*>(contents.data()), contents.size()});
      co_return got ? Status{} : fail(got.error());
    });
    return contents;
  }
  // By the file of the set that this node has.
  std::vector<std::uint32_t> members_on(std::size_t i) {
    auto stored =
        run(storage::read_file(*host(i).session, fmt::format("backing/{:08x}/files/{}", manager_.set.server,
                                                             wire::kBackingMembersFile)));
    wire::BackingMembersFile file;
    if (!stored || !decode(stored->view(), file)) return {};
    EXPECT_EQ(file.set.server, manager_.set.server);
    return file.set.members;
  }
  NodeHost& host(std::size_t i) { return *hosts_[i]; }
  std::uint32_t number(std::size_t i) const { return nodes_of(config_)[i]; }

  FakeManager manager_;
  std::vector<std::unique_ptr<NodeHost>> hosts_;
  std::vector<std::unique_ptr<Owner>> owners_;
  std::vector<std::unique_ptr<storage::Log>> logs_;
  std::set<std::uint32_t> drained_;
  std::uint32_t copies_ = 2;
  MemoryDisk here_{loop_}, elsewhere_{loop_};
};

TEST_F(OwnerTest, WhatIsSyncedIsThereForTheNextOwnerElsewhere) {
  Owner& first = begin(here_);
  ASSERT_TRUE(write(first, "log/1", "synced"));
  ASSERT_TRUE(write(first, "state", "one"));
  auto file = run(first.disk->open("log/1", storage::Disk::Mode::kMustExist)).value();
  ASSERT_TRUE(run(file->truncate(3)));
  ASSERT_TRUE(run(file->sync()));
  ASSERT_TRUE(run(first.disk->rename("state", "state2")));
  ASSERT_TRUE(run(first.disk->sync_folder("")));
  EXPECT_EQ(read(first, "log/1"), "syn");
  EXPECT_EQ(run(first.disk->list("")).value(), (std::vector<std::string>{"log", "state2"}));
  EXPECT_EQ(run(first.disk->list("log")).value(), (std::vector<std::string>{"1"}));
  kill(first);
  const MonoTime killed = loop_.now();
  Owner& second = begin(elsewhere_);
  EXPECT_GE(loop_.now() - killed, 2s) << "the first one's session had to end";
  EXPECT_LE(loop_.now() - killed, 4s);
  EXPECT_EQ(read(second, "log/1"), "syn");
  EXPECT_EQ(read(second, "state2"), "one");
  EXPECT_EQ(read(second, "state"), "no file");
  EXPECT_EQ(manager_.set.epoch.value, 2u);
  EXPECT_EQ(members().size(), 2u);
}

// All in one round, so that one CHANGE may have it.
Task<Status> write_small_and_large(service::BackedDisk& disk) {
  const std::string little(3000, 's'), much(3 * wire::kBackingPiece + 17, 'l');
  auto small = co_await disk.open("small", storage::Disk::Mode::kCreate);
  auto large = co_await disk.open("large", storage::Disk::Mode::kCreate);
  for (std::size_t i = 0; i < 20; ++i)
    SLICE_CO_RETURN_IF_ERROR(co_await (*small)->write(i * little.size(), as_bytes(little)));
  SLICE_CO_RETURN_IF_ERROR(co_await (*large)->write(0, as_bytes(much)));
  SLICE_CO_RETURN_IF_ERROR(co_await (*small)->write(0, as_bytes(little)));
  SLICE_CO_RETURN_IF_ERROR(co_await (*large)->sync());
  co_return co_await (*small)->sync();
}

TEST_F(OwnerTest, NoCallIsLongerThanNodesTake) {
  Owner& owner = begin(here_);
  const MonoTime at = loop_.now();
  ASSERT_TRUE(run(write_small_and_large(*owner.disk)));
  EXPECT_LT(loop_.now() - at, 1s) << "nothing was sent again";
  EXPECT_EQ(members().size(), 2u);
  EXPECT_EQ(read(owner, "large"), std::string(3 * wire::kBackingPiece + 17, 'l'));
}

TEST_F(OwnerTest, TheNextRunOnTheSameHostAndOneAfterACleanStopNeedNotWait) {
  Owner& first = begin(here_);
  ASSERT_TRUE(write(first, "a", "x"));
  kill(first);
  MonoTime at = loop_.now();
  Owner& second = begin(here_);
  EXPECT_LT(loop_.now() - at, 500ms) << "it holds the data directory of the run before";
  bool ended = false;
  start_void(second.set->close(), [&ended] { ended = true; });
  ASSERT_TRUE(loop_.run_until([&] { return ended; }));
  EXPECT_FALSE(second.set->holds());
  at = loop_.now();
  Owner& third = begin(elsewhere_);
  EXPECT_LT(loop_.now() - at, 500ms) << "it was given back";
  EXPECT_EQ(read(third, "a"), "x");
  EXPECT_EQ(members().size(), 2u) << "nobody had to be filled";
}

TEST_F(OwnerTest, AnOwnerThatIsCutOffAnswersNobodyOnceAnotherMay) {
  Owner& first = begin(here_);
  ASSERT_TRUE(write(first, "a", "x"));
  EXPECT_TRUE(first.set->holds());
  first.channel->cut = true;
  Owner& second = make_owner(elsewhere_);
  std::optional<Status> opened;
  start(second.set->open(), [&](Status status) { opened = status; });
  bool both = false;
  for (int i = 0; i < 500; ++i) {
    loop_.advance(10ms);
    both = both || (first.set->holds() && second.set->holds());
  }
  ASSERT_TRUE(opened && *opened);
  EXPECT_TRUE(second.set->holds());
  EXPECT_FALSE(first.set->holds());
  EXPECT_FALSE(both);
  EXPECT_EQ(first.lost, "");
  first.channel->cut = false;
  loop_.advance(1s);
  EXPECT_FALSE(first.set->holds());
  EXPECT_NE(first.lost, "") << "it finds out that it is the owner no more";
  EXPECT_FALSE(write(first, "a", "late"));
  EXPECT_EQ(read(second, "a"), "x");
}

// It reaches its nodes, and hears nothing of the manager.
TEST_F(OwnerTest, AnOwnerThatDoesNotHearOfTheNextOneIsToldByTheNodes) {
  Owner& first = begin(here_);
  ASSERT_TRUE(write(first, "a", "x"));
  Owner& second = make_owner(elsewhere_);
  std::optional<Status> opened;
  start(second.set->open(), [&](Status status) { opened = status; });
  bool both = false;
  for (int i = 0; i < 800 && !opened; ++i) {
    loop_.advance(10ms);
    both = both || (first.set->holds() && second.set->holds());
    EXPECT_TRUE(i > 250 || first.set->holds()) << "one that lets go by itself has its time";
  }
  ASSERT_TRUE(opened && *opened);
  EXPECT_FALSE(both);
  EXPECT_NE(first.lost, "");
  EXPECT_FALSE(write(first, "a", "late"));
  EXPECT_EQ(read(second, "a"), "x");
}

TEST_F(OwnerTest, ANodeThatIsGoneIsTakenOutBeforeTheNextAnswerAndFilledWhenItIsBack) {
  Owner& owner = begin(here_);
  ASSERT_TRUE(write(owner, "a", "before"));
  host(0).end();
  const MonoTime at = loop_.now();
  ASSERT_TRUE(write(owner, "a", "during"));
  EXPECT_LT(loop_.now() - at, 4s);
  EXPECT_EQ(members(), (std::vector<std::uint32_t>{number(1)}));
  EXPECT_TRUE(owner.set->holds());
  host(0).start();
  loop_.advance(5s);
  ASSERT_EQ(members().size(), 2u);
  // The other one goes for ever, and the server with it.
  host(1).end();
  kill(owner);
  manager_.set.members = {number(0)};
  Owner& next = begin(elsewhere_);
  EXPECT_EQ(read(next, "a"), "during");
}

TEST_F(OwnerTest, AnotherNodeIsFilledInPlaceOfOneThatStaysAway) {
  Owner& owner = begin(here_);
  std::string big(3 << 20, 'b');
  for (std::size_t i = 0; i < big.size(); i += 1000) big[i] = static_cast<char>('a' + i / 1000 % 26);
  ASSERT_TRUE(write(owner, "zones/1", big));
  ASSERT_TRUE(write(owner, "log/1", "x"));
  host(0).end();
  manager_.silent = {number(0)};
  // It is written to all the time.
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(write(owner, "zones/1", fmt::format("{:08d}", i), static_cast<std::uint64_t>(i) * 4096));
    big.replace(static_cast<std::size_t>(i) * 4096, 8, fmt::format("{:08d}", i));
    loop_.advance(500ms);
  }
  ASSERT_EQ(members().size(), 2u);
  EXPECT_EQ(std::count(members().begin(), members().end(), number(2)), 1);
  host(1).end();
  kill(owner);
  manager_.set.members = {number(2)};
  Owner& next = begin(elsewhere_);
  EXPECT_EQ(read(next, "log/1"), "x");
  EXPECT_TRUE(read(next, "zones/1") == big);
}

// What a manager that knows nothing any more goes by.
TEST_F(OwnerTest, TheSetItselfSaysWhoItsMembersAre) {
  Owner& owner = begin(here_);
  ASSERT_TRUE(write(owner, "a", "x"));
  EXPECT_EQ(members_on(0), members());
  EXPECT_EQ(run(owner.disk->list("")).value(), std::vector<std::string>{"a"}) << "it is not the server's";
  host(0).end();
  ASSERT_TRUE(write(owner, "a", "y"));
  EXPECT_EQ(members_on(1), std::vector<std::uint32_t>{number(1)}) << "before anything is over without it";
  host(0).start();
  EXPECT_EQ(members_on(0).size(), 2u) << "it has been away";
  loop_.advance(5s);
  ASSERT_EQ(members().size(), 2u);
  EXPECT_EQ(members_on(0), members());
  EXPECT_EQ(members_on(1), members());
  loop_.advance(5s);
  ASSERT_TRUE(manager_.kept);
  EXPECT_EQ(*manager_.kept, manager_.set);
  // It says nothing while it may not be the owner any more.
  owner.channel->cut = true;
  loop_.advance(5s);
  owner.channel->cut = false;
  manager_.kept.reset();
  begin(elsewhere_);
  ASSERT_TRUE(loop_.run_until([&] { return manager_.kept.has_value(); }, 10s));
  EXPECT_EQ(manager_.kept->epoch, BackingEpoch{2});
}

TEST_F(OwnerTest, WhatADiskHasLostIsMadeAnewFromAnotherCopy) {
  Owner& owner = begin(here_);
  std::string text(3 << 20, 'a');
  for (std::size_t i = 0; i < text.size(); i += 100) text[i] = static_cast<char>('a' + i / 100 % 26);
  ASSERT_TRUE(write(owner, "log/1", text));
  loop_.advance(1min);
  ASSERT_GE(count("backing_scrub_passes_total"), 1u);
  EXPECT_EQ(differing(), 0u);
  damage(0, "log+1", (2 << 20) + 5);
  damage(1, "log+1", 7);
  loop_.advance(5min);
  EXPECT_EQ(count("backing_damaged_total"), 2u);
  EXPECT_EQ(differing(), 0u);
  for (std::size_t i : {0, 1}) EXPECT_TRUE(contents_on(i, "log+1") == text) << i;
  // Cut short, and longer than it is.
  const std::uint64_t passes = count("backing_scrub_passes_total");
  change_on(0, "log+1", [](storage::File& file) { return file.truncate(100); });
  change_on(1, "log+1", [&](storage::File& file) { return file.write(text.size(), as_bytes("more")); });
  loop_.advance(10min);
  ASSERT_GT(count("backing_scrub_passes_total"), passes);
  EXPECT_EQ(differing(), 0u);
  for (std::size_t i : {0, 1}) EXPECT_TRUE(contents_on(i, "log+1") == text) << i;
  EXPECT_EQ(members().size(), 2u);
  EXPECT_EQ(owner.lost, "");
}

TEST_F(OwnerTest, OfTwoCopiesThatWereNeverSeenAlikeNoneIsTakenForRight) {
  Owner& first = begin(here_);
  ASSERT_TRUE(write(first, "a", "what was written"));
  kill(first);
  damage(1, "a", 3);
  Owner& second = begin(here_);
  loop_.advance(1min);
  EXPECT_EQ(differing(), 1u);
  EXPECT_EQ(count("backing_damaged_total"), 0u);
  // What is written now is.
  ASSERT_TRUE(write(second, "a", "and once more"));
  loop_.advance(10min);
  EXPECT_EQ(differing(), 0u);
}

TEST_F(OwnerTest, EachRunReadsFromAnotherCopyThanTheOneBefore) {
  ASSERT_TRUE(write(begin(here_), "a", "what was written"));
  kill(*owners_.back());
  damage(0, "a", 0);
  std::set<std::string> seen;
  for (int i = 0; i < 2; ++i) {
    seen.insert(read(begin(here_), "a"));
    kill(*owners_.back());
  }
  EXPECT_EQ(seen, (std::set<std::string>{"what was written", "#hat was written"}));
}

TEST_F(OwnerTest, OfThreeCopiesWhatMostHaveIsRight) {
  copies_ = 3;
  Owner& first = begin(here_);
  ASSERT_TRUE(write(first, "a", "what was written"));
  kill(first);
  damage(0, "a", 3);
  begin(here_);
  loop_.advance(1min);
  EXPECT_EQ(differing(), 0u);
  EXPECT_EQ(count("backing_damaged_total"), 1u);
  EXPECT_EQ(contents_on(0, "a"), "what was written");
}

TEST_F(OwnerTest, WhatIsWrittenWhileCopiesAreComparedIsNoDamage) {
  Owner& owner = begin(here_);
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(write(owner, "log/1", fmt::format("{:06d}", i), static_cast<std::uint64_t>(i) * 1000));
    loop_.advance(50ms);
  }
  EXPECT_GE(count("backing_scrub_passes_total"), 2u);
  EXPECT_EQ(count("backing_damaged_total"), 0u);
  EXPECT_EQ(differing(), 0u);
}

// Like the server's own.
class Question : public rpc::Program {
 public:
  explicit Question(Loop& loop) : loop_(loop) {}
  std::uint32_t number() const override { return 1; }
  std::uint32_t version() const override { return 1; }
  Task<rpc::Outcome> handle(const rpc::Call& /*call*/, rpc::XdrWriter& /*results*/) override {
    co_await loop_.sleep(takes);
    co_return rpc::Outcome::kReply;
  }
  Duration takes{};

 private:
  Loop& loop_;
};

// A call over TCP is made once: without an answer its client waits for its own patience, a minute.
TEST_F(OwnerTest, CallsWaitWhileItIsNotSureAndAreAnsweredThen) {
  Owner& owner = begin(here_);
  Question question(loop_);
  Metrics metrics;
  service::FencedProgram fenced(question, *owner.set, metrics);
  rpc::Call call;
  rpc::XdrWriter results;
  std::vector<rpc::Outcome> outcomes;
  const auto ask = [&] {
    start(fenced.handle(call, results), [&](rpc::Outcome outcome) { outcomes.push_back(outcome); });
  };
  ask();
  loop_.advance(1ms);
  EXPECT_EQ(outcomes.size(), 1u);
  // One that is under way while a member is lost, and one that comes then.
  silence("manager1");
  host(0).end();
  loop_.advance(1s);
  question.takes = 5s;
  ask();
  loop_.advance(10s);
  ASSERT_FALSE(owner.set->holds());
  question.takes = {};
  ask();
  EXPECT_EQ(outcomes.size(), 1u);
  serve("manager1", manager_);
  loop_.advance(5s);
  EXPECT_EQ(outcomes, std::vector(3, rpc::Outcome::kReply));
  // Another becomes the owner meanwhile.
  owner.channel->cut = true;
  loop_.advance(10s);
  ASSERT_FALSE(owner.set->holds());
  ask();
  EXPECT_EQ(outcomes.size(), 3u);
  begin(elsewhere_);
  owner.channel->cut = false;
  loop_.advance(5s);
  ASSERT_EQ(outcomes.size(), 4u);
  EXPECT_EQ(outcomes.back(), rpc::Outcome::kDrop);
}

TEST_F(OwnerTest, ADrainedMemberGoesWhenAnotherHasAll) {
  Owner& owner = begin(here_);
  ASSERT_TRUE(write(owner, "a", "x"));
  drained_ = {number(0)};
  loop_.advance(10s);
  EXPECT_EQ(members(), (std::vector<std::uint32_t>{number(1), number(2)}));
  EXPECT_EQ(manager_.least, 2u) << "and not before";
  EXPECT_TRUE(owner.set->holds());
  kill(owner);
  EXPECT_EQ(read(begin(elsewhere_), "a"), "x");
}

TEST_F(OwnerTest, TheLastMemberIsWaitedForAndWhatItForgotIsNotTakenForWritten) {
  Owner& owner = begin(here_);
  ASSERT_TRUE(write(owner, "a", "synced"));
  host(0).end();
  ASSERT_TRUE(write(owner, "a", "second"));
  ASSERT_EQ(members().size(), 1u);
  auto file = run(owner.disk->open("a", storage::Disk::Mode::kMustExist)).value();
  ASSERT_TRUE(run(file->write(0, as_bytes("unsync"))));
  loop_.advance(100ms);
  host(1).restart();
  EXPECT_FALSE(run(file->sync()));
  loop_.advance(10ms);
  EXPECT_NE(owner.lost, "");
  EXPECT_FALSE(owner.set->holds());
  kill(owner);
  Owner& next = begin(here_);
  EXPECT_EQ(read(next, "a"), "second");
}

TEST_F(OwnerTest, WithoutAManagerAllGoesOnUntilANodeIsLost) {
  Owner& owner = begin(here_);
  silence("manager1");
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(write(owner, "a", "x"));
    loop_.advance(1s);
  }
  host(0).end();
  std::optional<Status> written;
  auto file = run(owner.disk->open("a", storage::Disk::Mode::kMustExist)).value();
  ASSERT_TRUE(run(file->write(0, as_bytes("y"))));
  start(file->sync(), [&](Status status) { written = status; });
  loop_.advance(20s);
  EXPECT_FALSE(written) << "the next owner would take that node for a whole one";
  EXPECT_FALSE(owner.set->holds());
  serve("manager1", manager_);
  loop_.advance(5s);
  ASSERT_TRUE(written && *written);
  EXPECT_TRUE(owner.set->holds());
}

// It has lost its state, and the first that it hears of the set is that another node has all.
TEST_F(OwnerTest, AManagerThatForgotIsToldBeforeMembersChange) {
  Owner& owner = begin(here_);
  ASSERT_TRUE(write(owner, "a", "x"));
  host(0).end();
  ASSERT_TRUE(write(owner, "a", "y"));
  ASSERT_EQ(members().size(), 1u);
  manager_.forgot = true;
  host(0).start();
  loop_.advance(1500ms);
  ASSERT_TRUE(loop_.run_until([&] { return members().size() == 2; }, 5s));
  EXPECT_FALSE(manager_.forgot);
  EXPECT_TRUE(owner.set->intact());
  EXPECT_TRUE(owner.set->holds());
}

// One that is not sure may be an old owner: it does not insist, and ends.
TEST_F(OwnerTest, OneThatIsNotSureEndsWhereTheManagerForgot) {
  Owner& owner = begin(here_);
  ASSERT_TRUE(write(owner, "a", "x"));
  manager_.forgot = manager_.never_learns = true;
  host(0).end();
  EXPECT_FALSE(write(owner, "a", "y"));
  EXPECT_FALSE(owner.set->intact());
}

TEST_F(OwnerTest, AFullMemberIsNoSpaceForWritesAndNothingElse) {
  Owner& owner = begin(here_);
  ASSERT_TRUE(write(owner, "a", "x"));
  host(0).disk.set_capacity(host(0).disk.used_bytes() + (1 << 20));
  ASSERT_TRUE(write(owner, "b", "y"));  // its answer tells how much is free
  Status full = write(owner, "a", std::string(2 << 20, 'z'));
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Errc::kNoSpace);
  EXPECT_EQ(read(owner, "a"), "x");
  host(0).disk.set_capacity(1 << 30);
  loop_.advance(1s);
  ASSERT_TRUE(run(owner.disk->sync_folder("")));
  EXPECT_TRUE(write(owner, "a", std::string(2 << 20, 'z')));
}

// A log on the set, through everything that may happen to it: what it said to be durable is there.
TEST_F(OwnerTest, ALogLosesNothingAcknowledgedWhateverGoes) {
  std::mt19937 random(7);
  std::uint64_t acknowledged = 0, appended = 0;
  MemoryDisk* local = &here_;
  for (int round = 0; round < 40; ++round) {
    Owner& owner = begin(*local);
    std::uint64_t last = 0;
    auto log =
        run(storage::Log::open(loop_, *owner.disk, *owner.metrics, {.folder = "log", .segment_bytes = 4096},
                               [&last](storage::LogSequence sequence, ByteView) -> Status {
                                 last = sequence.value;
                                 return {};
                               }));
    ASSERT_TRUE(log) << log.error().message << " in round " << round;
    ASSERT_GE(last, acknowledged) << "in round " << round;
    ASSERT_LE(last, appended);
    acknowledged = appended = last;
    const unsigned what = random() % 6;
    const std::size_t node = random() % 3;
    const int when = static_cast<int>(random() % 30);
    for (int i = 0; i < 30; ++i) {
      auto sequence = (*log)->append(as_bytes(std::string(100 + random() % 300, 'r')));
      if (!sequence) break;
      appended = sequence->value;
      std::optional<Status> synced;
      start((*log)->sync(*sequence), [&](Status status) { synced = status; });
      if (i == when) {
        loop_.advance(std::chrono::microseconds(random() % 3000));
        if (what == 0) host(node).restart();
        if (what == 1) host(node).end(MemoryDisk::Crash::kSeeded), loop_.advance(1s), host(node).start();
        if (what == 2)
          host(node).cut(), loop_.advance(std::chrono::milliseconds(random() % 6000)), host(node).join();
        if (what == 3) break;  // the owner goes with what was under way
      }
      loop_.run_until([&] { return synced.has_value(); }, 30s);
      if (!synced || !*synced) break;
      acknowledged = sequence->value;
      if (random() % 8 == 0) loop_.advance(2s);
    }
    // The log itself may not go while it has something under way.
    kill(owner);
    loop_.advance(std::chrono::seconds(random() % 5));
    logs_.push_back(std::move(*log));
    if (random() % 2 == 0) local = local == &here_ ? &elsewhere_ : &here_;
  }
  EXPECT_GT(acknowledged, 300u);
}

}  // namespace
}  // namespace slice::storagenode
