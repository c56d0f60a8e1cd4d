#include "dirserver/cells/scan_page.h"

#include <algorithm>
#include <optional>

#include "common/bytes.h"

namespace slice::dirserver {
namespace {

using wire::ScanValue;

constexpr std::size_t kHead = 5;            // of a key: its site and kind
constexpr std::size_t kTail = 16;           // of a key: the numbers that gaps are measured in
constexpr std::size_t kMaxGapsOfPage = 64;  // where more is broken, the rest is the next page's
constexpr std::size_t kMaxReason = 1024;    // bytes

bool of_site(std::string_view key, SiteId site) {
  return key.size() >= 4 && key.size() <= wire::kMaxScanKey &&
         load_be<std::uint32_t>(reinterpret_cast<const std::uint8_t*>(key.data())) == site.value;
}

// `key` with 1 << bit added to its numbers as if they were one; nothing where they are too small for that.
std::optional<std::string> key_behind(std::string_view key, unsigned bit) {
  std::string out(key);
  out.resize(kHead + kTail, '\0');
  unsigned carry = 1u << bit % 8;
  for (std::size_t at = out.size() - 1 - bit / 8; at >= kHead && carry > 0; --at) {
    carry += static_cast<std::uint8_t>(out[at]);
    out[at] = static_cast<char>(carry & 0xff);
    carry >>= 8;
  }
  if (carry > 0) return std::nullopt;
  return out;
}

class Page {
 public:
  Page(const storage::KvReader& store, const wire::ScanArgs& args)
      : store_(store), args_(args), limit_(std::min(args.limit, wire::kMaxScanBytes)) {}

  wire::ScanResult read() {
    for (const std::string& key : args_.keys) result_.values.push_back(value_of(key));
    std::string at = args_.begin;
    while (at < args_.end && !full_) {
      auto cursor = store_.iterate(at, args_.end);
      Status status = take(*cursor, at);
      if (status || full_) break;
      at = skip(at, status.error().message);
    }
    return std::move(result_);
  }

 private:
  ScanValue value_of(const std::string& key) const {
    auto value = store_.get(key);
    if (!value) return {ScanValue::State::kUnreadable, value.error().message.substr(0, kMaxReason)};
    if (!*value) return {};
    return {ScanValue::State::kPresent, std::move(**value)};
  }

  // Takes cells until the page is full, the range ends or the store fails; `at` follows.
  Status take(storage::KvIterator& cursor, std::string& at) {
    for (; cursor.valid(); cursor.next()) {
      std::size_t size = cursor.key().size() + cursor.value().size();
      bool room = bytes_ + size <= limit_ && result_.cells.size() < wire::kMaxScanCells;
      if (!room && !result_.cells.empty()) return stop(cursor.key());
      if (cursor.key().size() > wire::kMaxScanKey - 1 || cursor.value().size() > wire::kMaxScanValue) {
        if (!add_gap(cursor.key(), "no cell is as long as this")) return stop(at);
      } else {
        bytes_ += size;
        result_.cells.push_back({std::string(cursor.key()), std::string(cursor.value())});
      }
      at = std::string(cursor.key()) + '\0';
    }
    return cursor.status();
  }

  Status stop(std::string_view next) {
    result_.next = std::string(next.substr(0, wire::kMaxScanKey));
    full_ = true;
    return {};
  }

  bool add_gap(std::string_view begin, std::string_view reason) {
    if (result_.gaps.size() == kMaxGapsOfPage) return false;
    std::string key(begin.substr(0, wire::kMaxScanKey - 1));
    result_.gaps.push_back({key, key + '\0', std::string(reason.substr(0, kMaxReason))});
    return true;
  }

  // Where reading works again behind `at`, with what lies between noted; the range's end where it does not.
  std::string skip(const std::string& at, std::string_view reason) {
    if (!add_gap(at, reason)) {
      stop(at);
      return at;
    }
    std::string behind = first_readable(at);
    result_.gaps.back().end = behind;
    return behind;
  }

  bool readable(const std::string& from) const {
    auto cursor = store_.iterate(from, args_.end);
    return cursor->valid() || cursor->status().has_value();
  }

  // Doubles the step until something can be read, then takes back what was too much, bit by bit.
  std::string first_readable(const std::string& at) const {
    for (unsigned bit = 0; bit < 8 * kTail; ++bit) {
      auto beyond = key_behind(at, bit);
      if (!beyond || *beyond >= args_.end) return args_.end;
      if (readable(*beyond)) return narrow(at, bit);
    }
    return args_.end;
  }
  std::string narrow(const std::string& at, unsigned bit) const {
    // What is known to be unreadable: everything up to `bad`; readable: 1 << bit behind it, at the latest.
    std::string bad = bit == 0 ? at : *key_behind(at, bit - 1);
    std::string good = *key_behind(at, bit);
    for (unsigned step = bit == 0 ? 0 : bit - 1; step > 0; --step) {
      auto middle = key_behind(bad, step - 1);
      if (!middle || *middle >= good) continue;
      (readable(*middle) ? good : bad) = *middle;
    }
    return good;
  }

  const storage::KvReader& store_;
  const wire::ScanArgs& args_;
  std::uint32_t limit_;
  std::uint64_t bytes_ = 0;
  bool full_ = false;
  wire::ScanResult result_;
};

}  // namespace

wire::ScanResult scan_page(const storage::KvReader& store, const wire::ScanArgs& args) {
  auto good = [&](const std::string& key) { return of_site(key, args.site); };
  bool range = !args.begin.empty() || !args.end.empty();
  // The end may be where the next site begins.
  bool range_good = !range || (good(args.begin) && args.begin <= args.end && args.end.size() >= 4 &&
                               args.end.size() <= wire::kMaxScanKey &&
                               (good(args.end) || of_site(args.end, SiteId{args.site.value + 1})));
  if (!range_good || !std::all_of(args.keys.begin(), args.keys.end(), good)) {
    return {.status = nfs3::Status::kInval};
  }
  return Page(store, args).read();
}

}  // namespace slice::dirserver
