// Bytes: views, big-endian loads and stores, and a growable buffer that does not zero what it grows.
#ifndef SLICE_COMMON_BYTES_H
#define SLICE_COMMON_BYTES_H

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace slice {

using ByteView = std::span<const std::uint8_t>;
using ByteSpan = std::span<std::uint8_t>;

inline ByteView as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}
inline std::string_view as_text(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <class T>
constexpr T to_big_endian(T value) {
  if constexpr (std::endian::native == std::endian::big || sizeof(T) == 1) {
    return value;
  } else if constexpr (sizeof(T) == 2) {
    return static_cast<T>(__builtin_bswap16(value));
  } else if constexpr (sizeof(T) == 4) {
    return static_cast<T>(__builtin_bswap32(value));
  } else {
    return static_cast<T>(__builtin_bswap64(value));
  }
}

// `at` must have sizeof(T) readable or writable bytes; the caller has checked.
template <class T>
T load_be(const std::uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return to_big_endian(value);
}
template <class T>
void store_be(std::uint8_t* at, T value) {
  value = to_big_endian(value);
  std::memcpy(at, &value, sizeof value);
}

// Lower-case hexadecimal, two digits a byte.
std::string to_hex(ByteView bytes);

namespace bytes_internal {

struct Free {
  std::size_t before = 0;  // bytes that were allocated before the first, so that later ones are aligned
  void operator()(std::uint8_t* first) const { std::free(first - before); }
};

}  // namespace bytes_internal

// A growable run of bytes with one owner. Growing leaves new bytes uninitialised, since they are about to
// be read into or encoded into. Not thread-safe. Views into it are invalidated by every growth.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t size) { resize(size); }
  explicit Buffer(ByteView bytes) { append(bytes); }
  Buffer(Buffer&& other) noexcept
      : data_(std::move(other.data_)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::uint8_t* data() { return data_.get(); }
  const std::uint8_t* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  ByteView view() const { return {data_.get(), size_}; }
  ByteSpan span() { return {data_.get(), size_}; }

  void reserve(std::size_t capacity);
  void resize(std::size_t size) {
    if (size > capacity_) reserve(std::max(size, capacity_ * 2));
    size_ = size;
  }
  void clear() { size_ = 0; }
  // Adds n uninitialised bytes and returns where they start; valid until the next growth.
  std::uint8_t* extend(std::size_t n) {
    resize(size_ + n);
    return data_.get() + size_ - n;
  }
  // The same from a multiple of `alignment` on, a power of two; what is there may move.
  std::uint8_t* extend_aligned(std::size_t n, std::size_t alignment);
  void append(ByteView bytes) {
    if (!bytes.empty()) std::memcpy(extend(bytes.size()), bytes.data(), bytes.size());
  }
  Buffer clone() const { return Buffer(view()); }

 private:
  std::unique_ptr<std::uint8_t, bytes_internal::Free> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace slice

#endif  // SLICE_COMMON_BYTES_H
