// ClockCache: a map bounded by the bytes of what it holds. An entry that was used since the hand last passed
// has a second chance; one that was not goes. Finding moves nothing, so that it costs the lines of memory of
// the entry alone, and those can be asked for ahead, many at a time (prefetch).
#ifndef SLICE_DIRSERVER_STORE_CLOCK_CACHE_H
#define SLICE_DIRSERVER_STORE_CLOCK_CACHE_H

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/prefetch.h"

namespace slice::dirserver {

template <class Key, class Value, class Hash = std::hash<Key>>
class ClockCache {
 public:
  explicit ClockCache(std::uint64_t limit_bytes) : limit_(limit_bytes) {}

  // The value, valid until the next put() or erase(); null where it is not here.
  const Value* find(const Key& key) {
    const std::uint32_t* slot = slot_of(key);
    if (slot == nullptr) return nullptr;
    Entry& entry = at(*slot);
    entry.used = true;
    return &entry.value;
  }

  // `bytes`: what the entry costs. Valid as from find(), also where it alone is over the limit.
  const Value* put(const Key& key, Value value, std::uint64_t bytes) {
    const std::uint32_t* slot = slot_of(key);
    const std::uint32_t number = slot != nullptr ? *slot : insert(key);
    Entry& entry = at(number);
    entry.used = slot != nullptr;
    bytes_ += bytes - entry.bytes;
    entry.bytes = bytes;
    entry.value = std::move(value);
    while (bytes_ > limit_ && size_ > 1) evict(number);
    return &entry.value;
  }

  // Changes the value where it is; `change(value)` answers what it costs now. Nothing where it is not here.
  template <class Change>
  void update(const Key& key, Change change) {
    const std::uint32_t* slot = slot_of(key);
    if (slot == nullptr) return;
    const std::uint32_t number = *slot;
    Entry& entry = at(number);
    const std::uint64_t bytes = change(entry.value);
    bytes_ += bytes - entry.bytes;
    entry.bytes = bytes;
    while (bytes_ > limit_ && size_ > 1) evict(number);
  }

  void erase(const Key& key) {
    if (std::uint32_t* slot = slot_of(key)) remove(slot);
  }

  // Erases all whose keys are so; looks at every one.
  template <class Wanted>
  void erase_if(Wanted wanted) {
    std::vector<Key> keys;
    for (std::size_t number = 0; number < chunks_.size() * kChunk; ++number) {
      const Entry& entry = at(static_cast<std::uint32_t>(number));
      if (entry.live && wanted(entry.key)) keys.push_back(entry.key);
    }
    for (const Key& key : keys) erase(key);
  }

  // Hints that find() of these keys is about to be called: first the index of each is asked for, then, once
  // that is near, its entry.
  template <class Keys, class Project>
  void prefetch(const Keys& keys, Project key_of) const {
    if (index_.empty()) return;
    for (const auto& each : keys) slice::prefetch(&index_[home_of(key_of(each))], sizeof index_[0]);
    for (const auto& each : keys) {
      const std::uint32_t number = index_[home_of(key_of(each))];  // most keys are where they hash to
      if (number != kNone) slice::prefetch(&at(number), sizeof(Entry));
    }
  }

  std::uint64_t bytes() const { return bytes_; }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr std::size_t kChunk = 64;  // entries that are allocated together

  struct Entry {
    Key key{};
    bool live = false, used = false;
    std::uint64_t bytes = 0;
    Value value{};
  };

  Entry& at(std::uint32_t number) { return chunks_[number / kChunk][number % kChunk]; }
  const Entry& at(std::uint32_t number) const { return chunks_[number / kChunk][number % kChunk]; }

  // Where in the index a key is looked for first. The upper bits of the product depend on all bits.
  std::size_t home_of(const Key& key) const {
    return static_cast<std::size_t>((static_cast<std::uint64_t>(Hash{}(key)) * 0x9e3779b97f4a7c15ull) >>
                                    shift_);
  }
  std::size_t behind(std::size_t place) const { return (place + 1) & (index_.size() - 1); }

  // The index's place of the key's entry; null where there is none.
  std::uint32_t* slot_of(const Key& key) {
    if (index_.empty()) return nullptr;
    for (std::size_t place = home_of(key); index_[place] != kNone; place = behind(place)) {
      if (at(index_[place]).key == key) return &index_[place];
    }
    return nullptr;
  }

  std::uint32_t insert(const Key& key) {
    if (2 * (size_ + 1) > index_.size()) grow();
    if (free_.empty()) {
      const auto first = static_cast<std::uint32_t>(chunks_.size() * kChunk);
      chunks_.push_back(std::make_unique<Entry[]>(kChunk));
      for (std::uint32_t i = kChunk; i > 0; --i) free_.push_back(first + i - 1);
    }
    const std::uint32_t number = free_.back();
    free_.pop_back();
    at(number).key = key;
    at(number).live = true;
    at(number).bytes = 0;
    ++size_;
    place(number);
    return number;
  }

  void place(std::uint32_t number) {
    std::size_t place = home_of(at(number).key);
    while (index_[place] != kNone) place = behind(place);
    index_[place] = number;
  }

  void grow() {
    constexpr unsigned kFirstBits = 6;
    const unsigned bits = index_.empty() ? kFirstBits : 64 - shift_ + 1;
    std::vector<std::uint32_t> old =
        std::exchange(index_, std::vector<std::uint32_t>(std::size_t{1} << bits, kNone));
    shift_ = 64 - bits;
    for (std::uint32_t number : old) {
      if (number != kNone) place(number);
    }
  }

  void remove(std::uint32_t* slot) {
    const std::uint32_t number = *slot;
    Entry& entry = at(number);
    bytes_ -= entry.bytes;
    entry.value = Value{};
    entry.live = entry.used = false;
    free_.push_back(number);
    --size_;
    // What was pushed on by the entry moves back, so that no search ends before it.
    auto hole = static_cast<std::size_t>(slot - index_.data());
    for (std::size_t place = behind(hole); index_[place] != kNone; place = behind(place)) {
      const std::size_t home = home_of(at(index_[place]).key);
      const bool between = hole <= place ? hole < home && home <= place : hole < home || home <= place;
      if (between) continue;
      index_[hole] = index_[place];
      hole = place;
    }
    index_[hole] = kNone;
  }

  // The next entry without a second chance goes; never `keep`.
  void evict(std::uint32_t keep) {
    for (;;) {
      if (hand_ >= chunks_.size() * kChunk) hand_ = 0;
      const auto number = static_cast<std::uint32_t>(hand_++);
      Entry& entry = at(number);
      if (!entry.live || number == keep || std::exchange(entry.used, false)) continue;
      return remove(slot_of(entry.key));
    }
  }

  std::uint64_t limit_;
  std::uint64_t bytes_ = 0;
  std::size_t size_ = 0;
  std::size_t hand_ = 0;              // the entry that evict() looks at next
  unsigned shift_ = 64;               // 64 - log2 of the index's size
  std::vector<std::uint32_t> index_;  // of entries by hash, the next free place after a collision
  std::vector<std::unique_ptr<Entry[]>> chunks_;
  std::vector<std::uint32_t> free_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_STORE_CLOCK_CACHE_H
