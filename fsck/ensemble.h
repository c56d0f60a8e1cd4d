// Ensemble: what a tool has of an ensemble that runs: a loop, a channel to its members, and their cells. One
// loop.
#ifndef SLICE_FSCK_ENSEMBLE_H
#define SLICE_FSCK_ENSEMBLE_H

#include <utility>

#include "common/config.h"
#include "dirserver/fsck/remote_source.h"
#include "rpc/client.h"
#include "rpc/epoll_loop.h"
#include "rpc/key_ring.h"
#include "service/membership.h"

namespace slice::fsck {

class Ensemble {
 public:
  // `config` outlives it. `timeout`: of each answer.
  Ensemble(const EnsembleConfig& config, Duration timeout)
      : keys_(config),
        channel_(loop_, {.keys = &keys_, .sender = service::kNobody, .generation = nullptr}),
        cells_({.loop = loop_, .channel = channel_, .config = config, .timeout = timeout}) {}

  // Before anything is asked. Errors: of the files.
  Status use_tls(const TlsConfig& tls) { return keys_.use_tls(tls); }
  // Blocks until the task has ended.
  template <class T>
  T run(Task<T> task) {
    return rpc::run_to_end(loop_, std::move(task));
  }
  rpc::EpollLoop& loop() { return loop_; }
  rpc::Channel& channel() { return channel_; }
  // Of all directory servers; by the configuration's tables until it has taken the manager's.
  dirserver::fsck::RemoteSource& cells() { return cells_; }

 private:
  rpc::EpollLoop loop_;
  rpc::KeyRing keys_;
  rpc::SocketChannel channel_;
  dirserver::fsck::RemoteSource cells_;
};

}  // namespace slice::fsck

#endif  // SLICE_FSCK_ENSEMBLE_H
