#include "wire/manager.h"

#include <algorithm>
#include <utility>

#include "rpc/xdr.h"
#include "wire/codec.h"

namespace slice::wire {

using rpc::XdrReader;
using rpc::XdrWriter;

namespace {

constexpr std::uint32_t kMaxServers = 4096;

void encode_entry(XdrWriter& out, const ServerEntry& entry) {
  out.u32(entry.server);
  out.u32(static_cast<std::uint32_t>(entry.role));
  encode_endpoint(out, entry.endpoint);
  out.text(bounded(entry.name));
}

void encode_more(XdrWriter& out, const ServerEntry& entry) {
  out.u64(entry.weight);
  out.text(bounded(entry.host));
  out.text(bounded(entry.rack));
  out.boolean(entry.drained);
  out.u64(entry.since.value);
}

void decode_more(XdrReader& in, ServerEntry& entry) {
  entry.weight = in.u64();
  entry.host = std::string(in.text(kMaxText));
  entry.rack = std::string(in.text(kMaxText));
  entry.drained = in.boolean();
  entry.since = Generation{in.u64()};
}

ServerEntry decode_entry(XdrReader& in) {
  ServerEntry entry;
  entry.server = in.u32();
  std::uint32_t role = in.u32();
  entry.endpoint = decode_endpoint(in);
  entry.name = std::string(in.text(kMaxText));
  if (role > static_cast<std::uint32_t>(Role::kRemoved)) in.fail();
  if (!in.ok()) return {};
  entry.role = static_cast<Role>(role);
  return entry;
}

void encode_whole(XdrWriter& out, const ServerEntry& entry) {
  encode_entry(out, entry);
  encode_more(out, entry);
  out.u64(entry.lost.value);
  out.boolean(entry.started);
}

ServerEntry decode_whole(XdrReader& in) {
  ServerEntry entry = decode_entry(in);
  decode_more(in, entry);
  entry.lost = Verifier{in.u64()};
  entry.started = in.boolean();
  return entry;
}

void encode_heartbeat(XdrWriter& out, const HeartbeatArgs& args) {
  out.u32(args.server);
  out.u64(args.pid);
  out.u64(args.started_ns);
  out.u64(args.generation.value);
  out.u64(args.tables_digest);
  out.u32(static_cast<std::uint32_t>(args.holding));
  out.u64(args.record_digest);
  out.u64(args.largest_seen.value);
  out.u64(args.free_bytes);
  out.u64(args.total_bytes);
  out.u64(args.objects);
  out.text(bounded(args.state));
  out.text(bounded(args.detail));
  out.u64(args.settings.value);
  out.u64(args.settings_digest);
}

void decode_tables(XdrReader& in, TablesForm form, Tables& out) {
  out = Tables{};
  out.generation = Generation{in.u64()};
  std::uint32_t servers = decode_count(in, kMaxServers);
  for (std::uint32_t i = 0; in.ok() && i < servers; ++i) out.servers.push_back(decode_entry(in));
  for (auto& sites : out.sites) sites = decode_numbers(in, kMaxSites);
  if (form != TablesForm::kUnmoved) out.layout_sites = decode_numbers(in, kMaxSites);
  if (form == TablesForm::kUnmoved || form == TablesForm::kPlaces) return;
  if (decode_count(in, kMaxServers) != out.servers.size()) in.fail();
  for (std::size_t i = 0; in.ok() && i < out.servers.size(); ++i) decode_more(in, out.servers[i]);
  if (form == TablesForm::kUnlost) return;
  if (decode_count(in, kMaxServers) != out.servers.size()) in.fail();
  for (std::size_t i = 0; in.ok() && i < out.servers.size(); ++i) out.servers[i].lost = Verifier{in.u64()};
  if (form == TablesForm::kOfBirth) return;
  if (decode_count(in, kMaxServers) != out.servers.size()) in.fail();
  for (std::size_t i = 0; in.ok() && i < out.servers.size(); ++i) out.servers[i].started = in.boolean();
}

}  // namespace

std::string_view role_name(Role role) {
  switch (role) {
    case Role::kDirectory:
      return "directory";
    case Role::kSmallFile:
      return "small-file";
    case Role::kStorage:
      return "storage";
    case Role::kCoordinator:
      return "coordinator";
    case Role::kManager:
      return "manager";
    case Role::kProxy:
      return "proxy";
    case Role::kRemoved:
      return "removed";
  }
  return "?";
}

HeartbeatArgs decode_heartbeat(XdrReader& in) {
  HeartbeatArgs args;
  args.server = in.u32();
  args.pid = in.u64();
  args.started_ns = in.u64();
  args.generation = Generation{in.u64()};
  args.tables_digest = in.u64();
  std::uint32_t holding = in.u32();
  if (holding > static_cast<std::uint32_t>(Holding::kHints)) in.fail();
  args.holding = static_cast<Holding>(in.ok() ? holding : 0);
  args.record_digest = in.u64();
  args.largest_seen = Verifier{in.u64()};
  args.free_bytes = in.u64();
  args.total_bytes = in.u64();
  args.objects = in.u64();
  args.state = std::string(in.text(kMaxText));
  args.detail = std::string(in.text(kMaxText));
  args.settings = SettingsGeneration{in.u64()};
  args.settings_digest = in.u64();
  return args;
}

void encode(XdrWriter& out, const HeartbeatArgs& args) {
  encode_heartbeat(out, args);
}
bool decode(ByteView bytes, HeartbeatArgs& out) {
  XdrReader in(bytes);
  out = decode_heartbeat(in);
  return in.complete();
}

void encode(XdrWriter& out, const HeartbeatResult& result) {
  out.u64(result.generation.value);
  out.u64(result.largest_drawn.value);
  out.boolean(result.offer);
  out.boolean(result.claim);
  out.u64(result.settings.value);
}
bool decode(ByteView bytes, HeartbeatResult& out) {
  XdrReader in(bytes);
  out.generation = Generation{in.u64()};
  out.largest_drawn = Verifier{in.u64()};
  out.offer = in.boolean();
  out.claim = in.boolean();
  out.settings = SettingsGeneration{in.u64()};
  return in.complete();
}

void encode(XdrWriter& out, const DrawVerifierArgs& args) {
  out.u32(args.server);
}
bool decode(ByteView bytes, DrawVerifierArgs& out) {
  XdrReader in(bytes);
  out.server = in.u32();
  return in.complete();
}

void encode(XdrWriter& out, const DrawVerifierResult& result) {
  out.u64(result.verifier.value);
}
bool decode(ByteView bytes, DrawVerifierResult& out) {
  XdrReader in(bytes);
  out.verifier = Verifier{in.u64()};
  return in.complete();
}

void encode(XdrWriter& out, const Tables& tables) {
  out.u64(tables.generation.value);
  std::size_t servers = encode_count(out, tables.servers, kMaxServers);
  for (std::size_t i = 0; i < servers; ++i) encode_entry(out, tables.servers[i]);
  for (const auto& sites : tables.sites) encode_numbers(out, sites, kMaxSites);
  encode_numbers(out, tables.layout_sites, kMaxSites);
  // Behind all that older versions have, so that these can be told from it.
  servers = encode_count(out, tables.servers, kMaxServers);
  for (std::size_t i = 0; i < servers; ++i) encode_more(out, tables.servers[i]);
  servers = encode_count(out, tables.servers, kMaxServers);
  for (std::size_t i = 0; i < servers; ++i) out.u64(tables.servers[i].lost.value);
  servers = encode_count(out, tables.servers, kMaxServers);
  for (std::size_t i = 0; i < servers; ++i) out.boolean(tables.servers[i].started);
}
bool decode(ByteView bytes, Tables& out) {
  return decode(bytes, TablesForm::kNow, out);
}
bool decode(ByteView bytes, TablesForm form, Tables& out) {
  XdrReader in(bytes);
  decode_tables(in, form, out);
  return in.complete();
}

void keep_layout_sites(Tables& tables) {
  if (tables.layout_sites.empty())
    tables.layout_sites = tables.sites[static_cast<std::size_t>(Role::kStorage)];
}

std::uint64_t digest(const Tables& tables) {
  XdrWriter out;
  encode(out, tables);
  return fnv1a(out.view());
}

std::uint64_t digest(const std::vector<std::uint32_t>& sites) {
  XdrWriter out;
  for (std::uint32_t site : sites) out.u32(site);
  return std::max<std::uint64_t>(fnv1a(out.view()), 1);
}

namespace {

std::vector<std::uint32_t> owned_by(const std::vector<std::uint32_t>& owners, std::uint32_t server) {
  std::vector<std::uint32_t> found;
  for (std::uint32_t site = 0; site < owners.size(); ++site) {
    if (owners[site] == server) found.push_back(site);
  }
  return found;
}

}  // namespace

const ServerEntry* find_member(const Tables& tables, std::string_view name) {
  auto found = std::find_if(tables.servers.begin(), tables.servers.end(), [&](const ServerEntry& each) {
    return each.role != Role::kRemoved && each.name == name;
  });
  return found == tables.servers.end() ? nullptr : &*found;
}

ServerEntry* find_member(Tables& tables, std::string_view name) {
  const ServerEntry* found = find_member(std::as_const(tables), name);
  return found == nullptr ? nullptr
                          : &tables.servers[static_cast<std::size_t>(found - tables.servers.data())];
}

std::vector<std::uint32_t> sites_of(const Tables& tables, std::string_view server) {
  const ServerEntry* entry = find_member(tables, server);
  if (entry == nullptr || static_cast<std::size_t>(entry->role) >= kSiteClasses) return {};
  return owned_by(tables.sites[static_cast<std::size_t>(entry->role)], entry->server);
}

std::vector<std::uint32_t> layout_sites_of(const Tables& tables, std::string_view server) {
  const ServerEntry* entry = find_member(tables, server);
  if (entry == nullptr || entry->role != Role::kStorage) return {};
  return tables.layout_sites.empty() ? sites_of(tables, server)
                                     : owned_by(tables.layout_sites, entry->server);
}

std::vector<std::uint32_t> numbers_of(const std::vector<OwnedSite>& sites) {
  std::vector<std::uint32_t> numbers;
  for (const OwnedSite& each : sites) numbers.push_back(each.site);
  return numbers;
}

void encode(XdrWriter& out, const std::vector<OwnedSite>& sites) {
  std::size_t count = encode_count(out, sites, kMaxSites);
  for (std::size_t i = 0; i < count; ++i) {
    out.u32(sites[i].site);
    out.u64(sites[i].since.value);
  }
}

std::vector<OwnedSite> decode_owned_sites(XdrReader& in) {
  std::vector<OwnedSite> sites;
  std::uint32_t count = decode_count(in, kMaxSites);
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) {
    const std::uint32_t site = in.u32();
    if (site >= kMaxSites || (i > 0 && site <= sites.back().site)) in.fail();
    sites.push_back({site, Generation{in.u64()}});
  }
  return sites;
}

void encode(XdrWriter& out, const ClaimArgs& args) {
  out.u32(args.server);
  out.boolean(args.has_record);
  out.boolean(args.has_data);
  out.u64(args.version);
  encode(out, args.sites);
  encode_numbers(out, args.layout_sites, kMaxSites);
}
bool decode(ByteView bytes, ClaimArgs& out) {
  XdrReader in(bytes);
  out = ClaimArgs{};
  out.server = in.u32();
  out.has_record = in.boolean();
  out.has_data = in.boolean();
  out.version = in.u64();
  out.sites = decode_owned_sites(in);
  out.layout_sites = decode_numbers(in, kMaxSites);
  return in.complete();
}

void encode(XdrWriter& out, const ClaimResult& result) {
  out.u32(static_cast<std::uint32_t>(result.verdict));
  out.u64(result.generation.value);
}
bool decode(ByteView bytes, ClaimResult& out) {
  XdrReader in(bytes);
  std::uint32_t verdict = in.u32();
  if (verdict > static_cast<std::uint32_t>(ClaimVerdict::kLost)) in.fail();
  out.verdict = static_cast<ClaimVerdict>(in.ok() ? verdict : 0);
  out.generation = Generation{in.u64()};
  return in.complete();
}

void encode(XdrWriter& out, const ChangeServerArgs& args) {
  out.u32(static_cast<std::uint32_t>(args.change));
  encode_whole(out, args.entry);
  out.u32(args.fields);
}
bool decode(ByteView bytes, ChangeServerArgs& out) {
  XdrReader in(bytes);
  out.change = decode_enum(in, ServerChange::kLose);
  out.entry = decode_whole(in);
  out.fields = in.u32();
  if (out.fields > ChangeServerArgs::kAll) in.fail();
  return in.complete();
}

void encode(XdrWriter& out, const ChangeServerResult& result) {
  out.text(bounded(result.refused));
  encode_whole(out, result.entry);
  out.u64(result.generation.value);
}
bool decode(ByteView bytes, ChangeServerResult& out) {
  XdrReader in(bytes);
  out.refused = std::string(in.text(kMaxText));
  out.entry = decode_whole(in);
  out.generation = Generation{in.u64()};
  return in.complete();
}

void encode(XdrWriter& out, const OfferTablesArgs& args) {
  out.u32(args.server);
  encode(out, args.tables);
}
bool decode(ByteView bytes, OfferTablesArgs& out) {
  XdrReader in(bytes);
  out.server = in.u32();
  decode_tables(in, TablesForm::kNow, out.tables);
  return in.complete();
}

void encode(XdrWriter& out, const OfferTablesResult& result) {
  out.boolean(result.taken);
}
bool decode(ByteView bytes, OfferTablesResult& out) {
  XdrReader in(bytes);
  out.taken = in.boolean();
  return in.complete();
}

void encode(XdrWriter& out, const MembersResult& result) {
  out.u64(result.generation.value);
  out.u64(result.settings.value);
  std::size_t count = encode_count(out, result.members, kMaxServers);
  for (std::size_t i = 0; i < count; ++i) {
    const Member& member = result.members[i];
    encode_whole(out, member.entry);
    encode_heartbeat(out, member.last);
    out.u64(member.age_ms);
    out.boolean(member.alive);
  }
}
bool decode(ByteView bytes, MembersResult& out) {
  XdrReader in(bytes);
  out = MembersResult{};
  out.generation = Generation{in.u64()};
  out.settings = SettingsGeneration{in.u64()};
  std::uint32_t count = decode_count(in, kMaxServers);
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) {
    Member member;
    member.entry = decode_whole(in);
    member.last = decode_heartbeat(in);
    member.age_ms = in.u64();
    member.alive = in.boolean();
    out.members.push_back(std::move(member));
  }
  return in.complete();
}

}  // namespace slice::wire
