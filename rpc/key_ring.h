// The secrets by which the processes of one ensemble know each other: what sessions (rpc/session.h) begin
// with.
#ifndef SLICE_RPC_KEY_RING_H
#define SLICE_RPC_KEY_RING_H

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "common/bytes.h"
#include "common/config.h"
#include "rpc/tls.h"

namespace slice::rpc {

using EnsembleKey = Key;

// Names a key and tells nothing of it: the first bytes of its SHA-256, behind a word of our own.
using KeyId = std::array<std::uint8_t, 8>;
KeyId key_id(const EnsembleKey& key);

// What the MACs of a session cover (docs/formats/session.md).
enum class Coverage : std::uint8_t {
  kHeads,  // all but the data of READ and WRITE
  kAll     // every byte
};

// The keys that are valid now: sessions begin under the first, and are taken under any. Any thread.
class KeyRing {
 public:
  // At least one key.
  explicit KeyRing(std::vector<EnsembleKey> keys, Coverage coverage = Coverage::kHeads);
  explicit KeyRing(const EnsembleKey& key) : KeyRing(std::vector{key}) {}
  // As the configuration says: its session keys, or the ensemble's own.
  explicit KeyRing(const EnsembleConfig& config);
  KeyRing(const KeyRing&) = delete;
  KeyRing& operator=(const KeyRing&) = delete;

  EnsembleKey first() const;
  // Nothing where no valid key has this name.
  std::optional<EnsembleKey> find(const KeyId& id) const;
  Coverage coverage() const { return coverage_; }
  // Sessions under a key that is not among them any more are for their owners to end.
  void replace(std::vector<EnsembleKey> keys);
  // Before anybody uses it: sessions are over TLS, where there are files. kInvalid: they cannot be used.
  Status use_tls(const TlsConfig& files);
  Tls* tls() const { return tls_.get(); }  // null: none

 private:
  const Coverage coverage_;
  mutable std::mutex mutex_;
  std::vector<EnsembleKey> keys_;
  std::unique_ptr<Tls> tls_;
};

}  // namespace slice::rpc

#endif  // SLICE_RPC_KEY_RING_H
