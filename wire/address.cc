#include "wire/address.h"

#include "wire/address_codec.h"

namespace slice::wire {
namespace {

constexpr std::uint32_t kMaxAskers = 1024;

}  // namespace

std::uint64_t digest(const std::vector<AddressPeer>& peers) {
  rpc::XdrWriter out;
  encode_peers(out, peers);
  return std::max<std::uint64_t>(fnv1a(out.view()), 1);
}

void encode(rpc::XdrWriter& out, const HoldAddressArgs& args) {
  out.u32(args.server);
  out.boolean(args.ready);
  out.boolean(args.holds);
  out.u64(args.run);
  out.u64(args.number);
  out.u32(args.wanted);
  encode_peers(out, args.peers);
}

bool decode(ByteView bytes, HoldAddressArgs& out) {
  rpc::XdrReader in(bytes);
  out.server = in.u32();
  out.ready = in.boolean();
  out.holds = in.boolean();
  out.run = in.u64();
  out.number = in.u64();
  out.wanted = in.u32();
  decode_peers(in, out.peers);
  return in.complete();
}

void encode(rpc::XdrWriter& out, const HoldAddressResult& result) {
  out.boolean(result.known);
  out.u32(result.holder);
  out.u32(result.patience_ms);
  const std::size_t count = encode_count(out, result.askers, kMaxAskers);
  for (std::size_t i = 0; i < count; ++i) {
    const AddressAsker& each = result.askers[i];
    out.u32(each.server);
    out.boolean(each.ready);
    out.boolean(each.holds);
    out.u64(each.age_ms);
  }
  out.u64(result.peers_digest);
  encode_peers(out, result.peers);
  out.text(bounded(result.refused));
}

bool decode(ByteView bytes, HoldAddressResult& out) {
  rpc::XdrReader in(bytes);
  out.known = in.boolean();
  out.holder = in.u32();
  out.patience_ms = in.u32();
  decode_list(in, kMaxAskers, out.askers, [](rpc::XdrReader& each) {
    AddressAsker asker;
    asker.server = each.u32();
    asker.ready = each.boolean();
    asker.holds = each.boolean();
    asker.age_ms = each.u64();
    return asker;
  });
  out.peers_digest = in.u64();
  decode_peers(in, out.peers);
  out.refused = std::string(in.text(kMaxText));
  return in.complete();
}

}  // namespace slice::wire
