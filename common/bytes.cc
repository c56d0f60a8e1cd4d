#include "common/bytes.h"

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
  void* grown = std::realloc(data_.get(), capacity);
  if (grown == nullptr) throw std::bad_alloc();
  (void)data_.release();
  data_.reset(static_cast<std::uint8_t*>(grown));
  capacity_ = capacity;
}

}  // namespace slice
