// ServiceContext: what the protocol logic of every server is given. The real one is made by
// service/process.h, a simulated one by tests. Everything outlives the server's objects.
#ifndef SLICE_SERVICE_CONTEXT_H
#define SLICE_SERVICE_CONTEXT_H

#include <functional>

#include "common/config.h"
#include "common/loop.h"
#include "common/metrics.h"
#include "common/settings.h"
#include "common/task.h"
#include "routing/file_handle.h"
#include "routing/tables.h"
#include "rpc/channel.h"
#include "rpc/in_process.h"
#include "service/crash_points.h"
#include "service/verifier.h"
#include "storage/disk.h"

namespace slice::service {

class Ownership;
class Tracer;

struct ServiceContext {
  Loop& loop;
  rpc::Channel& channel;
  Metrics& metrics;
  storage::Disk& disk;  // the data directory
  const EnsembleConfig& config;
  const ServerConfig& self;
  const routing::HandleCodec& handles;
  routing::TableHolder& tables;
  LiveSettings& settings;  // in force; the manager's role sets them
  VerifierClock& verifier;
  std::function<std::uint64_t()> random;  // 64 random bits
  const CrashPoints& crash;               // where the process may be made to die
  // Takes the manager's tables now, not at the next heartbeat; ends when they are in use, or within a second
  // without them. None: a process that has no manager.
  std::function<Task<void>()> refresh_tables = nullptr;
  // The record of its sites; none: it has no sites, or they stay where they are.
  Ownership* ownership = nullptr;
  // This server and the others that share its process and loop; none: it is alone there.
  rpc::InProcessNetwork* local = nullptr;
  // Of sessions, for who has connections of its own. None: nobody to have sessions with.
  const rpc::KeyRing* keys = nullptr;
  // Takes what became of operations, where somebody watches. None: nobody can.
  Tracer* tracer = nullptr;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_CONTEXT_H
