// The admin program, served by every process: what slicectl asks of one, what servers tell proxies, and the
// manager everybody.
#ifndef SLICE_WIRE_ADMIN_H
#define SLICE_WIRE_ADMIN_H

#include <string>
#include <vector>

#include "wire/internal.h"
#include "wire/manager.h"

namespace slice::wire {

enum class AdminProcedure : std::uint32_t {
  kNull = 0,
  kMetrics = 1,
  kMisdirected = 2,
  kNewTables = 3,
  kNewSettings = 4,  // this and those below: wire/settings.h
  kGetSettings = 5,
  kReload = 6,
  kTrace = 7,  // this and the next: wire/trace.h
  kTop = 8,
  kAbout = 9  // wire/about.h
};

// METRICS. No arguments.
struct MetricsResult {
  std::string process;
  std::string text;  // Metrics::text(), as HTTP gives it; at most kMaxMetricsText
};
inline constexpr std::uint32_t kMaxMetricsText = 3 << 20;  // bytes; a reply has 4 MiB
void encode(rpc::XdrWriter& out, const MetricsResult& result);
bool decode(ByteView bytes, MetricsResult& out);

// MISDIRECTED: a request for a site came to a server that does not own it. From that server to the proxies,
// which look whether their tables are at fault. No results.
struct MisdirectedArgs {
  Role site_class = Role::kDirectory;  // of the first four
  SiteId site;
  Generation generation;  // of the server's tables
};
void encode(rpc::XdrWriter& out, const MisdirectedArgs& args);
bool decode(ByteView bytes, MisdirectedArgs& out);

// NEW_TABLES: the manager has published tables of this generation, which the process takes from it before it
// answers. No results; where it gets lost, the next heartbeat's answer tells.
struct NewTablesArgs {
  Generation generation;
};
void encode(rpc::XdrWriter& out, const NewTablesArgs& args);
bool decode(ByteView bytes, NewTablesArgs& out);

}  // namespace slice::wire

#endif  // SLICE_WIRE_ADMIN_H
