#include "dirserver/testing/fixture.h"
#include "wire/manager.h"

namespace slice::dirserver::testing {
namespace {

using FsTest = DirectoryFixture;

TEST_F(FsTest, FsinfoSaysWhatReadAndWriteAccept) {
  nfs3::FsinfoOk ok;
  ASSERT_EQ(call(Procedure::kFsinfo, nfs3::HandleView(root()), ok), Status::kOk);
  EXPECT_EQ(ok.rtmax, nfs3::kMaxTransfer);
  EXPECT_EQ(ok.wtmax, nfs3::kMaxTransfer);
  EXPECT_EQ(ok.max_file_size, (std::uint64_t{1} << 63) - 1);
  EXPECT_EQ(ok.time_delta, (nfs3::Time{0, 1}));
  EXPECT_TRUE(ok.attributes.has_value());
}

TEST_F(FsTest, PathconfChecksItsHandle) {
  nfs3::PathconfOk ok;
  ASSERT_EQ(call(Procedure::kPathconf, nfs3::HandleView(create(root(), "f").handle), ok), Status::kOk);
  EXPECT_EQ(ok.name_max, 255u);
  EXPECT_TRUE(ok.no_trunc && ok.case_preserving && ok.chown_restricted);
  EXPECT_FALSE(ok.case_insensitive);
  Handle bogus = root();
  bogus[50] ^= 0x80;
  EXPECT_EQ(call(Procedure::kPathconf, nfs3::HandleView(bogus), ok), Status::kBadHandle);
}

// Answers MEMBERS with what the test says.
class FakeManager : public rpc::Program {
 public:
  std::uint32_t number() const override { return wire::kManagerProgram; }
  std::uint32_t version() const override { return wire::kInternalVersion; }
  Task<rpc::Outcome> handle(const rpc::Call&, rpc::XdrWriter& results) override {
    ++calls;
    encode(results, members);
    co_return rpc::Outcome::kReply;
  }
  wire::MembersResult members;
  int calls = 0;
};

TEST_F(FsTest, FsstatSumsTheLivingStorageNodes) {
  FakeManager manager;
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
  ASSERT_EQ(call(Procedure::kFsstat, nfs3::HandleView(file), ok), Status::kOk);
  EXPECT_EQ(ok.total_bytes, 3000u);
  EXPECT_EQ(ok.free_bytes, 1100u);
  EXPECT_EQ(ok.available_bytes, 1100u);
  EXPECT_GT(ok.total_files, 0u);
  ASSERT_EQ(call(Procedure::kFsstat, nfs3::HandleView(file), ok), Status::kOk);
  EXPECT_EQ(manager.calls, 1);  // cached
  loop_.advance(std::chrono::seconds(6));
  ASSERT_EQ(call(Procedure::kFsstat, nfs3::HandleView(file), ok), Status::kOk);
  loop_.advance(std::chrono::seconds(1));
  EXPECT_EQ(manager.calls, 2);
}

TEST_F(FsTest, FsstatCountsNoNodeWithoutSites) {
  wire::Tables tables = tables_.get()->wire();
  std::uint32_t with = config_.find("store1")->index, without = config_.find("store2")->index;
  for (std::uint32_t& owner : tables.sites[static_cast<std::size_t>(wire::Role::kStorage)]) owner = with;
  tables_.set(routing::RoutingTables::make(config_, tables).value());
  FakeManager manager;
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
  ASSERT_EQ(call(Procedure::kFsstat, nfs3::HandleView(root()), ok), Status::kOk);
  EXPECT_EQ(ok.total_bytes, 1000u);
  EXPECT_EQ(ok.free_bytes, 400u);
}

TEST_F(FsTest, FsstatWithoutAManagerShowsThisServersOwnDisk) {
  nfs3::FsstatOk ok;
  ASSERT_EQ(call(Procedure::kFsstat, nfs3::HandleView(root()), ok), Status::kOk);
  EXPECT_EQ(ok.total_bytes, disk_.space()->total_bytes);
}

}  // namespace
}  // namespace slice::dirserver::testing
