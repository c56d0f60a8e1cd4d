#include "wire/settings.h"

#include <algorithm>
#include <utility>

#include "rpc/xdr.h"
#include "wire/codec.h"
#include "wire/quota.h"
#include "wire/trees.h"

namespace slice::wire {
namespace {

// What may stand behind all that the first versions read, in this order. They read no longer message: they
// are told of it only where it is not as they would have it.
constexpr std::uint32_t kHasFailover = 1, kHasTransports = 2, kHasQuotas = 3, kHasNetworks = 4,
                        kHasFlavors = 5, kHasPaths = 6, kHasTrees = 7;
constexpr std::size_t kMaxPath = 255, kMaxName = 63;

// The first versions have an address and a mask of IPv4 alone: what is not that is nobody for them.
struct V4Range {
  std::uint32_t address = 0xffffffff, mask = 0xffffffff;
  bool operator==(const V4Range&) const = default;
};
V4Range range_of(const Network& network) {
  if (!network.is_v4()) return {};
  const unsigned bits = network.prefix();
  return {static_cast<std::uint32_t>(network.address.low()), bits == 0 ? 0 : ~0u << (32 - bits)};
}

void encode_export(rpc::XdrWriter& out, const ExportConfig& entry) {
  const V4Range range = range_of(entry.clients);
  out.u32(range.address);
  out.u32(range.mask);
  out.boolean(entry.read_only);
  out.u32(static_cast<std::uint32_t>(entry.squash));
  out.u32(entry.anonymous_uid);
  out.u32(entry.anonymous_gid);
  out.boolean(entry.secure);
}

ExportConfig decode_export(rpc::XdrReader& in) {
  ExportConfig entry;
  const V4Range range{in.u32(), in.u32()};
  entry.clients = Network::of_v4(range.address, range.mask);
  entry.read_only = in.boolean();
  entry.squash = decode_enum(in, ExportConfig::Squash::kNone);
  entry.anonymous_uid = in.u32();
  entry.anonymous_gid = in.u32();
  entry.secure = in.boolean();
  if (range_of(entry.clients) != range) in.fail();
  return entry;
}

void encode_limits(rpc::XdrWriter& out, const ClientLimits& limits) {
  for (std::uint64_t each : {limits.connections, limits.connections_of_address, limits.memory,
                             limits.memory_of_address, limits.calls, limits.calls_of_address}) {
    out.u64(each);
  }
}

ClientLimits decode_limits(rpc::XdrReader& in) {
  ClientLimits limits;
  for (std::uint64_t* each : {&limits.connections, &limits.connections_of_address, &limits.memory,
                              &limits.memory_of_address, &limits.calls, &limits.calls_of_address}) {
    *each = in.u64();
  }
  return limits;
}

bool has_transports(const Settings& settings) {
  return std::any_of(settings.exports.begin(), settings.exports.end(),
                     [](const ExportConfig& entry) { return !entry.transports.is_default(); });
}

bool has_flavors(const Settings& settings) {
  return std::any_of(settings.exports.begin(), settings.exports.end(),
                     [](const ExportConfig& entry) { return !entry.flavors.is_default(); });
}

bool has_networks(const Settings& settings) {
  return std::any_of(settings.exports.begin(), settings.exports.end(),
                     [](const ExportConfig& entry) { return !entry.clients.is_v4(); });
}

bool has_paths(const Settings& settings) {
  return std::any_of(settings.exports.begin(), settings.exports.end(),
                     [](const ExportConfig& entry) { return entry.path != "/"; });
}

// Of each export what it is beside IPv4's, and which network that is.
enum class Beside : std::uint32_t { kNothing = 0, kEverybody = 1, kV6 = 2 };

void encode_network(rpc::XdrWriter& out, const Network& network) {
  const Beside kind = network.is_v4() ? Beside::kNothing : network.v6 ? Beside::kV6 : Beside::kEverybody;
  out.u32(static_cast<std::uint32_t>(kind));
  if (kind != Beside::kV6) return;
  out.u32(network.bits);
  out.u64(network.address.high());
  out.u64(network.address.low());
}

void decode_network(rpc::XdrReader& in, Network& network) {
  const Beside kind = decode_enum(in, Beside::kV6);
  if (kind == Beside::kNothing) return;
  if (range_of(network) != V4Range{}) in.fail();
  network = {};
  if (kind == Beside::kEverybody) return;
  const std::uint32_t bits = in.u32();
  const std::uint64_t high = in.u64(), low = in.u64();
  network = {.address = IpAddress::of_words(high, low), .bits = static_cast<std::uint8_t>(bits), .v6 = true};
  if (bits > 128 || !network.valid()) in.fail();
}

// That is not empty.
template <class Set>
Set decode_set(rpc::XdrReader& in) {
  const std::uint32_t bits = in.u32();
  const Set set = Set::of_bits(bits);
  if (bits == 0 || set.bits() != bits) in.fail();
  return set;
}

void decode_later_ones(rpc::XdrReader& in, Settings& out) {
  for (std::uint32_t last = 0; in.ok() && in.left() > 0;) {
    const std::uint32_t which = in.u32();
    if (which <= std::exchange(last, which)) in.fail();
    if (which == kHasFailover) {
      out.failover_ms = in.u32();
      if (!is_failover_ms(out.failover_ms) || out.failover_ms == kDefaultFailoverMs) in.fail();
    } else if (which == kHasTransports) {
      for (ExportConfig& entry : out.exports) entry.transports = decode_set<TransportSecurities>(in);
      if (!has_transports(out)) in.fail();
    } else if (which == kHasQuotas) {
      out.quotas = decode_quotas(in);
      if (out.quotas.empty()) in.fail();
    } else if (which == kHasNetworks) {
      for (ExportConfig& entry : out.exports) decode_network(in, entry.clients);
      if (!has_networks(out)) in.fail();
    } else if (which == kHasFlavors) {
      for (ExportConfig& entry : out.exports) entry.flavors = decode_set<SecurityFlavors>(in);
      if (!has_flavors(out)) in.fail();
    } else if (which == kHasPaths) {
      for (ExportConfig& entry : out.exports) {
        entry.path = std::string(in.text(kMaxExportPath));
        if (!is_clean_path(entry.path)) in.fail();
      }
      if (!has_paths(out)) in.fail();
    } else if (which == kHasTrees) {
      out.trees = decode_trees(in);
      if (out.trees.empty()) in.fail();
    } else {
      in.fail();
    }
  }
}

void encode_texts(rpc::XdrWriter& out, const std::vector<std::string>& texts) {
  const std::size_t count = encode_count(out, texts, kMaxReloadTexts);
  for (std::size_t i = 0; i < count; ++i) out.text(std::string_view(texts[i]).substr(0, kMaxReloadText));
}

std::vector<std::string> decode_texts(rpc::XdrReader& in) {
  std::vector<std::string> texts;
  const std::uint32_t count = decode_count(in, kMaxReloadTexts);
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) texts.emplace_back(in.text(kMaxReloadText));
  return texts;
}

}  // namespace

void encode(rpc::XdrWriter& out, const SettingsResult& result) {
  const Settings& settings = result.settings;
  out.u64(settings.generation.value);
  out.text(std::string_view(settings.export_path).substr(0, kMaxPath));
  const std::size_t exports = encode_count(out, settings.exports, kMaxExports);
  for (std::size_t i = 0; i < exports; ++i) encode_export(out, settings.exports[i]);
  out.u32(settings.copies);
  out.u32(static_cast<std::uint32_t>(settings.placement));
  out.u32(static_cast<std::uint32_t>(settings.log_level));
  encode_limits(out, settings.limits);
  std::size_t reserves = encode_count(out, settings.reserves, kMaxServers);
  for (auto each = settings.reserves.begin(); reserves > 0; ++each, --reserves) {
    out.text(each->first);
    out.u64(each->second);
  }
  out.u32(settings.slow_operation_ms);
  if (settings.failover_ms != kDefaultFailoverMs) {
    out.u32(kHasFailover);
    out.u32(settings.failover_ms);
  }
  if (has_transports(settings)) {
    out.u32(kHasTransports);
    for (std::size_t i = 0; i < exports; ++i) out.u32(settings.exports[i].transports.bits());
  }
  if (!settings.quotas.empty()) {
    out.u32(kHasQuotas);
    encode_quotas(out, settings.quotas);
  }
  if (has_networks(settings)) {
    out.u32(kHasNetworks);
    for (std::size_t i = 0; i < exports; ++i) encode_network(out, settings.exports[i].clients);
  }
  if (has_flavors(settings)) {
    out.u32(kHasFlavors);
    for (std::size_t i = 0; i < exports; ++i) out.u32(settings.exports[i].flavors.bits());
  }
  if (has_paths(settings)) {
    out.u32(kHasPaths);
    for (std::size_t i = 0; i < exports; ++i)
      out.text(std::string_view(settings.exports[i].path).substr(0, kMaxExportPath));
  }
  if (!settings.trees.empty()) {
    out.u32(kHasTrees);
    encode_trees(out, settings.trees);
  }
}
bool decode(ByteView bytes, SettingsResult& result) {
  rpc::XdrReader in(bytes);
  result = {};
  Settings& out = result.settings;
  out.generation = SettingsGeneration{in.u64()};
  out.export_path = std::string(in.text(kMaxPath));
  if (!out.export_path.starts_with('/')) in.fail();
  const std::uint32_t exports = decode_count(in, kMaxExports);
  for (std::uint32_t i = 0; in.ok() && i < exports; ++i) out.exports.push_back(decode_export(in));
  out.copies = in.u32();
  if (out.copies < 1 || out.copies > kMaxCopies) in.fail();
  out.placement = decode_enum(in, Placement::kFreeSpace);
  out.log_level = decode_enum(in, LogLevel::kError);
  out.limits = decode_limits(in);
  const std::uint32_t reserves = decode_count(in, kMaxServers);
  for (std::uint32_t i = 0; in.ok() && i < reserves; ++i) {
    std::string name(in.text(kMaxName));
    if (!is_server_name(name)) in.fail();
    out.reserves[std::move(name)] = in.u64();
  }
  out.slow_operation_ms = in.u32();
  if (out.slow_operation_ms > kMostSlowOperationMs) in.fail();
  decode_later_ones(in, out);
  return in.complete();
}

std::uint64_t digest(const Settings& settings) {
  rpc::XdrWriter out;
  encode(out, SettingsResult{settings});
  return fnv1a(out.view());
}

void encode(rpc::XdrWriter& out, const SettingsNotice& notice) {
  out.u64(notice.generation.value);
}
bool decode(ByteView bytes, SettingsNotice& out) {
  rpc::XdrReader in(bytes);
  out.generation = SettingsGeneration{in.u64()};
  return in.complete();
}

void encode(rpc::XdrWriter& out, const ReloadResult& result) {
  out.text(std::string_view(result.refused).substr(0, kMaxReloadText));
  out.u64(result.generation.value);
  encode_texts(out, result.changed);
  encode_texts(out, result.warnings);
  encode_texts(out, result.late);
}
bool decode(ByteView bytes, ReloadResult& out) {
  rpc::XdrReader in(bytes);
  out = ReloadResult{};
  out.refused = std::string(in.text(kMaxReloadText));
  out.generation = SettingsGeneration{in.u64()};
  out.changed = decode_texts(in);
  out.warnings = decode_texts(in);
  out.late = decode_texts(in);
  return in.complete();
}

}  // namespace slice::wire
