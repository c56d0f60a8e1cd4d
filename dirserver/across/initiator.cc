#include "dirserver/across/initiator.h"

#include <algorithm>

#include "dirserver/cells/cells_codec.h"

namespace slice::dirserver {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(1);
constexpr Duration kLongestPause = std::chrono::milliseconds(100);

using wire::LockItem;

Result<Target> decode_target(const std::string& value) {
  CellReader in(value);
  Target target = in.target();
  return in.finish(target, "target of a name");
}

}  // namespace

Initiator::Initiator(const Seams& seams, SiteId site)
    : seams_(seams),
      site_(site),
      age_(static_cast<std::uint64_t>(seams.context.loop.wall().ns)),
      deadline_(seams.context.loop.now() + kPatience) {}

void Initiator::begin() {
  if (!id_) id_ = seams_.intentions.begin(site_);
}

void Initiator::give_up() {
  cells_.clear();
  read_.clear();
  names_.clear();
  names_at_.clear();
  gone_.clear();
  revoked_.clear();
  rename_lock_ = false;
  new_.reset();
  if (!id_) return;
  if (!handed_over_) {
    seams_.locks.release(*id_);
    std::vector<SiteId> sites;
    for (const auto& [server, site] : contacted_) sites.push_back(site);
    seams_.intentions.given_up(*id_, sites);
  }
  id_.reset();
  contacted_.clear();
  incarnations_.clear();
  participants_.clear();
}

// Gives everything back and lets others pass, for longer each time.
Task<void> Initiator::step_back() {
  give_up();
  Duration pause = std::min(kFirstPause * (1u << std::min(tries_++, 7u)), kLongestPause);
  co_await seams_.context.loop.sleep(pause / 2 + Duration(seams_.context.random() % pause.count()));
}

const Initiator::HeldCell* Initiator::cell(const CellRef& ref) const {
  auto found = cells_.find(ref);
  return found == cells_.end() ? nullptr : &found->second;
}

const Initiator::HeldCell* Initiator::read(const CellRef& ref) const {
  auto found = read_.find(ref);
  return found == read_.end() ? nullptr : &found->second;
}

const Initiator::HeldName* Initiator::name(const NamePlace& place) const {
  auto found = names_.find({{place.directory.fileid, place.position}, std::string(place.name)});
  return found == names_.end() ? nullptr : &found->second;
}

std::optional<std::uint64_t> Initiator::names_elsewhere(FileId directory, std::uint32_t sites) const {
  std::uint64_t sum = 0;
  wire::SiteSet counted;
  for (auto at = names_at_.lower_bound({directory, 0}); at != names_at_.end() && at->first.first == directory;
       ++at) {
    sum += at->second.entries;
    counted.add(at->second.sites);
  }
  // A site may have moved between the answers of two servers, from who was asked last to who was asked first.
  for (SiteId site{0}; site.value < sites; ++site.value) {
    if (!counted.contains(site) && !seams_.peers.owns(site)) return std::nullopt;
  }
  return sum;
}

// ---- first phase ----

Task<Status> Initiator::acquire(std::vector<Need> needs) {
  if (late()) co_return fail(Errc::kTimedOut, "cells of other servers could not be had");
  begin();
  std::map<std::uint32_t, std::vector<LockItem>> items;
  std::vector<Task<bool>> tasks;
  for (Need& need : needs) {
    if (need.kind == Need::Kind::kLock) {
      items[seams_.peers.server_of(need.item.cell.site)].push_back(std::move(need.item));
    } else {
      tasks.push_back(acquire_one(std::move(need)));
    }
  }
  for (auto& [server, wanted] : items) tasks.push_back(lock_at(server, std::move(wanted)));
  auto got = co_await all(std::move(tasks));
  bool got_all = std::all_of(got.begin(), got.end(), [](bool each) { return each; });
  if (!got_all) co_await step_back();
  co_return Status{};
}

Task<Status> Initiator::acquire(LockKey key, LockMode mode) {
  std::vector<Need> needs;
  needs.push_back({.kind = Need::Kind::kLocal, .item = {}, .ref = {}, .key = key, .mode = mode});
  return acquire(std::move(needs));
}

Task<bool> Initiator::acquire_one(Need need) {
  LockOwner owner{*id_, age_};
  switch (need.kind) {
    case Need::Kind::kLocal:
      if (!co_await seams_.locks.acquire(owner, need.key, need.mode, kPatience)) co_return false;
      if (need.key == kRenameLock) rename_lock_ = true;
      co_return true;
    case Need::Kind::kRead: {
      auto cell = co_await seams_.peers.read(need.ref, false);
      if (!cell) co_return false;
      read_[need.ref] = {std::move(*cell), false};
      co_return true;
    }
    case Need::Kind::kLease: {
      auto taken = co_await seams_.parts.take_lease(need.ref);
      if (!taken && taken.error().code == Errc::kStale) gone_.insert(need.ref);
      co_return taken || taken.error().code == Errc::kStale;
    }
    case Need::Kind::kRevoke:
      if (!co_await seams_.locks.acquire(owner, {need.ref.fileid, {}}, LockMode::kExclusive, kPatience)) {
        co_return false;
      }
      co_await seams_.parts.revoke(need.ref.fileid);
      revoked_.insert(need.ref.fileid);
      co_return true;
    case Need::Kind::kLock:
      break;
  }
  co_return false;
}

Task<bool> Initiator::lock_at(std::uint32_t server, std::vector<LockItem> items) {
  SiteId site = items.front().cell.site;
  contacted_.emplace(server, site);
  wire::LockArgs args{.id = name_of(*id_), .age = age_, .items = items};
  auto result = co_await seams_.peers.call<wire::LockResult>(site, wire::DirectoryProcedure::kLock, args);
  // Whatever is wrong with that server, one of before who does not know the word: it can be done without it.
  const bool for_new = std::any_of(items.begin(), items.end(),
                                   [](const LockItem& item) { return item.kind == LockItem::Kind::kNew; });
  if (for_new && (!result || result->status != wire::PeerStatus::kOk)) refused_new_ = true;
  if (!result || result->status != wire::PeerStatus::kOk || result->values.size() != items.size()) {
    co_return false;
  }
  auto [before, first] = incarnations_.emplace(server, result->incarnation);
  if (!first && before->second != result->incarnation) co_return false;
  bool good = true;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].kind == LockItem::Kind::kPart) {
      good = wire::decode_value(result->values[i], names_at_[{items[i].cell.file, server}]) && good;
    } else {
      good = keep(items[i], result->values[i]) && good;
    }
  }
  co_return good;
}

bool Initiator::keep(const LockItem& item, const std::string& value) {
  CellRef ref = ref_of(item.cell);
  switch (item.kind) {
    case LockItem::Kind::kRename:
      rename_lock_ = true;
      return true;
    case LockItem::Kind::kCell: {
      HeldCell held{std::nullopt, item.exclusive};
      if (!value.empty()) {
        auto cell = decode_attribute_cell(ref.site, value);
        if (!cell) return false;
        held.cell = std::move(*cell);
      }
      cells_[ref] = std::move(held);
      return true;
    }
    case LockItem::Kind::kName: {
      HeldName held;
      held.full = value == wire::kPositionFull;
      if (!value.empty() && !held.full) {
        auto target = decode_target(value);
        if (!target) return false;
        held.target = *target;
      }
      names_[{{item.cell.file, Position{item.position}}, item.name}] = held;
      return true;
    }
    case LockItem::Kind::kPart:
      return true;
    case LockItem::Kind::kNew:
      refused_new_ = value.size() != sizeof(std::uint64_t);
      if (!refused_new_) new_ = {ref.site, FileId{load_be<std::uint64_t>(as_bytes(value).data())}};
      return true;
  }
  return false;
}

// ---- second phase ----

Task<Result<bool>> Initiator::prepare(const std::vector<Transaction::Key>& keys,
                                      std::vector<SiteSteps> steps) {
  LockOwner owner{*id_, age_};
  bool locked = std::all_of(keys.begin(), keys.end(), [&](const Transaction::Key& key) {
    LockMode mode = key.rewrites ? LockMode::kExclusive : LockMode::kShared;
    return seams_.locks.try_acquire(owner, {key.file, key.position}, mode);
  });
  // The lock of directory renames has to outlive a restart of who gave it.
  if (locked && rename_lock_ && !seams_.peers.owns(kRootSite)) {
    bool has_steps =
        std::any_of(steps.begin(), steps.end(), [](const SiteSteps& each) { return each.site == kRootSite; });
    if (!has_steps) steps.push_back({kRootSite, {}});
  }
  co_await seams_.context.crash.reach("initiator.locked");
  bool promised = locked;
  if (locked) {
    std::map<std::uint32_t, std::vector<SiteSteps>> by_server;
    for (SiteSteps& each : steps) by_server[seams_.peers.server_of(each.site)].push_back(std::move(each));
    std::vector<Task<bool>> tasks;
    for (auto& [server, parts] : by_server) tasks.push_back(prepare_at(std::move(parts)));
    auto answers = co_await all(std::move(tasks));
    promised = std::all_of(answers.begin(), answers.end(), [](bool each) { return each; });
  }
  co_await seams_.context.crash.reach("initiator.prepared");
  if (promised) co_return true;
  if (late()) co_return fail(Errc::kTimedOut, "another server did not promise its part of a change");
  co_await step_back();
  co_return false;
}

Task<bool> Initiator::prepare_at(std::vector<SiteSteps> parts) {
  SiteId site = parts.front().site;
  wire::PrepareArgs args{.id = name_of(*id_), .parts = {}};
  for (SiteSteps& part : parts) {
    SiteId at = part.site;
    bool rename = rename_lock_ && at == kRootSite;
    participants_.push_back(at);
    args.parts.push_back({at, encode(PreparedRecord{*id_, rename, std::move(part)})});
  }
  auto result = co_await seams_.peers.call<wire::PeerResult>(site, wire::DirectoryProcedure::kPrepare, args);
  co_return result && result->status == wire::PeerStatus::kOk;
}

void Initiator::record(Transaction& transaction) const {
  if (participants_.empty()) return;
  transaction.put(intention_key(*id_), encode(IntentionRecord{*id_, participants_}));
}

std::vector<SiteId> Initiator::contacted_but(const std::vector<SiteId>& participants) const {
  std::vector<SiteId> others;
  for (const auto& [server, site] : contacted_) {
    bool promised = std::any_of(participants.begin(), participants.end(),
                                [&](SiteId each) { return seams_.peers.server_of(each) == server; });
    if (!promised) others.push_back(site);
  }
  return others;
}

Task<bool> Initiator::decided() {
  // Others' promises are all that is left to do; locks alone are given back by give_up().
  IntentionRecord record{participants_.empty() ? TransactionId{} : *id_, participants_};
  if (!participants_.empty()) {
    seams_.locks.release(*id_);
    handed_over_ = true;
  }
  return seams_.intentions.decided(std::move(record), contacted_but(participants_));
}

}  // namespace slice::dirserver
