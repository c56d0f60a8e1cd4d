#include "rpc/bulk_data.h"

#include "rpc/xdr.h"

namespace slice::rpc {
namespace {

constexpr std::uint32_t kCall = 0, kReply = 1, kNfs = 100003, kNfsVersion = 3, kWrite = 7;
constexpr std::size_t kAttributes = 84;  // bytes of an fattr3

void skip_opaque(XdrReader& in) {
  in.skip(xdr_padded(in.u32()));
}

// How many bytes `in` has read of `first`, where data of that length and nothing else comes behind them.
// Where it has failed, more has to come, if the message has more.
std::optional<std::size_t> data_behind(const XdrReader& in, ByteView first, std::size_t length,
                                       std::size_t size) {
  if (!in.ok()) return first.size() < size ? std::nullopt : std::optional(size);
  std::size_t before = first.size() - in.left();
  return before + xdr_padded(length) == size ? before : size;
}

std::optional<std::size_t> in_call(XdrReader in, ByteView first, std::size_t size) {
  in.skip(4);
  bool write = in.u32() == kNfs;
  write = in.u32() == kNfsVersion && write;
  write = in.u32() == kWrite && write;
  if (in.ok() && !write) return size;
  in.skip(4);  // flavor of the credential
  skip_opaque(in);
  in.skip(4);
  skip_opaque(in);
  skip_opaque(in);  // the file's handle
  in.skip(8 + 8);   // offset, count and stable
  std::size_t length = in.u32();
  return data_behind(in, first, length, size);
}

std::optional<std::size_t> in_reply(XdrReader in, ByteView first, std::size_t size) {
  std::uint32_t refused = in.u32();
  in.skip(4);
  skip_opaque(in);
  refused |= in.u32();
  refused |= in.u32();
  if (in.ok() && refused != 0) return size;
  std::uint32_t attributes = in.u32();
  if (attributes == 1) in.skip(kAttributes);
  std::uint32_t count = in.u32(), end = in.u32(), length = in.u32();
  if (in.ok() && (attributes > 1 || end > 1 || count != length)) return size;
  return data_behind(in, first, length, size);
}

}  // namespace

std::optional<std::size_t> bytes_before_data(ByteView first, std::size_t size) {
  XdrReader in(first);
  in.skip(4);  // xid
  std::uint32_t type = in.u32();
  if (type == kCall) return in_call(in, first, size);  // a failed reader's, too, which fails there
  if (type == kReply) return in_reply(in, first, size);
  return size;
}

}  // namespace slice::rpc
