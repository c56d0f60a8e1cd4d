// How the values of cells are written and read: docs/formats/cells.md. Every value starts with its version
// byte.
#ifndef SLICE_DIRSERVER_CELLS_CELLS_CODEC_H
#define SLICE_DIRSERVER_CELLS_CELLS_CODEC_H

#include <string>
#include <string_view>
#include <utility>

#include "common/bytes.h"
#include "dirserver/cells/cells.h"

namespace slice::dirserver {

inline constexpr std::uint8_t kCellVersion = 1;
inline constexpr std::uint8_t kCallVersion = 2;  // of values with a call in them: since it says who called

class CellWriter {
 public:
  explicit CellWriter(std::uint8_t version = kCellVersion) { number(version); }
  template <class T>
  void number(T value) {
    std::size_t at = out_.size();
    out_.resize(at + sizeof value);
    store_be(reinterpret_cast<std::uint8_t*>(out_.data()) + at, value);
  }
  // Four bytes of an IPv4 address, as all versions have them; one of IPv6 stands behind IpAddress::kNotV4.
  void address(IpAddress address) {
    number(address.word());
    if (address.is_v4()) return;
    number(address.high());
    number(address.low());
  }
  void time(nfs3::Time time) {
    number(time.seconds);
    number(time.nanoseconds);
  }
  void cell(const CellRef& cell) {
    number(cell.site.value);
    number(cell.fileid.value);
    number(cell.generation);
  }
  // Its cell reference's site is below 2^16, and has the tree above it.
  void target(const Target& target) {
    const SiteId site{std::uint32_t{target.tree.value} << 16 | target.cell.site.value};
    cell({site, target.cell.fileid, target.cell.generation});
    number(static_cast<std::uint8_t>(target.type));
    number(target.flags);
    number(target.stripe_shift);
    number(target.cell_key);
  }
  void call(const CallKey& key) {
    address(key.address);
    number(key.xid.value);
    number(key.procedure);
    number(key.checksum);
    number(key.caller.uid);
    number(key.caller.gid);
    number(key.caller.groups);
  }
  void text(std::string_view text) {
    number(static_cast<std::uint16_t>(text.size()));
    out_.append(text);
  }
  void transaction(const TransactionId& id) {
    number(id.site.value);
    number(id.incarnation);
    number(id.sequence);
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

// As rpc::XdrReader: what does not fit makes it fail, and it stays failed.
class CellReader {
 public:
  // `newest`: the version that such values have now; any from kCellVersion on is read.
  explicit CellReader(std::string_view value, std::uint8_t newest = kCellVersion) : left_(value) {
    version_ = number<std::uint8_t>();
    if (version_ < kCellVersion || version_ > newest) ok_ = false;
  }
  template <class T>
  T number() {
    if (left_.size() < sizeof(T)) {
      ok_ = false;
      left_ = {};
      return T{};
    }
    T value = load_be<T>(reinterpret_cast<const std::uint8_t*>(left_.data()));
    left_.remove_prefix(sizeof(T));
    return value;
  }
  IpAddress address() {
    const auto word = number<std::uint32_t>();
    if (word != IpAddress::kNotV4) return word;
    const auto high = number<std::uint64_t>();
    const IpAddress read = IpAddress::of_words(high, number<std::uint64_t>());
    if (read.is_v4()) ok_ = false;
    return read;
  }
  nfs3::Time time() {
    std::uint32_t seconds = number<std::uint32_t>();
    return {seconds, number<std::uint32_t>()};
  }
  CellRef cell() {
    CellRef out;
    out.site.value = number<std::uint32_t>();
    out.fileid.value = number<std::uint64_t>();
    out.generation = number<std::uint32_t>();
    return out;
  }
  Target target() {
    Target out;
    out.cell = cell();
    out.tree.value = static_cast<std::uint16_t>(out.cell.site.value >> 16);
    out.cell.site.value &= 0xffff;
    std::uint8_t type = number<std::uint8_t>();
    if (type < 1 || type > 7) ok_ = false;
    out.type = static_cast<nfs3::FileType>(type);
    out.flags = number<std::uint8_t>();
    out.stripe_shift = number<std::uint8_t>();
    out.cell_key = number<std::uint64_t>();
    return out;
  }
  CallKey call() {
    CallKey key;
    key.address = address();
    key.xid.value = number<std::uint32_t>();
    key.procedure = number<std::uint32_t>();
    key.checksum = number<std::uint32_t>();
    if (version_ < kCallVersion) return key;
    key.caller.uid = number<std::uint32_t>();
    key.caller.gid = number<std::uint32_t>();
    key.caller.groups = number<std::uint32_t>();
    return key;
  }
  TransactionId transaction() {
    TransactionId id;
    id.site.value = number<std::uint32_t>();
    id.incarnation = number<std::uint64_t>();
    id.sequence = number<std::uint64_t>();
    return id;
  }
  std::string text() {
    std::size_t size = number<std::uint16_t>();
    if (size > left_.size()) {
      ok_ = false;
      return {};
    }
    std::string out(left_.substr(0, size));
    left_.remove_prefix(size);
    return out;
  }
  // For a decoder that found a value which makes no sense.
  void fail() {
    ok_ = false;
    left_ = {};
  }
  bool ok() const { return ok_; }
  // The value, where all of it was read and made sense.
  template <class T>
  Result<T> finish(T value, std::string_view what) const {
    if (!ok_ || !left_.empty())
      return ::slice::fail(Errc::kCorrupt, "{}: the stored value does not decode", what);
    return value;
  }

 private:
  std::string_view left_;
  bool ok_ = true;
  std::uint8_t version_ = 0;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_CELLS_CELLS_CODEC_H
