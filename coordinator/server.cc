#include "coordinator/server.h"

#include <utility>

#include "common/log.h"
#include "coordinator/ops/commit.h"
#include "coordinator/ops/remove.h"
#include "coordinator/ops/truncate.h"
#include "coordinator/participants.h"
#include "service/authority_client.h"
#include "service/nfs_program.h"
#include "wire/coordinator.h"

namespace slice::coordinator {
namespace {

using wire::CoordinatorProcedure;

// TRUNCATE and REMOVE, for directory servers alone.
class CoordinatorProgram : public rpc::Program {
 public:
  CoordinatorProgram(service::ServiceContext& context, TruncateOperation& truncate, RemoveOperation& remove)
      : context_(context),
        truncate_(truncate),
        remove_(remove),
        misdirected_(context.metrics.counter("coordinator_misdirected_total")) {}

  std::uint32_t number() const override { return wire::kCoordinatorProgram; }
  std::uint32_t version() const override { return wire::kInternalVersion; }

  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override {
    if (!call.internal) co_return rpc::Outcome::kDenied;
    wire::CoordinatorResult result;
    switch (static_cast<CoordinatorProcedure>(call.procedure)) {
      case CoordinatorProcedure::kTruncate: {
        wire::CoordinatorTruncateArgs args;
        if (!decode(call.arguments, args)) co_return rpc::Outcome::kGarbage;
        auto handle = admit(args.handle, result.status);
        if (handle) result.status = co_await truncate_.run(*handle, args.size, args.epoch);
        break;
      }
      case CoordinatorProcedure::kRemove: {
        wire::CoordinatorRemoveArgs args;
        if (!decode(call.arguments, args)) co_return rpc::Outcome::kGarbage;
        auto handle = admit(args.handle, result.status);
        if (handle) result.status = co_await remove_.run(*handle);
        break;
      }
      default:
        co_return rpc::Outcome::kNoProcedure;
    }
    encode(results, result);
    co_return rpc::Outcome::kReply;
  }

 private:
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
  Counter& misdirected_;
};

}  // namespace

class Coordinator::Programs {
 public:
  Programs(service::ServiceContext& context, std::shared_ptr<Intentions> log)
      : intentions(std::move(log)),
        participants(context),
        authority(context),
        commit(context, *intentions, participants, authority),
        truncate(context, *intentions, participants, authority),
        remove(context, *intentions, participants, authority),
        nfs(context, wire::Role::kCoordinator),
        internal(context, truncate, remove) {
    nfs.on<nfs3::CommitArgs>(nfs3::Procedure::kCommit,
                             [this](service::NfsRequest& request, const nfs3::CommitArgs&,
                                    rpc::XdrWriter& results) { return commit.run(request, results); });
  }

  std::shared_ptr<Intentions> intentions;
  Participants participants;
  service::AuthorityClient authority;
  CommitOperation commit;
  TruncateOperation truncate;
  RemoveOperation remove;
  service::NfsProgram nfs;
  CoordinatorProgram internal;
};

Coordinator::Coordinator(service::ServiceContext& context, Intentions::Options options)
    : context_(context), options_(options) {}
Coordinator::~Coordinator() = default;

Task<Status> Coordinator::start() {
  Intentions::Owed owed;
  auto intentions = co_await Intentions::open(context_, options_, owed);
  if (!intentions) co_return fail(std::move(intentions).error());
  programs_ = std::make_unique<Programs>(context_, std::move(*intentions));
  if (!owed.empty()) log_info("the intention log owes {} operations", owed.size());
  fulfil(owed);
  co_return Status{};
}

void Coordinator::fulfil(const Intentions::Owed& owed) {
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
    }
  }
}

std::vector<rpc::Program*> Coordinator::programs() {
  return {&programs_->nfs, &programs_->internal};
}

Task<void> Coordinator::stop() {
  if (programs_) co_await programs_->intentions->flush();
}

std::string Coordinator::state() const {
  if (!programs_) return "starting";
  return programs_->intentions->healthy() ? "serving" : "failed: intention log";
}

std::string Coordinator::detail() const {
  if (!programs_) return "";
  return fmt::format("{} open intentions", programs_->intentions->open_count());
}

}  // namespace slice::coordinator
