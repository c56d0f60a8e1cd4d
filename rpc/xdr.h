// XDR (RFC 4506), bounded and iterative. A reader never trusts a length: what does not fit in the bytes at
// hand, or is over the caller's limit, makes it fail, and a failed reader answers zeros and stays failed, so
// that a decoder checks once at its end. A writer appends to a Buffer that it owns.
#ifndef SLICE_RPC_XDR_H
#define SLICE_RPC_XDR_H

#include <cstdint>
#include <string>
#include <string_view>

#include "common/bytes.h"

namespace slice::rpc {

constexpr std::size_t xdr_padded(std::size_t n) {
  return (n + 3) & ~std::size_t{3};
}

class XdrReader {
 public:
  explicit XdrReader(ByteView bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  std::uint32_t u32() {
    const std::uint8_t* p = take(4);
    return p == nullptr ? 0 : load_be<std::uint32_t>(p);
  }
  std::uint64_t u64() {
    const std::uint8_t* p = take(8);
    return p == nullptr ? 0 : load_be<std::uint64_t>(p);
  }
  // RFC 4506 section 4.4: only 0 and 1 are booleans; anything else fails.
  bool boolean() {
    std::uint32_t value = u32();
    if (value > 1) fail();
    return value == 1;
  }
  // Fixed-length opaque of n bytes and its padding; a view into the input.
  ByteView fixed(std::size_t n) {
    const std::uint8_t* p = take(xdr_padded(n));
    return p == nullptr ? ByteView{} : ByteView{p, n};
  }
  // Variable-length opaque of at most `limit` bytes; a view into the input.
  ByteView opaque(std::size_t limit) {
    std::uint32_t n = u32();
    if (n > limit || n > left()) {
      fail();
      return {};
    }
    return fixed(n);
  }
  std::string_view text(std::size_t limit) { return as_text(opaque(limit)); }
  void skip(std::size_t n) { take(n); }

  // For a decoder that found a value which its type does not allow.
  void fail() {
    failed_ = true;
    at_ = end_;
  }
  bool ok() const { return !failed_; }
  // ok, and everything was read: what a decoder of a whole message ends with.
  bool complete() const { return !failed_ && at_ == end_; }
  std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }
  ByteView rest() const { return {at_, left()}; }

 private:
  const std::uint8_t* take(std::size_t n) {
    if (n > left()) {
      fail();
      return nullptr;
    }
    const std::uint8_t* p = at_;
    at_ += n;
    return p;
  }

  const std::uint8_t* at_;
  const std::uint8_t* end_;
  bool failed_ = false;
};

class XdrWriter {
 public:
  XdrWriter() = default;
  explicit XdrWriter(Buffer buffer) : buffer_(std::move(buffer)) {}

  void u32(std::uint32_t value) { store_be(buffer_.extend(4), value); }
  void u64(std::uint64_t value) { store_be(buffer_.extend(8), value); }
  void boolean(bool value) { u32(value ? 1 : 0); }
  void fixed(ByteView bytes) {
    if (bytes.empty()) return;
    std::uint8_t* p = buffer_.extend(xdr_padded(bytes.size()));
    std::memcpy(p, bytes.data(), bytes.size());
    std::memset(p + bytes.size(), 0, xdr_padded(bytes.size()) - bytes.size());
  }
  void opaque(ByteView bytes) {
    u32(static_cast<std::uint32_t>(bytes.size()));
    fixed(bytes);
  }
  void text(std::string_view value) { opaque(as_bytes(value)); }

  // Writes the length word and room for n bytes (padding zeroed), to be filled in place by a read from disk.
  // The span is valid until the next write, and begins at a multiple of `alignment`, a power of two;
  // shrink_opaque() afterwards where less came.
  ByteSpan reserve_opaque(std::size_t n, std::size_t alignment = 1) {
    u32(static_cast<std::uint32_t>(n));
    std::uint8_t* p =
        alignment > 1 ? buffer_.extend_aligned(xdr_padded(n), alignment) : buffer_.extend(xdr_padded(n));
    std::memset(p + n, 0, xdr_padded(n) - n);
    return {p, n};
  }
  // The last thing written was reserve_opaque(was): now it has `now` <= was bytes.
  void shrink_opaque(std::size_t was, std::size_t now) {
    std::size_t start = size() - xdr_padded(was);
    buffer_.resize(start + xdr_padded(now));
    std::memset(buffer_.data() + start + now, 0, xdr_padded(now) - now);
    patch_u32(start - 4, static_cast<std::uint32_t>(now));
  }

  void patch_u32(std::size_t offset, std::uint32_t value) { store_be(buffer_.data() + offset, value); }
  void patch_u64(std::size_t offset, std::uint64_t value) { store_be(buffer_.data() + offset, value); }
  // Takes back what was written after `size`, for a handler that must answer an error instead.
  void rewind(std::size_t size) { buffer_.resize(size); }

  std::size_t size() const { return buffer_.size(); }
  ByteView view() const { return buffer_.view(); }
  Buffer take() { return std::move(buffer_); }

 private:
  Buffer buffer_;
};

}  // namespace slice::rpc

#endif  // SLICE_RPC_XDR_H
