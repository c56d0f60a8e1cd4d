#include "proxy/stream/out_queue.h"

#include <sys/uio.h>

#include <algorithm>
#include <cassert>

namespace slice::proxy {
namespace {

constexpr std::size_t kVectors = 128;  // of one sendmsg

void add(std::vector<BufferRef>& slices, const BufferRef& slice) {
  if (!slices.empty()) {
    BufferRef& last = slices.back();
    if (last.chunk.get() == slice.chunk.get() && last.data + last.size == slice.data) {
      last.size += slice.size;
      return;
    }
  }
  slices.push_back(slice);
}

}  // namespace

void OutQueue::push(const BufferChain& record) {
  if (entries_.empty() || entries_.back().open) entries_.emplace_back();
  Entry& entry = entries_.back();
  for (const BufferRef& slice : record.slices()) add(entry.slices, slice);
  bytes_ += record.size();
}

OutQueue::StreamId OutQueue::open() {
  Entry& entry = entries_.emplace_back();
  entry.open = true;
  entry.id = ++last_id_;
  return entry.id;
}

OutQueue::Entry* OutQueue::find(StreamId stream) {
  for (Entry& entry : entries_) {
    if (entry.id == stream) return &entry;
  }
  return nullptr;
}

void OutQueue::append(StreamId stream, const BufferRef& piece) {
  Entry* entry = find(stream);
  assert(entry != nullptr && entry->open);
  add(entry->slices, piece);
  bytes_ += piece.size;
}

void OutQueue::close(StreamId stream) {
  Entry* entry = find(stream);
  assert(entry != nullptr && entry->open);
  entry->open = false;
  entry->id = 0;
  if (entry == &entries_.front() && entry->next == entry->slices.size()) entries_.pop_front();
}

bool OutQueue::abort(StreamId stream) {
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->id != stream) continue;
    if (entry->started) return false;
    for (const BufferRef& slice : entry->slices) bytes_ -= slice.size;
    entries_.erase(entry);
    return true;
  }
  return true;
}

void OutQueue::clear() {
  entries_.clear();
  bytes_ = 0;
}

OutQueue::Flushed OutQueue::flush(Stream& to) {
  using Outcome = rpc::Written::Outcome;
  rpc::Session* session = to.session();
  while (bytes_ > 0 || to.has_to_say()) {
    iovec vectors[kVectors];
    std::size_t used = 0;
    for (Entry& entry : entries_) {
      for (std::size_t i = entry.next; i < entry.slices.size() && used < kVectors; ++i) {
        const BufferRef& slice = entry.slices[i];
        vectors[used++] = {const_cast<std::uint8_t*>(slice.data), slice.size};
      }
      if (entry.open || used == kVectors) break;
    }
    // The record at the front may wait for its next piece.
    if (used == 0 && !to.has_to_say()) return Flushed::kAll;
    const rpc::Written done = to.write({vectors, used});
    consume(done.plain);
    if (session != nullptr) mark_started(session->sealed());
    if (done.outcome == Outcome::kBlocked) return Flushed::kBlocked;
    if (done.outcome == Outcome::kBroken) return Flushed::kFailed;
    if (done.outcome == Outcome::kWaits) return Flushed::kAll;
  }
  return Flushed::kAll;
}

void OutQueue::mark_started(std::size_t bytes) {
  for (auto entry = entries_.begin(); bytes > 0 && entry != entries_.end(); ++entry) {
    entry->started = true;
    for (std::size_t i = entry->next; i < entry->slices.size(); ++i) {
      bytes -= std::min(bytes, entry->slices[i].size);
    }
  }
}

void OutQueue::consume(std::size_t written) {
  bytes_ -= written;
  while (!entries_.empty()) {
    Entry& entry = entries_.front();
    if (written > 0) entry.started = true;
    while (entry.next < entry.slices.size()) {
      BufferRef& slice = entry.slices[entry.next];
      if (written < slice.size) {
        slice.data += written;
        slice.size -= written;
        return;
      }
      written -= slice.size;
      slice = {};
      ++entry.next;
    }
    if (entry.open) {
      entry.slices.clear();
      entry.next = 0;
      return;
    }
    entries_.pop_front();
  }
}

void OutQueue::compact(ChunkPool& pool, std::size_t looseness) {
  for (Entry& entry : entries_) {
    for (std::size_t i = entry.next; i < entry.slices.size(); ++i) {
      BufferRef& slice = entry.slices[i];
      if (slice.chunk->capacity() < slice.size * looseness) continue;
      ChunkRef own = pool.make(slice.size);
      std::memcpy(own->data(), slice.data, slice.size);
      own->used = slice.size;
      slice.data = own->data();
      slice.chunk = std::move(own);
    }
  }
}

}  // namespace slice::proxy
