#include "rpc/bulk_data.h"

namespace slice::rpc {
namespace {

constexpr std::uint32_t kCall = 0, kReply = 1, kNfs = 100003, kNfsVersion = 3, kWrite = 7;
constexpr std::size_t kAttributes = 84;  // bytes of an fattr3

// Reads words of a message's first bytes.
class Words {
 public:
  explicit Words(ByteView bytes) : bytes_(bytes) {}
  std::uint32_t next() {
    std::uint32_t word = ends_ || at_ + 4 > bytes_.size() ? 0 : load_be<std::uint32_t>(bytes_.data() + at_);
    pass(4);
    return word;
  }
  // Bytes behind their length.
  void opaque() {
    std::size_t length = next();
    pass((length + 3) & ~std::size_t{3});
  }
  void pass(std::size_t n) {
    ends_ = ends_ || at_ + n > bytes_.size();
    at_ += n;
  }
  std::size_t at() const { return at_; }
  bool ended() const { return ends_; }  // before what was asked for

 private:
  ByteView bytes_;
  std::size_t at_ = 0;
  bool ends_ = false;
};

// Data of that length is all that comes behind what was read. Where that was more than there is, more has to
// come, unless it is more than the message has.
std::optional<std::size_t> data_behind(const Words& in, std::size_t length, std::size_t size) {
  if (in.ended()) return in.at() > size ? std::optional(size) : std::nullopt;
  return in.at() + ((length + 3) & ~std::size_t{3}) == size ? in.at() : size;
}

std::optional<std::size_t> in_call(Words in, std::size_t size) {
  in.pass(4);
  bool write = in.next() == kNfs;
  write = in.next() == kNfsVersion && write;
  write = in.next() == kWrite && write;
  if (!in.ended() && !write) return size;
  in.pass(4);  // flavor of the credential
  in.opaque();
  in.pass(4);
  in.opaque();
  in.opaque();     // the file's handle
  in.pass(8 + 8);  // offset, count and stable
  std::size_t length = in.next();
  return data_behind(in, length, size);
}

std::optional<std::size_t> in_reply(Words in, std::size_t size) {
  std::uint32_t refused = in.next();
  in.pass(4);
  in.opaque();
  refused |= in.next() | in.next();
  if (!in.ended() && refused != 0) return size;
  std::uint32_t attributes = in.next();
  if (attributes == 1) in.pass(kAttributes);
  std::uint32_t count = in.next(), end = in.next(), length = in.next();
  if (!in.ended() && (attributes > 1 || end > 1 || count != length)) return size;
  return data_behind(in, length, size);
}

}  // namespace

std::optional<std::size_t> bytes_before_data(ByteView first, std::size_t size) {
  Words in(first);
  in.pass(4);  // xid
  std::uint32_t type = in.next();
  if (in.ended()) return data_behind(in, 0, size);
  if (type == kCall) return in_call(in, size);
  if (type == kReply) return in_reply(in, size);
  return size;
}

}  // namespace slice::rpc
