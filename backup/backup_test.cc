// Files of backups, and what comes of them: on real disks, beside data servers and cells as a test says.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "backup/format.h"
#include "backup/reconcile.h"
#include "backup/restore.h"
#include "common/manual_loop.h"
#include "common/testing/temporary_folder.h"
#include "dirserver/fsck/local_source.h"
#include "dirserver/fsck/testing/volume.h"
#include "fsck/testing/fake_server.h"
#include "rpc/epoll_loop.h"
#include "service/ownership.h"
#include "smallfile/store.h"
#include "smallfile/zone_store.h"
#include "storage/posix_disk.h"
#include "storage/rocks_store.h"

namespace slice::backup {
namespace {

using dirserver::AttributeCell;
using dirserver::kRootId;
using dirserver::fsck::LocalSource;
using dirserver::fsck::testing::Policy;
using dirserver::fsck::testing::TestVolume;
using fsck::FakeServer;

constexpr std::uint64_t kThreshold = 65536;
constexpr nfs3::Time kNow{1000, 0};

// ---- the file ----

class FormatTest : public ::testing::Test {
 protected:
  FormatTest() : path_(folder_.path() + "/dir1.backup") {
    const Header header{VolumeId{1}, wire::Role::kDirectory, "dir1", "cells 1", WallTime{42}, {0, 5}};
    auto writer = Writer::make(path_, header).value();
    EXPECT_TRUE(writer->add(Cell{"key", "value"}));
    EXPECT_TRUE(writer->add(Image{FileId{7}, 9, Epoch{2}, {3, 4}, {{0, "abc"}, {8192, "d"}}}));
    EXPECT_TRUE(writer->add(StateFile{"manager.state", std::string("\0\1", 2)}));
    EXPECT_FALSE(std::filesystem::exists(path_)) << "it has its name when it is whole";
    EXPECT_TRUE(writer->finish());
  }
  // What reading all of it ends with.
  Status read() const {
    auto reader = Reader::open(path_);
    if (!reader) return fail(reader.error());
    while (true) {
      auto record = (*reader)->next();
      if (!record) return fail(record.error());
      if (!*record) return {};
    }
  }
  std::string bytes() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }

  TemporaryFolder folder_;
  const std::string path_;
};

TEST_F(FormatTest, SaysWhatWasPut) {
  auto reader = Reader::open(path_).value();
  EXPECT_EQ(reader->header().server, "dir1");
  EXPECT_EQ(reader->header().sites, (std::vector<std::uint32_t>{0, 5}));
  EXPECT_EQ(reader->header().taken, WallTime{42});
  EXPECT_EQ(std::get<Cell>(**reader->next()), (Cell{"key", "value"}));
  const auto image = std::get<Image>(**reader->next());
  EXPECT_EQ(image.file, FileId{7});
  EXPECT_EQ(image.runs, (std::vector<wire::ObjectRun>{{0, "abc"}, {8192, "d"}}));
  EXPECT_EQ(std::get<StateFile>(**reader->next()).contents.size(), 2u);
  EXPECT_FALSE(reader->next()->has_value());
  EXPECT_FALSE(reader->next()->has_value());
}

TEST_F(FormatTest, EveryDamagedByteIsNoticed) {
  const std::string whole = bytes();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    write(damaged);
    EXPECT_FALSE(read()) << "byte " << at;
  }
}

TEST_F(FormatTest, EveryCutIsNoticed) {
  const std::string whole = bytes();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write(whole.substr(0, length));
    EXPECT_FALSE(read()) << length << " bytes";
  }
  write(whole);
  EXPECT_TRUE(read());
}

TEST_F(FormatTest, FilesAreFoundByTheirRole) {
  EXPECT_EQ(open_all(folder_.path(), wire::Role::kDirectory)->size(), 1u);
  EXPECT_EQ(open_all(folder_.path(), wire::Role::kSmallFile).error().code, Errc::kNotFound);
  EXPECT_EQ(open_all("/nonexistent", wire::Role::kDirectory).error().code, Errc::kNotFound);
  write("something else");
  EXPECT_FALSE(open_all(folder_.path(), wire::Role::kDirectory));
}

// ---- one cell ----

class ReconcileTest : public ::testing::Test {
 protected:
  ReconcileTest() {
    cell_.size = 100'000;
    cell_.epoch = Epoch{3};
    cell_.mtime = cell_.ctime = {500, 0};
    cell_.stored = {{{1, 65536}, {2, 36864}}};
  }
  Since with(const std::vector<Found>& found) { return reconcile(cell_, found, kNow, told_); }
  static Found small(std::uint64_t end, Epoch epoch = Epoch{3}) {
    return {1, wire::Role::kSmallFile, end, 65536, epoch};
  }
  static Found node(std::uint64_t end, Epoch epoch = Epoch{3}) {
    return {2, wire::Role::kStorage, end, 8192, epoch};
  }
  AttributeCell cell_;
  nfs3::Time told_{600, 0};
};

TEST_F(ReconcileTest, WhatIsAsItWasStays) {
  EXPECT_EQ(with({small(65536), node(100'000)}), Since::kNothing);
  EXPECT_EQ(cell_.size, 100'000u);
  EXPECT_EQ(cell_.mtime, (nfs3::Time{500, 0}));
  EXPECT_EQ(cell_.stored->at(1).bytes, 36864u);
}

TEST_F(ReconcileTest, WhatWasWrittenSinceIsThere) {
  EXPECT_EQ(with({small(65536), node(200'000)}), Since::kGrew);
  EXPECT_EQ(cell_.size, 200'000u);
  EXPECT_EQ(cell_.epoch, Epoch{3});
  EXPECT_EQ(cell_.mtime, kNow);
  EXPECT_TRUE(cell_.striped) << "it may have been a small file";
  EXPECT_EQ(cell_.stored->at(1).bytes, 8192u);
}

TEST_F(ReconcileTest, WhatWasCutSinceEndsWhereItsBytesDo) {
  cell_.truncating = true;
  EXPECT_EQ(with({small(10, Epoch{5}), node(0, Epoch{3})}), Since::kCut);
  EXPECT_EQ(cell_.size, 10u);
  EXPECT_EQ(cell_.epoch, Epoch{5}) << "else the next truncation would be taken for an old one";
  EXPECT_FALSE(cell_.truncating);
}

TEST_F(ReconcileTest, WhatWasRemovedSinceShowsNoZeros) {
  EXPECT_EQ(with({}), Since::kGone);
  EXPECT_EQ(cell_.size, 0u);
  EXPECT_GT(cell_.epoch, Epoch{3});
}

TEST_F(ReconcileTest, AFileThatNeverHadBytesKeepsItsSize) {
  cell_.stored.emplace();
  EXPECT_EQ(with({}), Since::kNothing);
  EXPECT_EQ(cell_.size, 100'000u);
  told_ = {400, 0};  // a moment before the backup: servers may not have told yet
  EXPECT_EQ(with({}), Since::kGone);
}

TEST_F(ReconcileTest, AFileOfBeforeServersToldMayHaveHadSome) {
  cell_.stored.reset();
  EXPECT_EQ(with({}), Since::kGone);
}

// ---- servers ----

class RestoreTest : public ::testing::Test {
 protected:
  RestoreTest() : config_(volume_.config()) {
    config_.volume.threshold = kThreshold;
    tables_ = routing::RoutingTables::make(config_, routing::RoutingTables::initial(config_)).value();
    for (const char* name : {"small1", "store1", "store2"})
      servers_.push_back(std::make_unique<FakeServer>(*tables_->server(config_.find(name)->index)));
  }
  FakeServer& server(std::size_t index) { return static_cast<FakeServer&>(*servers_[index]); }
  // The backup's file of `name`, with these records.
  void write_file(const std::string& name, wire::Role role, std::vector<Record> records,
                  std::vector<std::uint32_t> sites) {
    auto writer = Writer::make(backup_.path() + "/" + name + kSuffix,
                               {config_.volume.id, role, name, made_for(config_, role), {}, std::move(sites)})
                      .value();
    for (Record& each : records) ASSERT_TRUE(writer->add(std::move(each)));
    ASSERT_TRUE(writer->finish());
  }
  static std::vector<std::uint32_t> all_sites() {
    std::vector<std::uint32_t> sites(64);
    for (std::uint32_t i = 0; i < 64; ++i) sites[i] = i;
    return sites;
  }
  void write_cells(std::vector<std::uint32_t> sites = all_sites()) {
    std::vector<Record> records;
    for (auto& [key, value] : volume_.stored()) records.push_back(Cell{key, value});
    write_file("dir1", wire::Role::kDirectory, std::move(records), std::move(sites));
  }
  RestoreSeams seams(const std::string& name) {
    self_ = *config_.find(name);
    self_.data = data_.path();
    auto files = open_all(backup_.path(), static_cast<wire::Role>(self_.role));
    files_ = files ? std::move(*files) : std::vector<std::unique_ptr<Reader>>{};
    disk_ = storage::PosixDisk::open(loop_, data_.path()).value();
    return {.loop = loop_,
            .disk = *disk_,
            .self = self_,
            .config = config_,
            .tables = tables_,
            .files = files_,
            .note = [this](const Note& note) { notes_.push_back(note.file); }};
  }
  std::vector<std::uint32_t> recorded_sites() {
    service::Ownership record(loop_, *disk_, self_);
    EXPECT_TRUE(rpc::run_to_end(loop_, record.load()));
    EXPECT_GT(record.version(), 1'000'000'000u) << "newer than the record that was lost";
    return record.known() ? wire::numbers_of(record.sites()) : std::vector<std::uint32_t>{};
  }

  TemporaryFolder backup_, data_;
  TestVolume volume_{Policy::kMkdirSwitching};
  EnsembleConfig config_;
  rpc::EpollLoop loop_;
  std::shared_ptr<const routing::RoutingTables> tables_;
  std::vector<std::unique_ptr<service::ObjectSource>> servers_;
  ServerConfig self_;
  std::unique_ptr<storage::Disk> disk_;
  std::vector<std::unique_ptr<Reader>> files_;
  std::vector<FileId> notes_;
};

TEST_F(RestoreTest, NamesComeBackFittedToTheBytesThereAre) {
  const FileId folder = volume_.mkdir(kRootId, "folder");
  std::vector<FileId> files;
  for (int i = 0; i < 300; ++i) {
    const FileId file = volume_.create(i % 2 == 0 ? folder : kRootId, "f" + std::to_string(i));
    AttributeCell& cell = volume_.cell(file);
    cell.size = 1000;
    cell.note_stored({1, 4096});
    server(0).has(file, 0, 1000);
    files.push_back(file);
  }
  write_cells();
  server(0).objects.erase(files[17]);
  server(0).objects[files[18]] = {.end = 10, .allocated = 4096, .epoch = Epoch{9}, .extents = {}};
  server(1).has(files[19], 1 << 20, 4096);
  server(2).has(FileId{0x3fff000000000001}, 0, 4096);  // made since

  auto restored = rpc::run_to_end(loop_, restore_names(seams("dir1"), servers_));
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_EQ(restored->cells, volume_.stored().size());
  EXPECT_EQ(restored->gone, 1u);
  EXPECT_EQ(restored->cut, 1u);
  EXPECT_EQ(restored->grown, 1u);
  EXPECT_EQ(notes_.size(), 3u);
  EXPECT_EQ(recorded_sites(), all_sites());

  auto store = storage::open_rocks_read_only({.folder = data_.path() + "/cells"}).value();
  auto cell_of = [&](FileId file) {
    const SiteId site = volume_.cell(file).self.cell.site;
    return *dirserver::decode_attribute_cell(site, **store->get(dirserver::attribute_key(site, file)));
  };
  EXPECT_EQ(cell_of(files[16]).size, 1000u);
  EXPECT_EQ(cell_of(files[17]).size, 0u);
  EXPECT_EQ(cell_of(files[18]).epoch, Epoch{9});
  EXPECT_EQ(cell_of(files[19]).size, (1u << 20) + 4096);
  EXPECT_EQ(**store->get(dirserver::format_key()), made_for(config_, wire::Role::kDirectory));
  for (const auto& [key, value] : volume_.stored()) {
    if (dirserver::kind_of_key(key) == dirserver::CellKind::kName) EXPECT_EQ(**store->get(key), value);
  }
  for (std::uint32_t site : all_sites()) {
    auto next = store->get(dirserver::sequence_key(SiteId{site}));
    ASSERT_TRUE(next && *next) << site;
    EXPECT_GE(*dirserver::decode_number(**next), kFileIdsSkipped) << "no fileID is given again";
  }
}

TEST_F(RestoreTest, ATruncationThatIsOverIsNotDoneAgain) {
  const FileId file = volume_.create(kRootId, "cut");
  AttributeCell& cell = volume_.cell(file);
  const SiteId site = cell.self.cell.site;
  cell.size = 10;
  cell.epoch = Epoch{2};
  cell.truncating = true;
  dirserver::TruncationRecord record;
  record.file = cell.self;
  record.size = 10;
  record.epoch = Epoch{2};
  volume_.others()[dirserver::truncation_key(site, file)] = dirserver::encode(record);
  write_cells();
  server(0).objects[file] = {.end = 5000, .allocated = 8192, .epoch = Epoch{3}, .extents = {}};
  ASSERT_TRUE(rpc::run_to_end(loop_, restore_names(seams("dir1"), servers_)));
  auto store = storage::open_rocks_read_only({.folder = data_.path() + "/cells"}).value();
  EXPECT_FALSE(store->get(dirserver::truncation_key(site, file))->has_value());
}

TEST_F(RestoreTest, NothingIsMadeOfABackupThatDoesNotFit) {
  const FileId file = volume_.create(kRootId, "file");
  server(0).has(file, 0, 10);
  write_cells({0, 1, 2});
  EXPECT_EQ(rpc::run_to_end(loop_, restore_names(seams("dir1"), servers_)).error().code, Errc::kNotFound);
  std::filesystem::remove(backup_.path() + "/dir1" + kSuffix);
  write_cells();
  server(1).silent = true;
  EXPECT_EQ(rpc::run_to_end(loop_, restore_names(seams("dir1"), servers_)).error().code, Errc::kTimedOut)
      << "who does not answer may have bytes";
  EXPECT_FALSE(std::filesystem::exists(data_.path() + "/ownership"));
  config_.volume.policy = Policy::kNameHashing;
  EXPECT_EQ(rpc::run_to_end(loop_, restore_names(seams("dir1"), servers_)).error().code, Errc::kInvalid);
}

// ---- bytes ----

class RestoreFilesTest : public RestoreTest {
 protected:
  FileId make(const std::string& name, std::uint64_t size, Epoch epoch) {
    const FileId file = volume_.create(kRootId, name);
    change(file, size, epoch);
    return file;
  }
  void change(FileId file, std::uint64_t size, Epoch epoch) {
    AttributeCell& cell = volume_.cell(file);
    cell.size = size;
    cell.epoch = epoch;
    ++cell.mtime.seconds;
  }
  // The images, in order: the backup is of this moment.
  void back_up(const std::map<FileId, Image>& images) {
    std::vector<Record> records;
    for (const auto& [file, image] : images) records.push_back(image);
    write_file("small1", wire::Role::kSmallFile, std::move(records), all_sites());
    write_cells();
  }
  Result<RestoredFiles> restore() {
    LocalSource cells(dirserver::fsck::testing::stores_of(manual_, medium_, volume_.stored()), 64);
    auto then = open_all(backup_.path(), wire::Role::kDirectory).value();
    return rpc::run_to_end(loop_, restore_files(seams("small1"), cells, then));
  }
  // Opens it as its server does.
  void open() {
    records_ = storage::RocksStore::open(loop_, metrics_, {.folder = data_.path() + "/maps"}).value();
    zones_ = std::make_unique<smallfile::DiskZoneStore>(loop_, *disk_);
    auto store = rpc::run_to_end(
        loop_, smallfile::Store::open(
                   loop_, *disk_, *records_, *zones_, metrics_,
                   {.threshold = kThreshold,
                    .sites = config_.site_counts[static_cast<std::size_t>(ServerRole::kSmallFile)],
                    .site_of = [this](FileId file) { return tables_->small_file_site(file); }}));
    ASSERT_TRUE(store) << store.error().message;
    store_ = std::move(*store);
  }
  // Its bytes; nothing where they cannot be read.
  std::optional<std::string> read(FileId file, std::size_t size) {
    Buffer bytes;
    bytes.extend(size);
    auto seen = rpc::run_to_end(loop_, store_->read(file, 0, {bytes.data(), size}));
    if (!seen) return std::nullopt;
    return std::string(as_text(bytes.view()));
  }
  void TearDown() override {
    store_.reset();
    zones_.reset();
    records_.reset();
  }

  ManualLoop manual_;
  storage::MemoryMedium medium_;
  Metrics metrics_;
  std::unique_ptr<storage::RocksStore> records_;
  std::unique_ptr<smallfile::DiskZoneStore> zones_;
  std::unique_ptr<smallfile::Store> store_;
};

TEST_F(RestoreFilesTest, BytesComeBackAndWhatIsLostIsAnError) {
  std::map<std::string, FileId> files;
  std::map<FileId, Image> images;
  const std::string then(20'000, 'x');
  for (const char* name : {"kept", "grown", "written", "cut", "emptied", "removed", "sparse", "empty"}) {
    const FileId file = make(name, name == std::string("empty") ? 0 : 20'000, Epoch{1});
    files[name] = file;
    if (name != std::string("sparse") && name != std::string("empty"))
      images[file] = Image{file, 20'000, Epoch{1}, {7, 8}, {{0, then}}};
  }
  back_up(images);
  change(files["grown"], 50'000, Epoch{1});
  change(files["written"], 20'000, Epoch{1});
  change(files["cut"], 9'000, Epoch{2});
  change(files["emptied"], 0, Epoch{2});
  volume_.erase(files["removed"]);
  files["since"] = make("since", 3, Epoch{1});

  auto restored = restore();
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_EQ(restored->files, 3u);
  EXPECT_EQ(restored->older, 1u);
  EXPECT_EQ(restored->lost, 3u);
  EXPECT_EQ(restored->unused, 1u);
  EXPECT_EQ(std::set<FileId>(notes_.begin(), notes_.end()),
            (std::set<FileId>{files["grown"], files["written"], files["cut"], files["since"]}));
  EXPECT_EQ(recorded_sites(), all_sites());

  open();
  EXPECT_EQ(read(files["kept"], 20'000), then);
  EXPECT_EQ(store_->look(files["kept"])->end, 20'000u);
  EXPECT_EQ(store_->look(files["kept"])->mtime, (nfs3::Time{7, 8}));
  EXPECT_EQ(read(files["written"], 20'000), then);
  EXPECT_EQ(read(files["sparse"], 20'000), std::string(20'000, '\0')) << "it was so then";
  EXPECT_EQ(read(files["grown"], 16'384), then.substr(0, 16'384));
  EXPECT_EQ(read(files["grown"], 50'000), std::nullopt) << "neither zeros nor anything else";
  EXPECT_EQ(read(files["since"], 3), std::nullopt);
  EXPECT_EQ(read(files["cut"], 9'000), std::nullopt) << "what it had then was cut";
  EXPECT_EQ(store_->look(files["emptied"])->end, 0u);
  EXPECT_EQ(store_->look(files["empty"])->end, 0u);
  EXPECT_FALSE(store_->stat(files["removed"]));
  // Written anew it is whole.
  const std::string block(8192, 'y');
  auto written = rpc::run_to_end(
      loop_,
      store_->write(
          files["since"],
          {.offset = 0, .data = as_bytes(block), .stable = true, .epoch = Epoch{1}, .mtime_from = {}}));
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_EQ(read(files["since"], 8192), block);
}

TEST_F(RestoreFilesTest, AManagersStateComesBack) {
  write_file("manager1", wire::Role::kManager,
             {StateFile{"manager.state", "state"}, StateFile{"../evil", "x"}}, {});
  EXPECT_EQ(rpc::run_to_end(loop_, restore_state(seams("manager1"))).error().code, Errc::kCorrupt);
  EXPECT_TRUE(std::filesystem::exists(data_.path() + "/manager.state"));
  EXPECT_FALSE(std::filesystem::exists(data_.path() + "/../evil"));
}

}  // namespace
}  // namespace slice::backup
