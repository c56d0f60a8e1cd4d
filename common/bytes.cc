#include "common/bytes.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace slice {

std::string to_hex(ByteView bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (std::uint8_t byte : bytes) {
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

void Buffer::reserve(std::size_t capacity) {
  if (capacity <= capacity_) return;
  const bool is_aligned = data_.get_deleter().before != 0;
  void* grown = is_aligned ? std::malloc(capacity) : std::realloc(data_.get(), capacity);
  if (grown == nullptr) throw std::bad_alloc();
  if (is_aligned) {
    if (size_ > 0) std::memcpy(grown, data_.get(), size_);
  } else {
    (void)data_.release();
  }
  data_ = {static_cast<std::uint8_t*>(grown), bytes_internal::Free{}};
  capacity_ = capacity;
}

std::uint8_t* Buffer::extend_aligned(std::size_t n, std::size_t alignment) {
  const auto end = reinterpret_cast<std::uintptr_t>(data_.get() + size_);
  if (capacity_ - size_ >= n && end % alignment == 0) return extend(n);
  const std::size_t before = (alignment - size_ % alignment) % alignment;
  const std::size_t all = (before + size_ + n + alignment - 1) / alignment * alignment;
  auto* made = static_cast<std::uint8_t*>(std::aligned_alloc(alignment, all));
  if (made == nullptr) throw std::bad_alloc();
  if (size_ > 0) std::memcpy(made + before, data_.get(), size_);
  data_ = {made + before, bytes_internal::Free{before}};
  capacity_ = all - before;
  return extend(n);
}

}  // namespace slice
