// Keys that are made of another one for a purpose: of connections (session.h) and of the link's sessions.
#ifndef SLICE_RPC_DERIVED_KEY_H
#define SLICE_RPC_DERIVED_KEY_H

#include <initializer_list>
#include <string_view>

#include "common/bytes.h"
#include "common/keys.h"

namespace slice::rpc {

// The first 16 bytes of HMAC-SHA-256 under `key` of the word for its purpose, and the parts.
Key derived_key(const Key& key, std::string_view purpose, std::initializer_list<ByteView> parts);

}  // namespace slice::rpc

#endif  // SLICE_RPC_DERIVED_KEY_H
