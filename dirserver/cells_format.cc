// The values of cells: docs/formats/cells.md. Every value starts with its version byte.
#include "dirserver/cells.h"

namespace slice::dirserver {
namespace {

constexpr std::uint8_t kVersion = 1;

// Flags of an attribute cell.
constexpr std::uint8_t kStriped = 1, kTruncating = 2, kExclusive = 4;

class Writer {
 public:
  Writer() { number(kVersion); }
  template <class T>
  void number(T value) {
    std::size_t at = out_.size();
    out_.resize(at + sizeof value);
    store_be(reinterpret_cast<std::uint8_t*>(out_.data()) + at, value);
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
  void target(const Target& target) {
    cell(target.cell);
    number(static_cast<std::uint8_t>(target.type));
    number(target.flags);
    number(target.stripe_shift);
    number(target.cell_key);
  }
  void call(const CallKey& key) {
    number(key.address);
    number(key.xid.value);
    number(key.procedure);
    number(key.checksum);
  }
  void text(std::string_view text) {
    number(static_cast<std::uint16_t>(text.size()));
    out_.append(text);
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

// As rpc::XdrReader: what does not fit makes it fail, and it stays failed.
class Reader {
 public:
  explicit Reader(std::string_view value) : left_(value) {
    if (number<std::uint8_t>() != kVersion) ok_ = false;
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
    key.address = number<std::uint32_t>();
    key.xid.value = number<std::uint32_t>();
    key.procedure = number<std::uint32_t>();
    key.checksum = number<std::uint32_t>();
    return key;
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
  // The value, where all of it was read and made sense.
  template <class T>
  Result<T> finish(T value, std::string_view what) const {
    if (!ok_ || !left_.empty()) return fail(Errc::kCorrupt, "{}: the stored value does not decode", what);
    return value;
  }

 private:
  std::string_view left_;
  bool ok_ = true;
};

}  // namespace

std::string encode(const AttributeCell& cell) {
  Writer out;
  out.number(static_cast<std::uint8_t>((cell.striped ? kStriped : 0) | (cell.truncating ? kTruncating : 0) |
                                       (cell.exclusive_verifier ? kExclusive : 0)));
  out.target(cell.self);
  out.number(cell.mode);
  out.number(cell.nlink);
  out.number(cell.uid);
  out.number(cell.gid);
  out.number(cell.size);
  out.number(cell.rdev_major);
  out.number(cell.rdev_minor);
  out.time(cell.atime);
  out.time(cell.mtime);
  out.time(cell.ctime);
  out.number(cell.epoch.value);
  out.time(cell.mtime_set);
  if (cell.exclusive_verifier) out.number(load_be<std::uint64_t>(cell.exclusive_verifier->data()));
  if (cell.directory()) {
    out.cell(cell.parent);
    out.number(cell.entries);
  }
  if (cell.self.type == nfs3::FileType::kSymlink) out.text(cell.symlink_target);
  return out.take();
}

Result<AttributeCell> decode_attribute_cell(SiteId site, std::string_view value) {
  Reader in(value);
  AttributeCell cell;
  auto flags = in.number<std::uint8_t>();
  cell.striped = (flags & kStriped) != 0;
  cell.truncating = (flags & kTruncating) != 0;
  cell.self = in.target();
  cell.mode = in.number<std::uint32_t>();
  cell.nlink = in.number<std::uint32_t>();
  cell.uid = in.number<std::uint32_t>();
  cell.gid = in.number<std::uint32_t>();
  cell.size = in.number<std::uint64_t>();
  cell.rdev_major = in.number<std::uint32_t>();
  cell.rdev_minor = in.number<std::uint32_t>();
  cell.atime = in.time();
  cell.mtime = in.time();
  cell.ctime = in.time();
  cell.epoch.value = in.number<std::uint32_t>();
  cell.mtime_set = in.time();
  if ((flags & kExclusive) != 0) {
    cell.exclusive_verifier.emplace();
    store_be(cell.exclusive_verifier->data(), in.number<std::uint64_t>());
  }
  if (cell.directory()) {
    cell.parent = in.cell();
    cell.entries = in.number<std::uint64_t>();
  }
  if (cell.self.type == nfs3::FileType::kSymlink) cell.symlink_target = in.text();
  if (cell.self.cell.site != site) return fail(Errc::kCorrupt, "attribute cell: it names another site");
  return in.finish(std::move(cell), "attribute cell");
}

std::string encode(const NameBucket& bucket) {
  Writer out;
  out.number(static_cast<std::uint8_t>(bucket.entries.size()));
  for (const NameEntry& entry : bucket.entries) {
    out.number(static_cast<std::uint8_t>(entry.slot));
    out.text(entry.name);
    out.target(entry.target);
  }
  return out.take();
}

Result<NameBucket> decode_name_bucket(std::string_view value) {
  Reader in(value);
  NameBucket bucket;
  for (unsigned left = in.number<std::uint8_t>(); left > 0; --left) {
    NameEntry entry;
    entry.slot = in.number<std::uint8_t>();
    entry.name = in.text();
    entry.target = in.target();
    if (entry.slot >= kSlots || (!bucket.entries.empty() && bucket.entries.back().slot >= entry.slot)) {
      return fail(Errc::kCorrupt, "name cell: slots out of order");
    }
    bucket.entries.push_back(std::move(entry));
  }
  return in.finish(std::move(bucket), "name cell");
}

std::string encode(const DuplicateRecord& record) {
  Writer out;
  out.call(record.call);
  out.number(static_cast<std::uint64_t>(record.at.ns));
  out.text(record.reply);
  return out.take();
}

Result<DuplicateRecord> decode_duplicate(std::string_view value) {
  Reader in(value);
  DuplicateRecord record;
  record.call = in.call();
  record.at.ns = static_cast<std::int64_t>(in.number<std::uint64_t>());
  record.reply = in.text();
  return in.finish(std::move(record), "duplicate-request record");
}

std::string encode(const TruncationRecord& record) {
  Writer out;
  out.target(record.file);
  out.number(record.size);
  out.number(record.epoch.value);
  out.number(static_cast<std::uint8_t>(record.striped));
  out.number(static_cast<std::uint8_t>(record.call.has_value()));
  if (record.call) {
    out.call(*record.call);
    out.number(record.before.size);
    out.time(record.before.mtime);
    out.time(record.before.ctime);
  }
  out.time(record.changed);
  return out.take();
}

Result<TruncationRecord> decode_truncation(std::string_view value) {
  Reader in(value);
  TruncationRecord record;
  record.file = in.target();
  record.size = in.number<std::uint64_t>();
  record.epoch.value = in.number<std::uint32_t>();
  record.striped = in.number<std::uint8_t>() != 0;
  if (in.number<std::uint8_t>() != 0) {
    record.call = in.call();
    record.before.size = in.number<std::uint64_t>();
    record.before.mtime = in.time();
    record.before.ctime = in.time();
  }
  record.changed = in.time();
  return in.finish(std::move(record), "truncation record");
}

std::string encode(const ReclaimRecord& record) {
  Writer out;
  out.target(record.file);
  out.number(static_cast<std::uint8_t>(record.striped));
  return out.take();
}

Result<ReclaimRecord> decode_reclaim(std::string_view value) {
  Reader in(value);
  ReclaimRecord record;
  record.file = in.target();
  record.striped = in.number<std::uint8_t>() != 0;
  return in.finish(std::move(record), "reclaim record");
}

std::string encode_number(std::uint64_t number) {
  Writer out;
  out.number(number);
  return out.take();
}

Result<std::uint64_t> decode_number(std::string_view value) {
  Reader in(value);
  auto number = in.number<std::uint64_t>();
  return in.finish(number, "number");
}

}  // namespace slice::dirserver
