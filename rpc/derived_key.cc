#include "rpc/derived_key.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>

namespace slice::rpc {

Key derived_key(const Key& key, std::string_view purpose, std::initializer_list<ByteView> parts) {
  Buffer input(as_bytes(purpose));
  for (const ByteView part : parts) input.append(part);
  std::array<std::uint8_t, 32> digest{};
  unsigned size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), input.data(), input.size(), digest.data(),
       &size);
  Key out{};
  std::copy_n(digest.begin(), out.size(), out.begin());
  return out;
}

}  // namespace slice::rpc
