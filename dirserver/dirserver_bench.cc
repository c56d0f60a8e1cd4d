// What an operation costs inside the directory server: from the bytes of a call to the bytes of its reply,
// on RocksDB in a temporary folder (TMPDIR), without sockets. Names with /N: N entries in the directory, or N
// calls outstanding.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "common/testing/temporary_folder.h"
#include "dirserver/server.h"
#include "rpc/message.h"
#include "service/testing/service_fixture.h"
#include "storage/rocks_store.h"

namespace slice::dirserver {
namespace {

using nfs3::Procedure;

class BenchServer : public service::testing::ServiceFixture {
 public:
  explicit BenchServer(std::uint64_t cache_bytes = 256 << 20) : ServiceFixture("dir1") {
    config_.servers[self_.index].cache_bytes = cache_bytes;
    config_.volume.threshold = 0;  // nobody to hand removed files to
    config_.volume.root_mode = 0777;
    server_ = std::make_unique<DirectoryServer>(
        context_, [this](service::ServiceContext&) -> Result<std::unique_ptr<storage::KvStore>> {
          return std::unique_ptr<storage::KvStore>(
              std::move(storage::RocksStore::open(loop_, metrics_, {.folder = folder_.path()}).value()));
        });
    bool started = false;
    start(server_->start(), [&](Status status) { started = status.has_value(); });
    wait([&] { return started; });
    dispatcher_ = std::make_unique<rpc::Dispatcher>(metrics_);
    for (rpc::Program* program : server_->programs()) dispatcher_->add(*program);
  }
  ~BenchServer() override { server_.reset(); }
  void TestBody() override {}

  // The caller is a user, who has a quota.
  void limit() {
    uid_ = 1000;
    Settings limited = *settings_.get();
    limited.quotas[{QuotaKind::kUser, uid_}] = {.space = {0, 1ull << 50, 0}, .files = {0, 1ull << 40, 0}};
    settings_.set(std::move(limited));
    server_->settings_changed();
  }

  template <class Done>
  void wait(const Done& done) {
    while (!done()) {
      loop_.run_ready();
      if (!done()) std::this_thread::sleep_for(std::chrono::microseconds(5));
    }
  }
  template <class Args>
  Buffer encode(Procedure procedure, const Args& args) {
    rpc::XdrWriter arguments, credential, record;
    nfs3::encode_arguments(arguments, args);
    rpc::encode_auth_sys(credential, {.machine_name = "client", .uid = uid_, .gid = uid_, .groups = {}});
    rpc::encode_call(record, {.xid = Xid{++xid_},
                              .program = nfs3::kProgram,
                              .version = nfs3::kVersion,
                              .procedure = static_cast<std::uint32_t>(procedure),
                              .credential_flavor = rpc::kAuthSys,
                              .credential = credential.view().subspan(8),
                              .verifier = {},
                              .arguments = arguments.view()});
    return record.take();
  }
  void send(Buffer record) {
    ++outstanding_;
    start(dispatcher_->dispatch(std::move(record), {0x0a4d0102, 700}, 0),
          [this](std::optional<Buffer> reply) {
            last_ = std::move(*reply);
            --outstanding_;
          });
  }
  void call(Buffer record) {
    send(std::move(record));
    wait([this] { return outstanding_ == 0; });
  }
  routing::HandleBytes root() const { return handles_.mint(routing::root_handle(config_.volume)); }
  void fill(std::int64_t count) {
    auto directory = root();
    for (std::int64_t i = 0; i < count; ++i) {
      std::string name = "file-" + std::to_string(i);
      send(encode(Procedure::kCreate, nfs3::CreateArgs{.where = {directory, name}}));
      if (outstanding_ >= 256) wait([this] { return outstanding_ == 0; });
    }
    wait([this] { return outstanding_ == 0; });
  }

  std::size_t outstanding_ = 0;
  Buffer last_;

 private:
  TemporaryFolder folder_;
  std::unique_ptr<DirectoryServer> server_;
  std::unique_ptr<rpc::Dispatcher> dispatcher_;
  std::uint32_t xid_ = 0;
  std::uint32_t uid_ = 0;
};

void getattr(benchmark::State& state) {
  BenchServer server;
  auto handle = server.root();
  for (auto _ : state) server.call(server.encode(Procedure::kGetattr, nfs3::HandleView(handle)));
}
BENCHMARK(getattr);

void access(benchmark::State& state) {
  BenchServer server;
  auto handle = server.root();
  for (auto _ : state) server.call(server.encode(Procedure::kAccess, nfs3::AccessArgs{handle, 0x3f}));
}
BENCHMARK(access);

void lookup(benchmark::State& state, std::uint64_t cache_bytes) {
  BenchServer server(cache_bytes);
  server.fill(state.range(0));
  auto directory = server.root();
  std::int64_t i = 0;
  for (auto _ : state) {
    std::string name = "file-" + std::to_string(i = (i + 7919) % state.range(0));
    server.call(server.encode(Procedure::kLookup, nfs3::DirOpArgs{directory, name}));
  }
}
BENCHMARK_CAPTURE(lookup, cached, 256 << 20)->Arg(1000)->Arg(100000);
BENCHMARK_CAPTURE(lookup, from_rocksdb, 64 << 10)->Arg(100000);

void create_remove_pair(benchmark::State& state, bool limited) {
  BenchServer server;
  if (limited) server.limit();
  auto directory = server.root();
  std::int64_t pairs = 0;
  std::vector<std::string> names;
  for (auto _ : state) {
    names.clear();
    for (std::int64_t i = 0; i < state.range(0); ++i) {
      names.push_back("name-" + std::to_string(pairs++));
      server.send(server.encode(Procedure::kCreate, nfs3::CreateArgs{.where = {directory, names.back()}}));
    }
    server.wait([&] { return server.outstanding_ == 0; });
    for (const std::string& name : names) {
      server.send(server.encode(Procedure::kRemove, nfs3::DirOpArgs{directory, name}));
    }
    server.wait([&] { return server.outstanding_ == 0; });
  }
  state.SetItemsProcessed(pairs);
}
BENCHMARK_CAPTURE(create_remove_pair, free, false)->Arg(1)->Arg(16)->Arg(256)->UseRealTime();
BENCHMARK_CAPTURE(create_remove_pair, with_quota, true)->Arg(1)->Arg(16)->Arg(256)->UseRealTime();

void readdirplus(benchmark::State& state) {
  BenchServer server;
  server.fill(state.range(0));
  auto directory = server.root();
  for (auto _ : state) {
    server.call(
        server.encode(Procedure::kReaddirplus, nfs3::ReaddirplusArgs{directory, 0, {}, 8 << 10, 32 << 10}));
  }
  state.counters["reply_bytes"] = static_cast<double>(server.last_.size());
}
BENCHMARK(readdirplus)->Arg(1000)->Arg(100000);

}  // namespace
}  // namespace slice::dirserver

BENCHMARK_MAIN();
