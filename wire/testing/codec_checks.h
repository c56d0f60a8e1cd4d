// What every message's codec must stand, for the tests of wire/: it comes back as it went, no shorter or
// longer input is taken, and no changed byte does harm (each input lies in memory of its exact size, so that
// the address sanitizer sees a read beyond it).
#ifndef SLICE_WIRE_TESTING_CODEC_CHECKS_H
#define SLICE_WIRE_TESTING_CODEC_CHECKS_H

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "rpc/xdr.h"

namespace slice::wire_tests {

using Decode = std::function<bool(ByteView)>;
using Encode = std::function<void(rpc::XdrWriter&)>;

inline bool decode_exact(const Decode& decode, ByteView bytes) {
  Buffer exact(bytes);
  return decode(exact.view());
}

// `decode` keeps what it decoded; `encode` encodes what was kept, at first the example.
inline void check(const Encode& encode, const Decode& decode) {
  rpc::XdrWriter first;
  encode(first);
  Buffer bytes = first.take();
  ASSERT_EQ(bytes.size() % 4, 0u);
  ASSERT_TRUE(decode(bytes.view())) << "its own encoding does not decode: " << to_hex(bytes.view());
  rpc::XdrWriter second;
  encode(second);
  EXPECT_EQ(to_hex(second.view()), to_hex(bytes.view())) << "decoding lost something";

  for (std::size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_FALSE(decode_exact(decode, bytes.view().first(n))) << "cut to " << n << " of " << bytes.size();
  }
  Buffer longer = bytes.clone();
  longer.append(ByteView(reinterpret_cast<const std::uint8_t*>("\0\0\0\0"), 4));
  EXPECT_FALSE(decode_exact(decode, longer.view())) << "bytes left over were taken";

  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (int value : {0, 1, 2, 0x7f, 0x80, 0xff}) {
      Buffer changed = bytes.clone();
      changed.data()[i] = static_cast<std::uint8_t>(value);
      (void)decode_exact(decode, changed.view());
    }
  }
  std::mt19937 random(static_cast<unsigned>(bytes.size()));
  for (int round = 0; round < 500 && !bytes.empty(); ++round) {
    Buffer changed = bytes.clone();
    for (int n = 0; n < 4; ++n) changed.data()[random() % bytes.size()] = static_cast<std::uint8_t>(random());
    changed.resize(random() % (bytes.size() + 1));
    (void)decode_exact(decode, changed.view());
  }
}

template <class Message>
void check_message(Message value) {
  check([&](rpc::XdrWriter& out) { encode(out, value); },
        [&](ByteView bytes) { return decode(bytes, value); });
}

}  // namespace slice::wire_tests

#endif  // SLICE_WIRE_TESTING_CODEC_CHECKS_H
