#include "service/caller_key.h"

#include "common/crc32c.h"
#include "rpc/dispatcher.h"

namespace slice::service {

// Uid and gid stand there as they are. Who finds other groups of the same CRC is the same user nevertheless.
CallerKey caller_key(const rpc::Call& call) {
  std::uint8_t word[4];
  store_be(word, call.has_auth_sys ? rpc::kAuthSys : rpc::kAuthNone);
  std::uint32_t groups = crc32c(word);
  for (std::uint32_t group : call.credential.groups) {
    store_be(word, group);
    groups = crc32c(word, groups);
  }
  return {.uid = call.credential.uid, .gid = call.credential.gid, .groups = groups};
}

}  // namespace slice::service
