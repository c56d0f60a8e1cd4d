#include "storagenode/backing/backing_program.h"

namespace slice::storagenode {

BackingProgram::BackingProgram(BackingFiles& files, Metrics& metrics)
    : InternalProgram(wire::kBackingProgram,
                      &metrics.counter("storage_backing_calls_total", "calls of the backing program")),
      files_(files) {
  using Procedure = wire::BackingProcedure;
  on<wire::BackingAttachArgs>(Procedure::kAttach, [this](const auto& args) { return files_.attach(args); });
  on<wire::BackingOwnerArgs>(Procedure::kRenew, [this](const auto& args) { return files_.renew(args); });
  on<wire::BackingOwnerArgs>(Procedure::kLetGo, [this](const auto& args) { return files_.let_go(args); });
  on<wire::BackingChangeArgs>(Procedure::kChange, [this](const auto& args) { return files_.change(args); });
  on<wire::BackingReadArgs>(
      Procedure::kRead, [this](const auto& args, rpc::XdrWriter& results) { return read(args, results); });
  on<wire::BackingListArgs>(Procedure::kList, [this](const auto& args) { return files_.list(args); });
  on<wire::BackingDigestArgs>(Procedure::kDigest, [this](const auto& args) { return files_.digest(args); });
}

Task<rpc::Outcome> BackingProgram::read(const wire::BackingReadArgs& args, rpc::XdrWriter& results) {
  Buffer bytes;
  encode(results, co_await files_.read(args, bytes));
  co_return rpc::Outcome::kReply;
}

}  // namespace slice::storagenode
