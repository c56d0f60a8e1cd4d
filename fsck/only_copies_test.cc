#include "fsck/only_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bpf/shared/file_handle.h"
#include "dirserver/fsck/local_source.h"
#include "dirserver/fsck/testing/volume.h"

namespace slice::fsck {
namespace {

using dirserver::AttributeCell;
using dirserver::kRootId;
using dirserver::fsck::LocalSource;
using dirserver::fsck::testing::Policy;
using dirserver::fsck::testing::TestVolume;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint64_t kThreshold = 65536, kUnit = 65536;

class OnlyCopiesTest : public ::testing::Test {
 protected:
  OnlyCopiesTest() {
    config_.volume.threshold = kThreshold;
    tables_ = routing::RoutingTables::make(config_, routing::RoutingTables::initial(config_)).value();
  }
  std::uint32_t index(const std::string& name) const { return config_.find(name)->index; }
  FileId make(std::uint64_t size, std::uint8_t flags = 0) {
    const FileId file = volume_.create(kRootId, "f" + std::to_string(next_++));
    AttributeCell& cell = volume_.cell(file);
    cell.size = size;
    cell.striped = size > kThreshold;
    cell.self.flags = flags;
    return file;
  }
  // Which of the two has the file's stripe, by the hash.
  std::string owner(FileId file, std::uint64_t stripe) const {
    return tables_->server_of(wire::Role::kStorage, tables_->storage_site(file, stripe * kUnit, 16)).name;
  }
  // A file of one stripe behind the threshold, which is on this server.
  FileId make_on(const std::string& server) {
    FileId file = make(kThreshold + 1);
    while (owner(file, 1) != server) {
      volume_.cell(file).size = 0;
      file = make(kThreshold + 1);
    }
    return file;
  }
  OnlyCopies find(const std::string& server, std::uint64_t limit = 100) {
    storage::MemoryMedium medium;
    LocalSource cells(dirserver::fsck::testing::stores_of(loop_, medium, volume_.stored()), 64);
    std::optional<Result<OnlyCopies>> found;
    auto map = [this](routing::FileHandle, std::uint64_t stripe) -> Task<Result<wire::MapPiece>> {
      asked_.push_back(stripe);
      co_return map_;
    };
    spawn([](Task<Result<OnlyCopies>> task, std::optional<Result<OnlyCopies>>& out) -> Task<void> {
      out = co_await std::move(task);
    }(find_only_copies({cells, *tables_, config_.volume, moves_, map}, index(server), limit), found));
    loop_.run_until([&] { return found.has_value(); }, std::chrono::seconds(10));
    return found.value().value();
  }
  static std::vector<FileId> ids(const OnlyCopies& found) {
    std::vector<FileId> files;
    for (const auto& each : found.files) files.push_back(each.file);
    return files;
  }

  TestVolume volume_{Policy::kNameHashing};
  EnsembleConfig config_ = volume_.config();
  ManualLoop loop_;
  std::shared_ptr<const routing::RoutingTables> tables_;
  std::vector<wire::SiteMove> moves_;
  wire::MapPiece map_;
  std::vector<std::uint64_t> asked_;
  int next_ = 0;
};

TEST_F(OnlyCopiesTest, AFileOfOneCopyIsOnTheServersOfItsStripes) {
  const FileId on1 = make_on("store1"), on2 = make_on("store2");
  EXPECT_THAT(ids(find("store1")), ElementsAre(on1));
  EXPECT_THAT(ids(find("store2")), ElementsAre(on2));
}

TEST_F(OnlyCopiesTest, WhatIsElsewhereAsWellOrInPartDoesNotCount) {
  make(kThreshold);                      // at the small-file server
  make(1 << 24, SLICE_HANDLE_MIRRORED);  // the other one has it, too
  EXPECT_EQ(find("store1").found, 0u);
  const FileId large = make(1 << 24);
  EXPECT_THAT(ids(find("store1")), ElementsAre(large));
  EXPECT_THAT(ids(find("store2")), ElementsAre(large));
}

TEST_F(OnlyCopiesTest, OfABlockMappedFileItsMapSays) {
  const FileId file = make((wire::kStripesOfPiece + 3) * kUnit, SLICE_HANDLE_BLOCK_MAPPED);
  const auto& owners = tables_->layout_sites();
  const auto site_of = [&](const std::string& name) {
    return static_cast<std::uint16_t>(std::find(owners.begin(), owners.end(), index(name)) - owners.begin());
  };
  map_.sites.assign(wire::kStripesOfPiece, site_of("store2"));
  map_.sites[0] = site_of("store1");
  EXPECT_THAT(ids(find("store1")), ElementsAre(file)) << "the second piece begins there";
  EXPECT_THAT(asked_, ElementsAre(1, wire::kStripesOfPiece));
  map_.sites[0] = site_of("store2");
  map_.sites[4] = site_of("store1");
  volume_.cell(file).size = 4 * kUnit;
  EXPECT_EQ(find("store1").found, 0u) << "that lies behind the end";
  map_.sites.clear();
  volume_.cell(file).size = 40 * kUnit;
  EXPECT_EQ(find("store1").found, 0u) << "nobody has written it";
}

TEST_F(OnlyCopiesTest, SitesOnTheirWayThereCount) {
  const FileId on2 = make_on("store2");
  const SiteId site = tables_->storage_site(on2, kThreshold, 16);
  EXPECT_EQ(find("store1").found, 0u);
  moves_.push_back({.site_class = wire::Role::kStorage,
                    .from = index("store2"),
                    .to = index("store1"),
                    .sites = {site.value}});
  EXPECT_THAT(ids(find("store1")), ElementsAre(on2));
}

TEST_F(OnlyCopiesTest, SomeAreListedAndAllAreCounted) {
  for (int i = 0; i < 5; ++i) make(1 << 24);
  const OnlyCopies found = find("store1", 2);
  EXPECT_EQ(found.found, 5u);
  EXPECT_EQ(found.files.size(), 2u);
  EXPECT_THAT(render(found, "store1", false), HasSubstr("5 files have bytes on store1 and nowhere else"));
  EXPECT_THAT(render(found, "store1", false), HasSubstr("and 3 more"));
  EXPECT_THAT(render(found, "store1", true), HasSubstr("\"found\": 5"));
  EXPECT_THAT(render({}, "store1", false), HasSubstr("no file has bytes on store1"));
}

}  // namespace
}  // namespace slice::fsck
