#include "rpc/key_ring.h"

#include <openssl/evp.h>

#include <algorithm>
#include <utility>

namespace slice::rpc {

KeyId key_id(const EnsembleKey& key) {
  static constexpr std::string_view kPurpose = "slice key name";
  std::uint8_t input[kPurpose.size() + sizeof(EnsembleKey)];
  std::ranges::copy(as_bytes(kPurpose), input);
  std::ranges::copy(key, input + kPurpose.size());
  std::uint8_t digest[EVP_MAX_MD_SIZE];
  EVP_Digest(input, sizeof input, digest, nullptr, EVP_sha256(), nullptr);
  KeyId id;
  std::copy_n(digest, id.size(), id.begin());
  return id;
}

KeyRing::KeyRing(std::vector<EnsembleKey> keys, Coverage coverage)
    : coverage_(coverage), keys_(std::move(keys)) {}

KeyRing::KeyRing(const EnsembleConfig& config)
    : KeyRing(config.network.session_keys.empty() ? std::vector{config.ensemble_key}
                                                  : config.network.session_keys,
              config.network.cover_all ? Coverage::kAll : Coverage::kHeads) {}

EnsembleKey KeyRing::first() const {
  std::lock_guard lock(mutex_);
  return keys_.front();
}

std::optional<EnsembleKey> KeyRing::find(const KeyId& id) const {
  std::lock_guard lock(mutex_);
  for (const EnsembleKey& key : keys_) {
    if (key_id(key) == id) return key;
  }
  return std::nullopt;
}

Status KeyRing::use_tls(const TlsConfig& files) {
  if (!files.used()) return {};
  auto tls = Tls::load(files);
  if (!tls) return fail(std::move(tls).error());
  tls_ = std::move(*tls);
  return {};
}

void KeyRing::replace(std::vector<EnsembleKey> keys) {
  std::lock_guard lock(mutex_);
  keys_ = std::move(keys);
}

}  // namespace slice::rpc
