#include "service/ownership.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "rpc/xdr.h"
#include "storage/durable_file.h"

namespace slice::service {
namespace {

constexpr const char* kFile = "ownership";
constexpr std::uint32_t kMagic = 0x534c4f57;  // "SLOW"
constexpr std::uint32_t kFormat = 3;
constexpr std::uint32_t kWithoutNumber = 2;  // the format before servers could be removed
constexpr std::uint32_t kWithoutMoves = 1;   // the format before sites could be moved
constexpr std::uint32_t kMaxSites = 65536;

std::string some(const std::vector<std::uint32_t>& sites) {
  return sites.size() == 1 ? fmt::format("site {}", sites.front())
                           : fmt::format("site {} and {} others", sites.front(), sites.size() - 1);
}

// Reads the entries of one table into `out`, in order of their sites.
template <class Entry, class Read>
void decode_entries(rpc::XdrReader& in, std::map<std::uint32_t, Entry>& out, const Read& read) {
  std::uint32_t count = in.u32();
  if (count > kMaxSites) in.fail();
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) {
    const std::uint32_t site = in.u32();
    if (site >= kMaxSites || (!out.empty() && site <= out.rbegin()->first)) in.fail();
    out.emplace_hint(out.end(), site, read());
  }
}

}  // namespace

Buffer Ownership::encoded(const Record& record) {
  rpc::XdrWriter out;
  out.u32(kMagic);
  out.u32(kFormat);
  out.u32(record.server);
  out.u64(record.version);
  out.u32(static_cast<std::uint32_t>(record.sites.size()));
  for (const auto& [site, held] : record.sites) {
    out.u32(site);
    out.u64(held.since.value);
    out.u32(held.from);
  }
  out.u32(static_cast<std::uint32_t>(record.given.size()));
  for (const auto& [site, given] : record.given) {
    out.u32(site);
    out.u32(given.to);
    out.u64(given.move.value);
    out.u64(given.begun.value);
    out.boolean(given.freed);
  }
  out.u32(static_cast<std::uint32_t>(record.offered.size()));
  for (const auto& [site, offered] : record.offered) {
    out.u32(site);
    out.u32(offered.from);
    out.u64(offered.move.value);
    out.u64(offered.begun.value);
    out.u64(offered.attempt);
  }
  out.u32(static_cast<std::uint32_t>(record.layout_sites.size()));
  for (std::uint32_t site : record.layout_sites) out.u32(site);
  return out.take();
}

bool Ownership::decode(ByteView bytes, Record& out) {
  rpc::XdrReader in(bytes);
  if (in.u32() != kMagic) return false;
  const std::uint32_t format = in.u32();
  if (format < kWithoutMoves || format > kFormat) return false;
  has_number_ = format > kWithoutNumber;
  out.server = has_number_ ? in.u32() : self_.index;
  out.version = format > kWithoutMoves ? in.u64() : 1;
  decode_entries(in, out.sites, [&] {
    Held held{.since = Generation{in.u64()}};
    if (format > kWithoutMoves) held.from = in.u32();
    return held;
  });
  if (format == kWithoutMoves) {
    if (self_.role == ServerRole::kStorage) {
      for (const auto& [site, held] : out.sites) out.layout_sites.push_back(site);
    }
    return in.complete();
  }
  decode_entries(in, out.given, [&] {
    Given given{.to = in.u32()};
    given.move = wire::MoveId{in.u64()};
    given.begun = Generation{in.u64()};
    given.freed = in.boolean();
    return given;
  });
  decode_entries(in, out.offered, [&] {
    Offered offered{.from = in.u32()};
    offered.move = wire::MoveId{in.u64()};
    offered.begun = Generation{in.u64()};
    offered.attempt = in.u64();
    return offered;
  });
  const std::uint32_t count = in.u32();
  if (count > kMaxSites) in.fail();
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) {
    out.layout_sites.push_back(in.u32());
    if (i > 0 && out.layout_sites[i] <= out.layout_sites[i - 1]) in.fail();
  }
  return in.complete();
}

template <class Change>
Task<Status> Ownership::replace(Change change) {
  auto lock = co_await writing_.lock();
  Record next = record_.value_or(Record{.server = self_.index});
  Result<bool> changes = change(next);
  if (!changes) co_return fail(std::move(changes).error());
  if (!*changes) co_return Status{};
  ++next.version;
  SLICE_CO_RETURN_IF_ERROR(co_await storage::replace_file(disk_, kFile, encoded(next)));
  record_ = std::move(next);
  if (changed_) changed_();
  co_return Status{};
}

Task<Status> Ownership::load() {
  auto contents = co_await storage::read_file(disk_, kFile);
  if (!contents && contents.error().code == Errc::kNotFound) co_return Status{};
  if (!contents) co_return fail(std::move(contents).error());
  Record record;
  if (!decode(contents->view(), record)) {
    co_return fail(Errc::kCorrupt, "{}: it does not decode, or is of another format than {}", kFile, kFormat);
  }
  if (record.server != self_.index) {
    co_return fail(
        Errc::kInvalid,
        "{}: this data directory is that of server {}, and '{}' is server {} now: one that was removed "
        "and added again begins with an empty one",
        kFile, record.server, self_.name, self_.index);
  }
  record_ = std::move(record);
  co_return Status{};
}

Task<Status> Ownership::keep_number() {
  if (!record_ || has_number_) co_return Status{};
  Status kept = co_await replace([](Record&) -> Result<bool> { return true; });
  has_number_ = kept.has_value();
  co_return kept;
}

std::vector<wire::OwnedSite> Ownership::sites() const {
  std::vector<wire::OwnedSite> sites;
  for (const auto& [site, held] : record_->sites) sites.push_back({site, held.since});
  return sites;
}

std::uint64_t Ownership::digest() const {
  return record_ ? wire::digest(wire::numbers_of(sites())) : 0;
}

Task<Status> Ownership::grant(const wire::Tables& tables) {
  co_return co_await replace([&](Record& record) -> Result<bool> {
    for (std::uint32_t site : wire::sites_of(tables, self_.name)) record.sites[site] = {tables.generation};
    record.layout_sites = wire::layout_sites_of(tables, self_.name);
    return true;
  });
}

Task<Status> Ownership::grant_again(const wire::Tables& tables, WallTime now) {
  record_ = Record{.server = self_.index, .version = static_cast<std::uint64_t>(now.ns)};
  co_return co_await grant(tables);
}

Task<Status> Ownership::offer(wire::SiteMove move, std::uint64_t attempt) {
  co_return co_await replace([&](Record& record) -> Result<bool> {
    for (std::uint32_t site : move.sites) {
      if (record.sites.contains(site)) return fail(Errc::kInvalid, "site {} is here already", site);
      record.offered[site] = {move.from, move.id, move.begun, attempt};
    }
    return true;
  });
}

Task<Status> Ownership::give(wire::SiteMove move) {
  co_return co_await replace([&](Record& record) -> Result<bool> {
    for (std::uint32_t site : move.sites) {
      if (record.sites.erase(site) == 0) return fail(Errc::kInvalid, "site {} is not here", site);
      record.given[site] = {.to = move.to, .move = move.id, .begun = move.begun};
    }
    return true;
  });
}

Task<Status> Ownership::take(wire::MoveId move) {
  co_return co_await replace([&](Record& record) -> Result<bool> {
    bool any = false;
    for (auto at = record.offered.begin(); at != record.offered.end();) {
      const auto& [site, offered] = *at;
      if (offered.move != move) {
        ++at;
        continue;
      }
      any = true;
      record.given.erase(site);
      record.sites[site] = {Generation{offered.begun.value + 1}, offered.from};
      at = record.offered.erase(at);
    }
    return any;
  });
}

Task<Status> Ownership::withdraw(wire::MoveId move, std::uint64_t attempt) {
  co_return co_await replace([&](Record& record) -> Result<bool> {
    return std::erase_if(record.offered, [&](const auto& each) {
             return each.second.move == move && each.second.attempt <= attempt;
           }) > 0;
  });
}

Task<Status> Ownership::freed(wire::MoveId move) {
  co_return co_await replace([&](Record& record) -> Result<bool> {
    bool any = false;
    for (auto& [site, given] : record.given) {
      if (given.move == move) any = !std::exchange(given.freed, true) || any;
    }
    return any;
  });
}

bool Ownership::has_given(const wire::SiteMove& move) const {
  return record_ && std::all_of(move.sites.begin(), move.sites.end(), [&](std::uint32_t site) {
           auto found = record_->given.find(site);
           return found != record_->given.end() && found->second.move == move.id;
         });
}

bool Ownership::owns_all(const std::vector<std::uint32_t>& sites) const {
  return record_ && std::all_of(sites.begin(), sites.end(),
                                [&](std::uint32_t site) { return record_->sites.contains(site); });
}

std::uint64_t Ownership::offered_by(wire::MoveId move) const {
  if (!record_) return 0;
  auto found = std::find_if(record_->offered.begin(), record_->offered.end(),
                            [&](const auto& each) { return each.second.move == move; });
  return found == record_->offered.end() ? 0 : found->second.attempt;
}

void Ownership::saw(const wire::Tables& tables) {
  if (!record_) return;
  const auto& owners = tables.sites[static_cast<std::size_t>(self_.role)];
  for (auto& [site, given] : record_->given) {
    // Older tables have it elsewhere, too, where it came by a move itself.
    const bool elsewhere = site < owners.size() && owners[site] != self_.index;
    if (elsewhere && given.shown.value == 0 && tables.generation > given.begun)
      given.shown = tables.generation;
  }
}

std::vector<wire::MoveId> Ownership::taken_by(const wire::Tables& tables) const {
  std::set<wire::MoveId> moves;
  if (record_ && !record_->offered.empty()) {
    for (std::uint32_t site : wire::sites_of(tables, self_.name)) {
      auto found = record_->offered.find(site);
      if (found != record_->offered.end() && tables.generation > found->second.begun)
        moves.insert(found->second.move);
    }
  }
  return {moves.begin(), moves.end()};
}

wire::Tables Ownership::applied_to(wire::Tables tables) const {
  const auto site_class = static_cast<std::size_t>(self_.role);
  if (!record_ || site_class >= wire::kSiteClasses) return tables;
  const bool moves =
      !record_->given.empty() || std::any_of(record_->sites.begin(), record_->sites.end(),
                                             [](const auto& each) { return each.second.from != kGranted; });
  // Tables that show no move yet do not say apart where files with a layout are.
  if (moves && self_.role == ServerRole::kStorage) wire::keep_layout_sites(tables);
  std::vector<std::uint32_t>& owners = tables.sites[site_class];
  for (const auto& [site, held] : record_->sites) {
    if (site < owners.size()) owners[site] = self_.index;
  }
  // Tables of before the move may be of before the site came here, too.
  for (const auto& [site, given] : record_->given) {
    const bool unknown =
        site < owners.size() && (owners[site] == self_.index || tables.generation <= given.begun);
    if (unknown) owners[site] = given.to;
  }
  return tables;
}

Status Ownership::check(const wire::Tables& tables) const {
  if (!record_) return {};
  // What a move has changed, and these tables do not know of: they have the site where it came from.
  auto moved_here = [&](std::uint32_t site) {
    const std::uint32_t from = record_->sites.at(site).from;
    const auto& owners = tables.sites[static_cast<std::size_t>(self_.role)];
    return from != kGranted && site < owners.size() && owners[site] == from;
  };
  const std::vector<std::uint32_t> own = wire::numbers_of(sites()), said = wire::sites_of(tables, self_.name);
  std::vector<std::uint32_t> taken, given;
  std::set_difference(own.begin(), own.end(), said.begin(), said.end(), std::back_inserter(taken));
  std::set_difference(said.begin(), said.end(), own.begin(), own.end(), std::back_inserter(given));
  std::erase_if(taken, moved_here);
  std::erase_if(given, [&](std::uint32_t site) { return record_->given.contains(site); });
  if (!taken.empty()) {
    return fail(Errc::kInvalid, "they have {} at another server, but this one has the data", some(taken));
  }
  if (!given.empty()) return fail(Errc::kInvalid, "they have {} here, which never came here", some(given));
  if (wire::layout_sites_of(tables, self_.name) != record_->layout_sites) {
    return fail(Errc::kInvalid, "they have files with a layout on other sites here than this server has");
  }
  return {};
}

}  // namespace slice::service
