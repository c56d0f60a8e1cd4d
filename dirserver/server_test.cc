#include "dirserver/server.h"

#include <filesystem>
#include <thread>

#include "common/testing/temporary_folder.h"
#include "dirserver/testing/fixture.h"
#include "storage/rocks_store.h"

namespace slice::dirserver::testing {
namespace {

class ServerTest : public service::testing::ServiceFixture {
 protected:
  explicit ServerTest(EnsembleConfig config = test_config()) : ServiceFixture("dir1", std::move(config)) {}
  slice::Status start(storage::MemoryMedium& medium, service::ServiceContext& context) {
    servers_.push_back(std::make_unique<DirectoryServer>(context, [&](service::ServiceContext&) {
      return Result<std::unique_ptr<storage::KvStore>>(std::make_unique<storage::MemoryStore>(loop_, medium));
    }));
    return run(servers_.back()->start());
  }
  ~ServerTest() override { loop_.advance(std::chrono::seconds(1)); }  // what they posted runs before they go
  storage::MemoryMedium medium_;
  std::vector<std::unique_ptr<DirectoryServer>> servers_;
};

TEST_F(ServerTest, RefusesAStoreOfAnotherConfiguration) {
  ASSERT_TRUE(start(medium_, context_).has_value());
  ASSERT_TRUE(start(medium_, context_).has_value());
  config_.volume.policy = VolumeConfig::NamePolicy::kNameHashing;
  slice::Status refused = start(medium_, context_);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Errc::kInvalid);
  EXPECT_NE(refused.error().message.find("name-hashing"), std::string::npos) << refused.error().message;
}

// The real store under the same server: what was answered is there when it is opened again without a clean
// stop of the volume.
TEST_F(ServerTest, OnRocksDb) {
  const TemporaryFolder folder;
  auto open = [&](service::ServiceContext&) -> Result<std::unique_ptr<storage::KvStore>> {
    return std::unique_ptr<storage::KvStore>(
        std::move(storage::RocksStore::open(loop_, metrics_, {.folder = folder.path() + "/cells"}).value()));
  };
  auto wait = [&](auto task) {
    std::optional<decltype(task.await_resume())> value;
    ServiceFixture::start(std::move(task), [&](auto result) { value.emplace(std::move(result)); });
    while (!value) {
      loop_.advance(std::chrono::milliseconds(1));
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return std::move(*value);
  };
  for (int life = 0; life < 3; ++life) {
    DirectoryServer server(context_, open);
    ASSERT_TRUE(wait(server.start()).has_value());
    rpc::Dispatcher dispatcher(metrics_);
    for (rpc::Program* program : server.programs()) dispatcher.add(*program);
    for (int i = 0; i < 50; ++i) {
      auto handle = handles_.mint(routing::root_handle(config_.volume));
      std::string name = "life" + std::to_string(life) + "-" + std::to_string(i);
      auto call = [&](Procedure procedure, const auto& args) {
        rpc::XdrWriter arguments, credential, record;
        nfs3::encode_arguments(arguments, args);
        rpc::encode_auth_sys(credential, {.machine_name = "c", .uid = 0, .gid = 0, .groups = {}});
        rpc::encode_call(record, {.xid = Xid{static_cast<std::uint32_t>(life * 1000 + i)},
                                  .program = nfs3::kProgram,
                                  .version = nfs3::kVersion,
                                  .procedure = static_cast<std::uint32_t>(procedure),
                                  .credential_flavor = rpc::kAuthSys,
                                  .credential = credential.view().subspan(8),
                                  .verifier = {},
                                  .arguments = arguments.view()});
        auto reply = wait(dispatcher.dispatch(record.take(), {0x0a4d0102, 1}, 0));
        return load_be<std::uint32_t>(rpc::decode_reply(reply->view())->results.data());
      };
      EXPECT_EQ(call(Procedure::kCreate, nfs3::CreateArgs{.where = {handle, name}}), 0u);
      for (int before = 0; before <= life; ++before) {
        std::string old = "life" + std::to_string(before) + "-" + std::to_string(i);
        EXPECT_EQ(call(Procedure::kLookup, nfs3::DirOpArgs{handle, old}), 0u) << old;
      }
    }
  }
}

}  // namespace
}  // namespace slice::dirserver::testing
