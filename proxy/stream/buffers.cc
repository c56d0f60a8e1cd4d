#include "proxy/stream/buffers.h"

#include <cassert>
#include <new>

namespace slice::proxy {
namespace {

constexpr std::size_t kSpareRead = 128;   // chunks kept: 32 MiB a worker at most
constexpr std::size_t kSpareSmall = 256;  // 4 MiB

}  // namespace

ChunkRef::~ChunkRef() {
  if (chunk_ != nullptr && --chunk_->references_ == 0) chunk_->pool_->give_back(chunk_);
}

void BufferChain::append(BufferRef slice) {
  if (slice.size == 0) return;
  size_ += slice.size;
  if (!slices_.empty()) {
    BufferRef& last = slices_.back();
    if (last.chunk.get() == slice.chunk.get() && last.data + last.size == slice.data) {
      last.size += slice.size;
      return;
    }
  }
  slices_.push_back(std::move(slice));
}

void BufferChain::append(const BufferChain& other) {
  for (const BufferRef& slice : other.slices_) append(slice);
}

BufferChain BufferChain::sub(std::size_t offset, std::size_t length) const {
  assert(offset + length <= size_);
  BufferChain part;
  for (const BufferRef& slice : slices_) {
    if (length == 0) break;
    if (offset >= slice.size) {
      offset -= slice.size;
      continue;
    }
    std::size_t n = std::min(length, slice.size - offset);
    part.append(slice.sub(offset, n));
    offset = 0;
    length -= n;
  }
  return part;
}

ByteView BufferChain::head(std::size_t n, std::uint8_t* scratch) const {
  n = std::min(n, size_);
  if (n == 0) return {};
  if (slices_.front().size >= n) return {slices_.front().data, n};
  std::size_t copied = 0;
  for (const BufferRef& slice : slices_) {
    std::size_t part = std::min(slice.size, n - copied);
    std::memcpy(scratch + copied, slice.data, part);
    copied += part;
    if (copied == n) break;
  }
  return {scratch, n};
}

void BufferChain::copy_to(std::uint8_t* into, std::size_t from) const {
  for (const BufferRef& slice : slices_) {
    std::size_t skipped = std::min(from, slice.size);
    from -= skipped;
    std::memcpy(into, slice.data + skipped, slice.size - skipped);
    into += slice.size - skipped;
  }
}

ChunkPool::~ChunkPool() {
  reading_ = {};
  small_ = {};
  assert(in_use_ == 0);
  for (Chunk* chunk : spare_read_) destroy(chunk);
  for (Chunk* chunk : spare_small_) destroy(chunk);
}

Chunk* ChunkPool::allocate(std::size_t behind) {
  void* memory = std::malloc(sizeof(Chunk) + behind);
  if (memory == nullptr) throw std::bad_alloc();
  return new (memory) Chunk;
}

ChunkRef ChunkPool::make(std::size_t capacity) {
  auto* spare = capacity == kReadChunk ? &spare_read_ : capacity == kSmallChunk ? &spare_small_ : nullptr;
  Chunk* chunk = nullptr;
  if (spare != nullptr && !spare->empty()) {
    chunk = spare->back();
    spare->pop_back();
  } else {
    chunk = allocate(capacity);
  }
  chunk->used = 0;
  return own(chunk, reinterpret_cast<std::uint8_t*>(chunk + 1), capacity);
}

ChunkRef ChunkPool::own(Chunk* chunk, std::uint8_t* memory, std::size_t capacity) {
  chunk->pool_ = this;
  chunk->memory_ = memory;
  chunk->capacity_ = capacity;
  in_use_ += capacity;
  return ChunkRef(chunk);
}

void ChunkPool::give_back(Chunk* chunk) {
  in_use_ -= chunk->capacity_;
  if (!chunk->adopted_.empty()) {
    destroy(chunk);
  } else if (chunk->capacity_ == kReadChunk && spare_read_.size() < kSpareRead) {
    spare_read_.push_back(chunk);
  } else if (chunk->capacity_ == kSmallChunk && spare_small_.size() < kSpareSmall) {
    spare_small_.push_back(chunk);
  } else {
    destroy(chunk);
  }
}

void ChunkPool::destroy(Chunk* chunk) {
  chunk->~Chunk();
  std::free(chunk);
}

ChunkRef ChunkPool::reading(std::size_t wanted) {
  if (reading_ && reading_.unique()) reading_->used = 0;
  if (!reading_ || reading_->room() < std::min(wanted, kReadChunk)) reading_ = make(kReadChunk);
  return reading_;
}

BufferRef ChunkPool::place(std::size_t size, std::uint8_t*& into) {
  if (size > kCoalesceLimit) {
    ChunkRef own = make(size);
    own->used = size;
    into = own->data();
    return {std::move(own), into, size};
  }
  if (small_ && small_.unique()) small_->used = 0;
  if (!small_ || small_->room() < size) small_ = make(kSmallChunk);
  into = small_->data() + small_->used;
  small_->used += size;
  return {small_, into, size};
}

BufferRef ChunkPool::copy(ByteView bytes) {
  std::uint8_t* into = nullptr;
  BufferRef slice = place(bytes.size(), into);
  if (!bytes.empty()) std::memcpy(into, bytes.data(), bytes.size());
  return slice;
}

BufferRef ChunkPool::adopt(Buffer bytes) {
  if (bytes.size() <= kCoalesceLimit) return copy(bytes.view());
  Chunk* chunk = allocate(0);
  chunk->adopted_ = std::move(bytes);
  chunk->used = chunk->adopted_.size();
  return {own(chunk, chunk->adopted_.data(), chunk->used), chunk->adopted_.data(), chunk->used};
}

}  // namespace slice::proxy
