#include "dirserver/store/duplicate_cache.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/crc32c.h"

namespace slice::dirserver {
namespace {

constexpr std::size_t kBroughtTogether = 16;
constexpr std::size_t kEntryWeight = 1024;  // of an entry in its client's share, beside its reply's bytes

}  // namespace

CallKey key_of(const rpc::Call& call) {
  return {.address = call.client.address,
          .xid = call.xid,
          .procedure = call.procedure,
          .checksum = crc32c(call.arguments),
          .caller = service::caller_key(call)};
}

DuplicateCache::DuplicateCache(Loop& loop, Metrics& metrics, Options options)
    : loop_(loop),
      options_(options),
      replayed_(
          metrics.counter("duplicate_calls_answered_total", "retransmissions that got the first answer")),
      early_(metrics.counter(
          "duplicate_calls_early_total",
          "retransmissions of calls still under way: over TCP they wait for the first answer, "
          "over UDP they get none")),
      size_(metrics.gauge("duplicate_cache_entries", "replies remembered for retransmitted calls")) {}

Status DuplicateCache::load(const CellStore& cells, const std::vector<SiteId>& sites) {
  std::vector<std::pair<std::uint64_t, Loaded>> all;
  for (SiteId site : sites) {
    if (auto found = arriving_.find(site.value); found != arriving_.end()) {
      Arriving& arriving = found->second;
      arriving.here = true;
      if (!arriving.records.empty())
        next_order_ = std::max(next_order_, arriving.records.rbegin()->first + 1);
      continue;
    }
    KeyRange range = range_of(site, CellKind::kDuplicate);
    auto at = cells.store().iterate(range.begin, range.end);
    for (; at->valid(); at->next()) {
      auto record = decode_duplicate(at->value());
      if (!record) return fail(std::move(record.error()));
      all.push_back({last_number(at->key()), {std::string(at->key()), std::move(*record)}});
    }
    SLICE_RETURN_IF_ERROR(at->status());
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [order, loaded] : all) {
    next_order_ = std::max(next_order_, order + 1);
    add(std::move(loaded));
  }
  evict();
  return {};
}

void DuplicateCache::add(Loaded loaded) {
  auto& [key, record] = loaded;
  if (record.call.caller == service::CallerKey{}) {  // from before it said who called: fits nobody
    evicted_records_.push_back(std::move(key));
    return;
  }
  if (auto known = entries_.find(record.call); known != entries_.end()) {
    if (!known->second->place) return;  // it is under way once more
    forget(record.call);
  }
  Entry& entry = *entries_.emplace(record.call, std::make_unique<Entry>()).first->second;
  entry.site = site_of_key(key);
  entry.reply = std::move(record.reply);
  entry.key = std::move(key);
  answered(record.call, entry);
}

// What its entries are is forgotten with time, as the others are: to look for all of them would be as long as
// everybody waits.
void DuplicateCache::release(SiteId site) {
  ++releases_[site.value];
  arriving_.erase(site.value);
  std::erase_if(evicted_records_, [&](const std::string& key) { return site_of_key(key) == site; });
}

std::uint64_t DuplicateCache::releases_of(SiteId site) const {
  auto found = releases_.find(site.value);
  return found == releases_.end() ? 0 : found->second;
}

bool DuplicateCache::released(const Entry& entry) const {
  return entry.place && entry.releases != releases_of(entry.site);
}

// ---- of sites that come ----

void DuplicateCache::expect(SiteId site) {
  arriving_[site.value] = {};
}

Status DuplicateCache::arrive(const std::string& key, const std::optional<std::string>& value) {
  auto found = arriving_.find(site_of_key(key).value);
  if (found == arriving_.end()) return fail(Errc::kInvalid, "its site is not expected");
  Arriving& arriving = found->second;
  const std::uint64_t number = last_number(key);
  if (auto old = arriving.records.find(number); old != arriving.records.end()) {
    auto known = arriving.numbers.find(old->second.record.call);
    if (known != arriving.numbers.end() && known->second == number) arriving.numbers.erase(known);
    arriving.records.erase(old);
  }
  if (!value) return {};
  auto record = decode_duplicate(*value);
  if (!record) return fail(std::move(record.error()));
  // Of two records of one call the later one holds.
  std::uint64_t& last = arriving.numbers[record->call];
  last = std::max(last, number);
  arriving.records.emplace_hint(arriving.records.end(), number, Loaded{key, std::move(*record)});
  return {};
}

void DuplicateCache::bring(const CallKey& call) {
  for (auto& [site, arriving] : arriving_) {
    if (!arriving.here) continue;
    auto number = arriving.numbers.find(call);
    if (number == arriving.numbers.end()) continue;
    auto record = arriving.records.extract(number->second);
    arriving.numbers.erase(number);
    add(std::move(record.mapped()));
  }
}

// The oldest first, as a start does.
void DuplicateCache::bring_some() {
  std::size_t count = 0;
  for (auto at = arriving_.begin(); at != arriving_.end();) {
    Arriving& arriving = at->second;
    for (; arriving.here && !arriving.records.empty() && count < kBroughtTogether; ++count) {
      auto record = arriving.records.extract(arriving.records.begin());
      auto number = arriving.numbers.find(record.mapped().record.call);
      const bool last = number != arriving.numbers.end() && number->second == record.key();
      if (last) arriving.numbers.erase(number);
      // One that is not the last of its call is behind the last, which may be among the entries.
      if (!last) {
        evicted_records_.push_back(std::move(record.mapped().key));
      } else {
        add(std::move(record.mapped()));
      }
    }
    at = arriving.here && arriving.records.empty() ? arriving_.erase(at) : std::next(at);
  }
}

std::vector<DuplicateCache::Unrecorded> DuplicateCache::unrecorded(const std::vector<std::uint32_t>& sites) {
  std::vector<Unrecorded> records;
  for (const auto& [call, entry] : entries_) {
    if (!entry->place || !entry->key.empty() || released(*entry)) continue;
    if (std::find(sites.begin(), sites.end(), entry->site.value) == sites.end()) continue;
    records.push_back({duplicate_key(entry->site, next_order_++),
                       encode(DuplicateRecord{call, loop_.wall(), entry->reply})});
  }
  return records;
}

DuplicateCache::Seen DuplicateCache::begin(const CallKey& call, SiteId site) {
  Entry* entry = find(call);
  if (entry == nullptr) {
    entries_.emplace(call, std::make_unique<Entry>()).first->second->site = site;
    return {};
  }
  if (!entry->place) {
    early_.add();
    return {Seen::State::kInProgress, {}};
  }
  replayed_.add();
  return {Seen::State::kAnswered, entry->reply};
}

DuplicateCache::Entry* DuplicateCache::find(const CallKey& call) {
  bring(call);
  auto found = entries_.find(call);
  if (found == entries_.end()) return nullptr;
  if (!released(*found->second)) return found->second.get();
  forget(call);
  return nullptr;
}

void DuplicateCache::record(const CallKey& call, std::string_view reply, SiteId site,
                            Transaction& transaction) {
  Entry* entry = find(call);
  if (entry == nullptr) return;  // an internal call, which is not remembered
  entry->site = site;
  entry->key = duplicate_key(site, next_order_++);
  transaction.put(entry->key, encode(DuplicateRecord{call, loop_.wall(), std::string(reply)}));
  erase_records(transaction);
}

Task<void> DuplicateCache::over(CallKey call) {
  const OneShot<bool> ended;
  waiting_[call].push_back(ended);
  co_await ended;
}

void DuplicateCache::finish(const CallKey& call, std::string_view reply) {
  if (auto waiting = waiting_.extract(call)) {
    loop_.post([ended = std::move(waiting.mapped())] {
      for (const OneShot<bool>& each : ended) each.set(true);
    });
  }
  Entry* entry = find(call);
  if (entry == nullptr) return;
  if (reply.empty()) {
    entries_.erase(call);
  } else {
    entry->reply = reply;
    answered(call, *entry);
  }
  bring_some();
  evict();
}

void DuplicateCache::answered(const CallKey& call, Entry& entry) {
  if (entry.place) order_.erase(*entry.place);
  entry.releases = releases_of(entry.site);
  entry.place =
      order_.add({call.address, call.caller.uid}, entry.reply.size() + kEntryWeight, loop_.now(), call);
}

void DuplicateCache::forget(const CallKey& call) {
  auto found = entries_.find(call);
  Entry& entry = *found->second;
  order_.erase(*entry.place);
  // Of a site that went the record went, too, and may be here again with it.
  if (!entry.key.empty() && !released(entry)) evicted_records_.push_back(std::move(entry.key));
  entries_.erase(found);
}

void DuplicateCache::evict() {
  const MonoTime oldest = loop_.now() - options_.max_age;
  while (!order_.empty() && order_.oldest_time() < oldest) forget(CallKey(order_.oldest()));
  auto bytes = [this] { return order_.weight() - order_.size() * kEntryWeight; };
  while (order_.size() > options_.max_entries || bytes() > options_.max_bytes) {
    forget(CallKey(order_.next_to_go()));
  }
  size_.set(entries_.size());
}

void DuplicateCache::erase_records(Transaction& transaction) {
  if (evicted_records_.size() < options_.erased_together) return;
  for (std::string& key : std::exchange(evicted_records_, {})) {
    if (transaction.open(key)) {
      transaction.erase_record(std::move(key));
    } else {
      evicted_records_.push_back(std::move(key));
    }
  }
}

}  // namespace slice::dirserver
