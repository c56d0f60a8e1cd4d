#include "wire/about.h"

#include <fmt/ranges.h>

#include <bit>

#include "rpc/endpoint.h"
#include "rpc/xdr.h"
#include "wire/codec.h"

namespace slice::wire {
namespace {

std::string networks_text(const std::vector<Network>& networks) {
  std::string text;
  for (const Network& each : networks) text += (text.empty() ? "" : " ") + network_text(each);
  return text;
}

}  // namespace

std::vector<SharedKey> shared_keys(const EnsembleConfig& config) {
  const VolumeConfig& volume = config.volume;
  std::vector<SharedKey> keys;
  auto add = [&keys](std::string key, const auto& value) {
    keys.push_back({std::move(key), fmt::format("{}", value)});
  };
  add("name", config.name);
  add("[volume] id", volume.id.value);
  add("[volume] threshold", volume.threshold);
  add("[volume] stripe_unit", std::uint64_t{1} << volume.stripe_shift);
  add("[volume] name_policy",
      volume.policy == VolumeConfig::NamePolicy::kNameHashing ? "name-hashing" : "mkdir-switching");
  add("[volume] name_hash", volume.hash == VolumeConfig::NameHash::kMd5 ? "md5" : "siphash13");
  add("[volume] mkdir_probability",
      volume.mkdir_probability ? fmt::format("{}", *volume.mkdir_probability) : std::string("default"));
  for (std::size_t i = 0; i < config.site_counts.size(); ++i)
    add(fmt::format("[sites] {}", role_name(static_cast<ServerRole>(i))), config.site_counts[i]);
  add("[network] cover", config.network.cover_all ? "all" : "heads");
  add("[network] internal", networks_text(config.network.internal));
  add("[network] tls", config.network.tls.used());
  // Who shares its state elsewhere would be a second leader.
  add("[managers] etcd", fmt::format("{}", fmt::join(config.managers.etcd, " ")));
  add("[managers] etcd_prefix", config.managers.etcd_prefix);
  add("[proxy] virtual_address", config.proxy.addresses_text());
  add("[proxy] nfs_port", config.proxy.nfs_port);
  return keys;
}

void encode(rpc::XdrWriter& out, const AboutResult& result) {
  out.text(bounded(result.name));
  out.text(bounded(result.version));
  encode(out, result.told);
  for (std::uint64_t each : {result.wall_ns, result.state_ms, result.manager_silent_ms, result.late_ms})
    out.u64(each);
  const std::size_t count = encode_count(out, result.shared, kMaxSharedKeys);
  for (std::size_t i = 0; i < count; ++i) {
    out.text(bounded(result.shared[i].key));
    out.text(bounded(result.shared[i].value));
  }
}

bool decode(ByteView bytes, AboutResult& out) {
  rpc::XdrReader in(bytes);
  out.name = std::string(in.text(kMaxText));
  out.version = std::string(in.text(kMaxText));
  out.told = decode_heartbeat(in);
  for (std::uint64_t* each : {&out.wall_ns, &out.state_ms, &out.manager_silent_ms, &out.late_ms})
    *each = in.u64();
  decode_list(in, kMaxSharedKeys, out.shared, [](rpc::XdrReader& each) {
    SharedKey shared;
    shared.key = std::string(each.text(kMaxText));
    shared.value = std::string(each.text(kMaxText));
    return shared;
  });
  return in.complete();
}

}  // namespace slice::wire
