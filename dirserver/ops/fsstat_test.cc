#include "dirserver/testing/fixture.h"
#include "dirserver/testing/members_program.h"

namespace slice::dirserver::testing {
namespace {

using FsstatTest = DirectoryFixture;

TEST_F(FsstatTest, SumsTheLivingStorageNodes) {
  MembersProgram manager;
  auto add = [&](wire::Role role, const char* name, std::uint64_t total, std::uint64_t free, bool alive) {
    wire::Member member;
    member.entry.server = config_.find(name)->index;
    member.entry.role = role;
    member.last.total_bytes = total;
    member.last.free_bytes = free;
    member.alive = alive;
    manager.members.members.push_back(member);
  };
  add(wire::Role::kStorage, "store1", 1000, 400, true);
  add(wire::Role::kStorage, "store2", 2000, 700, true);
  add(wire::Role::kStorage, "store2", 5000, 5000, false);
  add(wire::Role::kSmallFile, "small1", 9000, 9000, true);
  serve("manager1", manager);
  nfs3::FsstatOk ok;
  Handle file = create(root(), "f").handle;  // any handle will do
  ASSERT_EQ(call(Procedure::kFsstat, nfs3::HandleView(file), ok), NfsStatus::kOk);
  // Each of both has half of the sites: store2 cannot take more than half of all.
  EXPECT_EQ(ok.total_bytes, 2500u);
  EXPECT_EQ(ok.free_bytes, 925u);
  EXPECT_EQ(ok.available_bytes, 925u);
  ASSERT_EQ(call(Procedure::kFsstat, nfs3::HandleView(file), ok), NfsStatus::kOk);
  EXPECT_EQ(manager.calls, 1);  // cached
  loop_.advance(std::chrono::seconds(6));
  ASSERT_EQ(call(Procedure::kFsstat, nfs3::HandleView(file), ok), NfsStatus::kOk);
  loop_.advance(std::chrono::seconds(1));
  EXPECT_EQ(manager.calls, 2);
}

TEST_F(FsstatTest, CountsNoNodeWithoutSites) {
  wire::Tables tables = tables_.get()->wire();
  std::uint32_t with = config_.find("store1")->index, without = config_.find("store2")->index;
  for (std::uint32_t& owner : tables.sites[static_cast<std::size_t>(wire::Role::kStorage)]) owner = with;
  tables_.set(routing::RoutingTables::make(config_, tables).value());
  MembersProgram manager;
  for (std::uint32_t node : {with, without}) {
    wire::Member member;
    member.entry.server = node;
    member.entry.role = wire::Role::kStorage;
    member.last.total_bytes = 1000;
    member.last.free_bytes = 400;
    member.alive = true;
    manager.members.members.push_back(member);
  }
  serve("manager1", manager);
  nfs3::FsstatOk ok;
  ASSERT_EQ(call(Procedure::kFsstat, nfs3::HandleView(root()), ok), NfsStatus::kOk);
  EXPECT_EQ(ok.total_bytes, 1000u);
  EXPECT_EQ(ok.free_bytes, 400u);
}

// Storage nodes with so many bytes each, half of them free; `sites`: of store1, the rest is store2's.
class ShareTest : public FsstatTest {
 protected:
  void bind(std::size_t sites, bool layouts = false) {
    wire::Tables tables = tables_.get()->wire();
    auto& owners =
        layouts ? tables.layout_sites : tables.sites[static_cast<std::size_t>(wire::Role::kStorage)];
    if (layouts) owners = tables.sites[static_cast<std::size_t>(wire::Role::kStorage)];
    for (std::size_t site = 0; site < owners.size(); ++site)
      owners[site] = config_.find(site < sites ? "store1" : "store2")->index;
    tables_.set(routing::RoutingTables::make(config_, tables).value());
  }
  nfs3::FsstatOk with(std::uint64_t first, std::uint64_t second, bool drained = false) {
    MembersProgram manager;
    for (const auto& [name, total] : {std::pair{"store1", first}, {"store2", second}}) {
      wire::Member& member = manager.members.members.emplace_back();
      member.entry.server = config_.find(name)->index;
      member.entry.role = wire::Role::kStorage;
      member.entry.drained = drained && std::string(name) == "store1";
      member.last.total_bytes = total;
      member.last.free_bytes = total / 2;
      member.alive = true;
    }
    silence("manager1");
    serve("manager1", manager);
    nfs3::FsstatOk ok;
    // The first answer after a while is of before.
    EXPECT_EQ(call(Procedure::kFsstat, nfs3::HandleView(root()), ok), NfsStatus::kOk);
    loop_.advance(std::chrono::seconds(6));
    EXPECT_EQ(call(Procedure::kFsstat, nfs3::HandleView(root()), ok), NfsStatus::kOk);
    loop_.advance(std::chrono::seconds(1));
    EXPECT_EQ(call(Procedure::kFsstat, nfs3::HandleView(root()), ok), NfsStatus::kOk);
    silence("manager1");
    return ok;
  }
};

TEST_F(ShareTest, ANodeCountsAsMuchAsItsSitesLetItTake) {
  bind(512);
  EXPECT_EQ(with(1000, 1000).total_bytes, 2000u);
  bind(64);  // one that was just added, of 1/16
  EXPECT_EQ(with(16000, 16000).total_bytes, 18000u);
  EXPECT_EQ(with(16000, 16000).free_bytes, 9000u);
  bind(256);  // by their disks
  EXPECT_EQ(with(1000, 3000).total_bytes, 4000u);
  bind(0);  // all were moved away
  EXPECT_EQ(with(1000, 3000).total_bytes, 3000u);
}

// Files with a layout stay where they were; but no new one is of that kind unless somebody says so.
TEST_F(ShareTest, ADrainedNodeCountsWhereNewFilesMayGo) {
  bind(512, true);
  bind(0);
  EXPECT_EQ(with(1000, 3000, true).total_bytes, 3000u);
  config_.volume.copies = 2;
  EXPECT_EQ(with(1000, 3000, true).total_bytes, 3000u);  // all of store1, and as much again of store2
  config_.volume.copies = 1;
  config_.volume.placement = slice::Placement::kFreeSpace;
  EXPECT_EQ(with(1000, 3000, true).total_bytes, 3000u) << "nothing more is placed there";
  EXPECT_EQ(with(1000, 3000, false).total_bytes, 4000u);
  config_.volume.placement = slice::Placement::kHash;
}

class FileCountTest : public FsstatTest {
 protected:
  std::uint64_t files() {
    loop_.run_ready();
    nfs3::FsstatOk ok;
    EXPECT_EQ(call(Procedure::kFsstat, nfs3::HandleView(root()), ok), NfsStatus::kOk);
    EXPECT_GT(ok.free_files, 0u);
    return ok.total_files - ok.free_files;
  }
};

TEST_F(FileCountTest, IsOfTheObjectsThatExist) {
  EXPECT_EQ(files(), 1u);  // the root
  for (int i = 0; i < 5; ++i) create(root(), fmt::format("file{}", i));
  Handle directory = mkdir(root(), "directory").handle;
  symlink(directory, "link", "file0");
  mknod(directory, "pipe", nfs3::FileType::kFifo);
  EXPECT_EQ(files(), 9u);
  ASSERT_EQ(link(lookup(root(), "file0").handle, directory, "again"), NfsStatus::kOk);
  EXPECT_EQ(files(), 9u);
  ASSERT_EQ(remove(root(), "file0"), NfsStatus::kOk);  // has another name
  ASSERT_EQ(remove(root(), "file1"), NfsStatus::kOk);
  ASSERT_EQ(rename(root(), "file2", root(), "file3"), NfsStatus::kOk);  // takes its place
  loop_.advance(std::chrono::seconds(10));
  EXPECT_EQ(files(), 7u);
  create(root(), "file3", {}, 0644, nfs3::CreateMode::kUnchecked);  // is there
  EXPECT_EQ(files(), 7u);
  restart();
  EXPECT_EQ(files(), 7u);
  ASSERT_EQ(remove(root(), "file4"), NfsStatus::kOk);
  loop_.advance(std::chrono::seconds(10));
  EXPECT_EQ(files(), 6u);
}

// While a server counts what it had at its start, more come and some go.
TEST_F(FileCountTest, GoesOnWhileTheyAreCounted) {
  for (int i = 0; i < 5000; ++i) create(root(), fmt::format("file{}", i));
  crash();
  restart();
  for (int i = 5000; i < 5010; ++i) create(root(), fmt::format("file{}", i));
  for (int i = 0; i < 3; ++i) ASSERT_EQ(remove(root(), fmt::format("file{}", i)), NfsStatus::kOk);
  loop_.advance(std::chrono::seconds(10));
  EXPECT_EQ(files(), 5008u);
}

TEST_F(FileCountTest, WithThoseOfOtherDirectoryServers) {
  MembersProgram manager;
  auto add = [&](std::uint32_t server, std::uint64_t objects, std::uint64_t free, bool alive) {
    wire::Member member;
    member.entry.server = server;
    member.entry.role = wire::Role::kDirectory;
    member.last.objects = objects;
    member.last.free_bytes = free;
    member.alive = alive;
    manager.members.members.push_back(member);
  };
  add(self_.index, 77, 1 << 20, true);  // what it told of itself is old
  add(1001, 10, 1 << 20, true);
  add(1002, 20, 1 << 20, false);
  wire::Member store;
  store.entry.server = config_.find("store1")->index;
  store.entry.role = wire::Role::kStorage;
  store.last.total_bytes = 1000;
  store.alive = true;
  manager.members.members.push_back(store);
  serve("manager1", manager);
  EXPECT_EQ(files(), 31u);
  nfs3::FsstatOk ok;
  ASSERT_EQ(call(Procedure::kFsstat, nfs3::HandleView(root()), ok), NfsStatus::kOk);
  EXPECT_EQ(ok.free_files, (disk_.space()->free_bytes + (1 << 20)) / SpaceMonitor::kBytesPerFile);
}

TEST_F(FsstatTest, WithoutAManagerShowsThisServersOwnDisk) {
  nfs3::FsstatOk ok;
  ASSERT_EQ(call(Procedure::kFsstat, nfs3::HandleView(root()), ok), NfsStatus::kOk);
  EXPECT_EQ(ok.total_bytes, disk_.space()->total_bytes);
}

TEST_F(FsstatTest, OfAnyObjectWithItsAttributes) {
  nfs3::FsstatOk ok;
  Handle file = create(root(), "f").handle;
  ASSERT_EQ(call(Procedure::kFsstat, nfs3::HandleView(file), ok), NfsStatus::kOk);
  ASSERT_TRUE(ok.attributes.has_value());
  EXPECT_EQ(ok.attributes->fileid, attributes(file).fileid);
}

TEST_F(FsstatTest, RefusesForgedAndStaleHandles) {
  nfs3::FsstatOk ok;
  Handle forged = root();
  forged[50] ^= 0x80;
  EXPECT_EQ(call(Procedure::kFsstat, nfs3::HandleView(forged), ok), NfsStatus::kBadHandle);
  Handle file = create(root(), "f").handle;
  ASSERT_EQ(remove(root(), "f"), NfsStatus::kOk);
  EXPECT_EQ(call(Procedure::kFsstat, nfs3::HandleView(file), ok), NfsStatus::kStale);
}

}  // namespace
}  // namespace slice::dirserver::testing
