#include "wire/trace.h"

#include <fmt/format.h>

#include <array>

#include "wire/codec.h"
#include "wire/internal.h"
#include "wire/mount3.h"
#include "wire/nfs_status.h"

namespace slice::wire {
namespace {

// Bits of a filter: what it names.
enum FilterField : std::uint32_t { kFilterClient = 1, kFilterOperation = 2, kFilterFile = 4, kFilterAll = 7 };

void encode_span(rpc::XdrWriter& out, Duration time) {
  out.u64(static_cast<std::uint64_t>(time.count()));
}
// No time is negative, or so long that two of them would not add up.
Duration decode_span(rpc::XdrReader& in) {
  const std::uint64_t ns = in.u64();
  constexpr std::uint64_t kMost = std::uint64_t{1} << 61;  // 73 years
  if (ns > kMost) in.fail();
  return Duration(in.ok() ? static_cast<std::int64_t>(ns) : 0);
}

void encode_filter(rpc::XdrWriter& out, const TraceFilter& filter) {
  out.u32((filter.client ? kFilterClient : 0U) | (filter.operation ? kFilterOperation : 0U) |
          (filter.file ? kFilterFile : 0U));
  encode_address(out, filter.client.value_or(IpAddress()));
  const TraceOperation operation = filter.operation.value_or(TraceOperation{});
  out.u32(operation.program);
  out.u32(operation.procedure);
  out.u64(filter.file.value_or(FileId{}).value);
  encode_span(out, filter.slower);
}

TraceFilter decode_filter(rpc::XdrReader& in) {
  TraceFilter filter;
  const std::uint32_t fields = in.u32();
  if (fields > kFilterAll) in.fail();
  const IpAddress client = decode_address(in);
  const TraceOperation operation{.program = in.u32(), .procedure = in.u32()};
  const FileId file{in.u64()};
  if ((fields & kFilterClient) != 0) filter.client = client;
  if ((fields & kFilterOperation) != 0) filter.operation = operation;
  if ((fields & kFilterFile) != 0) filter.file = file;
  filter.slower = decode_span(in);
  return filter;
}

void encode_step(rpc::XdrWriter& out, const TraceStep& step) {
  out.u32(static_cast<std::uint32_t>(step.kind));
  encode_span(out, step.began);
  encode_span(out, step.took);
  out.text(bounded(step.what));
  encode_endpoint(out, {step.address, step.port});
  for (std::uint32_t each : {step.program, step.procedure, step.xid, step.sends}) out.u32(each);
}

TraceStep decode_step(rpc::XdrReader& in) {
  TraceStep step;
  step.kind = decode_enum(in, TraceStep::Kind::kLast);
  step.began = decode_span(in);
  step.took = decode_span(in);
  step.what = std::string(in.text(kMaxText));
  const rpc::Endpoint whom = decode_endpoint(in);
  step.address = whom.address;
  step.port = whom.port;
  step.program = in.u32();
  step.procedure = in.u32();
  step.xid = in.u32();
  step.sends = in.u32();
  return step;
}

void encode_record(rpc::XdrWriter& out, const TraceRecord& record) {
  out.u64(record.number);
  out.u64(static_cast<std::uint64_t>(record.began.ns));
  encode_span(out, record.waited);
  encode_span(out, record.took);
  encode_endpoint(out, record.client);
  for (std::uint32_t each : {record.xid.value, record.sender, record.carried}) out.u32(each);
  out.boolean(record.internal);
  out.u32(record.program);
  out.u32(record.procedure);
  out.u64(record.file.value);
  out.text(bounded(record.path));
  out.u64(record.offset);
  out.u32(record.count);
  out.u32(record.stable);
  out.boolean(record.answered);
  for (std::uint32_t each : {record.status, record.received, record.sent, record.steps_left_off})
    out.u32(each);
  const std::size_t steps = encode_count(out, record.steps, kMaxTraceSteps);
  for (std::size_t i = 0; i < steps; ++i) encode_step(out, record.steps[i]);
}

TraceRecord decode_record(rpc::XdrReader& in) {
  TraceRecord record;
  record.number = in.u64();
  record.began.ns = static_cast<std::int64_t>(in.u64());
  record.waited = decode_span(in);
  record.took = decode_span(in);
  record.client = decode_endpoint(in);
  record.xid = Xid{in.u32()};
  record.sender = in.u32();
  record.carried = in.u32();
  record.internal = in.boolean();
  record.program = in.u32();
  record.procedure = in.u32();
  record.file = FileId{in.u64()};
  record.path = std::string(in.text(kMaxText));
  record.offset = in.u64();
  record.count = in.u32();
  record.stable = in.u32();
  record.answered = in.boolean();
  record.status = in.u32();
  record.received = in.u32();
  record.sent = in.u32();
  record.steps_left_off = in.u32();
  decode_list(in, kMaxTraceSteps, record.steps, decode_step);
  return record;
}

// Of clients the four bytes of IPv4, as all versions have them, are a number.
void encode_key(rpc::XdrWriter& out, const TopKey& key) {
  out.u64(key.client.none() ? key.number : key.client.word());
  if (key.client.is_v4()) return;
  out.u64(key.client.high());
  out.u64(key.client.low());
}

TopKey decode_number(rpc::XdrReader& in) {
  return {.number = in.u64()};
}
TopKey decode_client(rpc::XdrReader& in) {
  if (in.u32() != 0) in.fail();
  return {.client = decode_address(in)};
}

void encode_entries(rpc::XdrWriter& out, const std::vector<TopEntry>& entries) {
  const std::size_t count = encode_count(out, entries, kMaxTopEntries);
  for (std::size_t i = 0; i < count; ++i) {
    const TopEntry& entry = entries[i];
    encode_key(out, entry.key);
    for (std::uint64_t each : {entry.calls, entry.received, entry.sent, entry.others}) out.u64(each);
    encode_span(out, entry.took);
    encode_span(out, entry.slowest);
  }
}

template <TopKey (*decode_key)(rpc::XdrReader&)>
TopEntry decode_top_entry(rpc::XdrReader& in) {
  TopEntry entry;
  entry.key = decode_key(in);
  entry.calls = in.u64();
  entry.received = in.u64();
  entry.sent = in.u64();
  entry.others = in.u64();
  entry.took = decode_span(in);
  entry.slowest = decode_span(in);
  return entry;
}

struct ProgramNames {
  std::uint32_t program;
  std::string_view name;
  std::array<std::string_view, 18> procedures;
};
// As the enumerations of wire/*.h have them.
constexpr std::array kInternalNames{
    ProgramNames{kAuthorityProgram, "authority", {"NULL", "FETCH", "MERGE", "POLICY", "HANDLES"}},
    ProgramNames{kObjectProgram,
                 "object",
                 {"NULL", "READ", "WRITE", "TRUNCATE", "REMOVE", "STAT", "LIST", "COMMIT", "RECALL",
                  "FORWARD", "COPY", "DISCARD", "PLACE", "PLACE_FILE", "IMAGE"}},
    ProgramNames{kCoordinatorProgram,
                 "coordinator",
                 {"NULL", "TRUNCATE", "REMOVE", "SESSION", "LAYOUT", "MISSED", "MAP", "MOVE", "RECEIVE",
                  "EMPTIED", "SPREAD", "SPREADING"}},
    ProgramNames{kManagerProgram,
                 "manager",
                 {"NULL", "HEARTBEAT", "DRAW_VERIFIER", "GET_TABLES", "MEMBERS", "OFFER_TABLES", "CLAIM",
                  "CHANGE_SERVER", "MOVE_SITES", "MOVES", "CHANGE_MOVES", "GET_CONFIGURATION", "GET_STATE",
                  "LEADER", "BACKING_CLAIM", "BACKING_MEMBERS", "BACKING_SPARE", "BACKING_SETS"}},
    ProgramNames{kDirectoryProgram,
                 "directory",
                 {"NULL", "LOCK", "PREPARE", "FINISH", "OUTCOME", "READ", "TOUCH", "REVOKE", "LIST", "OWNER",
                  "CELLS"}},
    ProgramNames{kScanProgram, "scan", {"NULL", "SCAN", "SNAPSHOT"}},
    ProgramNames{kAdminProgram,
                 "admin",
                 {"NULL", "METRICS", "MISDIRECTED", "NEW_TABLES", "NEW_SETTINGS", "GET_SETTINGS", "RELOAD",
                  "TRACE", "TOP", "ABOUT"}},
    ProgramNames{kMovesProgram,
                 "moves",
                 {"NULL", "MOVE", "ABORT", "PREPARE", "OFFER", "TAKE", "WITHDRAW", "LATE_WRITES"}},
    ProgramNames{kBackingProgram,
                 "backing",
                 {"NULL", "ATTACH", "RENEW", "LET_GO", "CHANGE", "READ", "LIST", "DIGEST"}},
};

}  // namespace

void encode(rpc::XdrWriter& out, const TraceArgs& args) {
  out.u64(args.watch);
  out.u64(args.after);
  out.u32(args.lease_ms);
  encode_filter(out, args.filter);
}

bool decode(ByteView bytes, TraceArgs& out) {
  rpc::XdrReader in(bytes);
  out.watch = in.u64();
  out.after = in.u64();
  out.lease_ms = in.u32();
  if (out.lease_ms > kMaxTraceLease) in.fail();
  out.filter = decode_filter(in);
  return in.complete();
}

void encode(rpc::XdrWriter& out, const TraceResult& result) {
  out.text(bounded(result.refused));
  out.text(bounded(result.data));
  out.u64(result.lost);
  const std::size_t count = encode_count(out, result.records, kMaxTraceRecords);
  for (std::size_t i = 0; i < count; ++i) encode_record(out, result.records[i]);
}

bool decode(ByteView bytes, TraceResult& out) {
  rpc::XdrReader in(bytes);
  out.refused = std::string(in.text(kMaxText));
  out.data = std::string(in.text(kMaxText));
  out.lost = in.u64();
  decode_list(in, kMaxTraceRecords, out.records, decode_record);
  return in.complete();
}

void encode(rpc::XdrWriter& out, const TopArgs& args) {
  out.u32(args.lease_ms);
}

bool decode(ByteView bytes, TopArgs& out) {
  rpc::XdrReader in(bytes);
  out.lease_ms = in.u32();
  if (out.lease_ms > kMaxTraceLease) in.fail();
  return in.complete();
}

void encode(rpc::XdrWriter& out, const TopResult& result) {
  encode_span(out, result.counted);
  for (const auto* entries : {&result.clients, &result.files, &result.procedures})
    encode_entries(out, *entries);
}

bool decode(ByteView bytes, TopResult& out) {
  rpc::XdrReader in(bytes);
  out.counted = decode_span(in);
  decode_list(in, kMaxTopEntries, out.clients, decode_top_entry<decode_client>);
  for (auto* entries : {&out.files, &out.procedures})
    decode_list(in, kMaxTopEntries, *entries, decode_top_entry<decode_number>);
  return in.complete();
}

bool of_client(const TraceRecord& record) {
  return !record.internal && (record.program == nfs3::kProgram || record.program == mount3::kProgram);
}

std::string_view outcome_name(const TraceRecord& record) {
  if (!record.answered) return "no answer";
  if (record.program == nfs3::kProgram) return nfs3::status_name(static_cast<nfs3::Status>(record.status));
  const bool is_mnt = record.program == mount3::kProgram &&
                      record.procedure == static_cast<std::uint32_t>(mount3::Procedure::kMnt);
  return is_mnt ? mount3::status_name(static_cast<mount3::Status>(record.status)) : "answered";
}

std::string operation_name(std::uint32_t program, std::uint32_t procedure) {
  if (program == nfs3::kProgram) return std::string(nfs3::procedure_name(procedure));
  if (program == nfs3::kAclProgram) {
    return std::string(nfs3::procedure_name(nfs3::of_acl_program(procedure).value_or(nfs3::kProcedureCount)));
  }
  if (program == mount3::kProgram) return std::string(mount3::procedure_name(procedure));
  for (const ProgramNames& each : kInternalNames) {
    if (each.program != program) continue;
    if (procedure < each.procedures.size() && !each.procedures[procedure].empty())
      return fmt::format("{} {}", each.name, each.procedures[procedure]);
  }
  return fmt::format("program {:#x} procedure {}", program, procedure);
}

}  // namespace slice::wire
