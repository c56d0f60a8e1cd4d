// The check of a server that goes on serving: changes under way are no findings, and damage is found all the
// same.
#include <gmock/gmock.h>

#include <random>
#include <set>

#include "dirserver/fsck/checker.h"
#include "dirserver/fsck/keys.h"
#include "dirserver/fsck/remote_source.h"
#include "dirserver/testing/fixture.h"

namespace slice::dirserver::fsck {
namespace {

using dirserver::testing::Handle;
using dirserver::testing::Procedure;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Between two pages of the checker, some operations: so the volume is another in each that it reads.
class BusySource : public CellSource {
 public:
  BusySource(CellSource& source, Loop& loop, std::function<void()> between)
      : source_(source), loop_(loop), between_(std::move(between)) {}
  Task<Result<wire::ScanResult>> scan(wire::ScanArgs args) override {
    if (++calls_ % 3 == 0) between_();
    // Small pages: even a small directory takes several.
    args.limit = std::min<std::uint32_t>(args.limit, 2000);
    co_await loop_.sleep(std::chrono::microseconds(300));
    co_return co_await source_.scan(std::move(args));
  }
  bool live() const override { return true; }
  std::uint32_t sites() const override { return source_.sites(); }

 private:
  CellSource& source_;
  Loop& loop_;
  std::function<void()> between_;
  unsigned calls_ = 0;
};

class OnlineTest : public dirserver::testing::DirectoryFixture {
 protected:
  OnlineTest() {
    directories_.push_back(root());
    for (int i = 0; i < 6; ++i) {
      directories_.push_back(
          mkdir(directories_[random_() % directories_.size()], "d" + std::to_string(i)).handle);
    }
    for (int i = 0; i < 300; ++i) operate();
    loop_.advance(std::chrono::seconds(1));
  }

  // Sends one random operation and does not wait for it.
  void operate() {
    const Handle& at = any();
    std::string name = any_name();
    switch (random_() % 8) {
      case 0:
      case 1:
      case 2:
        send(Procedure::kCreate, nfs3::CreateArgs{.where = {at, name}});
        break;
      case 3:
        send(Procedure::kMkdir, nfs3::MkdirArgs{.where = {at, name}});
        break;
      case 4:
        send(Procedure::kRemove, nfs3::DirOpArgs{at, name});
        break;
      case 5:
        send(Procedure::kRmdir, nfs3::DirOpArgs{at, name});
        break;
      default:
        send(Procedure::kRename, nfs3::RenameArgs{.from = {at, name}, .to = {any(), any_name()}});
    }
    ++operations_;
  }
  const Handle& any() { return directories_[random_() % directories_.size()]; }
  std::string any_name() { return "n" + std::to_string(random_() % 40); }

  Report check(CellSource& source, Options options = {}) {
    std::optional<Result<Report>> report;
    start(fsck::check(source, placement_, loop_, options),
          [&](auto result) { report.emplace(std::move(result)); });
    EXPECT_TRUE(loop_.run_until([&] { return report.has_value(); }, std::chrono::hours(10)));
    EXPECT_TRUE(report->has_value()) << report->error().message;
    return std::move(**report);
  }
  void write(const std::string& key, std::optional<std::string> value) {
    storage::WriteBatch batch;
    value ? batch.put(key, *value) : batch.erase(key);
    ASSERT_TRUE(store().apply(batch).has_value());
  }
  static std::vector<std::string> texts(const Report& report) {
    std::vector<std::string> all;
    for (const Finding& finding : report.findings()) {
      all.push_back(fmt::format("{} {:#x} {}", kind_name(finding.kind), finding.file.value, finding.name));
    }
    return all;
  }

  std::mt19937_64 random_{5};
  std::vector<Handle> directories_;
  std::uint64_t operations_ = 0;
  Placement placement_{config_, tables_};
  rpc::InProcessNetwork tool_{network_, rpc::Endpoint{0x0a4d0203, 999}, 0xffffffff};
  RemoteSource remote_{{.loop = loop_, .channel = tool_, .config = config_}};
};

TEST_F(OnlineTest, AQuietServerIsClean) {
  Report report = check(remote_);
  EXPECT_THAT(texts(report), IsEmpty());
  EXPECT_TRUE(report.complete());
  EXPECT_GT(report.totals.files, 20u);
  EXPECT_GT(report.totals.directories, 7u);
}

TEST_F(OnlineTest, ABusyServerIsClean) {
  for (unsigned seed = 0; seed < 5; ++seed) {
    random_.seed(seed);
    BusySource busy(remote_, loop_, [this] { operate(); });
    std::uint64_t before = operations_;
    Report report = check(busy, {.table_bytes = seed % 2 == 0 ? 1u << 20 : 1000});
    EXPECT_THAT(texts(report), IsEmpty()) << "seed " << seed;
    EXPECT_EQ(report.skipped, 0u);
    EXPECT_GT(report.suspects, 20u) << "nothing changed under the check";
    EXPECT_GT(operations_ - before, 100u) << "it was not busy";
  }
}

TEST_F(OnlineTest, DamageOfABusyServerIsFound) {
  // Directories and files that no operation touches, but for the names of one.
  auto quiet = mkdir(root(), "quiet");
  auto lost = create(quiet.handle, "lost"), orphan = create(quiet.handle, "orphan");
  auto counted = create(quiet.handle, "counted");
  CellRef lost_cell = cell_of(*handles_.open(lost.handle)),
          counted_cell = cell_of(*handles_.open(counted.handle));
  CellRef quiet_cell = cell_of(*handles_.open(quiet.handle)),
          busy_cell = cell_of(*handles_.open(directories_[1]));
  CellRef orphan_cell = cell_of(*handles_.open(orphan.handle));
  loop_.advance(std::chrono::seconds(1));
  write(attribute_key(lost_cell.site, lost_cell.fileid), std::nullopt);
  NamePlace place = placement_.place(quiet_cell, "orphan");
  write(name_key(place.site, quiet_cell.fileid, place.position), std::nullopt);
  std::string key = attribute_key(counted_cell.site, counted_cell.fileid);
  AttributeCell cell = *decode_attribute_cell(counted_cell.site, *store().get(key).value());
  cell.nlink = 5;
  write(key, encode(cell));
  // A wrong count in a directory that changes all the time; the server's own copy goes with a restart.
  key = attribute_key(busy_cell.site, busy_cell.fileid);
  cell = *decode_attribute_cell(busy_cell.site, *store().get(key).value());
  cell.entries += 2;
  write(key, encode(cell));
  start(store().durable(storage::LogPosition{~0ull >> 1}), [](auto) {});
  loop_.advance(std::chrono::seconds(1));
  restart();

  BusySource busy(remote_, loop_, [this] { operate(); });
  Report report = check(busy);
  EXPECT_THAT(texts(report),
              ::testing::UnorderedElementsAre(fmt::format("dangling {:#x} lost", quiet_cell.fileid.value),
                                              fmt::format("orphan {:#x} ", orphan_cell.fileid.value),
                                              fmt::format("link-count {:#x} ", counted_cell.fileid.value),
                                              fmt::format("entries {:#x} ", quiet_cell.fileid.value),
                                              fmt::format("entries {:#x} ", busy_cell.fileid.value)));
}

TEST_F(OnlineTest, AServerThatIsAwayCannotBeRead) {
  silence("dir1");
  auto report = run(fsck::check(remote_, placement_, loop_, {}));
  ASSERT_FALSE(report.has_value());
  EXPECT_THAT(report.error().message, HasSubstr("dir1"));
}

TEST_F(OnlineTest, ASiteThatMovesIsAskedForAgain) {
  // This server says that the site is another's until its tables come back.
  auto tables = tables_.get()->wire();
  auto second = config_.servers[0];
  wire::ServerEntry other = tables.servers[0];
  other.server = static_cast<std::uint32_t>(tables.servers.size());
  other.name = "dir9";
  tables.servers.push_back(other);
  tables.sites[0][0] = other.server;
  auto back = tables_.get();
  tables_.set(routing::RoutingTables::make(config_, tables).value());
  loop_.after(std::chrono::seconds(2), [this, back] { tables_.set(back); });
  EXPECT_TRUE(check(remote_).clean());
  tables_.set(routing::RoutingTables::make(config_, tables).value());
  auto report = run(fsck::check(remote_, placement_, loop_, {}));
  tables_.set(back);
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code, Errc::kUnavailable);
}

}  // namespace
}  // namespace slice::dirserver::fsck
