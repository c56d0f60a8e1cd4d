// UnflushedWrites: what was acknowledged and may not be durable yet, with its bytes, of holes how many: so
// that they can be written again where a server lost them with its memory, and read until then. Of
// overlapping ones the later counts. One loop.
#ifndef SLICE_BLOCK_UNFLUSHED_WRITES_H
#define SLICE_BLOCK_UNFLUSHED_WRITES_H

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "common/bytes.h"
#include "common/ids.h"

namespace slice::block {

class UnflushedWrites {
 public:
  struct Piece {
    std::uint64_t offset = 0;
    std::shared_ptr<const Buffer> data;  // of which these are; none: a hole
    std::size_t from = 0, size = 0;
    Verifier verifier;         // that it was answered with
    std::uint64_t number = 0;  // of the write: later ones have greater ones
    ByteView bytes() const { return data->view().subspan(from, size); }  // not of a hole
  };

  void add(std::uint64_t offset, std::shared_ptr<const Buffer> data, std::size_t from, std::size_t size,
           Verifier verifier);
  // The range is durable, as something else has written it.
  void forget(std::uint64_t offset, std::uint64_t size);
  // Pieces, or parts of them, in the range.
  std::vector<Piece> within(std::uint64_t offset, std::uint64_t size) const;

  // Of those up to `last`: with this verifier, which are durable after a COMMIT that was answered with it;
  // and the others, of which nobody knows.
  void forget_committed(std::uint64_t last, Verifier verifier);
  std::vector<Piece> others(std::uint64_t last, Verifier verifier) const;

  std::uint64_t last() const { return number_; }
  std::uint64_t bytes() const { return bytes_; }
  bool empty() const { return pieces_.empty(); }

 private:
  using Pieces = std::map<std::uint64_t, Piece>;
  Pieces::iterator erase(Pieces::iterator piece);
  void insert(Piece piece);
  // The first that ends behind `offset`.
  template <class Of>
  static auto first_behind(Of& pieces, std::uint64_t offset);

  Pieces pieces_;  // by offset; none overlaps another
  std::uint64_t number_ = 0, bytes_ = 0;
};

// What of these pieces lies in [offset, offset + into.size()), in its place.
void put_pieces(const std::vector<UnflushedWrites::Piece>& pieces, std::uint64_t offset, ByteSpan into);

}  // namespace slice::block

#endif  // SLICE_BLOCK_UNFLUSHED_WRITES_H
