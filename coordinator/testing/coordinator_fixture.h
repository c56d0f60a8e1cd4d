// CoordinatorFixture: coordinators that can be killed and started again on one simulated disk, between
// participants and an authority that remember what they were asked.
#ifndef SLICE_COORDINATOR_TESTING_COORDINATOR_FIXTURE_H
#define SLICE_COORDINATOR_TESTING_COORDINATOR_FIXTURE_H

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "coordinator/server.h"
#include "rpc/call.h"
#include "service/internal_call.h"
#include "service/testing/fake_authority.h"
#include "service/testing/service_fixture.h"
#include "storage/memory_store.h"
#include "wire/authority.h"
#include "wire/coordinator.h"
#include "wire/object.h"

namespace slice::coordinator::testing {

// The object program of a data server.
class FakeObjects : public rpc::Program {
 public:
  explicit FakeObjects(Loop& loop) : loop_(loop) {}
  std::uint32_t number() const override { return wire::kObjectProgram; }
  std::uint32_t version() const override { return wire::kInternalVersion; }

  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override {
    if (!call.internal) co_return rpc::Outcome::kDenied;
    if (before) before();
    ++under_way;
    most_under_way = std::max(most_under_way, under_way);
    if (delay > Duration(0)) co_await loop_.sleep(delay);
    --under_way;
    switch (static_cast<wire::ObjectProcedure>(call.procedure)) {
      case wire::ObjectProcedure::kCommit: {
        wire::ObjectCommitArgs args;
        if (!decode(call.arguments, args)) co_return rpc::Outcome::kGarbage;
        ++commits;
        verifier = std::max(verifier, args.largest_seen);
        encode(results, wire::ObjectCommitResult{status, verifier, end, mtime, epoch, also});
        break;
      }
      case wire::ObjectProcedure::kTruncate: {
        wire::ObjectTruncateArgs args;
        if (!decode(call.arguments, args)) co_return rpc::Outcome::kGarbage;
        if (status == nfs3::Status::kOk) truncated[args.object.fileid] = {args.size, args.epoch};
        ++truncates;
        encode(results, wire::ObjectStatusResult{status, also});
        break;
      }
      case wire::ObjectProcedure::kRemove: {
        wire::ObjectRemoveArgs args;
        if (!decode(call.arguments, args)) co_return rpc::Outcome::kGarbage;
        if (status == nfs3::Status::kOk) removed.insert(args.object.fileid);
        ++removes;
        encode(results, wire::ObjectStatusResult{status, also});
        break;
      }
      case wire::ObjectProcedure::kList: {
        wire::ObjectListResult result{.status = status};
        for (FileId file : has) result.objects.push_back({VolumeId{1}, file, wire::ObjectKind::kFile});
        encode(results, result);
        break;
      }
      case wire::ObjectProcedure::kStat:
        encode(results, wire::ObjectStatResult{.status = status, .end = end, .extents = {}});
        break;
      case wire::ObjectProcedure::kRecall:
        encode(results, wire::ObjectStatusResult{});
        break;
      case wire::ObjectProcedure::kCopy:
        ++copies;
        encode(results, wire::ObjectStatusResult{copy_status});
        break;
      case wire::ObjectProcedure::kDiscard: {
        wire::DiscardArgs args;
        if (!decode(call.arguments, args)) co_return rpc::Outcome::kGarbage;
        ++discards;
        if (status == nfs3::Status::kOk) discarded.insert(args.stripe);
        encode(results, wire::ObjectStatusResult{status});
        break;
      }
      default:
        co_return rpc::Outcome::kNoProcedure;
    }
    co_return rpc::Outcome::kReply;
  }

  // What it answers.
  nfs3::Status status = nfs3::Status::kOk, copy_status = nfs3::Status::kOk;
  Verifier verifier{1};
  std::uint64_t end = 0;
  std::vector<FileId> has;  // objects, with that end
  nfs3::Time mtime;
  Epoch epoch;
  wire::Also also;
  Duration delay{0};
  std::function<void()> before;
  // What it was asked.
  int commits = 0, truncates = 0, removes = 0, copies = 0, discards = 0;
  std::set<std::uint64_t> discarded;  // stripes
  std::size_t under_way = 0, most_under_way = 0;
  std::map<FileId, std::pair<std::uint64_t, Epoch>> truncated;
  std::set<FileId> removed;

 private:
  Loop& loop_;
};

// Carries calls until its process dies; then none ever returns.
class MortalChannel : public rpc::Channel {
 public:
  explicit MortalChannel(rpc::Channel& real) : real_(real) {}
  Task<Result<rpc::Response>> call(rpc::Request request) override {
    co_await StopsHere{dead};
    auto response = co_await real_.call(std::move(request));
    co_await StopsHere{dead};
    co_return response;
  }
  bool dead = false;

 private:
  rpc::Channel& real_;
};

class CoordinatorFixture : public service::testing::ServiceFixture {
 protected:
  struct Process {
    Process(service::ServiceContext& base, storage::MemoryMedium& medium, Intentions::Options options)
        : channel(base.channel),
          verifier(Verifier{0}),
          context{.loop = base.loop,
                  .channel = channel,
                  .metrics = metrics,
                  .disk = base.disk,
                  .config = base.config,
                  .self = base.self,
                  .handles = base.handles,
                  .tables = base.tables,
                  .settings = base.settings,
                  .verifier = verifier,
                  .random = base.random,
                  .crash = points},
          role(
              context,
              [this, &medium](service::ServiceContext& on) {
                auto made = std::make_unique<storage::MemoryStore>(on.loop, medium);
                store = made.get();
                return Result<std::unique_ptr<storage::KvStore>>(std::move(made));
              },
              options),
          dispatcher(metrics) {}
    std::uint64_t metric(std::string_view name) { return metrics.counter(name).value(); }

    Metrics metrics;
    MortalChannel channel;
    service::VerifierClock verifier;
    CrashPoints points;
    storage::MemoryStore* store = nullptr;  // the role's
    service::ServiceContext context;
    Coordinator role;
    rpc::Dispatcher dispatcher;
  };

  explicit CoordinatorFixture(EnsembleConfig config = service::testing::sample_config())
      : ServiceFixture("coord1", std::move(config)),
        small_(loop_),
        store1_(loop_),
        store2_(loop_),
        authority_(loop_, handles_) {
    authority_.add(FileId{77});
    the_file().striped = true;
    the_file().attributes.gid = 100;
    the_file().attributes.mode = 0600;
    serve("dir1", authority_);
    serve("small1", small_);
    serve("store1", store1_);
    serve("store2", store2_);
    boot();
  }
  // Every coroutine of every coordinator ends up where it can be told apart from a leak.
  ~CoordinatorFixture() override {
    for (auto& process : processes_) process->channel.dead = true;
    loop_.advance(std::chrono::seconds(10));
    network_.attach(endpoint("coord1"), nullptr);
    loop_.advance(std::chrono::seconds(10));
  }

  void boot() {
    processes_.push_back(std::make_unique<Process>(context_, medium_, options_));
    Process& process = *processes_.back();
    auto started = run(process.role.start());
    ASSERT_TRUE(started) << started.error().message;
    for (rpc::Program* program : process.role.programs()) process.dispatcher.add(*program);
    network_.attach(endpoint("coord1"), &process.dispatcher);
  }
  Process& process() { return *processes_.back(); }

  void kill(storage::MemoryDisk::Crash how = storage::MemoryDisk::Crash::kDropUnsynced) {
    process().channel.dead = true;
    process().points.set([](std::string_view) { return true; });
    network_.attach(endpoint("coord1"), nullptr);
    process().store->crash();
    disk_.crash(how);
  }
  // Kills the process the n-th time it comes to `point`.
  void kill_at(std::string point, int n = 1) {
    process().points.set(
        [this, point = std::move(point), left = n, &of = process()](std::string_view name) mutable {
          if (of.channel.dead) return true;
          if (name != point || --left > 0) return false;
          ++kills_;
          of.channel.dead = true;
          network_.attach(endpoint("coord1"), nullptr);
          of.store->crash();
          disk_.crash(storage::MemoryDisk::Crash::kDropUnsynced);
          return true;
        });
  }

  // What the authority knows of the one file that it knows.
  service::testing::FakeAuthority::File& the_file() { return authority_.file(FileId{77}); }
  routing::FileHandle file(std::uint64_t id = 77) const {
    return {.type = nfs3::FileType::kRegular, .fileid = FileId{id}, .generation = 1, .cell_key = 5};
  }

  std::uint32_t index(const std::string& name) const { return config_.find(name)->index; }
  // What the coordinator program answers.
  template <class R, class Args>
  R ask(wire::CoordinatorProcedure procedure, Args args) {
    auto result = run(service::internal_call<R>(network_, endpoint("coord1"), wire::kCoordinatorProgram,
                                                procedure, args, std::chrono::seconds(20)));
    EXPECT_TRUE(result);
    R none{};
    if constexpr (requires { none.status; }) none.status = nfs3::Status::kServerFault;
    return result ? *result : none;
  }

  // COMMIT as a client in 10.77.1.2 sends it; the status and the verifier.
  struct Committed {
    nfs3::Status status = nfs3::Status::kServerFault;
    nfs3::CommitOk ok;
  };
  void commit(routing::FileHandle handle, std::function<void(Committed)> done, std::uint32_t uid = 1000,
              IpAddress address = 0x0a4d0102) {
    rpc::XdrWriter arguments;
    routing::HandleBytes bytes = handles_.mint(handle);
    if (handle.hint.can_patch) bytes[32] |= 0x80;
    nfs3::encode_arguments(arguments, nfs3::CommitArgs{.file = bytes});
    rpc::Request request{.program = nfs3::kProgram,
                         .version = nfs3::kVersion,
                         .procedure = static_cast<std::uint32_t>(nfs3::Procedure::kCommit),
                         .arguments = arguments.take(),
                         .credential = rpc::AuthSys{.machine_name = "client", .uid = uid, .gid = 100}};
    Buffer record = rpc::encode_request(request, Xid{++xid_}, {}, 0);
    spawn(commit_to_end(process().dispatcher, std::move(record), {address, 700}, std::move(done)));
  }
  Committed commit_now(routing::FileHandle handle, std::uint32_t uid = 1000, IpAddress address = 0x0a4d0102) {
    std::optional<Committed> out;
    commit(handle, [&](Committed c) { out = c; }, uid, address);
    EXPECT_TRUE(loop_.run_until([&] { return out.has_value(); })) << "COMMIT never answered";
    return out.value_or(Committed{});
  }

  // TRUNCATE and REMOVE as a directory server sends them: one try of at most `timeout`.
  Task<Result<wire::CoordinatorResult>> truncate_call(routing::FileHandle handle, std::uint64_t size,
                                                      Epoch epoch,
                                                      Duration timeout = std::chrono::seconds(5)) {
    routing::HandleBytes bytes = handles_.mint(handle);
    return service::internal_call<wire::CoordinatorResult>(
        network_, endpoint("coord1"), wire::kCoordinatorProgram, wire::CoordinatorProcedure::kTruncate,
        wire::CoordinatorTruncateArgs{bytes, size, epoch}, timeout);
  }
  Task<Result<wire::CoordinatorResult>> remove_call(routing::FileHandle handle,
                                                    Duration timeout = std::chrono::seconds(5)) {
    routing::HandleBytes bytes = handles_.mint(handle);
    return service::internal_call<wire::CoordinatorResult>(
        network_, endpoint("coord1"), wire::kCoordinatorProgram, wire::CoordinatorProcedure::kRemove,
        wire::CoordinatorRemoveArgs{bytes}, timeout);
  }

  std::vector<FakeObjects*> participants() { return {&small_, &store1_, &store2_}; }

  Intentions::Options options_;
  storage::MemoryMedium medium_;
  FakeObjects small_, store1_, store2_;
  service::testing::FakeAuthority authority_;
  int kills_ = 0;

 private:
  static Task<void> commit_to_end(rpc::Dispatcher& dispatcher, Buffer record, rpc::Endpoint from,
                                  std::function<void(Committed)> done) {
    auto reply = co_await dispatcher.dispatch(std::move(record), from, 0);
    Committed out;
    if (reply) {
      auto header = rpc::decode_reply(reply->view());
      rpc::XdrReader in(header ? header->results : ByteView{});
      if (!nfs3::decode_result(in, out.status, out.ok)) out.status = nfs3::Status::kServerFault;
    }
    done(out);
  }

  std::vector<std::unique_ptr<Process>> processes_;  // the dead ones too
  std::uint32_t xid_ = 0;
};

}  // namespace slice::coordinator::testing

#endif  // SLICE_COORDINATOR_TESTING_COORDINATOR_FIXTURE_H
