// Data directories are made as servers leave them, and read.
#include "fsck/offline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "bpf/shared/file_handle.h"
#include "common/testing/temporary_folder.h"
#include "coordinator/block_maps.h"
#include "coordinator/intention_format.h"
#include "rpc/epoll_loop.h"
#include "service/manager_session.h"
#include "service/ownership.h"
#include "service/testing/sample_config.h"
#include "smallfile/store.h"
#include "smallfile/zone_store.h"
#include "storage/log.h"
#include "storage/posix_disk.h"
#include "storage/rocks_store.h"
#include "wire/listed_site.h"

namespace slice::fsck {
namespace {

using coordinator::Intention;
using coordinator::Operation;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class OfflineTest : public ::testing::Test {
 protected:
  OfflineTest() {
    for (ServerConfig& server : config_.servers) server.data = root_ + "/" + server.name;
    tables_ = routing::RoutingTables::initial(config_);
    tables_.generation = Generation{1};
  }

  const ServerConfig& server(const std::string& name) const { return *config_.find(name); }
  template <class Change>
  void on_disk(const std::string& name, Change change) {
    auto disk = storage::PosixDisk::open(loop_, server(name).data).value();
    Status changed = rpc::run_to_end(loop_, change(*disk));
    ASSERT_TRUE(changed) << changed.error().message;
  }
  // As a server that has started by `tables_`, and nothing else.
  void begins(const std::string& name) {
    ASSERT_TRUE(service::DataDirectory::claim(server(name), config_.volume.id));
    on_disk(name, [&](storage::Disk& disk) -> Task<Status> {
      service::Ownership record(loop_, disk, server(name));
      SLICE_CO_RETURN_IF_ERROR(co_await record.load());
      SLICE_CO_RETURN_IF_ERROR(co_await record.grant(tables_));
      co_return co_await service::keep_tables(disk, tables_);
    });
    if (server(name).role == ServerRole::kCoordinator) maps(name, {});
    if (server(name).role == ServerRole::kSmallFile) small_files(name);
  }
  void all_begin() {
    for (const char* name : {"small1", "store1", "store2", "coord1"}) begins(name);
  }
  void maps(const std::string& name, const storage::WriteBatch& changes) {
    Metrics metrics;
    auto store = storage::RocksStore::open(loop_, metrics, {.folder = server(name).data + "/maps"}).value();
    if (!changes.empty()) ASSERT_TRUE(store->apply(changes));
  }
  void small_files(const std::string& name) {
    on_disk(name, [&](storage::Disk& disk) -> Task<Status> {
      Metrics metrics;
      auto records =
          storage::RocksStore::open(loop_, metrics, {.folder = server(name).data + "/maps"}).value();
      smallfile::DiskZoneStore zones(loop_, disk);
      smallfile::StoreOptions options{
          .threshold = config_.volume.threshold,
          .sites = config_.site_counts[static_cast<std::size_t>(ServerRole::kSmallFile)],
          .site_of = [](FileId) { return SiteId{0}; },
          .saves = false};
      auto store = co_await smallfile::Store::open(loop_, disk, *records, zones, metrics, std::move(options));
      if (!store) co_return fail(std::move(store).error());
      co_return co_await (*store)->record_end();
    });
  }
  void begun(const std::vector<Intention>& intentions, std::vector<storage::LogSequence> cleared = {}) {
    on_disk("coord1", [&](storage::Disk& disk) -> Task<Status> {
      Metrics metrics;
      auto log = co_await storage::Log::open(loop_, disk, metrics, {.folder = "intentions"},
                                             [](storage::LogSequence, ByteView) { return Status{}; });
      for (const Intention& each : intentions) (void)(*log)->append(encode_record(each).view());
      if (!cleared.empty()) (void)(*log)->append(encode_record(coordinator::Cleared{cleared}).view());
      co_return co_await (*log)->sync((*log)->last());
    });
  }
  Intention intention(Operation operation, FileId file) const {
    return {.operation = operation, .handle = routing::HandleCodec(config_).mint(handle(file))};
  }
  static routing::FileHandle handle(FileId file) {
    return {
        .type = nfs3::FileType::kRegular, .flags = SLICE_HANDLE_MIRRORED, .fileid = file, .generation = 1};
  }
  std::unique_ptr<OfflineData> open() {
    auto data = std::make_unique<OfflineData>(loop_, config_, std::map<std::string, std::string>());
    opened_ = rpc::run_to_end(loop_, data->open());
    return data;
  }
  Result<wire::MapPiece> piece(OfflineData& data, FileId file, std::uint64_t stripe) {
    return rpc::run_to_end(loop_, data.map_piece(handle(file), stripe));
  }

  rpc::EpollLoop loop_;
  EnsembleConfig config_ = service::testing::sample_config();
  TemporaryFolder temporary_;
  const std::string& root_ = temporary_.path();
  wire::Tables tables_;
  Status opened_;
};

TEST_F(OfflineTest, ACoordinatorsMapsAndWhatItOwesAreRead) {
  all_begin();
  const FileId moved{77}, other{78};
  const wire::MapPiece stored{
      .number = 1, .sites = std::vector<std::uint32_t>(wire::kStripesOfPiece, wire::listed_site({3}))};
  storage::WriteBatch batch;
  batch.put(coordinator::piece_key(moved, 1), coordinator::encode_piece_record(stored));
  maps("coord1", batch);
  Intention move = intention(Operation::kMove, moved);
  move.stripe = 300;
  move.from_site = 5;
  move.to_site = wire::listed_site({2});
  begun({move, intention(Operation::kRemove, other), intention(Operation::kRemove, moved)},
        {storage::LogSequence{3}});
  auto data = open();
  ASSERT_TRUE(opened_) << opened_.error().message;
  EXPECT_THAT(data->absent(), IsEmpty());
  EXPECT_THAT(data->servers(), SizeIs(3));
  EXPECT_EQ(piece(*data, moved, 256), stored);
  EXPECT_THAT(piece(*data, moved, 255)->sites, IsEmpty()) << "another piece";
  EXPECT_THAT(piece(*data, other, 256)->sites, IsEmpty()) << "another file";
  const UnderWay under_way = data->under_way(moved);
  EXPECT_FALSE(under_way.removal) << "it was cleared";
  ASSERT_THAT(under_way.moves, SizeIs(1));
  EXPECT_EQ(under_way.moves[0].stripe, 300u);
  EXPECT_EQ(under_way.moves[0].from, SiteId{5});
  EXPECT_EQ(under_way.moves[0].to, SiteId{wire::listed_site({2})});
  EXPECT_TRUE(data->under_way(other).removal);
  EXPECT_FALSE(data->under_way(FileId{79}).removal);
}

TEST_F(OfflineTest, ReadingChangesNothing) {
  all_begin();
  begun({intention(Operation::kRemove, FileId{78})});
  const std::string log = server("coord1").data + "/intentions/0000000000000001.log";
  std::filesystem::resize_file(log, std::filesystem::file_size(log) + 100);  // as a crash leaves it
  const auto size = std::filesystem::file_size(log);
  auto data = open();
  ASSERT_TRUE(opened_) << opened_.error().message;
  EXPECT_TRUE(data->under_way(FileId{78}).removal);
  EXPECT_EQ(std::filesystem::file_size(log), size);
}

TEST_F(OfflineTest, ACoordinatorThatIsNotHereHasMapsThatCannotBeHad) {
  for (const char* name : {"small1", "store1", "store2"}) begins(name);
  auto data = open();
  ASSERT_TRUE(opened_) << opened_.error().message;
  EXPECT_THAT(data->absent(), ElementsAre("coord1"));
  EXPECT_EQ(piece(*data, FileId{77}, 0).error().code, Errc::kNotFound);
}

TEST_F(OfflineTest, AStorageNodeThatIsNotHereIsMissedUnlessItIsLost) {
  for (const char* name : {"small1", "store1", "coord1"}) begins(name);
  open();
  ASSERT_FALSE(opened_);
  EXPECT_EQ(opened_.error().code, Errc::kNotFound);
  EXPECT_THAT(opened_.error().message, HasSubstr("store2"));

  for (const ServerConfig& each : config_.servers) std::filesystem::remove_all(each.data);
  // Its sites have gone to the other one, but for those of files with a layout, which stay its own.
  auto& sites = tables_.sites[static_cast<std::size_t>(wire::Role::kStorage)];
  const std::vector<std::uint32_t> born = sites;
  std::fill(sites.begin(), sites.end(), server("store1").index);
  tables_.layout_sites = born;
  tables_.servers[server("store2").index].lost = Verifier{9};
  tables_.generation = Generation{5};
  for (const char* name : {"small1", "store1", "coord1"}) begins(name);
  auto data = open();
  ASSERT_TRUE(opened_) << opened_.error().message;
  EXPECT_THAT(data->servers(), SizeIs(2));
  EXPECT_EQ(data->tables()->layout_sites(), born);
}

}  // namespace
}  // namespace slice::fsck
