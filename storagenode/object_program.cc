#include "storagenode/object_program.h"

#include <algorithm>

#include "common/log.h"

namespace slice::storagenode {
namespace {

constexpr std::size_t kMaxExtents = 1024;
constexpr std::uint32_t kMaxListed = 4096;

}  // namespace

ObjectProgram::ObjectProgram(Node& node)
    : node_(node),
      calls_(node.context.metrics.counter("object_calls_total")),
      failures_(node.context.metrics.counter("object_failures_total")) {}

template <class Args>
Task<rpc::Outcome> ObjectProgram::decode_and_run(const rpc::Call& call, rpc::XdrWriter& results) {
  Args args{};
  if (!decode(call.arguments, args)) co_return rpc::Outcome::kGarbage;
  co_await run(args, results);
  co_return rpc::Outcome::kReply;
}

Task<rpc::Outcome> ObjectProgram::handle(const rpc::Call& call, rpc::XdrWriter& results) {
  using Procedure = wire::ObjectProcedure;
  if (!call.internal) co_return rpc::Outcome::kDenied;
  calls_.add();
  switch (static_cast<Procedure>(call.procedure)) {
    case Procedure::kNull:
      co_return rpc::Outcome::kReply;
    case Procedure::kRead:
      co_return co_await decode_and_run<wire::ObjectReadArgs>(call, results);
    case Procedure::kWrite:
      co_return co_await decode_and_run<wire::ObjectWriteArgs>(call, results);
    case Procedure::kTruncate:
      co_return co_await decode_and_run<wire::ObjectTruncateArgs>(call, results);
    case Procedure::kRemove:
      co_return co_await decode_and_run<wire::ObjectRemoveArgs>(call, results);
    case Procedure::kStat:
      co_return co_await decode_and_run<wire::ObjectStatArgs>(call, results);
    case Procedure::kList:
      co_return co_await decode_and_run<wire::ObjectListArgs>(call, results);
    case Procedure::kCommit:
      co_return co_await decode_and_run<wire::ObjectCommitArgs>(call, results);
    case Procedure::kRecall:
      co_return co_await decode_and_run<wire::RecallArgs>(call, results);
    case Procedure::kForward:
      co_return co_await decode_and_run<wire::ForwardArgs>(call, results);
    case Procedure::kCopy:
      co_return co_await decode_and_run<wire::CopyArgs>(call, results);
    case Procedure::kDiscard:
      co_return co_await decode_and_run<wire::DiscardArgs>(call, results);
  }
  co_return rpc::Outcome::kNoProcedure;
}

nfs3::Status ObjectProgram::failed(const Error& error) {
  failures_.add();
  if (failure_log_.allow()) log_warning("object call failed: {}", error.message);
  return nfs3::status_of(error);
}

Task<void> ObjectProgram::run(wire::ObjectReadArgs args, rpc::XdrWriter& results) {
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
}

Task<void> ObjectProgram::run(wire::ObjectWriteArgs args, rpc::XdrWriter& results) {
  auto written = co_await node_.store.write(args.object, args.offset, args.data,
                                            {.mtime = node_.now(), .sync = args.sync});
  wire::ObjectWriteResult result;
  if (!written) result.status = failed(written.error());
  result.verifier = node_.context.verifier.largest();
  encode(results, result);
}

Task<void> ObjectProgram::run(wire::ObjectTruncateArgs args, rpc::XdrWriter& results) {
  auto status = co_await node_.store.truncate(args.object, args.size, args.epoch);
  if (args.object.kind == ObjectKind::kFile) node_.forget(args.object.fileid);
  encode(results, wire::ObjectStatusResult{status ? nfs3::Status::kOk : failed(status.error())});
}

Task<void> ObjectProgram::run(wire::ObjectRemoveArgs args, rpc::XdrWriter& results) {
  auto status = co_await node_.store.remove(args.object);
  if (args.object.kind == ObjectKind::kFile) node_.forget(args.object.fileid);
  encode(results, wire::ObjectStatusResult{status ? nfs3::Status::kOk : failed(status.error())});
}

Task<void> ObjectProgram::run(wire::ObjectStatArgs args, rpc::XdrWriter& results) {
  auto stat = co_await node_.store.stat(args.object, kMaxExtents);
  wire::ObjectStatResult result;
  if (!stat) {
    result.status = failed(stat.error());
  } else {
    // An object that only remembers an epoch holds no byte.
    bool empty = !stat->exists || (stat->end == 0 && stat->extents.empty());
    result = {.status = empty ? nfs3::Status::kNoEnt : nfs3::Status::kOk,
              .end = stat->end,
              .allocated = stat->allocated,
              .epoch = stat->epoch,
              .extents = std::move(stat->extents)};
  }
  encode(results, result);
}

Task<void> ObjectProgram::run(wire::ObjectListArgs args, rpc::XdrWriter& results) {
  auto listed = co_await node_.store.list(args.after, std::clamp(args.limit, 1u, kMaxListed));
  wire::ObjectListResult result;
  if (listed) {
    result.objects = std::move(listed->objects);
    result.end = listed->end;
  } else {
    result.status = failed(listed.error());
  }
  encode(results, result);
}

Task<void> ObjectProgram::run(wire::ObjectCommitArgs args, rpc::XdrWriter& results) {
  node_.context.verifier.see(args.largest_seen);
  auto committed = co_await node_.store.commit(args.object);
  wire::ObjectCommitResult result;
  if (committed) {
    result.end = committed->end;
    result.mtime = committed->mtime;
    result.epoch = committed->epoch;
  } else {
    result.status = failed(committed.error());
  }
  result.verifier = node_.context.verifier.largest();
  encode(results, result);
}

Task<void> ObjectProgram::run(wire::RecallArgs args, rpc::XdrWriter& results) {
  co_await node_.mirrors.recall(args);
  encode(results, wire::ObjectStatusResult{});
}

Task<void> ObjectProgram::run(wire::ForwardArgs args, rpc::XdrWriter& results) {
  encode(results, co_await node_.mirrors.forward(args));
}

Task<void> ObjectProgram::run(wire::CopyArgs args, rpc::XdrWriter& results) {
  encode(results, wire::ObjectStatusResult{co_await node_.mirrors.copy(args)});
}

Task<void> ObjectProgram::run(wire::DiscardArgs args, rpc::XdrWriter& results) {
  encode(results, wire::ObjectStatusResult{co_await node_.mirrors.discard(args)});
}

}  // namespace slice::storagenode
