#include "coordinator/server.h"

#include <utility>

#include "common/log.h"
#include "coordinator/ops/commit.h"
#include "coordinator/ops/move.h"
#include "coordinator/ops/remove.h"
#include "coordinator/ops/truncate.h"
#include "coordinator/participants.h"
#include "coordinator/resync.h"
#include "service/authority_client.h"
#include "service/internal_program.h"
#include "service/nfs_program.h"
#include "storage/rocks_store.h"
#include "wire/coordinator.h"

namespace slice::coordinator {
namespace {

using wire::CoordinatorProcedure;

Result<std::unique_ptr<storage::KvStore>> open_rocks(service::ServiceContext& context) {
  constexpr std::uint64_t kShare = 2;  // of the server's memory for caching, each
  auto store = storage::RocksStore::open(context.loop, context.metrics,
                                         {.folder = context.self.data + "/maps",
                                          .cache_bytes = context.self.cache_bytes / kShare,
                                          .memory_bytes = context.self.cache_bytes / kShare});
  if (!store) return fail(std::move(store).error());
  return std::unique_ptr<storage::KvStore>(std::move(*store));
}

// TRUNCATE and REMOVE, for directory servers; SESSION, LAYOUT and MISSED, for storage nodes; MAP, for whoever
// sends requests on their way; MOVE, for an operator.
class CoordinatorProgram : public service::InternalProgram {
 public:
  CoordinatorProgram(service::ServiceContext& context, TruncateOperation& truncate, RemoveOperation& remove,
                     MoveOperation& move, Sessions& sessions, Layouts& layouts)
      : InternalProgram(wire::kCoordinatorProgram),
        context_(context),
        truncate_(truncate),
        remove_(remove),
        move_(move),
        sessions_(sessions),
        layouts_(layouts),
        misdirected_(context.metrics.counter("coordinator_misdirected_total")) {
    serve_by<wire::CoordinatorTruncateArgs>(CoordinatorProcedure::kTruncate);
    serve_by<wire::CoordinatorRemoveArgs>(CoordinatorProcedure::kRemove);
    serve_by<wire::SessionArgs>(CoordinatorProcedure::kSession);
    serve_by<wire::LayoutArgs>(CoordinatorProcedure::kLayout);
    serve_by<wire::MissedArgs>(CoordinatorProcedure::kMissed);
    serve_by<wire::MapArgs>(CoordinatorProcedure::kMap);
    serve_by<wire::MoveArgs>(CoordinatorProcedure::kMove);
  }

 private:
  template <class Args>
  void serve_by(CoordinatorProcedure procedure) {
    on<Args>(procedure, [this](const Args& args) { return serve(args); });
  }

  Task<wire::CoordinatorResult> serve(const wire::CoordinatorTruncateArgs& args) {
    wire::CoordinatorResult result;
    auto handle = admit(args.handle, result.status);
    if (handle) result.status = co_await truncate_.run(*handle, args.size, args.epoch);
    co_return result;
  }

  Task<wire::CoordinatorResult> serve(const wire::CoordinatorRemoveArgs& args) {
    wire::CoordinatorResult result;
    auto handle = admit(args.handle, result.status);
    if (handle) result.status = co_await remove_.run(*handle);
    co_return result;
  }

  Task<wire::SessionResult> serve(const wire::SessionArgs& args) {
    const wire::ServerEntry* node = context_.tables.get()->server(args.server);
    bool known = node != nullptr && node->role == wire::Role::kStorage;
    if (!known) co_return wire::SessionResult{.status = nfs3::Status::kInval};
    wire::SessionResult result = sessions_.renew(args);
    // A node that has started: what was sent to it before has an older one.
    result.version = args.session == 0 ? layouts_.next_version() : layouts_.version();
    co_return result;
  }

  Task<wire::LayoutResult> serve(const wire::LayoutArgs& args) {
    wire::LayoutResult result;
    auto handle = admit(args.handle, result.status);
    if (!handle) co_return result;
    co_await sessions_.settled();
    co_return co_await layouts_.give(*handle, args.stripe, args.place && routing::block_mapped(*handle));
  }

  Task<wire::MapResult> serve(const wire::MapArgs& args) {
    wire::MapResult result;
    auto handle = admit(args.handle, result.status);
    if (!handle) co_return result;
    auto layout = layouts_.of(*handle, args.stripe);
    if (layout) {
      result.piece = std::move(layout->piece);
    } else {
      result.status = nfs3::status_of(layout.error());
    }
    co_return result;
  }

  Task<wire::CoordinatorResult> serve(const wire::MoveArgs& args) {
    wire::CoordinatorResult result;
    auto handle = admit(args.handle, result.status);
    if (!handle) co_return result;
    co_await sessions_.settled();
    result.status = co_await move_.run(*handle, args.stripe, SiteId{args.site});
    co_return result;
  }

  Task<wire::CoordinatorResult> serve(const wire::MissedArgs& args) {
    wire::CoordinatorResult result;
    auto handle = admit(args.handle, result.status);
    if (!handle) co_return result;
    co_await sessions_.settled();
    result.status = co_await layouts_.missed(*handle, args.server, args.stripes);
    co_return result;
  }

  // The handle, or nothing with the reason in `status`.
  std::optional<routing::FileHandle> admit(ByteView bytes, nfs3::Status& status) {
    auto handle = context_.handles.open(bytes);
    if (!handle) {
      status = nfs3::Status::kBadHandle;
      return std::nullopt;
    }
    if (handle->type != nfs3::FileType::kRegular) {
      status = nfs3::Status::kInval;
      return std::nullopt;
    }
    const routing::RoutingTables& tables = *context_.tables.get();
    if (!tables.owns(context_.self.index, wire::Role::kCoordinator,
                     tables.coordinator_site(handle->fileid))) {
      misdirected_.add();
      status = nfs3::Status::kJukebox;
      return std::nullopt;
    }
    return *handle;
  }

  service::ServiceContext& context_;
  TruncateOperation& truncate_;
  RemoveOperation& remove_;
  MoveOperation& move_;
  Sessions& sessions_;
  Layouts& layouts_;
  Counter& misdirected_;
};

}  // namespace

class Coordinator::Programs {
 public:
  Programs(service::ServiceContext& context, std::shared_ptr<Intentions> log,
           std::unique_ptr<storage::KvStore> store)
      : intentions(std::move(log)),
        maps(context, std::move(store)),
        sessions(context),
        layouts(context, *intentions, sessions, maps),
        participants(context, [this](routing::FileHandle handle, std::uint32_t server,
                                     bool silent) { return without(handle, server, silent); }),
        locks(context.loop),
        authority(context),
        commit(context, *intentions, participants, authority),
        truncate(context, *intentions, participants, locks, authority),
        remove(context, *intentions, participants, layouts, authority),
        move(context, *intentions, sessions, layouts),
        resync(context, layouts, sessions, participants, locks, {}),
        nfs(context, wire::Role::kCoordinator),
        internal(context, truncate, remove, move, sessions, layouts) {
    nfs.on<nfs3::CommitArgs>(nfs3::Procedure::kCommit,
                             [this](service::NfsRequest& request, const nfs3::CommitArgs&,
                                    rpc::XdrWriter& results) { return commit.run(request, results); });
  }

  // A copy whose server is silent, and cannot use it, misses all that is done without it. So does one that
  // misses everything, until it joins: a truncation would make it look as if it had had those before, too.
  Task<bool> without(routing::FileHandle handle, std::uint32_t server, bool silent) {
    bool stale = layouts.misses_everything(handle.fileid, server);
    bool away = !sessions.live(server) && (silent || stale);
    if (!away && !(stale && !layouts.joins(handle.fileid, server))) co_return false;
    co_return co_await layouts.missed(handle, server, {0, wire::kAllStripes}) == nfs3::Status::kOk;
  }

  std::shared_ptr<Intentions> intentions;
  BlockMaps maps;
  Sessions sessions;
  Layouts layouts;
  Participants participants;
  // Of files that are truncated, or whose copy that misses everything is emptied and joins: a copy that takes
  // part in a truncation has had all before it, one that is done without is emptied, later, under the epoch
  // of the last. Between the two there must be none that is half done.
  service::FileLocks locks;
  service::AuthorityClient authority;
  CommitOperation commit;
  TruncateOperation truncate;
  RemoveOperation remove;
  MoveOperation move;
  Resync resync;
  service::NfsProgram nfs;
  CoordinatorProgram internal;
};

Coordinator::Coordinator(service::ServiceContext& context, Intentions::Options options)
    : Coordinator(context, open_rocks, options) {}
Coordinator::Coordinator(service::ServiceContext& context, BlockMaps::OpenStore open_maps,
                         Intentions::Options options)
    : context_(context), open_maps_(std::move(open_maps)), options_(options) {}
Coordinator::~Coordinator() = default;

Task<Status> Coordinator::start() {
  Intentions::Owed owed;
  auto intentions = co_await Intentions::open(context_, options_, owed);
  if (!intentions) co_return fail(std::move(intentions).error());
  auto maps = open_maps_(context_);
  if (!maps) co_return fail(maps.error(), "block maps");
  programs_ = std::make_unique<Programs>(context_, std::move(*intentions), std::move(*maps));
  if (!owed.empty()) log_info("the intention log owes {} operations", owed.size());
  fulfil(owed);
  programs_->resync.start();
  co_return Status{};
}

void Coordinator::fulfil(const Intentions::Owed& owed) {
  // First: the operations go by it.
  for (const auto& [sequence, intention] : owed) {
    if (intention.operation == Operation::kMissing) programs_->layouts.resume(sequence, intention);
  }
  for (const auto& [sequence, intention] : owed) {
    switch (intention.operation) {
      case Operation::kCommit:
        spawn(programs_->commit.resume(sequence, intention));
        break;
      case Operation::kTruncate:
        spawn(programs_->truncate.resume(sequence, intention));
        break;
      case Operation::kRemove:
        programs_->remove.resume(sequence, intention);
        break;
      case Operation::kMove:
        spawn(programs_->move.resume(sequence, intention));
        break;
      case Operation::kMissing:
        break;
    }
  }
}

std::vector<rpc::Program*> Coordinator::programs() {
  return {&programs_->nfs, &programs_->internal};
}

Task<void> Coordinator::stop() {
  if (!programs_) co_return;
  programs_->resync.stop();
  co_await programs_->intentions->flush();
  if (Status status = programs_->maps.record_end(); !status) {
    log_warning("how far the block maps go is not recorded reason={}", status.error().message);
  }
}

std::string Coordinator::state() const {
  if (!programs_) return "starting";
  return programs_->intentions->healthy() ? "serving" : "failed: intention log";
}

std::string Coordinator::detail() const {
  if (!programs_) return "";
  std::string text = fmt::format("{} open intentions", programs_->intentions->open_count());
  if (std::size_t missing = programs_->layouts.missing(); missing > 0) {
    text += fmt::format(", {} copies of mirrored files miss something", missing);
  }
  return text;
}

service::ServerKind server_kind() {
  return {.role = ServerRole::kCoordinator,
          .make = [](service::ServiceContext& context) { return std::make_unique<Coordinator>(context); }};
}

}  // namespace slice::coordinator
