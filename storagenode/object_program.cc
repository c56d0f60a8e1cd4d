#include "storagenode/object_program.h"

#include <algorithm>

#include "common/log.h"
#include "storagenode/stopped_objects.h"

namespace slice::storagenode {
namespace {

constexpr std::uint32_t kMaxListed = 4096;

}  // namespace

ObjectProgram::ObjectProgram(Node& node, const service::SiteMoves& moves)
    : InternalProgram(wire::kObjectProgram,
                      &node.context.metrics.counter("object_calls_total", "calls of the object program")),
      node_(node),
      moves_(moves),
      failures_(node.context.metrics.counter(
          "object_failures_total", "calls of the object program with another status than NFS3_OK")) {
  using Procedure = wire::ObjectProcedure;
  on<wire::ObjectReadArgs>(Procedure::kRead,
                           [this](const auto& args, rpc::XdrWriter& results) { return read(args, results); });
  on<wire::ObjectWriteArgs>(Procedure::kWrite, [this](const auto& args) { return write(args); });
  on<wire::ObjectTruncateArgs>(Procedure::kTruncate, [this](const auto& args) { return truncate(args); });
  on<wire::ObjectRemoveArgs>(Procedure::kRemove, [this](const auto& args) { return remove(args); });
  on<wire::ObjectStatArgs>(Procedure::kStat, [this](const auto& args) { return stat(args); });
  on<wire::ObjectListArgs>(Procedure::kList, [this](const auto& args) { return list(args); });
  on<wire::ObjectCommitArgs>(Procedure::kCommit, [this](const auto& args) { return commit(args); });
  on<wire::RecallArgs>(Procedure::kRecall, [this](const auto& args) { return recall(args); });
  on<wire::ForwardArgs>(Procedure::kForward,
                        [this](const auto& args) { return node_.mirrors.forward(args); });
  on<wire::PlaceArgs>(Procedure::kPlace, [this](const auto& args) { return node_.sites.place(args); });
  on<wire::CopyArgs>(Procedure::kCopy, [this](const auto& args) { return copy(args); });
  on<wire::DiscardArgs>(Procedure::kDiscard, [this](const auto& args) { return discard(args); });
  on<wire::LeavingArgs>(Procedure::kLeaving, [this](const auto& args) { return leaving(args); });
}

nfs3::Status ObjectProgram::failed(const Error& error) {
  failures_.add();
  if (failure_log_.allow()) log_warning("object call failed: {}", error.message);
  return nfs3::status_of(error);
}

Task<rpc::Outcome> ObjectProgram::read(const wire::ObjectReadArgs& args, rpc::XdrWriter& results) {
  Buffer data(std::min(args.count, nfs3::kMaxTransfer));
  auto got = co_await node_.store.read(args.object, args.offset, data.span());
  wire::ObjectReadResult result;
  if (got) {
    result.eof = args.offset >= got->end || args.offset + got->bytes == got->end;
    result.data = data.view().first(got->bytes);
  } else {
    result.status = failed(got.error());
  }
  encode(results, result);
  co_return rpc::Outcome::kReply;
}

Task<wire::ObjectWriteResult> ObjectProgram::write(const wire::ObjectWriteArgs& args) {
  auto written = co_await node_.store.write(args.object, args.offset, args.data,
                                            {.mtime = node_.now(), .sync = args.sync});
  wire::ObjectWriteResult result;
  if (!written) result.status = failed(written.error());
  result.verifier = node_.context.verifier.largest();
  co_return result;
}

Task<wire::ObjectStatusResult> ObjectProgram::truncate(const wire::ObjectTruncateArgs& args) {
  auto status = co_await node_.store.truncate(args.object, args.size, args.epoch);
  if (args.object.kind == ObjectKind::kFile) {
    node_.forget(args.object.fileid);
    // From here on none begins that goes by an epoch before; those that had begun are over when this ends.
    if (status) {
      co_await node_.mirrors.until_written(args.object.fileid, args.epoch);
      node_.authority.note_cut(args.object.fileid, args.size, args.epoch);
    }
  }
  co_return wire::ObjectStatusResult{status ? nfs3::Status::kOk : failed(status.error()),
                                     moves_.also(args.known)};
}

Task<wire::ObjectStatusResult> ObjectProgram::remove(const wire::ObjectRemoveArgs& args) {
  auto status = co_await node_.store.remove(args.object);
  if (args.object.kind == ObjectKind::kFile) node_.forget(args.object.fileid);
  co_return wire::ObjectStatusResult{status ? nfs3::Status::kOk : failed(status.error()),
                                     moves_.also(args.known)};
}

Task<wire::ObjectStatResult> ObjectProgram::stat(const wire::ObjectStatArgs& args) {
  auto stat = co_await node_.store.stat(args.object, ObjectStore::kMostExtents);
  if (!stat) co_return wire::ObjectStatResult{.status = failed(stat.error()), .extents = {}};
  co_return stat_result(std::move(*stat));
}

Task<wire::ObjectListResult> ObjectProgram::list(const wire::ObjectListArgs& args) {
  auto listed = co_await node_.store.list(args.after, std::clamp(args.limit, 1u, kMaxListed));
  wire::ObjectListResult result;
  if (listed) {
    result.objects = std::move(listed->objects);
    result.end = listed->end;
  } else {
    result.status = failed(listed.error());
  }
  co_return result;
}

Task<wire::ObjectCommitResult> ObjectProgram::commit(const wire::ObjectCommitArgs& args) {
  node_.context.verifier.see(args.largest_seen);
  auto committed = co_await node_.store.commit(args.object);
  wire::ObjectCommitResult result;
  if (committed) {
    result.end = committed->end;
    result.mtime = committed->mtime;
    result.epoch = committed->epoch;
    result.also = moves_.also(args.known);
  } else {
    result.status = failed(committed.error());
  }
  result.verifier = node_.context.verifier.largest();
  co_return result;
}

Task<wire::ObjectStatusResult> ObjectProgram::recall(const wire::RecallArgs& args) {
  co_await node_.mirrors.recall(args);
  co_return wire::ObjectStatusResult{};
}

Task<wire::ObjectStatusResult> ObjectProgram::copy(const wire::CopyArgs& args) {
  co_return wire::ObjectStatusResult{co_await node_.mirrors.copy(args)};
}

Task<wire::ObjectStatusResult> ObjectProgram::discard(const wire::DiscardArgs& args) {
  co_return wire::ObjectStatusResult{co_await node_.mirrors.discard(args)};
}

Task<wire::ObjectStatusResult> ObjectProgram::leaving(const wire::LeavingArgs& args) {
  const wire::ServerEntry* node = node_.context.tables.get()->server(args.server);
  const bool other =
      node != nullptr && node->role == wire::Role::kStorage && args.server != node_.context.self.index;
  if (other) node_.mirrors.left(args.server);
  co_return wire::ObjectStatusResult{.status = other ? nfs3::Status::kOk : nfs3::Status::kInval};
}

}  // namespace slice::storagenode
