// Real stores of two directory servers, as they lie on a disk.
#include "dirserver/fsck/local_source.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/testing/temporary_folder.h"
#include "dirserver/fsck/checker.h"
#include "dirserver/fsck/testing/volume.h"
#include "storage/rocks_store.h"

namespace slice::dirserver::fsck {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Policy;
using testing::TestVolume;

class LocalSourceTest : public ::testing::Test {
 protected:
  LocalSourceTest() : volume_(Policy::kNameHashing), config_(volume_.config()) {
    ServerConfig second = config_.servers[0];
    second.name = "dir2";
    second.index = static_cast<std::uint32_t>(config_.servers.size());
    config_.servers.push_back(second);
    for (ServerConfig& server : config_.servers) server.data = folder_ + "/" + server.name;
    FileId directory = volume_.mkdir(kRootId, "directory");
    for (int i = 0; i < 2000; ++i) file_ = volume_.create(directory, "file" + std::to_string(i));
  }

  const ServerConfig& server(const std::string& name) const { return *config_.find(name); }
  // dir1 has the even sites.
  std::map<std::string, std::string> cells_of(const std::string& name) const {
    std::map<std::string, std::string> cells;
    for (const auto& [key, value] : volume_.stored()) {
      if ((site_of(key).value % 2 == 0) == (name == "dir1")) cells[key] = value;
    }
    cells[format_key()] = "cells 1 volume=1 policy=name-hashing hash=md5 sites=64";
    return cells;
  }
  void make(const std::string& name, const std::map<std::string, std::string>& cells) {
    auto claim = service::DataDirectory::claim(server(name), config_.volume.id, 1);
    ASSERT_TRUE(claim.has_value()) << claim.error().message;
    auto store = storage::RocksStore::open(loop_, metrics_, {.folder = server(name).data + "/cells"});
    ASSERT_TRUE(store.has_value());
    testing::apply(**store, cells);
  }
  void make_both() {
    make("dir1", cells_of("dir1"));
    make("dir2", cells_of("dir2"));
  }
  Result<std::unique_ptr<LocalSource>> open() { return LocalSource::open(config_, folders_); }
  Report check(LocalSource& source) {
    std::optional<Result<Report>> report;
    spawn(fsck::check(source, volume_.placement(), loop_, {}), report);
    EXPECT_TRUE(loop_.run_until([&] { return report.has_value(); }));
    return std::move(report->value());
  }
  std::string refusal() {
    auto source = open();
    EXPECT_FALSE(source.has_value());
    return source ? "" : source.error().message;
  }

  ManualLoop loop_;
  Metrics metrics_;
  TestVolume volume_;
  EnsembleConfig config_;
  TemporaryFolder temporary_;
  const std::string& folder_ = temporary_.path();
  FileId file_;
  std::map<std::string, std::string> folders_;
};

TEST_F(LocalSourceTest, AWholeVolumeOnTwoServersIsClean) {
  make_both();
  auto source = open();
  ASSERT_TRUE(source.has_value()) << source.error().message;
  EXPECT_THAT((*source)->conflicts(), IsEmpty());
  EXPECT_GT((*source)->disk_bytes(), 2000u * 200);
  Report report = check(**source);
  EXPECT_TRUE(report.clean()) << render_text(report, "offline");
  EXPECT_EQ(report.totals.files, 2000u);
}

TEST_F(LocalSourceTest, ReadingChangesNothing) {
  make_both();
  auto files = [&] {
    std::map<std::string, std::filesystem::file_time_type> all;
    for (const auto& each : std::filesystem::recursive_directory_iterator(folder_)) {
      all[each.path().string()] = each.last_write_time();
    }
    return all;
  };
  auto before = files();
  {
    auto source = open();
    ASSERT_TRUE(source.has_value());
    check(**source);
  }
  EXPECT_EQ(files(), before);
}

TEST_F(LocalSourceTest, DamageOnOneServerIsFound) {
  auto cells = cells_of(home_of(file_).value % 2 == 0 ? "dir1" : "dir2");
  cells.erase(attribute_key(home_of(file_), file_));
  make(home_of(file_).value % 2 == 0 ? "dir1" : "dir2", cells);
  std::string other = home_of(file_).value % 2 == 0 ? "dir2" : "dir1";
  make(other, cells_of(other));
  auto source = open();
  ASSERT_TRUE(source.has_value());
  Report report = check(**source);
  EXPECT_EQ(report.damage(), 1u);
  EXPECT_EQ(report.count(Kind::kDangling), 1u);
}

TEST_F(LocalSourceTest, ASiteOnBothServersIsAConflict) {
  auto cells = cells_of("dir2");
  cells[attribute_key(SiteId{4}, FileId{9})] = "stale";
  make("dir1", cells_of("dir1"));
  make("dir2", cells);
  auto source = open();
  ASSERT_TRUE(source.has_value());
  ASSERT_EQ((*source)->conflicts().size(), 1u);
  EXPECT_EQ((*source)->conflicts()[0].site, SiteId{4});
  EXPECT_TRUE(check(**source).clean()) << "those of dir1 are checked";
}

TEST_F(LocalSourceTest, ARunningServerIsRefused) {
  make_both();
  auto claim = service::DataDirectory::claim(server("dir2"), config_.volume.id, 1);
  ASSERT_TRUE(claim.has_value());
  EXPECT_THAT(refusal(), HasSubstr("dir2 is running"));
  EXPECT_THAT(refusal(), HasSubstr("without --offline"));
}

TEST_F(LocalSourceTest, AServerCannotStartMeanwhile) {
  make_both();
  auto source = open();
  ASSERT_TRUE(source.has_value());
  auto claim = service::DataDirectory::claim(server("dir2"), config_.volume.id, 1);
  ASSERT_FALSE(claim.has_value());
  EXPECT_EQ(claim.error().code, Errc::kExists);
}

TEST_F(LocalSourceTest, AMissingDataDirectoryIsRefusedAndNotMade) {
  make("dir1", cells_of("dir1"));
  EXPECT_THAT(refusal(), HasSubstr("dir2: no data directory"));
  EXPECT_FALSE(std::filesystem::exists(server("dir2").data));
}

TEST_F(LocalSourceTest, ADataDirectoryMayLieElsewhere) {
  make_both();
  std::filesystem::rename(server("dir2").data, folder_ + "/copy");
  folders_["dir2"] = folder_ + "/copy";
  auto source = open();
  ASSERT_TRUE(source.has_value()) << source.error().message;
  EXPECT_TRUE(check(**source).clean());
  source->reset();
  folders_["store1"] = folder_;
  EXPECT_TRUE(open().has_value()) << "that is for who checks bytes";
  folders_["store9"] = folder_;
  EXPECT_THAT(refusal(), HasSubstr("no server has this name"));
}

TEST_F(LocalSourceTest, AStoreOfAnotherPolicyIsRefused) {
  make_both();
  config_.volume.policy = Policy::kMkdirSwitching;
  EXPECT_THAT(refusal(), HasSubstr("policy=mkdir-switching"));
}

// Bytes of the store's files are changed on the disk: RocksDB's checksums notice.
TEST_F(LocalSourceTest, BlocksThatFailTheirChecksumAreFindings) {
  make_both();
  // Written out into a table file by a second start.
  for (int life = 0; life < 2; ++life) {
    auto store = storage::RocksStore::open(loop_, metrics_, {.folder = server("dir1").data + "/cells"});
    ASSERT_TRUE(store.has_value());
  }
  std::string table;
  for (const auto& each : std::filesystem::directory_iterator(server("dir1").data + "/cells")) {
    if (each.path().extension() == ".sst") table = each.path().string();
  }
  ASSERT_FALSE(table.empty());
  std::fstream file(table, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(std::filesystem::file_size(table) / 3));
  file.write("damage", 6);
  file.close();
  auto source = open();
  ASSERT_TRUE(source.has_value()) << source.error().message;
  Report report = check(**source);
  EXPECT_GT(report.count(Kind::kUnreadable), 0u);
  EXPECT_GT(report.totals.files, 1900u) << "a block is some tens of cells";
  EXPECT_LT(report.totals.files + report.totals.names, 4000u + 1);
}

}  // namespace
}  // namespace slice::dirserver::fsck
