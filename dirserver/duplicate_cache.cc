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
    Entry& entry = entries_[each.record.call];
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
  auto [found, fresh] = entries_.try_emplace(call);
  if (fresh) {
    append(call, found->second, next_order_++, loop_.wall());
    return {};
  }
  if (!found->second.answered) {
    dropped_.add();
    return {Seen::State::kInProgress, {}};
  }
  replayed_.add();
  return {Seen::State::kAnswered, found->second.reply};
}

void DuplicateCache::record(const CallKey& call, std::string_view reply, SiteId site,
                            Transaction& transaction) {
  auto found = entries_.find(call);
  if (found == entries_.end()) return;  // an internal call, which is not remembered
  std::uint64_t order = next_order_++;
  WallTime now = loop_.wall();
  found->second.key = duplicate_key(site, order);
  transaction.put(found->second.key, encode(DuplicateRecord{call, now, std::string(reply)}));
  append(call, found->second, order, now);
  evict(&transaction);
}

void DuplicateCache::finish(const CallKey& call, std::string_view reply) {
  auto found = entries_.find(call);
  if (found == entries_.end()) return;
  if (reply.empty()) {
    entries_.erase(found);
  } else {
    found->second.answered = true;
    found->second.reply = reply;
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
    auto found = entries_.find(place.call);
    bool valid = found != entries_.end() && found->second.order == place.order;
    if (valid) {
      bool over = entries_.size() > options_.max_entries || bytes_ > options_.max_bytes || place.at < oldest;
      if (!over) break;
      if (found->second.answered) {
        bytes_ -= found->second.reply.size();
        if (!found->second.key.empty()) evicted_records_.push_back(std::move(found->second.key));
        entries_.erase(found);
      } else {  // under way: its turn comes again
        append(place.call, found->second, next_order_++, loop_.wall());
      }
    }
    order_.pop_front();
  }
  size_.set(entries_.size());
  if (transaction == nullptr) return;
  for (std::string& key : std::exchange(evicted_records_, {})) transaction->erase_record(std::move(key));
}

}  // namespace slice::dirserver
