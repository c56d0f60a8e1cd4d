#include "service/traced_program.h"

#include <memory>
#include <utility>

#include "common/trace.h"
#include "wire/mount3.h"
#include "wire/nfs3.h"

namespace slice::service {
namespace {

// The arguments of READ, WRITE and COMMIT behind the handle.
void describe_range(rpc::XdrReader& in, std::uint32_t procedure, wire::TraceRecord& record) {
  const auto what = static_cast<nfs3::Procedure>(procedure);
  const bool is_write = what == nfs3::Procedure::kWrite;
  if (!is_write && what != nfs3::Procedure::kRead && what != nfs3::Procedure::kCommit) return;
  record.offset = in.u64();
  record.count = in.u32();
  if (is_write) record.stable = in.u32();
}

// MNT and UMNT take a path.
void describe_mount(const rpc::Call& call, wire::TraceRecord& record) {
  const auto what = static_cast<mount3::Procedure>(call.procedure);
  std::string_view path;
  if (what != mount3::Procedure::kMnt && what != mount3::Procedure::kUmnt) return;
  if (mount3::decode_path(call.arguments, path)) record.path = path;
}

}  // namespace

wire::TraceRecord TracedProgram::describe(const rpc::Call& call) const {
  wire::TraceRecord record{.client = call.client,
                           .xid = call.xid,
                           .carried = call.carried.value,
                           .internal = call.internal,
                           .program = program_.number(),
                           .procedure = call.procedure,
                           .received = static_cast<std::uint32_t>(call.arguments.size())};
  if (call.internal || call.forwarded) record.sender = call.sender;
  if (record.program == mount3::kProgram) describe_mount(call, record);
  if (record.program != nfs3::kProgram) return record;
  rpc::XdrReader in(call.arguments);
  ByteView bytes;
  if (!nfs3::decode_handle(in, bytes)) return record;
  if (auto handle = handles_.open(bytes)) record.file = handle->fileid;
  describe_range(in, call.procedure, record);
  return record;
}

Task<rpc::Outcome> TracedProgram::handle_traced(const rpc::Call& call, rpc::XdrWriter& results) {
  const auto shared = std::make_shared<Trace>(loop_, loop_.now());
  Trace& trace = *shared;
  const MonoTime begun = trace.now();
  const std::size_t start = results.size();
  co_await begin_trace(trace);
  const rpc::Outcome outcome = co_await program_.handle(call, results);
  const MonoTime now = trace.now();
  if (!tracer_.wants(now - trace.began())) co_return outcome;
  wire::TraceRecord record = describe(call);
  record.waited = begun - trace.began();
  record.took = now - trace.began();
  record.began = WallTime{loop_.wall().ns - record.took.count()};
  record.answered = outcome == rpc::Outcome::kReply;
  const ByteView answer = results.view().subspan(start);
  if (record.answered && answer.size() >= 4) record.status = load_be<std::uint32_t>(answer.data());
  record.sent = static_cast<std::uint32_t>(answer.size());
  record.steps_left_off = trace.left_off();
  record.steps = trace.take_steps();
  tracer_.finished(std::move(record), now);
  co_return outcome;
}

}  // namespace slice::service
