#include "dirserver/store/duplicate_cache.h"

#include <algorithm>
#include <utility>

#include "common/crc32c.h"

namespace slice::dirserver {
namespace {

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
      replayed_(metrics.counter("duplicate_calls_answered_total")),
      dropped_(metrics.counter("duplicate_calls_dropped_total")),
      size_(metrics.counter("duplicate_cache_entries")) {}

Status DuplicateCache::load(const CellStore& cells, const std::vector<SiteId>& sites) {
  struct Loaded {
    std::uint64_t order;
    std::string key;
    DuplicateRecord record;
  };
  std::vector<Loaded> loaded;
  for (SiteId site : sites) {
    KeyRange range = range_of(site, CellKind::kDuplicate);
    auto at = cells.store().iterate(range.begin, range.end);
    for (; at->valid(); at->next()) {
      auto record = decode_duplicate(at->value());
      if (!record) return fail(std::move(record.error()));
      loaded.push_back({last_number(at->key()), std::string(at->key()), std::move(*record)});
    }
    SLICE_RETURN_IF_ERROR(at->status());
  }
  std::sort(loaded.begin(), loaded.end(), [](const auto& a, const auto& b) { return a.order < b.order; });
  for (Loaded& each : loaded) {
    next_order_ = std::max(next_order_, each.order + 1);
    const CallKey& call = each.record.call;
    if (call.caller == service::CallerKey{}) {  // from before it said who called: fits nobody
      evicted_records_.push_back(std::move(each.key));
      continue;
    }
    if (const Entry* known = find(call)) {
      if (!known->place) continue;  // it is under way once more
      forget(call);
    }
    Entry& entry = *entries_.emplace(call, std::make_unique<Entry>()).first->second;
    entry.site = site_of_key(each.key);
    entry.reply = std::move(each.record.reply);
    entry.key = std::move(each.key);
    answered(call, entry, each.record.at);
  }
  evict();
  return {};
}

void DuplicateCache::release(SiteId site) {
  std::vector<CallKey> calls;
  for (const auto& [call, entry] : entries_) {
    if (entry->place && entry->site == site) calls.push_back(call);
  }
  for (const CallKey& call : calls) forget(call);
  std::erase_if(evicted_records_, [&](const std::string& key) { return site_of_key(key) == site; });
  size_.set(entries_.size());
}

std::vector<DuplicateCache::Unrecorded> DuplicateCache::unrecorded(SiteId site) {
  std::vector<Unrecorded> records;
  for (const auto& [call, entry] : entries_) {
    if (!entry->place || !entry->key.empty() || entry->site != site) continue;
    records.push_back(
        {duplicate_key(site, next_order_++), encode(DuplicateRecord{call, entry->at, entry->reply})});
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
    dropped_.add();
    return {Seen::State::kInProgress, {}};
  }
  replayed_.add();
  return {Seen::State::kAnswered, entry->reply};
}

DuplicateCache::Entry* DuplicateCache::find(const CallKey& call) {
  auto found = entries_.find(call);
  return found == entries_.end() ? nullptr : found->second.get();
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

void DuplicateCache::finish(const CallKey& call, std::string_view reply) {
  Entry* entry = find(call);
  if (entry == nullptr) return;
  if (reply.empty()) {
    entries_.erase(call);
  } else {
    entry->reply = reply;
    answered(call, *entry, loop_.wall());
  }
  evict();
}

void DuplicateCache::answered(const CallKey& call, Entry& entry, WallTime at) {
  if (entry.place) order_.erase(*entry.place);
  entry.at = at;
  entry.place = order_.add({call.address, call.caller.uid}, entry.reply.size() + kEntryWeight, at, call);
}

void DuplicateCache::forget(const CallKey& call) {
  Entry* entry = find(call);
  order_.erase(*entry->place);
  if (!entry->key.empty()) evicted_records_.push_back(std::move(entry->key));
  entries_.erase(call);
}

void DuplicateCache::evict() {
  WallTime oldest{loop_.wall().ns - options_.max_age.count()};
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
