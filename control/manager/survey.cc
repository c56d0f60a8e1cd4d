#include "control/manager/survey.h"

#include <algorithm>
#include <utility>

#include "routing/tables.h"

namespace slice::manager {

using wire::Holding;

void Survey::heard(const wire::HeartbeatArgs& args, MonoTime now) {
  if (!first_heard_) first_heard_ = now;
  largest_seen_ = std::max(largest_seen_, args.largest_seen);
  std::optional<Said>& said = said_[args.server];
  bool same = said && said->holding == args.holding && said->generation == args.generation &&
              said->digest == args.tables_digest;
  if (same) return;
  said = Said{args.holding, args.generation, args.tables_digest, {}, {}};
}

bool Survey::wants(const wire::HeartbeatArgs& args) const {
  bool has = args.holding == Holding::kTables || args.holding == Holding::kHints;
  return has && !said_[args.server]->tables && said_[args.server]->refused.empty();
}

Status Survey::offered(const wire::OfferTablesArgs& args) {
  if (args.server >= said_.size() || !said_[args.server]) return fail(Errc::kInvalid, "from nobody known");
  Said& said = *said_[args.server];
  if (said.generation != args.tables.generation || said.digest != wire::digest(args.tables)) {
    return fail(Errc::kInvalid, "these are not the tables that it told of");
  }
  auto fitting = routing::RoutingTables::make(config_, args.tables);
  if (!fitting) {
    said.refused = fitting.error().message;
    return fail(std::move(fitting).error());
  }
  said.tables = args.tables;
  return {};
}

template <class Is>
std::string Survey::servers(const Is& is) const {
  std::string names;
  for (std::size_t i = 0; i < said_.size(); ++i) {
    const wire::ServerEntry& server = members_[i];
    if (static_cast<std::size_t>(server.role) >= wire::kSiteClasses) continue;
    if (is(said_[i] ? &*said_[i] : nullptr)) names += (names.empty() ? "" : ", ") + server.name;
  }
  return names;
}

std::optional<Survey::Verdict> Survey::newest(Holding holding, MonoTime now) const {
  const Said* best = nullptr;
  std::string whose;
  for (std::size_t i = 0; i < said_.size(); ++i) {
    const auto& said = said_[i];
    if (!said || said->holding != holding) continue;
    const std::string& name = members_[i].name;
    if (best != nullptr && said->generation == best->generation && said->digest != best->digest) {
      return Verdict{.text = fmt::format("{} and {} have different tables of generation {}", whose, name,
                                         best->generation.value),
                     .tables = {}};
    }
    bool better = best == nullptr || said->generation > best->generation ||
                  (said->generation == best->generation && !best->tables && said->tables);
    if (better) {
      best = &*said;
      whose = name;
    }
  }
  if (best == nullptr) return std::nullopt;
  if (!best->refused.empty()) {
    return Verdict{.text = fmt::format("the tables of {} cannot be used: {}", whose, best->refused),
                   .tables = {}};
  }
  if (!best->tables) return Verdict{.text = fmt::format("for the tables of {}", whose), .tables = {}};
  std::string silent = servers([](const Said* said) { return said == nullptr; });
  bool patient = now - *first_heard_ < kPatience;
  // Proxies have nothing that servers would need: they are not among those that are waited for by name.
  if (patient && (!silent.empty() || holding == Holding::kHints)) {
    return Verdict{.text = "for servers that may have newer tables: " + silent, .tables = {}};
  }
  return Verdict{.kind = Verdict::Kind::kTakeOver, .text = whose, .tables = *best->tables};
}

Generation Survey::newest_generation() const {
  Generation newest = records_.newest();
  for (const auto& said : said_) {
    if (said) newest = std::max(newest, said->generation);
  }
  return newest;
}

Survey::Verdict Survey::by_records(MonoTime now) const {
  using Kind = Verdict::Kind;
  if (std::string wanted = records_.wanted(); !wanted.empty()) {
    return {.text = "for the records of " + wanted, .tables = {}};
  }
  const std::string unclaimed = records_.unclaimed();
  std::optional<Verdict> base = newest(Holding::kTables, now);
  if (!unclaimed.empty() && !base) base = newest(Holding::kHints, now);
  if (!unclaimed.empty() && (!base || base->kind == Kind::kWait)) {
    return {
        .text = fmt::format("no record is known of {}, so {}", unclaimed,
                            base ? base->text : "for their servers, or for a manager.state from a backup"),
        .tables = {}};
  }
  // Where every site has a record no tables are waited for; of the others there are some.
  wire::Tables tables = routing::RoutingTables::initial(config_);
  const bool from_tables = base && base->kind == Kind::kTakeOver;
  if (from_tables) tables = std::move(base->tables);
  auto applied = records_.applied_to(std::move(tables));
  if (!applied) return {.text = applied.error().message, .tables = {}};
  if (!from_tables) applied->generation.value = newest_generation().value + 1;
  return {.kind = Kind::kTakeOver,
          .text = from_tables ? base->text : "the records of all servers",
          .tables = std::move(*applied)};
}

Survey::Verdict Survey::verdict(MonoTime now) const {
  if (records_.any()) return by_records(now);
  if (auto found = newest(Holding::kTables, now)) return std::move(*found);
  std::string silent = servers([](const Said* said) { return said == nullptr; });
  if (!silent.empty()) {
    return {.text = "until it is known whether these hold data: " + silent, .tables = {}};
  }
  std::string with_data = servers([](const Said* said) { return said->holding == Holding::kData; });
  if (with_data.empty()) return {.kind = Verdict::Kind::kDeal, .text = {}, .tables = {}};
  if (auto found = newest(Holding::kHints, now)) return std::move(*found);
  return {.text = "for a manager.state from a backup: nobody has tables, but these hold data: " + with_data,
          .tables = {}};
}

}  // namespace slice::manager
