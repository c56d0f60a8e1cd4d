// Suspects: the cells that a pass over all of a volume found something odd about. Each is looked at by itself
// afterwards (examine.h), so a pass need not be exact; it must not overlook damage.
#ifndef SLICE_DIRSERVER_FSCK_SUSPECTS_H
#define SLICE_DIRSERVER_FSCK_SUSPECTS_H

#include <algorithm>
#include <compare>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace slice::dirserver::fsck {

// What to look at, by a key.
enum class Aspect : std::uint8_t {
  kRoot,       // the root's attribute key
  kCell,       // attribute key: the file's cell and its records
  kName,       // name key: every name of the position
  kDirectory,  // attribute key: a directory's counts at its own site
  kPart,       // part key: names of a directory on another site
  kCycle,      // attribute key: whether the root leads to this directory
  kNames,      // attribute key: the names that point to it, wherever they are
  kRecord,     // any other key: its value
};

struct Suspect {
  Aspect aspect = Aspect::kRecord;
  std::string key;
  auto operator<=>(const Suspect&) const = default;
};

class Suspects {
 public:
  explicit Suspects(std::uint64_t max_bytes) : limit_(std::max<std::uint64_t>(max_bytes / kBytesEach, 64)) {}

  void add(Aspect aspect, std::string key) {
    if (list_.size() == limit_) compact();
    if (list_.size() == limit_) {
      ++skipped_;
      return;
    }
    list_.push_back({aspect, std::move(key)});
  }
  // Each once, in order.
  std::vector<Suspect> take() {
    compact();
    return std::exchange(list_, {});
  }
  std::uint64_t skipped() const { return skipped_; }  // there was no memory for

 private:
  static constexpr std::uint64_t kBytesEach = 256;  // with what examining it takes
  void compact() {
    std::sort(list_.begin(), list_.end());
    list_.erase(std::unique(list_.begin(), list_.end()), list_.end());
  }
  std::uint64_t limit_;
  std::uint64_t skipped_ = 0;
  std::vector<Suspect> list_;
};

}  // namespace slice::dirserver::fsck

#endif  // SLICE_DIRSERVER_FSCK_SUSPECTS_H
