// SharedState: what the workers of one proxy share beside its tables: the attribute cache and who tells
// directory servers of it, block maps and who fetches them, the clock of the tables.
#ifndef SLICE_PROXY_SHARED_STATE_H
#define SLICE_PROXY_SHARED_STATE_H

#include "common/metrics.h"
#include "proxy/tables/attribute_cache.h"
#include "proxy/tables/map_cache.h"
#include "proxy/tables/tables.h"
#include "proxy/tables/write_back.h"
#include "rpc/channel.h"

namespace slice::proxy {

class SharedState {
 public:
  // On the control thread's loop. All of it outlives the state.
  SharedState(Loop& loop, rpc::Channel& channel, const routing::HandleCodec& handles, Metrics& metrics,
              Tables tables);
  SharedState(const SharedState&) = delete;
  SharedState& operator=(const SharedState&) = delete;

  // Sets the clock, and keeps it from now on: before anything is looked up.
  void keep_clock();

  // While another proxy may be about to take over the address: requests go without hints, so that servers
  // tell the authority of each WRITE before they answer it, and nobody has to know of it from here.
  void remember_nothing(bool on);

  AttributeCache& cache() { return cache_; }
  MapCache& maps() { return maps_; }
  WriteBack& write_back() { return write_back_; }

 private:
  static Task<void> fetch_piece(SharedState& self, routing::HandleBytes handle, FileId file,
                                std::uint64_t stripe);

  Loop& loop_;
  rpc::Channel& channel_;
  const Tables tables_;
  AttributeCache cache_;
  MapCache maps_;
  WriteBack write_back_;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_SHARED_STATE_H
