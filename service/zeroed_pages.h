// Memory that is zero, and takes none of the machine's until it is touched, a page at a time: for tables that
// are large where there is much to do and stay nearly empty elsewhere.
#ifndef SLICE_SERVICE_ZEROED_PAGES_H
#define SLICE_SERVICE_ZEROED_PAGES_H

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>

namespace slice {

class ZeroedPages {
 public:
  // Throws std::bad_alloc where the address space has no room for it.
  explicit ZeroedPages(std::size_t bytes) : bytes_(bytes) {
    memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~ZeroedPages() { ::munmap(memory_, bytes_); }
  ZeroedPages(const ZeroedPages&) = delete;
  ZeroedPages& operator=(const ZeroedPages&) = delete;

  // At this many bytes from the beginning, which is aligned to a page.
  template <class T>
  T* at(std::size_t offset) const {
    return reinterpret_cast<T*>(static_cast<std::uint8_t*>(memory_) + offset);
  }

 private:
  const std::size_t bytes_;
  void* memory_;
};

}  // namespace slice

#endif  // SLICE_SERVICE_ZEROED_PAGES_H
