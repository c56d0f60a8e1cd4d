// PeerService: the directory program (wire/directory.h): what other directory servers ask of this one. One
// loop.
#ifndef SLICE_DIRSERVER_ACROSS_PEER_SERVICE_H
#define SLICE_DIRSERVER_ACROSS_PEER_SERVICE_H

#include <functional>

#include "dirserver/across/intentions.h"
#include "dirserver/across/name_space.h"
#include "dirserver/across/participant.h"
#include "service/internal_program.h"

namespace slice::dirserver {

class PeerService : public service::InternalProgram {
 public:
  // What becomes of CELLS.
  using TakeCells = std::function<wire::PeerResult(const wire::CellsArgs& args)>;
  // All must outlive this.
  PeerService(NameSpace& names, DirectoryParts& parts, Participant& participant, const Intentions& intentions,
              Peers& peers, TakeCells take_cells);

 private:
  Task<wire::PeerResult> prepare(const wire::PrepareArgs& args);
  Task<wire::PeerResult> finish(const wire::FinishArgs& args);
  Task<wire::OutcomeResult> outcome(const wire::OutcomeArgs& args);
  Task<wire::CellResult> read(const wire::CellReadArgs& args);
  Task<wire::CellResult> touch(const wire::TouchArgs& args);
  wire::PeerResult revoke(const wire::RevokeArgs& args);
  Task<wire::ListResult> list(const wire::ListArgs& args);
  wire::OwnerResult owner(const wire::OwnerArgs& args);

  NameSpace& names_;
  Peers& peers_;
  TakeCells take_cells_;
  DirectoryParts& parts_;
  Participant& participant_;
  const Intentions& intentions_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_ACROSS_PEER_SERVICE_H
