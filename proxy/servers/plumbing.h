// Plumbing: what all connections of a worker share.
#ifndef SLICE_PROXY_SERVERS_PLUMBING_H
#define SLICE_PROXY_SERVERS_PLUMBING_H

#include "proxy/stream/buffers.h"
#include "proxy/stream/flusher.h"
#include "proxy/stream/stream.h"

namespace slice::proxy {

class LegTable;
class LocalCalls;

// Its members outlive whoever has it.
struct Plumbing {
  Loop& loop;
  ChunkPool& pool;
  LegTable& legs;
  Flusher& flusher;
  LocalCalls& local;
  Connector& connector;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_SERVERS_PLUMBING_H
