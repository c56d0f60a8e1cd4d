// What a member proves itself with, read again while it runs: at SIGHUP.
#ifndef SLICE_SERVICE_KEYS_AGAIN_H
#define SLICE_SERVICE_KEYS_AGAIN_H

#include "common/config.h"
#include "rpc/key_ring.h"

namespace slice::service {

// The certificates that `keys` uses, and the session keys that `config` names. What cannot be read stays as
// it was, and both are told in the log. Result: whether `keys` has something new. The loop's thread.
bool read_keys_again(const EnsembleConfig& config, rpc::KeyRing& keys);

}  // namespace slice::service

#endif  // SLICE_SERVICE_KEYS_AGAIN_H
