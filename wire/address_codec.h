// How lists of clients' connections travel, which HOLD_ADDRESS and SHARE_CLIENTS have both. Private to wire/.
#ifndef SLICE_WIRE_ADDRESS_CODEC_H
#define SLICE_WIRE_ADDRESS_CODEC_H

#include "wire/address.h"
#include "wire/codec.h"

namespace slice::wire {

inline void encode_peers(rpc::XdrWriter& out, const std::vector<AddressPeer>& peers) {
  const std::size_t count = encode_count(out, peers, kMaxAddressPeers);
  for (std::size_t i = 0; i < count; ++i) {
    encode_address(out, peers[i].address);
    out.u32(std::uint32_t{peers[i].port} << 16 | peers[i].at);
  }
}

inline void decode_peers(rpc::XdrReader& in, std::vector<AddressPeer>& out) {
  decode_list(in, kMaxAddressPeers, out, [](rpc::XdrReader& each) {
    AddressPeer peer{.address = decode_address(each)};
    const std::uint32_t ports = each.u32();
    peer.port = static_cast<std::uint16_t>(ports >> 16);
    peer.at = static_cast<std::uint16_t>(ports);
    return peer;
  });
}

}  // namespace slice::wire

#endif  // SLICE_WIRE_ADDRESS_CODEC_H
