// Spreading: evens out on which storage servers files with a layout are, in the background, where an operator
// asks for it (docs/block-maps.md). One loop.
#ifndef SLICE_COORDINATOR_SPREADING_H
#define SLICE_COORDINATOR_SPREADING_H

#include <string>

#include "coordinator/balance.h"
#include "coordinator/layouts.h"
#include "coordinator/ops/move.h"
#include "coordinator/pieces.h"

namespace slice::coordinator {

class Spreading {
 public:
  struct Parts {
    FileGate& gate;
    BlockMaps& maps;
    Sessions& sessions;
    Layouts& layouts;
    MoveOperation& move;
  };
  // All outlive it.
  Spreading(service::ServiceContext& context, Parts parts, std::uint64_t bytes_per_second);

  // The coordinator program's SPREAD.
  nfs3::Status begin(const wire::SpreadArgs& args);
  void stop();
  bool goes_on() const { return working_; }
  // For status: what it does; empty: nothing.
  std::string detail() const;

 private:
  Task<void> work(std::vector<wire::ServerShare> shares);
  // Calls `visit` for every piece once, of one without a record where its first stripe is.
  Task<Status> each_piece(Pieces::Visit visit);
  std::vector<Balance::Servers> copies_of(const routing::FileHandle& handle, const wire::MapPiece& piece,
                                          std::uint64_t stripes) const;
  Task<void> spread(routing::FileHandle handle, wire::MapPiece piece, std::uint64_t stripes,
                    Balance& balance);

  service::ServiceContext& context_;
  Parts parts_;
  const std::uint64_t bytes_per_second_;
  Pieces pieces_;
  bool working_ = false, counting_ = false, stopping_ = false;
  std::uint64_t left_ = 0;
  Counter& moved_;
  Counter& failed_;
};

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_SPREADING_H
