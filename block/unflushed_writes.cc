#include "block/unflushed_writes.h"

#include <algorithm>
#include <utility>

namespace slice::block {
namespace {

using Piece = UnflushedWrites::Piece;

std::uint64_t end_of(const Piece& piece) {
  return piece.offset + piece.size;
}

// The part in [begin, end), of which there is some.
Piece part(const Piece& of, std::uint64_t begin, std::uint64_t end) {
  Piece out = of;
  out.offset = std::max(begin, of.offset);
  out.from += out.offset - of.offset;
  out.size = std::min(end, end_of(of)) - out.offset;
  return out;
}

}  // namespace

template <class Of>
auto UnflushedWrites::first_behind(Of& pieces, std::uint64_t offset) {
  auto at = pieces.upper_bound(offset);
  if (at != pieces.begin() && end_of(std::prev(at)->second) > offset) --at;
  return at;
}

UnflushedWrites::Pieces::iterator UnflushedWrites::erase(Pieces::iterator piece) {
  bytes_ -= piece->second.size;
  return pieces_.erase(piece);
}

void UnflushedWrites::insert(Piece piece) {
  bytes_ += piece.size;
  const std::uint64_t offset = piece.offset;
  pieces_.insert_or_assign(offset, std::move(piece));
}

void UnflushedWrites::add(std::uint64_t offset, std::shared_ptr<const Buffer> data, std::size_t from,
                          std::size_t size, Verifier verifier) {
  forget(offset, size);
  insert({.offset = offset,
          .data = std::move(data),
          .from = from,
          .size = size,
          .verifier = verifier,
          .number = ++number_});
}

void UnflushedWrites::forget(std::uint64_t offset, std::uint64_t size) {
  const std::uint64_t end = offset + size;
  for (auto at = first_behind(pieces_, offset); at != pieces_.end() && at->second.offset < end;) {
    const Piece piece = std::move(at->second);
    bytes_ -= piece.size;
    at = pieces_.erase(at);
    if (piece.offset < offset) insert(part(piece, piece.offset, offset));
    if (end_of(piece) > end) insert(part(piece, end, end_of(piece)));
  }
}

std::vector<Piece> UnflushedWrites::within(std::uint64_t offset, std::uint64_t size) const {
  std::vector<Piece> out;
  const std::uint64_t end = offset + size;
  for (auto at = first_behind(pieces_, offset); at != pieces_.end() && at->second.offset < end; ++at)
    out.push_back(part(at->second, offset, end));
  return out;
}

void UnflushedWrites::forget_committed(std::uint64_t last, Verifier verifier) {
  for (auto at = pieces_.begin(); at != pieces_.end();)
    at = at->second.number <= last && at->second.verifier == verifier ? erase(at) : std::next(at);
}

std::vector<Piece> UnflushedWrites::others(std::uint64_t last, Verifier verifier) const {
  std::vector<Piece> out;
  for (const auto& [offset, piece] : pieces_) {
    if (piece.number <= last && piece.verifier != verifier) out.push_back(piece);
  }
  return out;
}

void put_pieces(const std::vector<Piece>& pieces, std::uint64_t offset, ByteSpan into) {
  for (const Piece& piece : pieces) {
    const ByteSpan to = into.subspan(piece.offset - offset, piece.size);
    if (piece.data == nullptr) {
      std::ranges::fill(to, std::uint8_t{0});
    } else {
      std::ranges::copy(piece.bytes(), to.begin());
    }
  }
}

}  // namespace slice::block
