// Where new directories go by what servers have: the rule, and how another server gets them.
#include "dirserver/background/new_directories.h"

#include <gmock/gmock.h>

#include <set>

#include "dirserver/testing/members_program.h"
#include "dirserver/testing/two_servers.h"

namespace slice::dirserver {
namespace {

using namespace std::chrono_literals;
using nfs3::Procedure;
using NfsStatus = nfs3::Status;
using testing::Side;
constexpr std::size_t kDirectory = static_cast<std::size_t>(wire::Role::kDirectory);

EnsembleConfig without_probability(EnsembleConfig config) {
  config.volume.mkdir_probability.reset();
  return config;
}

// Of directory servers so many objects each.
class FakeManager : public testing::MembersProgram {
 public:
  void say(std::uint32_t server, std::uint64_t objects, bool alive = true) {
    for (wire::Member& member : members.members) {
      if (member.entry.server != server) continue;
      member.last.objects = objects;
      member.alive = alive;
      return;
    }
    wire::Member member;
    member.entry.server = server;
    member.last.objects = objects;
    member.alive = alive;
    members.members.push_back(member);
  }
};

EnsembleConfig four_directories() {
  EnsembleConfig config = service::testing::two_directories();
  service::testing::add_server(config, "dir3", ServerRole::kDirectory);
  service::testing::add_server(config, "dir4", ServerRole::kDirectory);
  return without_probability(std::move(config));
}

class RuleTest : public service::testing::ServiceFixture {
 protected:
  RuleTest() : ServiceFixture("dir1", four_directories()) { serve("manager1", manager); }
  std::uint32_t index(const std::string& name) const { return config_.find(name)->index; }
  std::uint32_t owner(SiteId site) const { return tables_.get()->wire().sites[kDirectory][site.value]; }
  void bind(const std::function<std::uint32_t(std::size_t site)>& owner_of) {
    wire::Tables tables = tables_.get()->wire();
    for (std::size_t site = 0; site < tables.sites[kDirectory].size(); ++site)
      tables.sites[kDirectory][site] = owner_of(site);
    tables_.set(routing::RoutingTables::make(config_, tables).value());
  }
  NamePlace name(int number) {
    text = "d" + std::to_string(number);
    return placement.place({kRootSite, FileId{1}, 1}, text);
  }
  // Which servers get the directories of so many names, each as though it was the first.
  std::map<std::uint32_t, int> shares(int names) {
    std::map<std::uint32_t, int> found;
    for (int i = 0; i < names; ++i) {
      NewDirectories fresh(context_, members);
      const NamePlace place = name(i);
      auto elsewhere = fresh.elsewhere(place);
      if (elsewhere) EXPECT_NE(owner(*elsewhere), self_.index);
      ++found[owner(elsewhere ? *elsewhere : fresh.here(place))];
    }
    return found;
  }
  void tell(std::vector<std::uint64_t> objects) {
    for (std::size_t i = 0; i < objects.size(); ++i)
      manager.say(index("dir" + std::to_string(i + 1)), objects[i]);
    loop_.advance(2s);
    members.get();
    loop_.advance(10ms);
  }

  FakeManager manager;
  Members members{context_};
  Placement placement{config_, tables_};
  std::string text;
};

TEST_F(RuleTest, WhoHasItsShareKeepsThemOnAllItsSites) {
  tell({1000, 1000, 1000, 1000});
  EXPECT_EQ(shares(200), (std::map<std::uint32_t, int>{{self_.index, 200}}));
  tell({1060, 1000, 1000, 1000});  // nearly
  EXPECT_EQ(shares(200), (std::map<std::uint32_t, int>{{self_.index, 200}}));
  NewDirectories directories(context_, members);
  std::set<SiteId> sites;
  for (int i = 0; i < 500; ++i) sites.insert(directories.here(name(i)));
  EXPECT_EQ(sites.size(), config_.site_counts[kDirectory] / 4u);
}

TEST_F(RuleTest, WhoHasMoreGivesThemToThoseWithFewer) {
  tell({2000, 1000, 1000, 100});
  auto found = shares(1000);
  // Of two candidates the one with fewer: dir4 is among them in 7 of 16 cases.
  EXPECT_NEAR(found[index("dir4")], 437, 60);
  EXPECT_NEAR(found[index("dir2")], found[index("dir3")], 80);
  EXPECT_NEAR(found[self_.index], 62, 30) << "both candidates are its own";
  manager.say(index("dir4"), 100, false);
  tell({2000, 1000, 1000});
  found = shares(1000);
  EXPECT_EQ(found.count(index("dir4")), 0u) << "it is away";
}

TEST_F(RuleTest, SharesAreOfSites) {
  bind([this](std::size_t site) { return index(site < 32 ? "dir1" : site < 48 ? "dir2" : "dir3"); });
  tell({2000, 1000, 1000, 0});
  EXPECT_EQ(shares(100), (std::map<std::uint32_t, int>{{self_.index, 100}}))
      << "half of the sites, half of all";
  bind([this](std::size_t site) { return index(site < 16 ? "dir1" : "dir2"); });
  const auto found = shares(1000);
  EXPECT_EQ(found.count(index("dir3")) + found.count(index("dir4")), 0u) << "they have no site";
}

TEST_F(RuleTest, WithoutAManagerWhatItGivesCounts) {
  silence("manager1");
  NewDirectories directories(context_, members);
  std::map<std::uint32_t, int> found;
  for (int i = 0; i < 400; ++i) {
    const NamePlace place = name(i);
    auto elsewhere = directories.elsewhere(place);
    ++found[owner(elsewhere ? *elsewhere : directories.here(place))];
  }
  for (const char* each : {"dir1", "dir2", "dir3", "dir4"}) EXPECT_NEAR(found[index(each)], 100, 15) << each;
}

class ElsewhereTest : public testing::TwoServers {
 protected:
  ElsewhereTest() : TwoServers(without_probability(service::testing::two_directories())) {
    serve("manager1", manager);
    // The root's server has too much.
    manager.say(first->self.index, 1000);
    manager.say(second->self.index, 10);
    ask_manager();
  }
  // Takes a call and a second; directories of that time are the other server's to make already.
  void ask_manager() {
    for (int i = 0; i < 2; ++i) {
      ++next;
      mkdir("asks" + std::to_string(next), next);
      loop_.advance(2s);
    }
  }
  NfsStatus mkdir(const std::string& name, std::uint32_t xid) {
    const NfsStatus status = mkdir_at(*first, name, xid);
    if (status == NfsStatus::kOk) EXPECT_TRUE(parent_shown) << "the parent is this server's";
    return status;
  }
  NfsStatus mkdir_at(const Side& at, const std::string& name, std::uint32_t xid, std::uint8_t relays = 0) {
    return took(run(send(at, Procedure::kMkdir, nfs3::MkdirArgs{.where = {root_, name}}, xid, relays)));
  }
  NfsStatus took(const Result<rpc::Response>& response) {
    NfsStatus status = status_of(response);
    nfs3::CreatedOk ok;
    if (status != NfsStatus::kOk) return status;
    rpc::XdrReader in(response->results());
    EXPECT_TRUE(nfs3::decode_result(in, status, ok));
    parent_shown = ok.directory.after.has_value();
    made = handles_.open(*ok.object).value();
    return status;
  }
  NfsStatus rmdir(const std::string& name) {
    return status_of(run(send(*first, Procedure::kRmdir, nfs3::RmdirArgs{root_, name}, ++next)));
  }
  NfsStatus make_file(const Side& at, const routing::FileHandle& in, const std::string& name) {
    const routing::HandleBytes directory = handles_.mint(in);
    return status_of(
        run(send(at, Procedure::kCreate,
                 nfs3::CreateArgs{.where = {directory, name}, .mode = nfs3::CreateMode::kGuarded}, ++next)));
  }
  bool at_second(const routing::FileHandle& handle) const {
    return first->tables.get()->owns(second->self.index, wire::Role::kDirectory, handle.directory_site);
  }
  // One that goes to the other server.
  std::string other_servers() {
    for (;;) {
      ++next;
      std::string name = "n" + std::to_string(next);
      EXPECT_EQ(mkdir(name, next), NfsStatus::kOk);
      const bool elsewhere = at_second(made);
      EXPECT_EQ(rmdir(name), NfsStatus::kOk);
      if (elsewhere) return name;
    }
  }

  FakeManager manager;
  routing::HandleBytes root_ = root();
  std::uint32_t next = 5000;
  routing::FileHandle made;
  bool parent_shown = false;
};

TEST_F(ElsewhereTest, WhoHasFewerHasThem) {
  int elsewhere = 0;
  for (std::uint32_t i = 0; i < 40; ++i) {
    ASSERT_EQ(mkdir("d" + std::to_string(i), i + 1), NfsStatus::kOk);
    if (!at_second(made)) continue;
    ++elsewhere;
    EXPECT_EQ(make_file(*second, made, "file"), NfsStatus::kOk);
    EXPECT_EQ(rmdir("d" + std::to_string(i)), NfsStatus::kNotEmpty);
  }
  EXPECT_GT(elsewhere, 20);  // but where it drew two sites of its own
  EXPECT_LT(elsewhere, 40);
  EXPECT_EQ(mkdir("d1", 900), NfsStatus::kExist);
}

TEST_F(ElsewhereTest, ACopyOfTheCallGetsTheSameAnswer) {
  const std::string name = other_servers();
  ASSERT_EQ(mkdir(name, 1), NfsStatus::kOk);
  const routing::FileHandle one = made;
  ASSERT_TRUE(at_second(made));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(mkdir(name, 1), NfsStatus::kOk);
    EXPECT_EQ(made.fileid, one.fileid);
    EXPECT_EQ(mkdir(name, 2), NfsStatus::kExist) << "another call";
    restart(*first);
    restart(*second);
  }
  EXPECT_EQ(make_file(*second, one, "file"), NfsStatus::kOk);
}

TEST_F(ElsewhereTest, WhoIsAwayHasNone) {
  const std::string name = other_servers();
  stop_server(*second);
  network_.attach(second->endpoint(), nullptr);
  EXPECT_EQ(mkdir(name, 1), NfsStatus::kOk) << "and nobody waits for it";
  EXPECT_FALSE(at_second(made));
  network_.attach(second->endpoint(), second->dispatcher.get());
}

TEST_F(ElsewhereTest, WhoIsFullHasNone) {
  const std::string name = other_servers();
  second->disk.set_capacity(second->self.reserve_bytes / 2);
  loop_.advance(2s);
  EXPECT_EQ(mkdir(name, 1), NfsStatus::kOk);
  EXPECT_FALSE(at_second(made));
}

// One of a version before sends it by the hash of its name, and so passes on what comes to it.
TEST_F(ElsewhereTest, AStrayCallIsCarriedOutByTheHashOfItsName) {
  SiteId by_hash;
  std::string name;
  do {
    name = "s" + std::to_string(++next);
    by_hash = {static_cast<std::uint32_t>(first->tables.get()->name_hash(FileId{1}, name)) &
               (config_.site_counts[kDirectory] - 1)};
  } while (!first->tables.get()->owns(second->self.index, wire::Role::kDirectory, by_hash));
  EXPECT_EQ(mkdir_at(*second, name, 1, service::Relay::kMaxRelays), NfsStatus::kOk);
  EXPECT_TRUE(at_second(made));
  EXPECT_EQ(second->metrics.counter("nfs_misdirected_total").value(), 0u);
  EXPECT_EQ(mkdir(name, 2), NfsStatus::kExist);
}

}  // namespace
}  // namespace slice::dirserver
