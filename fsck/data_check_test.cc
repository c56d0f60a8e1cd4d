// Every kind of wrong bytes is made by hand beside a volume that is whole, and must be all that is found.
#include "fsck/data_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "dirserver/fsck/local_source.h"
#include "dirserver/fsck/testing/volume.h"
#include "fsck/testing/fake_server.h"
#include "routing/copies.h"
#include "wire/listed_site.h"

namespace slice::fsck {
namespace {

using dirserver::AttributeCell;
using dirserver::kRootId;
using dirserver::fsck::Finding;
using dirserver::fsck::LocalSource;
using dirserver::fsck::Report;
using dirserver::fsck::testing::Policy;
using dirserver::fsck::testing::TestVolume;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::uint64_t kThreshold = 65536, kUnit = 65536;

// As a store that others change meanwhile.
class LiveSource : public dirserver::fsck::CellSource {
 public:
  explicit LiveSource(CellSource& source) : source_(source) {}
  Task<Result<wire::ScanResult>> scan(wire::ScanArgs args) override { return source_.scan(std::move(args)); }
  bool live() const override { return true; }
  std::uint32_t sites() const override { return source_.sites(); }

 private:
  CellSource& source_;
};

class DataCheckTest : public ::testing::Test {
 protected:
  DataCheckTest() {
    config_.volume.threshold = kThreshold;
    service::testing::add_server(config_, "small2", ServerRole::kSmallFile);  // behind all others: no sites
    wire::Tables tables = routing::RoutingTables::initial(config_);
    auto& small = tables.sites[static_cast<std::size_t>(wire::Role::kSmallFile)];
    std::fill(small.begin(), small.end(), index("small1"));
    tables_ = routing::RoutingTables::make(config_, tables).value();
    for (const char* name : {"small1", "store1", "store2", "small2"}) {
      servers_.push_back(std::make_unique<FakeServer>(*tables_->server(index(name))));
    }
    for (int i = 0; i < 30; ++i) {
      const FileId directory = volume_.mkdir(kRootId, "d" + std::to_string(i));
      for (int j = 0; j < 10; ++j) make(directory, "f" + std::to_string(j), (j * 3 + 1) * 30'000);
    }
  }
  std::uint32_t index(const std::string& name) const { return config_.find(name)->index; }
  FakeServer& server(const std::string& name) {
    for (auto& each : servers_) {
      if (each->server().name == name) return static_cast<FakeServer&>(*each);
    }
    std::abort();
  }
  FakeServer& owner(FileId file, std::uint64_t offset) {
    const SiteId site = tables_->storage_site(file, offset, 16);
    return server(tables_->server_of(wire::Role::kStorage, site).name);
  }
  FakeServer& other(FileId file, std::uint64_t offset) {
    return server(owner(file, offset).server().name == "store1" ? "store2" : "store1");
  }
  // A file of `size` bytes without holes, whose bytes are where they should be.
  FileId make(FileId directory, const std::string& name, std::uint64_t size) {
    const FileId file = volume_.create(directory, name);
    AttributeCell& cell = volume_.cell(file);
    cell.size = size;
    cell.striped = size > kThreshold;
    server("small1").has(file, 0, std::min(size, kThreshold));
    cell.note_stored({index("small1"), std::min(size, kThreshold)});
    for (std::uint64_t at = kThreshold; at < size; at += kUnit) {
      owner(file, at).has(file, at, std::min(kUnit, size - at));
      cell.note_stored({owner(file, at).server().server, size});
    }
    return file;
  }

  Report check(bool live = false) {
    storage::MemoryMedium medium;
    LocalSource local(dirserver::fsck::testing::stores_of(loop_, medium, volume_.stored()), 64);
    LiveSource live_source(local);
    dirserver::fsck::CellSource& cells =
        live ? static_cast<dirserver::fsck::CellSource&>(live_source) : local;
    DataSeams seams{.cells = cells,
                    .servers = servers_,
                    .tables = tables_,
                    .config = config_,
                    .loop = loop_,
                    .moves = &moves_};
    seams.map_piece = [this](routing::FileHandle, std::uint64_t stripe) -> Task<Result<wire::MapPiece>> {
      if (!map_) co_return fail(Errc::kNotFound, "its coordinator is not here");
      co_return wire::MapPiece{.number = wire::piece_of(stripe), .sites = *map_};
    };
    seams.under_way = [this](FileId file) { return under_way_[file]; };
    Report report(100);
    std::optional<Status> ended;
    spawn([](const DataSeams& with, const dirserver::fsck::Options& options, Report& into,
             std::optional<Status>& end) -> Task<void> {
      end.emplace(co_await check_data(with, options, into));
    }(seams, options_, report, ended));
    EXPECT_TRUE(loop_.run_until([&] { return ended.has_value(); }));
    status_ = *ended;
    return report;
  }
  std::vector<std::string> found(bool live = false) {
    std::vector<std::string> all;
    const Report report = check(live);
    EXPECT_TRUE(status_) << status_.error().message;
    for (const Finding& finding : report.findings()) {
      all.push_back(fmt::format("{} {:#x} {}", kind_name(finding.kind), finding.file.value, finding.what));
    }
    return all;
  }
  static std::string begins(std::string_view kind, FileId file) {
    return fmt::format("{} {:#x} ", kind, file.value);
  }

  ManualLoop loop_;
  TestVolume volume_{Policy::kMkdirSwitching};
  EnsembleConfig config_ = volume_.config();
  std::shared_ptr<const routing::RoutingTables> tables_;
  std::vector<wire::SiteMove> moves_;
  std::vector<std::unique_ptr<service::ObjectSource>> servers_;
  std::optional<std::vector<std::uint32_t>> map_;  // none: it cannot be had
  std::map<FileId, UnderWay> under_way_;
  dirserver::fsck::Options options_;
  Status status_;
};

TEST_F(DataCheckTest, AVolumeThatIsWholeIsClean) {
  Report report = check();
  EXPECT_TRUE(report.clean() && report.complete());
  EXPECT_GT(report.totals.objects, 300u);
  EXPECT_GT(report.totals.object_bytes, 300u * 30'000);
  EXPECT_THAT(found(true), IsEmpty());
}

TEST_F(DataCheckTest, WhileASiteMovesBothMayHaveBytesOfIt) {
  const FileId file = make(kRootId, "file", 20 << 20);
  FakeServer &from = owner(file, 10 << 20), &to = other(file, 10 << 20);
  to.has(file, 10 << 20, 4096);
  moves_.push_back({.from = from.server().server,
                    .to = to.server().server,
                    .sites = {tables_->storage_site(file, 10 << 20, 16).value}});
  EXPECT_THAT(found(true), IsEmpty());
  moves_.front().sites = {tables_->storage_site(file, 9 << 20, 16).value};
  EXPECT_THAT(found(true), SizeIs(1)) << "another one moves";
}

TEST_F(DataCheckTest, WhileASmallFileSiteMovesBothMayHaveItsFiles) {
  const FileId file = make(kRootId, "file", 1000);
  server("small2").has(file, 0, 1000);
  moves_.push_back({.site_class = wire::Role::kSmallFile,
                    .from = index("small1"),
                    .to = index("small2"),
                    .sites = {tables_->small_file_site(file).value}});
  EXPECT_THAT(found(true), IsEmpty());
  server("small1").objects.erase(file);
  EXPECT_THAT(found(true), IsEmpty()) << "it was given, which the tables do not show yet";
  server("small2").objects.erase(file);
  EXPECT_THAT(found(true), ElementsAre(HasSubstr(begins("lost-bytes", file))));
  server("small2").has(file, 0, 1000);
  moves_.front().site_class = wire::Role::kStorage;
  EXPECT_THAT(found(true), SizeIs(2)) << "another class's site moves";
}

TEST_F(DataCheckTest, BytesAtANodeThatDoesNotHaveTheirSite) {
  const FileId file = make(kRootId, "file", 20 << 20);
  const std::uint64_t whole = check().totals.object_bytes;
  other(file, 10 << 20).has(file, 10 << 20, 4096);
  EXPECT_THAT(found(),
              ElementsAre(AllOf(HasSubstr(begins("stray", file)), HasSubstr("bytes of stripe 160"))));
  EXPECT_EQ(check(true).totals.object_bytes, whole + 4096) << "however often it is looked at";
}

// What a manager did that dealt sites anew: the bytes are where they were, and nobody looks there.
TEST_F(DataCheckTest, SitesThatWereDealtAnew) {
  wire::Tables tables = tables_->wire();
  auto& sites = tables.sites[static_cast<std::size_t>(wire::Role::kStorage)];
  for (std::uint32_t& owner : sites) owner = owner == index("store1") ? index("store2") : index("store1");
  tables_ = routing::RoutingTables::make(config_, tables).value();
  EXPECT_GT(found().size(), 90u);
}

TEST_F(DataCheckTest, BytesBelowTheThresholdAtAnotherServer) {
  const FileId file = make(kRootId, "file", 1000);
  server("small2").has(file, 0, 1000);
  EXPECT_THAT(found(), ElementsAre(AllOf(HasSubstr(begins("stray", file)), HasSubstr("small2"))));
}

TEST_F(DataCheckTest, BytesWithoutAFile) {
  const FileId gone{0x3000000009999}, freed{0x3000000009998}, none{0xffff000000000001};
  server("store1").has(gone, 1 << 20, 4096);
  server("small1").has(none, 0, 10);
  server("store2").has(freed, 1 << 20, 4096);
  volume_.others()[dirserver::reclaim_key(SiteId{3}, freed)] = encode(dirserver::ReclaimRecord{});
  EXPECT_THAT(found(), ElementsAre(HasSubstr(begins("nameless", gone)), HasSubstr(begins("nameless", none))));
  const FileId directory = volume_.mkdir(kRootId, "directory");
  server("store1").has(directory, 0, 10);
  EXPECT_EQ(found().size(), 3u) << "nor have directories bytes";
}

TEST_F(DataCheckTest, BytesThatNobodyHas) {
  const FileId file = make(kRootId, "file", 1 << 20), small = make(kRootId, "small", 100);
  server("store1").objects.erase(file);
  EXPECT_THAT(found(), IsEmpty()) << "others of it are there: it may have had holes";
  server("store2").objects.erase(file);
  server("small1").objects.erase(small);
  EXPECT_THAT(found(),
              ElementsAre(HasSubstr(begins("lost-bytes", file)), HasSubstr(begins("lost-bytes", small))));
  volume_.cell(file).cut(900'000);
  volume_.cell(small).truncating = true;
  EXPECT_THAT(found(), IsEmpty()) << "what was told is of before it was cut";
  const FileId sparse = volume_.create(kRootId, "sparse");
  volume_.cell(sparse).size = 1 << 30;
  EXPECT_THAT(found(), IsEmpty()) << "a hole was never stored";
}

TEST_F(DataCheckTest, CopiesOfMirroredFilesAreAtHome) {
  const FileId file = make(kRootId, "file", 1 << 20);
  volume_.cell(file).self.flags = SLICE_HANDLE_MIRRORED;
  for (const char* name : {"store1", "store2"}) {
    server(name).objects.erase(file);
    server(name).has(file, 0, 1 << 20);
  }
  server("small1").objects.erase(file);
  volume_.cell(file).stored->clear();
  Report report = check();
  EXPECT_TRUE(report.clean() && report.complete());
  EXPECT_EQ(report.unmapped, 2u) << "nobody says where they should be";
  map_.emplace();  // where the hash has them
  EXPECT_THAT(found(), IsEmpty());
  EXPECT_EQ(check().unmapped, 0u);
  // Each copy at one of the two, alone: then the other one has a stripe that is none of its own.
  map_.emplace(wire::kStripesOfPiece, wire::listed_site({index("store1"), index("small2")}));
  EXPECT_THAT(found(), ElementsAre(AllOf(HasSubstr(begins("stray", file)),
                                         HasSubstr("store2 has bytes of stripe 0"))));
}

TEST_F(DataCheckTest, AStripeThatACoordinatorMovesMayBeAtBothItsPlaces) {
  const FileId file = make(kRootId, "file", 3 * kUnit);
  volume_.cell(file).self.flags = SLICE_HANDLE_BLOCK_MAPPED;
  server("store1").objects.erase(file);
  server("store2").objects.erase(file);
  server("store1").has(file, kUnit, 2 * kUnit);
  server("store2").has(file, 2 * kUnit, kUnit);
  map_.emplace(wire::kStripesOfPiece, wire::listed_site({index("store1")}));
  const SiteId from{wire::listed_site({index("store1")})}, to{wire::listed_site({index("store2")})};
  EXPECT_THAT(found(), ElementsAre(AllOf(HasSubstr(begins("stray", file)), HasSubstr("stripe 2"))));
  under_way_[file].moves = {{1, from, to}};
  EXPECT_THAT(found(), SizeIs(1)) << "another stripe";
  under_way_[file].moves = {{2, from, to}};
  EXPECT_THAT(found(), IsEmpty());
  under_way_[file].moves = {{2, to, from}};
  EXPECT_THAT(found(), IsEmpty()) << "it has come, and is not given back there yet";
}

TEST_F(DataCheckTest, BytesThatACoordinatorIsToFreeAreNoFinding) {
  const FileId gone{0x3000000009999}, other{0x3000000009998};
  server("store1").has(gone, 1 << 20, 4096);
  server("store1").has(other, 1 << 20, 4096);
  under_way_[gone].removal = true;
  EXPECT_THAT(found(), ElementsAre(HasSubstr(begins("nameless", other))));
}

// It has no class any more, and what it had is elsewhere.
TEST_F(DataCheckTest, WhatARemovedServerToldOfIsLookedForNowhere) {
  const FileId file = make(kRootId, "file", 1 << 20);
  server("small1").objects.erase(file);
  volume_.cell(file).stored->clear();
  volume_.cell(file).note_stored({index("small2"), 1 << 20});
  EXPECT_THAT(found(), ElementsAre(HasSubstr(begins("lost-bytes", file))));
  wire::Tables tables = tables_->wire();
  tables.servers[index("small2")].role = wire::Role::kRemoved;
  tables_ = routing::RoutingTables::make(config_, tables).value();
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(DataCheckTest, MapsSayWhereStripesOfMappedFilesAre) {
  const FileId file = make(kRootId, "file", 1 << 20);
  volume_.cell(file).self.flags = SLICE_HANDLE_BLOCK_MAPPED;
  const Report unmapped = check();
  EXPECT_TRUE(unmapped.clean() && unmapped.complete());
  EXPECT_GT(unmapped.unmapped, 0u);
  // All on a site of store1.
  std::uint32_t site = 0;
  while (!tables_->owns(index("store1"), wire::Role::kStorage, SiteId{site})) ++site;
  map_.emplace(wire::kStripesOfPiece, site);
  EXPECT_THAT(found(), ElementsAre(AllOf(HasSubstr(begins("stray", file)), HasSubstr("store2"))));
}

TEST_F(DataCheckTest, WhatIsUnderWayIsNoFinding) {
  const FileId gone{0x3000000009999}, stays{0x3000000009998};
  server("store1").has(gone, 1 << 20, 4096);
  server("store2").has(stays, 1 << 20, 4096);
  unsigned looks = 0;
  server("store1").between = [&](FileId file) {
    if (file == gone && ++looks == 2) server("store1").objects.erase(gone);
  };
  EXPECT_THAT(found(true), ElementsAre(HasSubstr(begins("nameless", stays))));
  EXPECT_EQ(looks, 2u);
}

TEST_F(DataCheckTest, AServerThatCannotBeAskedIsAnError) {
  server("store2").silent = true;
  check();
  ASSERT_FALSE(status_);
  EXPECT_THAT(status_.error().message, HasSubstr("store2"));
}

TEST_F(DataCheckTest, SuspectsBeyondMemoryAreSaid) {
  options_.suspect_bytes = 0;  // 64 of them
  for (std::uint64_t i = 0; i < 100; ++i) server("store1").has(FileId{0x3000000009000 + i}, 0, 1);
  Report report = check();
  EXPECT_EQ(report.findings().size(), 64u);
  EXPECT_FALSE(report.complete());
}

}  // namespace
}  // namespace slice::fsck
