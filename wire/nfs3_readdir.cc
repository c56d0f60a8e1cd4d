#include "wire/nfs3_readdir.h"

#include "wire/nfs3_codec.h"

namespace slice::nfs3 {
namespace {

constexpr std::size_t kEndOfList = 8;  // no further entry, eof

std::size_t post_op_size(const PostOpAttributes& attributes) {
  return attributes ? 4 + kAttributesSize : 4;
}

}  // namespace

EntryListWriter::EntryListWriter(rpc::XdrWriter& out, bool plus, const PostOpAttributes& directory,
                                 const CookieVerifier& verifier, Limits limits)
    : out_(out), plus_(plus), limits_(limits), start_(out.size()) {
  out_.u32(static_cast<std::uint32_t>(Status::kOk));
  encode(out_, directory);
  out_.fixed(verifier);
}

bool EntryListWriter::add(const DirectoryEntry& entry) {
  std::size_t name_bytes = 8 + 4 + rpc::xdr_padded(entry.name.size()) + 8;
  std::size_t bytes = 4 + name_bytes;
  if (plus_) {
    bytes += post_op_size(entry.attributes) + 4;
    if (entry.handle) bytes += 4 + rpc::xdr_padded(entry.handle->size());
  }
  if (names_ + name_bytes > limits_.dircount ||
      out_.size() - start_ + bytes + kEndOfList > limits_.maxcount) {
    return false;
  }
  out_.boolean(true);
  out_.u64(entry.fileid.value);
  out_.text(entry.name);
  out_.u64(entry.cookie);
  if (plus_) {
    encode(out_, entry.attributes);
    out_.boolean(entry.handle.has_value());
    if (entry.handle) out_.opaque(*entry.handle);
  }
  names_ += name_bytes;
  ++entries_;
  return true;
}

void EntryListWriter::finish(bool eof) {
  out_.boolean(false);
  out_.boolean(eof);
}

EntryListReader::EntryListReader(rpc::XdrReader& in, bool plus) : in_(in), plus_(plus) {
  status_ = static_cast<Status>(in_.u32());
  decode(in_, directory_);
  if (status_ != Status::kOk) {
    done_ = true;
    return;
  }
  decode_fixed(in_, verifier_);
}

bool EntryListReader::next(DirectoryEntry& entry) {
  if (done_) return false;
  if (!in_.boolean()) {
    eof_ = in_.boolean();
    done_ = true;
    return false;
  }
  entry.fileid = FileId{in_.u64()};
  entry.name = in_.text(kMaxNameOnWire);
  entry.cookie = in_.u64();
  entry.attributes.reset();
  entry.handle.reset();
  if (plus_) {
    decode(in_, entry.attributes);
    if (in_.boolean()) decode_handle(in_, entry.handle.emplace());
  }
  if (!in_.ok()) done_ = true;
  return in_.ok();
}

}  // namespace slice::nfs3
