// LruCache: a map bounded by the bytes of what it holds; the entry that was used longest ago goes first.
#ifndef SLICE_DIRSERVER_LRU_CACHE_H
#define SLICE_DIRSERVER_LRU_CACHE_H

#include <cstdint>
#include <list>
#include <unordered_map>
#include <utility>

namespace slice::dirserver {

template <class Key, class Value, class Hash = std::hash<Key>>
class LruCache {
 public:
  explicit LruCache(std::uint64_t limit_bytes) : limit_(limit_bytes) {}

  // The value, valid until the next put() or erase(); null where it is not here.
  const Value* find(const Key& key) {
    auto found = by_key_.find(key);
    if (found == by_key_.end()) return nullptr;
    order_.splice(order_.begin(), order_, found->second);
    return &found->second->value;
  }

  // `bytes`: what the entry costs. Valid as from find(), also where it alone is over the limit.
  const Value* put(const Key& key, Value value, std::uint64_t bytes) {
    auto found = by_key_.find(key);
    if (found != by_key_.end()) {
      bytes_ += bytes - found->second->bytes;
      found->second->bytes = bytes;
      found->second->value = std::move(value);
      order_.splice(order_.begin(), order_, found->second);
    } else {
      order_.push_front(Entry{key, std::move(value), bytes});
      by_key_.emplace(key, order_.begin());
      bytes_ += bytes;
    }
    while (bytes_ > limit_ && order_.size() > 1) erase(order_.back().key);
    return &order_.front().value;
  }

  void erase(const Key& key) {
    auto found = by_key_.find(key);
    if (found == by_key_.end()) return;
    bytes_ -= found->second->bytes;
    auto entry = found->second;
    by_key_.erase(found);
    order_.erase(entry);
  }

  std::uint64_t bytes() const { return bytes_; }
  std::size_t size() const { return by_key_.size(); }

 private:
  struct Entry {
    Key key;
    Value value;
    std::uint64_t bytes;
  };
  std::uint64_t limit_;
  std::uint64_t bytes_ = 0;
  std::list<Entry> order_;  // most recently used first
  std::unordered_map<Key, typename std::list<Entry>::iterator, Hash> by_key_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_LRU_CACHE_H
