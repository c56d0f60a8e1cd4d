#include "dirserver/duplicate_cache.h"

#include <algorithm>
#include <utility>

#include "common/crc32c.h"

namespace slice::dirserver {

CallKey key_of(const rpc::Call& call) {
  return {.address = call.client.address,
          .xid = call.xid,
          .procedure = call.procedure,
          .checksum = crc32c(call.arguments)};
}

DuplicateCache::DuplicateCache(Loop& loop, Metrics& metrics, Options options)
    : loop_(loop),
      options_(options),
      replayed_(metrics.counter("duplicate_calls_answered_total")),
      dropped_(metrics.counter("duplicate_calls_dropped_total")),
      size_(metrics.counter("duplicate_cache_entries")) {}

Status DuplicateCache::load(CellStore& cells, std::uint32_t sites) {
  struct Loaded {
    std::uint64_t order;
    std::string key;
    DuplicateRecord record;
  };
  std::vector<Loaded> loaded;
  for (std::uint32_t site = 0; site < sites; ++site) {
    KeyRange range = range_of(SiteId{site}, CellKind::kDuplicate);
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
    Entry& entry = *entries_.try_emplace(each.record.call, std::make_unique<Entry>()).first->second;
    bytes_ += each.record.reply.size();
    bytes_ -= entry.reply.size();
    if (!entry.key.empty()) evicted_records_.push_back(std::move(entry.key));
    entry = {true, std::move(each.record.reply), std::move(each.key), 0};
    append(each.record.call, entry, each.order, each.record.at);
    next_order_ = each.order + 1;
  }
  evict(nullptr);
  return {};
}

DuplicateCache::Seen DuplicateCache::begin(const CallKey& call) {
  Entry* entry = find(call);
  if (entry == nullptr) {
    entry = entries_.emplace(call, std::make_unique<Entry>()).first->second.get();
    append(call, *entry, next_order_++, loop_.wall());
    return {};
  }
  if (!entry->answered) {
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
  std::uint64_t order = next_order_++;
  WallTime now = loop_.wall();
  entry->key = duplicate_key(site, order);
  transaction.put(entry->key, encode(DuplicateRecord{call, now, std::string(reply)}));
  append(call, *entry, order, now);
  evict(&transaction);
}

void DuplicateCache::finish(const CallKey& call, std::string_view reply) {
  Entry* entry = find(call);
  if (entry == nullptr) return;
  if (reply.empty()) {
    entries_.erase(call);
  } else {
    entry->answered = true;
    entry->reply = reply;
    bytes_ += reply.size();
  }
  evict(nullptr);
}

void DuplicateCache::append(const CallKey& call, Entry& entry, std::uint64_t order, WallTime at) {
  entry.order = order;
  order_.push_back({order, call, at});
}

void DuplicateCache::evict(Transaction* transaction) {
  WallTime oldest{loop_.wall().ns - options_.max_age.count()};
  for (std::size_t left = order_.size(); left > 0; --left) {
    Place place = order_.front();
    Entry* entry = find(place.call);
    bool valid = entry != nullptr && entry->order == place.order;
    if (valid) {
      bool over = entries_.size() > options_.max_entries || bytes_ > options_.max_bytes || place.at < oldest;
      if (!over) break;
      if (entry->answered) {
        bytes_ -= entry->reply.size();
        if (!entry->key.empty()) evicted_records_.push_back(std::move(entry->key));
        entries_.erase(place.call);
      } else {  // under way: its turn comes again
        append(place.call, *entry, next_order_++, loop_.wall());
      }
    }
    order_.pop_front();
  }
  size_.set(entries_.size());
  if (transaction == nullptr || evicted_records_.size() < options_.erased_together) return;
  for (std::string& key : std::exchange(evicted_records_, {})) transaction->erase_record(std::move(key));
}

}  // namespace slice::dirserver
