// PeerService: the directory program (wire/directory.h): what other directory servers ask of this one. One
// loop.
#ifndef SLICE_DIRSERVER_ACROSS_PEER_SERVICE_H
#define SLICE_DIRSERVER_ACROSS_PEER_SERVICE_H

#include "dirserver/across/intentions.h"
#include "dirserver/across/name_space.h"
#include "dirserver/across/participant.h"
#include "service/internal_program.h"

namespace slice::dirserver {

class PeerService : public service::InternalProgram {
 public:
  // All must outlive this.
  PeerService(NameSpace& names, DirectoryParts& parts, Participant& participant,
              const Intentions& intentions);

 private:
  Task<wire::PeerResult> prepare(const wire::PrepareArgs& args);
  Task<wire::PeerResult> finish(const wire::FinishArgs& args);
  wire::OutcomeResult outcome(const wire::OutcomeArgs& args);
  Task<wire::CellResult> read(const wire::CellReadArgs& args);
  Task<wire::CellResult> touch(const wire::TouchArgs& args);
  wire::PeerResult revoke(const wire::RevokeArgs& args);
  Task<wire::ListResult> list(const wire::ListArgs& args);

  NameSpace& names_;
  DirectoryParts& parts_;
  Participant& participant_;
  const Intentions& intentions_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_ACROSS_PEER_SERVICE_H
