// PeerService: the directory program (wire/directory.h): what other directory servers ask of this one. One
// loop.
#ifndef SLICE_DIRSERVER_PEER_SERVICE_H
#define SLICE_DIRSERVER_PEER_SERVICE_H

#include "dirserver/volume.h"
#include "rpc/dispatcher.h"

namespace slice::dirserver {

class PeerService : public rpc::Program {
 public:
  explicit PeerService(Volume& volume) : volume_(volume) {}

  std::uint32_t number() const override { return wire::kDirectoryProgram; }
  std::uint32_t version() const override { return wire::kInternalVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override;

 private:
  Task<wire::LockResult> serve(const wire::LockArgs& args);
  Task<wire::PeerResult> serve(const wire::PrepareArgs& args);
  Task<wire::PeerResult> serve(const wire::FinishArgs& args);
  Task<wire::OutcomeResult> serve(const wire::OutcomeArgs& args);
  Task<wire::CellResult> serve(const wire::CellReadArgs& args);
  Task<wire::CellResult> serve(const wire::TouchArgs& args);
  Task<wire::PeerResult> serve(const wire::RevokeArgs& args);
  Task<wire::ListResult> serve(const wire::ListArgs& args);

  template <class Args>
  Task<rpc::Outcome> answer(const rpc::Call& call, rpc::XdrWriter& results);

  Volume& volume_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_PEER_SERVICE_H
