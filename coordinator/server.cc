#include "coordinator/server.h"

#include <algorithm>
#include <utility>

#include "common/log.h"
#include "coordinator/evacuation.h"
#include "coordinator/ops/commit.h"
#include "coordinator/program.h"
#include "coordinator/resync.h"
#include "coordinator/spreading.h"
#include "service/nfs_program.h"
#include "service/site_moves.h"

namespace slice::coordinator {
class Coordinator::Programs {
 public:
  Programs(service::ServiceContext& context, std::shared_ptr<Intentions> log,
           std::unique_ptr<BlockMaps> pieces, std::uint64_t first_version)
      : context(context),
        intentions(std::move(log)),
        maps(std::move(pieces)),
        gate(context),
        sessions(context),
        extents(context, gate),
        layouts(context, *intentions, sessions, *maps, extents, first_version),
        participants(
            context, gate,
            [this](routing::FileHandle handle, std::uint32_t server, bool silent) {
              return without(handle, server, silent);
            },
            [this](const routing::FileHandle& handle, std::uint32_t server) {
              return committed(handle, server);
            }),
        locks(context.loop),
        authority(context),
        commit(context, gate, *intentions, participants, authority),
        truncate(context, gate, *intentions, participants, locks, authority),
        remove(context, gate, *intentions, participants, layouts, authority),
        move(context, gate, *intentions, sessions, layouts),
        resync(context, gate, layouts, sessions, extents, locks, {}),
        evacuation(context, {gate, *maps, sessions, layouts, move}, {}),
        spreading(context, {gate, *maps, sessions, layouts, move}, Evacuation::Options{}.bytes_per_second),
        sites(context, {gate, *intentions, *maps, sessions, layouts},
              {.go_on = [this] { go_on(); },
               .leave = [this](const Layouts::Which& which) { remove.leave(which); }}),
        nfs(context, wire::Role::kCoordinator, &gate.sites()),
        internal(context, {gate, truncate, remove, move, sessions, layouts, evacuation, spreading, sites}),
        moves(context, wire::Role::kCoordinator, gate.sites(), sites) {
    layouts.on_decision([this] { evacuation.look(); });
    nfs.on<nfs3::CommitArgs>(nfs3::Procedure::kCommit,
                             [this](service::NfsRequest& request, const nfs3::CommitArgs&,
                                    rpc::XdrWriter& results) { return commit.run(request, results); });
  }

  // Takes up every intention of a file that is here which nobody goes on with: since a crash, or since its
  // site has come here, or was held.
  void go_on() {
    auto owed = intentions->take_up([this](const Intention& intention) {
      if (intention.operation == Operation::kMissing) return false;  // that is Resync's
      auto handle = context.handles.open(intention.handle);
      return !handle || gate.open(handle->fileid);
    });
    for (const auto& [sequence, intention] : owed) fulfil(sequence, intention);
    remove.go_on();
  }

  void fulfil(storage::LogSequence sequence, const Intention& intention) {
    switch (intention.operation) {
      case Operation::kCommit:
        return spawn(commit.resume(sequence, intention));
      case Operation::kTruncate:
        return spawn(truncate.resume(sequence, intention));
      case Operation::kRemove:
        return remove.resume(sequence, intention);
      case Operation::kMove:
        return spawn(move.resume(sequence, intention));
      case Operation::kMissing:
        return;
    }
  }

  // A copy whose server is silent, and cannot use it, misses all that is done without it. So does one that
  // misses everything, until it joins: a truncation would make it look as if it had had those before, too.
  Task<bool> without(routing::FileHandle handle, std::uint32_t server, bool silent) {
    if (layouts.lost(server)) co_return true;
    bool stale = layouts.misses_everything(handle.fileid, server);
    bool away = !sessions.live(server) && (silent || stale);
    if (!away && !(stale && !layouts.joins(handle.fileid, server))) co_return false;
    co_return co_await layouts.missed(handle, server, {0, wire::kAllStripes}) == nfs3::Status::kOk;
  }

  // One that was stopped cleanly has all it acknowledged. How far the file goes others say: those of its
  // stripes, which are whole.
  bool committed(const routing::FileHandle& handle, std::uint32_t server) const {
    if (!sessions.left_durable(server)) return false;
    const auto servers = routing::storage_servers(*context.tables.get(), handle);
    return std::all_of(servers.begin(), servers.end(), [&](std::uint32_t other) {
      return other == server || (sessions.live(other) && !layouts.misses(handle.fileid, other));
    });
  }

  service::ServiceContext& context;
  std::shared_ptr<Intentions> intentions;
  std::unique_ptr<BlockMaps> maps;
  FileGate gate;
  Sessions sessions;
  Extents extents;
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
  Evacuation evacuation;
  Spreading spreading;
  Sites sites;
  service::NfsProgram nfs;
  CoordinatorProgram internal;
  service::SiteMoves moves;
};

Coordinator::Coordinator(service::ServiceContext& context, Intentions::Options options)
    : Coordinator(context, nullptr, options) {}
Coordinator::Coordinator(service::ServiceContext& context, service::OpenStore open_maps,
                         Intentions::Options options)
    : context_(context), open_maps_(std::move(open_maps)), options_(options) {}
Coordinator::~Coordinator() = default;

Task<Status> Coordinator::start() {
  Intentions::Owed owed;
  auto intentions = co_await Intentions::open(context_, options_, owed);
  if (!intentions) co_return fail(std::move(intentions).error());
  const std::uint64_t share = context_.self.cache_bytes / 2;
  auto store = open_maps_ ? open_maps_(context_)
                          : co_await service::open_store(context_, "maps",
                                                         {.cache_bytes = share, .memory_bytes = share});
  if (!store) co_return fail(store.error(), "block maps");
  auto maps = std::make_unique<BlockMaps>(context_, std::move(*store));
  auto former = maps->former_version();
  if (!former) co_return fail(former.error(), "block maps");
  const std::uint64_t first = std::max(static_cast<std::uint64_t>(context_.loop.wall().ns), *former + 1);
  if (Status begun = co_await maps->begin_versions(first); !begun) {
    // On a full disk files can be removed nevertheless.
    if (begun.error().code != Errc::kNoSpace) co_return fail(begun.error(), "block maps");
    log_warning("the versions of layouts go by the clock alone: {}", begun.error().message);
  }
  programs_ = std::make_unique<Programs>(context_, std::move(*intentions), std::move(maps), first);
  if (!owed.empty()) log_info("the intention log owes {} operations", owed.size());
  for (const auto& [sequence, intention] : owed) {
    // What copies miss first: the operations go by it. Of files that are on their way here, too.
    if (intention.operation == Operation::kMissing) {
      programs_->layouts.resume(sequence, intention);
    } else {
      programs_->intentions->leave(sequence);
    }
  }
  programs_->go_on();
  programs_->resync.start();
  programs_->evacuation.start();
  SLICE_CO_RETURN_IF_ERROR(co_await programs_->spreading.start());
  programs_->sites.start();
  programs_->moves.start();
  co_return Status{};
}

std::vector<rpc::Program*> Coordinator::programs() {
  return {&programs_->nfs, &programs_->internal, &programs_->moves};
}

Task<void> Coordinator::stop() {
  if (!programs_) co_return;
  programs_->resync.stop();
  programs_->evacuation.stop();
  programs_->spreading.stop();
  programs_->sites.stop();
  co_await programs_->moves.stop();
  co_await programs_->intentions->flush();
  if (Status status = programs_->maps->record_end(); !status) {
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
  if (programs_->evacuation.goes_on()) text += ", moves stripes off drained storage servers";
  if (programs_->spreading.goes_on()) text += ", " + programs_->spreading.detail();
  return text;
}

service::ServerKind server_kind() {
  return {.role = ServerRole::kCoordinator,
          .make = [](service::ServiceContext& context) { return std::make_unique<Coordinator>(context); }};
}

}  // namespace slice::coordinator
