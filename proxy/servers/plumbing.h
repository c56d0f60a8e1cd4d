// Plumbing: what all connections of a worker share.
#ifndef SLICE_PROXY_SERVERS_PLUMBING_H
#define SLICE_PROXY_SERVERS_PLUMBING_H

#include "proxy/stream/buffers.h"
#include "proxy/stream/flusher.h"
#include "rpc/epoll_loop.h"
#include "rpc/key_ring.h"

namespace slice::proxy {

class LegTable;
class LocalCalls;

// Its members outlive whoever has it.
struct Plumbing {
  rpc::EpollLoop& loop;
  ChunkPool& pool;
  LegTable& legs;
  Flusher& flusher;
  LocalCalls& local;
  const rpc::KeyRing* keys;  // of sessions with servers; null: connections have none
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_SERVERS_PLUMBING_H
