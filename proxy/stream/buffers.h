// Bytes on their way through the proxy: read into chunks, passed on as slices of them, never copied but for
// small pieces. Everything here belongs to one worker's thread; counts are not atomic.
#ifndef SLICE_PROXY_STREAM_BUFFERS_H
#define SLICE_PROXY_STREAM_BUFFERS_H

#include <cstdint>
#include <utility>
#include <vector>

#include "common/bytes.h"

namespace slice::proxy {

inline constexpr std::size_t kReadChunk = 256 << 10;    // what one read from a socket may bring
inline constexpr std::size_t kSmallChunk = 16 << 10;    // where small pieces are put one behind the other
inline constexpr std::size_t kCoalesceLimit = 4 << 10;  // pieces up to this size are copied together

class ChunkPool;

// A run of memory, counted. Freed, or kept by its pool for the next one of its size, with its last reference.
class Chunk {
 public:
  std::uint8_t* data() { return memory_; }
  std::size_t capacity() const { return capacity_; }
  std::size_t used = 0;  // how far it is filled; only the one who fills it moves this
  std::size_t room() const { return capacity_ - used; }

 private:
  friend class ChunkPool;
  friend class ChunkRef;
  ChunkPool* pool_ = nullptr;
  std::uint8_t* memory_ = nullptr;  // right behind this, or that of adopted_
  std::size_t capacity_ = 0;
  std::size_t references_ = 0;
  Buffer adopted_;
};

class ChunkRef {
 public:
  ChunkRef() = default;
  explicit ChunkRef(Chunk* chunk) : chunk_(chunk) { hold(); }
  ChunkRef(const ChunkRef& other) : chunk_(other.chunk_) { hold(); }
  ChunkRef(ChunkRef&& other) noexcept : chunk_(std::exchange(other.chunk_, nullptr)) {}
  ChunkRef& operator=(ChunkRef other) noexcept {
    std::swap(chunk_, other.chunk_);
    return *this;
  }
  ~ChunkRef();
  Chunk* get() const { return chunk_; }
  Chunk* operator->() const { return chunk_; }
  explicit operator bool() const { return chunk_ != nullptr; }
  bool unique() const { return chunk_->references_ == 1; }

 private:
  void hold() {
    if (chunk_ != nullptr) ++chunk_->references_;
  }
  Chunk* chunk_ = nullptr;
};

// Some bytes of a chunk, and a share in it.
struct BufferRef {
  ChunkRef chunk;
  const std::uint8_t* data = nullptr;
  std::size_t size = 0;
  ByteView view() const { return {data, size}; }
  BufferRef sub(std::size_t offset, std::size_t length) const { return {chunk, data + offset, length}; }
};

// Bytes that lie in several slices, in order.
class BufferChain {
 public:
  // Joined to the last slice where it lies right behind it.
  void append(BufferRef slice);
  void append(const BufferChain& other);
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  void clear() {
    slices_.clear();
    size_ = 0;
  }
  const std::vector<BufferRef>& slices() const { return slices_; }
  // The bytes [offset, offset + length), which must be there.
  BufferChain sub(std::size_t offset, std::size_t length) const;
  // The first min(n, size()) bytes in one run: where they lie, or copied to `scratch` (n bytes).
  ByteView head(std::size_t n, std::uint8_t* scratch) const;
  // The bytes from `from` on, which must be there.
  void copy_to(std::uint8_t* into, std::size_t from = 0) const;

 private:
  std::vector<BufferRef> slices_;
  std::size_t size_ = 0;
};

// Makes chunks and keeps some of the two usual sizes. Outlives every reference to its chunks.
class ChunkPool {
 public:
  ChunkPool() = default;
  ChunkPool(const ChunkPool&) = delete;
  ChunkPool& operator=(const ChunkPool&) = delete;
  ~ChunkPool();

  ChunkRef make(std::size_t capacity);
  // A chunk with room for a read of at least `wanted` bytes (at most kReadChunk). Reads fill it one behind
  // the other; it starts again at its beginning when nobody refers to what was read before.
  ChunkRef reading(std::size_t wanted);
  // `size` bytes (at most kCoalesceLimit side by side with their like) to be filled by the caller.
  BufferRef place(std::size_t size, std::uint8_t*& into);
  BufferRef copy(ByteView bytes);
  // The same bytes, in the memory where they lie; short ones are copied all the same.
  BufferRef adopt(Buffer bytes);
  std::size_t bytes_in_use() const { return in_use_; }

 private:
  friend class ChunkRef;
  // With room for that many bytes behind it.
  static Chunk* allocate(std::size_t behind);
  ChunkRef own(Chunk* chunk, std::uint8_t* memory, std::size_t capacity);
  void give_back(Chunk* chunk);
  static void destroy(Chunk* chunk);

  std::vector<Chunk*> spare_read_, spare_small_;
  ChunkRef reading_, small_;
  std::size_t in_use_ = 0;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_STREAM_BUFFERS_H
