#include "wire/routes.h"

#include <bit>

#include "common/config.h"
#include "wire/codec.h"

namespace slice::wire {
namespace {

constexpr std::uint32_t kLastPolicy = 1, kLastNameHash = 1;

// A number of at most `last`.
std::uint32_t decode_kind(rpc::XdrReader& in, std::uint32_t last) {
  const std::uint32_t kind = in.u32();
  if (kind > last) in.fail();
  return kind;
}

std::vector<std::uint32_t> decode_bindings(rpc::XdrReader& in, std::size_t servers) {
  std::vector<std::uint32_t> sites = decode_numbers(in, kMaxSites);
  if (!std::has_single_bit(sites.size())) in.fail();
  for (std::uint32_t server : sites) {
    if (server != kUnbound && server >= servers) in.fail();
  }
  return sites;
}

}  // namespace

void encode(rpc::XdrWriter& out, const RoutesArgs& args) {
  out.u64(args.known.value);
}

bool decode(ByteView bytes, RoutesArgs& out) {
  rpc::XdrReader in(bytes);
  out.known = Generation{in.u64()};
  return in.complete();
}

void encode(rpc::XdrWriter& out, const Routes& routes) {
  out.u64(routes.generation.value);
  out.boolean(routes.changed);
  if (!routes.changed) return;
  out.u32(routes.volume);
  out.u32(routes.policy);
  out.u32(routes.name_hash);
  out.boolean(routes.maps);
  out.u64(routes.threshold);
  out.u64(routes.mkdir_limit);
  const std::size_t servers = encode_count(out, routes.servers, kMaxServers);
  for (std::size_t i = 0; i < servers; ++i) encode_endpoint(out, routes.servers[i]);
  for (const auto& sites : routes.sites) encode_numbers(out, sites, kMaxSites);
}

bool decode(ByteView bytes, Routes& out) {
  rpc::XdrReader in(bytes);
  out.generation = Generation{in.u64()};
  out.changed = in.boolean();
  if (!out.changed) return in.complete();
  out.volume = in.u32();
  out.policy = decode_kind(in, kLastPolicy);
  out.name_hash = decode_kind(in, kLastNameHash);
  out.maps = in.boolean();
  out.threshold = in.u64();
  out.mkdir_limit = in.u64();
  decode_list(in, kMaxServers, out.servers, [](rpc::XdrReader& each) { return decode_endpoint(each); });
  for (auto& sites : out.sites) sites = decode_bindings(in, out.servers.size());
  return in.complete();
}

}  // namespace slice::wire
