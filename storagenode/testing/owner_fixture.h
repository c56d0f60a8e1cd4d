// OwnerTest: owners of a backing set (service/backing/), nodes with copies of it on disks that forget what
// was not synced, and a manager.
#ifndef SLICE_STORAGENODE_TESTING_OWNER_FIXTURE_H
#define SLICE_STORAGENODE_TESTING_OWNER_FIXTURE_H

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "service/backing/backed_disk.h"
#include "service/testing/service_fixture.h"
#include "storage/durable_file.h"
#include "storage/log.h"
#include "storagenode/backing/backing_program.h"
#include "wire/failover.h"

namespace slice::storagenode {

using storage::MemoryDisk;

inline EnsembleConfig three_nodes() {
  EnsembleConfig config = service::testing::sample_config();
  service::testing::add_server(config, "store3", ServerRole::kStorage);
  return config;
}

// The manager's part, without its durability.
class SetManager : public service::InternalProgram {
 public:
  SetManager(routing::TableHolder& tables, std::vector<std::uint32_t> nodes)
      : InternalProgram(wire::kManagerProgram), nodes_(std::move(nodes)) {
    using P = wire::ManagerProcedure;
    on<service::NoArguments>(P::kGetTables, [&tables](const auto&) { return tables.get()->wire(); });
    on<wire::StandbyArgs>(P::kStandby,
                          [](const auto& args) { return wire::StandbyResult{true, args.endpoint}; });
    on<wire::BackingClaimArgs>(P::kBackingClaim, [this](const auto& args) { return claim(args); });
    on<wire::BackingMembersArgs>(P::kBackingMembers, [this](const auto& args) { return members(args); });
    on<wire::BackingSpareArgs>(P::kBackingSpare, [this](const auto&) { return spare(); });
    on<wire::BackingKeepArgs>(P::kBackingKeep, [this](const auto& args) {
      kept = args.set;
      forgot = forgot && never_learns;
      return wire::BackingKeepResult{};
    });
  }

  wire::BackingSet set;
  std::optional<wire::BackingSet> kept;  // as its owner has said last
  bool forgot = false;                   // it has lost its state, and nobody has told it since
  bool never_learns = false;             // also when it is told
  unsigned changes = 0;
  std::size_t least = wire::kMaxBackingMembers;  // members at any time
  std::set<std::uint32_t> silent;                // nodes

 private:
  wire::BackingClaimResult claim(const wire::BackingClaimArgs& args) {
    const bool made = set.members.empty();
    if (made) set.members.assign(nodes_.begin(), nodes_.begin() + args.copies);
    set.server = args.server;
    set.copies = args.copies;
    if (set.instance != args.instance) ++set.epoch.value, set.change = 0;
    set.instance = args.instance;
    return {.refused = "", .made = made, .set = set};
  }
  wire::BackingMembersResult members(const wire::BackingMembersArgs& args) {
    if (forgot) return {.refused = "no such set", .set = {}};
    if (args.owner.epoch != set.epoch || args.owner.instance != set.instance) {
      return {.refused = "the epoch is another's", .set = set};
    }
    set.members = args.members;
    set.change = args.change;
    least = std::min(least, set.members.size());
    ++changes;
    return {.refused = "", .set = set};
  }
  wire::BackingSpareResult spare() {
    for (std::uint32_t node : nodes_) {
      const bool member = std::find(set.members.begin(), set.members.end(), node) != set.members.end();
      if (!member && !silent.contains(node)) return {true, node};
    }
    return {};
  }

  std::vector<std::uint32_t> nodes_;
};

struct NodeHost {
  NodeHost(ManualLoop& loop, rpc::InProcessNetwork& all, rpc::Endpoint at)
      : loop(loop), all(all), at(at), disk(loop) {}
  void start() {
    session = disk.session();
    metrics = std::make_unique<Metrics>();
    files = std::make_unique<BackingFiles>(BackingFiles::Seams{
        .loop = loop, .disk = *session, .metrics = *metrics, .reserve = [] { return 0; }});
    program = std::make_unique<BackingProgram>(*files, *metrics);
    dispatcher = std::make_unique<rpc::Dispatcher>(*metrics);
    dispatcher->add(*program);
    spawn([](BackingFiles& each) -> Task<void> { EXPECT_TRUE(co_await each.start()); }(*files));
    all.attach(at, dispatcher.get());
  }
  // The process ends; with it what was not synced, where the host goes too.
  void end(MemoryDisk::Crash how = MemoryDisk::Crash::kDropUnsynced) {
    all.attach(at, nullptr);
    disk.crash(how);
    retired.push_back({std::move(session), std::move(metrics), std::move(files), std::move(program),
                       std::move(dispatcher)});
  }
  void restart() {
    end();
    start();
  }
  // As the process does before it ends; how long that takes.
  Duration leave() {
    const MonoTime before = loop.now();
    bool over = false;
    spawn([](BackingFiles& each, bool& over) -> Task<void> {
      co_await each.leave();
      over = true;
    }(*files, over));
    EXPECT_TRUE(loop.run_until([&over] { return over; }));
    return loop.now() - before;
  }
  void cut() { all.attach(at, nullptr); }
  void join() { all.attach(at, dispatcher.get()); }

  struct Run {
    std::unique_ptr<storage::Disk> session;
    std::unique_ptr<Metrics> metrics;
    std::unique_ptr<BackingFiles> files;
    std::unique_ptr<BackingProgram> program;
    std::unique_ptr<rpc::Dispatcher> dispatcher;
  };
  ManualLoop& loop;
  rpc::InProcessNetwork& all;
  rpc::Endpoint at;
  MemoryDisk disk;
  std::unique_ptr<storage::Disk> session;
  std::unique_ptr<Metrics> metrics;
  std::unique_ptr<BackingFiles> files;
  std::unique_ptr<BackingProgram> program;
  std::unique_ptr<rpc::Dispatcher> dispatcher;
  std::vector<Run> retired;  // calls may still be under way in them
};

// Calls of one process, which may be cut off from all others.
class OwnChannel : public rpc::Channel {
 public:
  OwnChannel(Loop& loop, rpc::Channel& all) : loop_(loop), all_(all) {}
  Task<Result<rpc::Response>> call(rpc::Request request) override {
    if (!cut) co_return co_await all_.call(std::move(request));
    co_await loop_.sleep(request.timeout);
    co_return fail(Errc::kTimedOut, "cut off");
  }
  bool cut = false;

 private:
  Loop& loop_;
  rpc::Channel& all_;
};

// One run of the server whose set it is.
struct Owner {
  std::unique_ptr<Metrics> metrics = std::make_unique<Metrics>();
  std::unique_ptr<service::Managers> managers;
  std::unique_ptr<OwnChannel> channel;
  std::unique_ptr<storage::Disk> local;
  std::unique_ptr<service::BackingSet> set;
  std::unique_ptr<service::BackedDisk> disk;
  std::string lost;
};

class OwnerTest : public service::testing::ServiceFixture {
 protected:
  OwnerTest() : ServiceFixture("manager1", three_nodes()), manager_(tables_, nodes_of(config_)) {
    serve("manager1", manager_);
    for (std::uint32_t node : nodes_of(config_)) {
      hosts_.push_back(std::make_unique<NodeHost>(loop_, network_, endpoint(config_.servers[node].name)));
      hosts_.back()->start();
    }
  }
  void TearDown() override {
    for (auto& owner : owners_) owner->set.reset();
    for (auto& host : hosts_) host->end();
    ServiceFixture::TearDown();
  }
  static std::vector<std::uint32_t> nodes_of(const EnsembleConfig& config) {
    std::vector<std::uint32_t> nodes;
    for (const ServerConfig& each : config.servers) {
      if (each.role == ServerRole::kStorage) nodes.push_back(each.index);
    }
    return nodes;
  }

  // A run of dir1 at a host with this disk; not yet open.
  Owner& make_owner(MemoryDisk& local) {
    auto owner = std::make_unique<Owner>();
    owner->managers = std::make_unique<service::Managers>(config_);
    owner->channel = std::make_unique<OwnChannel>(loop_, network_);
    owner->local = local.session();
    owner->set = std::make_unique<service::BackingSet>(service::BackingSet::Seams{
        .loop = loop_,
        .channel = *owner->channel,
        .metrics = *owner->metrics,
        .managers = *owner->managers,
        .server = 0,
        .name = "dir1",
        .copies = copies_,
        .local = *owner->local,
        .random = context_.random,
        .drained = [this](std::uint32_t node) { return drained_.contains(node); },
        .lost = [made = owner.get()](const std::string& why) { made->lost = why; }});
    owner->disk = std::make_unique<service::BackedDisk>(*owner->set);
    owners_.push_back(std::move(owner));
    return *owners_.back();
  }
  Owner& begin(MemoryDisk& local) {
    Owner& owner = make_owner(local);
    Status opened = run(owner.set->open());
    EXPECT_TRUE(opened) << opened.error().message;
    return owner;
  }
  // kill -9: nobody hears of it any more.
  void kill(Owner& owner) { owner.channel->cut = true; }

  Status write(Owner& owner, const std::string& path, std::string_view text, std::uint64_t at = 0) {
    auto file = run(owner.disk->open(path, storage::Disk::Mode::kCreate));
    if (!file) return fail(file.error());
    SLICE_RETURN_IF_ERROR(run((*file)->write(at, as_bytes(text))));
    return run((*file)->sync());
  }
  std::string read(Owner& owner, const std::string& path) {
    auto file = run(owner.disk->open(path, storage::Disk::Mode::kMustExist));
    if (!file) return "no file";
    Buffer bytes((*file)->size());
    auto got = run((*file)->read(0, bytes.span()));
    if (!got) return got.error().message;
    return std::string(as_text(bytes.view().first(*got)));
  }
  const std::vector<std::uint32_t>& members() const { return manager_.set.members; }
  // Of the last owner.
  std::uint64_t count(std::string_view name) { return owners_.back()->metrics->counter(name).value(); }
  std::uint64_t differing() {
    return owners_.back()->metrics->gauge("backing_differing_pieces", "as its owner has it").value();
  }
  // Of a node's copy, behind its back.
  void change_on(std::size_t i, const std::string& name,
                 const std::function<Task<Status>(storage::File& file)>& change) {
    auto file = run(host(i).session->open(fmt::format("backing/{:08x}/files/{}", manager_.set.server, name),
                                          storage::Disk::Mode::kMustExist));
    ASSERT_TRUE(file);
    ASSERT_TRUE(run(change(**file)));
  }
  void damage(std::size_t i, const std::string& name, std::uint64_t at) {
    change_on(i, name, [at](storage::File& file) { return file.write(at, as_bytes("#")); });
  }
  std::string contents_on(std::size_t i, const std::string& name) {
    std::string contents;
    change_on(i, name, [&contents](storage::File& file) -> Task<Status> {
      contents.resize(file.size());
      auto got = co_await file.read(0, {reinterpret_cast<std::uint8_t*>(contents.data()), contents.size()});
      co_return got ? Status{} : fail(got.error());
    });
    return contents;
  }
  // By the file of the set that this node has.
  std::vector<std::uint32_t> members_on(std::size_t i) {
    auto stored =
        run(storage::read_file(*host(i).session, fmt::format("backing/{:08x}/files/{}", manager_.set.server,
                                                             wire::kBackingMembersFile)));
    wire::BackingMembersFile file;
    if (!stored || !decode(stored->view(), file)) return {};
    EXPECT_EQ(file.set.server, manager_.set.server);
    return file.set.members;
  }
  NodeHost& host(std::size_t i) { return *hosts_[i]; }
  std::uint32_t number(std::size_t i) const { return nodes_of(config_)[i]; }

  SetManager manager_;
  std::vector<std::unique_ptr<NodeHost>> hosts_;
  std::vector<std::unique_ptr<Owner>> owners_;
  std::vector<std::unique_ptr<storage::Log>> logs_;
  std::set<std::uint32_t> drained_;
  std::uint32_t copies_ = 2;
  MemoryDisk here_{loop_}, elsewhere_{loop_};
};

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_TESTING_OWNER_FIXTURE_H
