#include "common/keys.h"

#include <openssl/evp.h>
#include <sys/stat.h>

#include <algorithm>

#include "common/whole_file.h"

namespace slice {
namespace {

constexpr std::size_t kMinBytes = 16, kMaxBytes = 4096;

}  // namespace

Result<std::string> read_secret_or_nothing(const std::string& path) {
  auto file = read_whole_file(path, kMaxBytes);
  if (!file) return fail(Errc::kInvalid, "'{}': {}", path, file.error().message);
  if ((file->mode & (S_IRWXG | S_IRWXO)) != 0) {
    return fail(Errc::kInvalid, "'{0}' is open to others than its owner (mode {1:04o}): chmod 600 {0}", path,
                file->mode & 07777);
  }
  if (!file->bytes.empty() && file->bytes.size() < kMinBytes) {
    return fail(Errc::kInvalid, "'{}' holds {} bytes; {} to {} are expected", path, file->bytes.size(),
                kMinBytes, kMaxBytes);
  }
  return std::move(file->bytes);
}

Result<std::string> read_secret(const std::string& path) {
  auto secret = read_secret_or_nothing(path);
  if (secret && secret->empty()) {
    return fail(Errc::kInvalid, "'{}' holds 0 bytes; {} to {} are expected", path, kMinBytes, kMaxBytes);
  }
  return secret;
}

Key derive_key(std::string_view purpose, std::uint32_t number, ByteView secret) {
  std::string input(purpose);
  std::array<std::uint8_t, 4> be{};
  store_be(be.data(), number);
  input += as_text(be);
  input += as_text(secret);
  std::array<std::uint8_t, 32> digest{};
  unsigned length = 0;
  EVP_Digest(input.data(), input.size(), digest.data(), &length, EVP_sha256(), nullptr);
  Key key{};
  std::copy_n(digest.begin(), key.size(), key.begin());
  return key;
}

}  // namespace slice
