#include "storage/checkpoint_format.h"

#include <algorithm>

namespace slice::storage::checkpoint_format {
namespace {

constexpr std::uint32_t kMagic = 0x534c434b;  // "SLCK"
constexpr std::uint32_t kFormat = 1;
constexpr std::size_t kMaxName = 255;
constexpr std::uint32_t kErased = 0xffffffff;  // in place of a value's length

template <class Number>
void put(Buffer& out, Number value) {
  store_be(out.extend(sizeof value), value);
}

void put_text(Buffer& out, std::string_view text) {
  put(out, static_cast<std::uint32_t>(text.size()));
  out.append(as_bytes(text));
}

// Fails once, and then answers zeros.
class Reader {
 public:
  explicit Reader(ByteView bytes) : left_(bytes) {}
  template <class Number>
  Number number() {
    if (left_.size() < sizeof(Number)) return fail(), Number{0};
    auto value = load_be<Number>(left_.data());
    left_ = left_.subspan(sizeof(Number));
    return value;
  }
  std::string_view bytes(std::size_t size) {
    if (left_.size() < size) return fail(), std::string_view();
    auto text = as_text(left_.first(size));
    left_ = left_.subspan(size);
    return text;
  }
  void fail() {
    ok_ = false;
    left_ = {};
  }
  bool ok() const { return ok_; }
  bool at_end() const { return left_.empty(); }

 private:
  ByteView left_;
  bool ok_ = true;
};

// A file's own name, of no folder.
std::string read_name(Reader& in) {
  const auto size = in.number<std::uint32_t>();
  if (size == 0 || size > kMaxName) in.fail();
  std::string name(in.bytes(in.ok() ? size : 0));
  if (name.find('/') != name.npos || name.starts_with('.')) in.fail();
  return name;
}

}  // namespace

Buffer encode_batch(std::uint64_t run, const WriteBatch& batch) {
  Buffer out;
  put(out, run);
  put(out, static_cast<std::uint32_t>(batch.changes().size()));
  for (const WriteBatch::Change& change : batch.changes()) {
    put_text(out, change.key);
    if (change.value) {
      put_text(out, *change.value);
    } else {
      put(out, kErased);
    }
  }
  return out;
}

std::optional<Batch> decode_batch(ByteView record) {
  Reader in(record);
  Batch batch{.run = in.number<std::uint64_t>(), .changes = {}};
  const auto count = in.number<std::uint32_t>();
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) {
    std::string key(in.bytes(in.number<std::uint32_t>()));
    const auto size = in.number<std::uint32_t>();
    if (size == kErased) {
      batch.changes.erase(std::move(key));
    } else {
      batch.changes.put(std::move(key), std::string(in.bytes(size)));
    }
  }
  if (!in.ok() || !in.at_end()) return std::nullopt;
  return batch;
}

Buffer encode(const Checkpoint& checkpoint) {
  Buffer out;
  put(out, kMagic);
  put(out, kFormat);
  put(out, checkpoint.position.sequence);
  put(out, checkpoint.position.run);
  put(out, checkpoint.number);
  put(out, checkpoint.lineage);
  put(out, static_cast<std::uint32_t>(checkpoint.files.size()));
  for (const TableFile& file : checkpoint.files) {
    put_text(out, file.name);
    put_text(out, file.stored);
    put(out, file.size);
    put(out, file.crc);
  }
  return out;
}

std::optional<Checkpoint> decode_checkpoint(ByteView bytes) {
  Reader in(bytes);
  if (in.number<std::uint32_t>() != kMagic || in.number<std::uint32_t>() != kFormat) return std::nullopt;
  Checkpoint checkpoint;
  checkpoint.position.sequence = in.number<std::uint64_t>();
  checkpoint.position.run = in.number<std::uint64_t>();
  checkpoint.number = in.number<std::uint64_t>();
  checkpoint.lineage = in.number<std::uint64_t>();
  const auto count = in.number<std::uint32_t>();
  if (count > kMaxTableFiles) return std::nullopt;
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) {
    TableFile file{.name = read_name(in), .stored = {}};
    file.stored = read_name(in);
    file.size = in.number<std::uint64_t>();
    file.crc = in.number<std::uint32_t>();
    checkpoint.files.push_back(std::move(file));
  }
  if (!in.ok() || !in.at_end()) return std::nullopt;
  return checkpoint;
}

std::string encode(const Position& position) {
  Buffer out;
  put(out, position.sequence);
  put(out, position.run);
  return std::string(as_text(out.view()));
}

std::optional<Position> decode_position(std::string_view bytes) {
  Reader in(as_bytes(bytes));
  Position position{.sequence = in.number<std::uint64_t>(), .run = in.number<std::uint64_t>()};
  if (!in.ok() || !in.at_end()) return std::nullopt;
  return position;
}

}  // namespace slice::storage::checkpoint_format
