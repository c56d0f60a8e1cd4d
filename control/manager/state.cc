#include "control/manager/state.h"

#include <algorithm>

#include "rpc/xdr.h"

namespace slice::manager {
namespace {

constexpr std::uint32_t kMagic = 0x534c4d53;  // "SLMS"
constexpr std::uint32_t kFormat = 7;
constexpr std::uint32_t kWithoutRecords = 1;  // the format before servers had records
constexpr std::uint32_t kWithoutMoves = 2;    // the format before sites could be moved
constexpr std::uint32_t kDrainedApart = 3;    // that with the names of drained servers outside the tables
constexpr std::uint32_t kWithoutLosses = 4;   // that without servers that were declared lost
constexpr std::uint32_t kOnlyOfBirth = 5;     // that where only servers of the birth had files with a layout
constexpr std::uint32_t kWithoutBackingSets = 6;
constexpr std::uint32_t kMostServers = 4096, kMostName = 255, kMostMoves = 4096, kMostSets = 4096;

void encode_moves(rpc::XdrWriter& out, const ManagerState& state) {
  out.u64(state.last_move.value);
  out.boolean(state.settings.paused);
  out.u64(state.settings.bytes_per_second);
  out.u32(static_cast<std::uint32_t>(state.moves.size()));
  for (const MoveRecord& each : state.moves) {
    wire::encode_move(out, each.move);
    out.boolean(each.aborting);
    out.u64(each.began_ns);
  }
}

std::set<std::string> decode_names(rpc::XdrReader& in) {
  std::set<std::string> names;
  const std::uint32_t count = in.u32();
  if (count > kMostServers) in.fail();
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) names.emplace(in.text(kMostName));
  return names;
}

wire::TablesForm form_of_tables(std::uint32_t format) {
  if (format <= kWithoutMoves) return wire::TablesForm::kUnmoved;
  if (format == kDrainedApart) return wire::TablesForm::kPlaces;
  if (format == kWithoutLosses) return wire::TablesForm::kUnlost;
  return format == kOnlyOfBirth ? wire::TablesForm::kOfBirth : wire::TablesForm::kNow;
}

void decode_moves(rpc::XdrReader& in, ManagerState& state) {
  state.last_move = wire::MoveId{in.u64()};
  state.settings.paused = in.boolean();
  state.settings.bytes_per_second = in.u64();
  const std::uint32_t count = in.u32();
  if (count > kMostMoves) in.fail();
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) {
    MoveRecord record{.move = wire::decode_move(in)};
    record.aborting = in.boolean();
    record.began_ns = in.u64();
    state.moves.push_back(std::move(record));
  }
}

void encode_sets(rpc::XdrWriter& out, const std::vector<wire::BackingSet>& sets) {
  out.u32(static_cast<std::uint32_t>(sets.size()));
  for (const wire::BackingSet& each : sets) encode(out, each);
}

void decode_sets(rpc::XdrReader& in, std::vector<wire::BackingSet>& sets) {
  const std::uint32_t count = in.u32();
  if (count > kMostSets) in.fail();
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) {
    sets.push_back(wire::decode_backing_set(in));
    if (i > 0 && sets[i].server <= sets[i - 1].server) in.fail();
  }
}

// What else names servers by their numbers: it names such that there are.
bool names_members(const ManagerState& state) {
  const std::size_t servers = state.tables.servers.size();
  return std::all_of(state.backing_sets.begin(), state.backing_sets.end(), [&](const wire::BackingSet& set) {
    return set.server < servers &&
           std::all_of(
               set.members.begin(), set.members.end(), [&](std::uint32_t each) { return each < servers; });
  });
}

}  // namespace

Task<Result<ManagerState>> load_state(StateStore& store) {
  auto contents = co_await store.read(kStateFile);
  if (!contents) co_return fail(std::move(contents).error());
  rpc::XdrReader in(contents->view());
  std::uint32_t magic = in.u32();
  std::uint32_t format = in.u32();
  if (magic != kMagic || format < kWithoutRecords || format > kFormat) {
    co_return fail(Errc::kCorrupt, "{}: magic {:#x}, format {}; format {} is expected", kStateFile, magic,
                   format, kFormat);
  }
  ManagerState state;
  state.drawn = Verifier{in.u64()};
  state.volume.id = VolumeId{in.u32()};
  state.volume.threshold = in.u64();
  state.volume.policy = static_cast<VolumeConfig::NamePolicy>(in.u32());
  state.volume.hash = static_cast<VolumeConfig::NameHash>(in.u32());
  if (format > kWithoutRecords) state.recorded = decode_names(in);
  const auto drained = format == kDrainedApart ? decode_names(in) : std::set<std::string>();
  if (format > kWithoutMoves) decode_moves(in, state);
  if (format > kWithoutBackingSets) decode_sets(in, state.backing_sets);
  const bool decodes = wire::decode(in.rest(), form_of_tables(format), state.tables);
  if (!in.ok() || !decodes || !names_members(state)) {
    co_return fail(Errc::kCorrupt, "{}: its contents do not decode", kStateFile);
  }
  for (wire::ServerEntry& each : state.tables.servers)
    each.drained = drained.contains(each.name) || each.drained;
  co_return state;
}

Task<Status> save_state(StateStore& store, const ManagerState& state) {
  rpc::XdrWriter out;
  out.u32(kMagic);
  out.u32(kFormat);
  out.u64(state.drawn.value);
  out.u32(state.volume.id.value);
  out.u64(state.volume.threshold);
  out.u32(static_cast<std::uint32_t>(state.volume.policy));
  out.u32(static_cast<std::uint32_t>(state.volume.hash));
  out.u32(static_cast<std::uint32_t>(state.recorded.size()));
  for (const std::string& name : state.recorded) out.text(name);
  encode_moves(out, state);
  encode_sets(out, state.backing_sets);
  encode(out, state.tables);
  return store.replace(kStateFile, out.take());
}

Status check_volume(const EnsembleConfig& config, const VolumeConfig& made_with) {
  const VolumeConfig& now = config.volume;
  auto changed = [&](std::string_view key) {
    return fail(Errc::kInvalid, "{}: {} of [volume] is not what the volume was made with, and cannot change",
                config.path, key);
  };
  if (now.id != made_with.id) return changed("id");
  if (now.threshold != made_with.threshold) return changed("threshold");
  if (now.policy != made_with.policy) return changed("name_policy");
  if (now.hash != made_with.hash) return changed("name_hash");
  return {};
}

}  // namespace slice::manager
