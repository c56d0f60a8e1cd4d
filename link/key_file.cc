#include "link/key_file.h"

#include <utility>

#include "common/bytes.h"

namespace slice::link {

Result<Key> read_key(const std::string& path) {
  auto secret = read_secret(path);
  if (!secret) return fail(std::move(secret.error()));
  return derive_key("slice link", 0, as_bytes(*secret));
}

}  // namespace slice::link
