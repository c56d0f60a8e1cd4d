// CoordinatorProgram: the coordinator program (wire/coordinator.h). TRUNCATE and REMOVE, for directory
// servers; SESSION, LAYOUT and MISSED, for storage nodes; MAP, for whoever sends requests on their way; MOVE,
// for an operator; EMPTIED, for the manager;
// RECEIVE, for the coordinator that sites come from. What is of a file whose site is
// elsewhere is passed on to who has it; but LAYOUT, which is answered with who that is. One loop.
#ifndef SLICE_COORDINATOR_PROGRAM_H
#define SLICE_COORDINATOR_PROGRAM_H

#include "coordinator/evacuation.h"
#include "coordinator/file_gate.h"
#include "coordinator/ops/move.h"
#include "coordinator/ops/remove.h"
#include "coordinator/ops/truncate.h"
#include "coordinator/sites.h"
#include "coordinator/spreading.h"
#include "service/internal_call.h"
#include "service/internal_program.h"
#include "wire/coordinator.h"

namespace slice::coordinator {

class CoordinatorProgram : public service::InternalProgram {
 public:
  // What the procedures go to; all outlive it.
  struct Parts {
    FileGate& gate;
    TruncateOperation& truncate;
    RemoveOperation& remove;
    MoveOperation& move;
    Sessions& sessions;
    Layouts& layouts;
    Evacuation& evacuation;
    Spreading& spreading;
    Sites& sites;
  };
  CoordinatorProgram(service::ServiceContext& context, Parts parts);

  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override;

 private:
  template <class Args>
  void serve_by(wire::CoordinatorProcedure procedure) {
    on<Args>(procedure, [this](const Args& args) { return serve(args); });
  }
  Task<wire::CoordinatorResult> serve(const wire::CoordinatorTruncateArgs& args);
  Task<wire::CoordinatorResult> serve(const wire::CoordinatorRemoveArgs& args);
  Task<wire::SessionResult> serve(const wire::SessionArgs& args);
  Task<wire::CoordinatorResult> serve(const wire::EndSessionArgs& args);
  Task<wire::LayoutResult> serve(const wire::LayoutArgs& args);
  Task<wire::MapResult> serve(const wire::MapArgs& args);
  Task<wire::CoordinatorResult> serve(const wire::MoveArgs& args);
  Task<wire::CoordinatorResult> serve(const wire::MissedArgs& args);
  Task<wire::EmptiedResult> serve(const wire::EmptiedArgs& args);
  Task<wire::CoordinatorResult> serve(const wire::SpreadArgs& args);
  Task<wire::SpreadingResult> serve(const service::NoArguments& none);
  Task<wire::CoordinatorResult> serve(const wire::ReceiveArgs& args) { return parts_.sites.receive(args); }

  // The regular file that the call is of; nothing where it is of none.
  std::optional<FileId> file_of(const rpc::Call& call) const;
  // The file of a request; nothing with the reason in `status`. handle() has seen to it that it is this
  // coordinator's.
  std::optional<routing::FileHandle> admit(ByteView bytes, nfs3::Status& status) const;
  // For what is another server's: true; false: it is ours by newer tables.
  Task<bool> redirect(const rpc::Call& call, FileId file, rpc::XdrWriter& results);
  // kJukebox, as the procedure's results have it; `owner`: who has the file's site.
  static void put_off(const rpc::Call& call, std::uint32_t owner, rpc::XdrWriter& results);

  service::ServiceContext& context_;
  Parts parts_;
  LogLimiter log_{1};
  Counter& misdirected_;
  Counter& relayed_;
};

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_PROGRAM_H
