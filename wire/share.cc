#include "wire/share.h"

#include "wire/address_codec.h"

namespace slice::wire {
namespace {

using Hardware = std::array<std::uint8_t, 6>;

void encode_hardware(rpc::XdrWriter& out, const Hardware& hardware) {
  std::uint64_t packed = 0;
  for (std::uint8_t byte : hardware) packed = packed << 8 | byte;
  out.u64(packed);
}

Hardware decode_hardware(rpc::XdrReader& in) {
  const std::uint64_t packed = in.u64();
  Hardware hardware;
  for (std::size_t i = 0; i < hardware.size(); ++i)
    hardware[i] = static_cast<std::uint8_t>(packed >> (8 * (hardware.size() - 1 - i)));
  return hardware;
}

void encode_sharers(rpc::XdrWriter& out, const Sharers& sharers) {
  const std::size_t count = encode_count(out, sharers, kMaxSharers);
  for (std::size_t i = 0; i < count; ++i) {
    out.u32(sharers[i].server);
    encode_hardware(out, sharers[i].hardware);
  }
}

void decode_sharers(rpc::XdrReader& in, Sharers& out) {
  decode_list(in, kMaxSharers, out, [](rpc::XdrReader& each) {
    Sharer sharer;
    sharer.server = each.u32();
    sharer.hardware = decode_hardware(each);
    return sharer;
  });
}

}  // namespace

bool has(const Sharers& sharers, std::uint32_t server) {
  return std::ranges::any_of(sharers, [server](const Sharer& each) { return each.server == server; });
}

std::uint64_t digest(const Sharers& sharers) {
  rpc::XdrWriter out;
  encode_sharers(out, sharers);
  return std::max<std::uint64_t>(fnv1a(out.view()), 1);
}

void encode(rpc::XdrWriter& out, const ShareClientsArgs& args) {
  out.u32(args.server);
  out.u64(args.run);
  out.u64(args.number);
  encode_hardware(out, args.hardware);
  out.boolean(args.fit);
  out.boolean(args.serves);
  out.boolean(args.holds);
  out.u64(args.prepared);
  out.boolean(args.heard);
  encode_sharers(out, args.follows);
  encode_peers(out, args.peers);
}

bool decode(ByteView bytes, ShareClientsArgs& out) {
  rpc::XdrReader in(bytes);
  out.server = in.u32();
  out.run = in.u64();
  out.number = in.u64();
  out.hardware = decode_hardware(in);
  out.fit = in.boolean();
  out.serves = in.boolean();
  out.holds = in.boolean();
  out.prepared = in.u64();
  out.heard = in.boolean();
  decode_sharers(in, out.follows);
  decode_peers(in, out.peers);
  return in.complete();
}

void encode(rpc::XdrWriter& out, const ShareClientsResult& result) {
  out.boolean(result.known);
  out.u32(result.patience_ms);
  encode_sharers(out, result.current);
  encode_sharers(out, result.wanted);
  out.u64(result.peers_digest);
  encode_peers(out, result.left);
  out.u64(result.left_ns);
}

bool decode(ByteView bytes, ShareClientsResult& out) {
  rpc::XdrReader in(bytes);
  out.known = in.boolean();
  out.patience_ms = in.u32();
  decode_sharers(in, out.current);
  decode_sharers(in, out.wanted);
  out.peers_digest = in.u64();
  decode_peers(in, out.left);
  out.left_ns = in.u64();
  return in.complete();
}

}  // namespace slice::wire
