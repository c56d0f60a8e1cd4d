// TRACE and TOP of the admin program (wire/admin.h): what became of operations, and who causes how many, from
// a process that measures it only while somebody asks. Format: docs/formats/trace.md.
#ifndef SLICE_WIRE_TRACE_H
#define SLICE_WIRE_TRACE_H

#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/trace.h"
#include "rpc/endpoint.h"
#include "rpc/xdr.h"

namespace slice::wire {

inline constexpr std::uint32_t kMaxTraceLease = 10'000;   // milliseconds
inline constexpr std::size_t kMaxTraceRecords = 256;      // of an answer
inline constexpr std::size_t kMaxTraceSteps = 32;         // of a record
inline constexpr std::size_t kMaxTopEntries = 256;        // of a list
inline constexpr std::uint32_t kNoSender = 0xffff'ffffu;  // no member of the ensemble

// A kind of operation of clients: a procedure of NFS or of MOUNT.
struct TraceOperation {
  std::uint32_t program = 0, procedure = 0;
  bool operator==(const TraceOperation&) const = default;
};

// Which operations are wanted; what is not named does not matter.
struct TraceFilter {
  std::optional<IpAddress> client;
  std::optional<TraceOperation> operation;
  std::optional<FileId> file;  // that its first handle names
  Duration slower{};           // took that long at least
};

// TRACE: what became of operations since `after`, and a lease to go on keeping it.
struct TraceArgs {
  std::uint64_t watch = 0;     // by which the process knows who asks again
  std::uint64_t after = 0;     // the last record that was received; it and those before are dropped
  std::uint32_t lease_ms = 0;  // at most kMaxTraceLease; 0: ends the watch
  TraceFilter filter;          // counts when the watch begins
};

// One operation that has ended, as the process saw it.
struct TraceRecord {
  std::uint64_t number = 0;  // in the order in which they ended, from 1
  WallTime began;            // by this process's clock
  Duration waited{};         // from when it could be read until it was begun; a part of `took`
  Duration took{};
  rpc::Endpoint client;
  Xid xid;                           // the client's
  std::uint32_t sender = kNoSender;  // the member that sent or passed it on
  std::uint32_t carried = 0;         // the xid of the message from there, or the client's
  bool internal = false;             // the sender's own call, which it did not pass on for a client
  std::uint32_t program = 0, procedure = 0;
  FileId file;            // 0: none, or a handle that is none
  std::string path = {};  // of MNT and UMNT: as the client has it
  std::uint64_t offset = 0;
  std::uint32_t count = 0;               // bytes; of READ, WRITE and COMMIT, as the offset
  std::uint32_t stable = 0;              // of WRITE: 0 UNSTABLE, 1 DATA_SYNC, 2 FILE_SYNC
  bool answered = true;                  // false: dropped, or refused as malformed
  std::uint32_t status = 0;              // of NFS and MNT; what others' results begin with
  std::uint32_t received = 0, sent = 0;  // bytes of arguments and results
  std::vector<TraceStep> steps;
  std::uint32_t steps_left_off = 0;  // shorter ones
};

// Whether it is an operation of a client: of NFS or of MOUNT, and no member's own.
bool of_client(const TraceRecord& record);
// "NFS3ERR_STALE"; "MNT3ERR_ACCES"; "answered" where the results have no status; "no answer".
std::string_view outcome_name(const TraceRecord& record);

struct TraceResult {
  std::string refused;     // why nothing is kept; empty: it is
  std::string data;        // the data directory; empty: none
  std::uint64_t lost = 0;  // records that found no room since the watch began
  std::vector<TraceRecord> records;
};

// TOP: who caused what since the process began to count, and a lease to go on counting.
struct TopArgs {
  std::uint32_t lease_ms = 0;  // at most kMaxTraceLease
};
// Of whom: a client, or, where that is none, what the number is of: a file, or a procedure of NFS.
struct TopKey {
  std::uint64_t number = 0;
  IpAddress client = {};
  auto operator<=>(const TopKey&) const = default;
};
struct TopEntry {
  TopKey key;
  std::uint64_t calls = 0;
  std::uint64_t received = 0, sent = 0;  // bytes of arguments and results
  Duration took{};                       // all of them
  Duration slowest{};
  std::uint64_t others = 0;  // of `calls`, at most so many were of keys that had to make room
};
struct TopResult {
  Duration counted{};  // since when
  std::vector<TopEntry> clients, files, procedures;
};

void encode(rpc::XdrWriter& out, const TraceArgs& args);
bool decode(ByteView bytes, TraceArgs& out);
void encode(rpc::XdrWriter& out, const TraceResult& result);
bool decode(ByteView bytes, TraceResult& out);
void encode(rpc::XdrWriter& out, const TopArgs& args);
bool decode(ByteView bytes, TopArgs& out);
void encode(rpc::XdrWriter& out, const TopResult& result);
bool decode(ByteView bytes, TopResult& out);

// "WRITE", "MNT", "authority MERGE", "program 7 procedure 1".
std::string operation_name(std::uint32_t program, std::uint32_t procedure);

}  // namespace slice::wire

#endif  // SLICE_WIRE_TRACE_H
