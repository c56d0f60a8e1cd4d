// The coordinator program of slice-coordd: operations over the several servers that hold one file's bytes.
// (COMMIT comes to it as the NFS procedure.) Both answer when the intention is durable and every part has
// ended.
#ifndef SLICE_WIRE_COORDINATOR_H
#define SLICE_WIRE_COORDINATOR_H

#include "common/ids.h"
#include "wire/internal.h"
#include "wire/nfs3.h"

namespace slice::wire {

enum class CoordinatorProcedure : std::uint32_t {
  kNull = 0,
  kTruncate = 1,
  kRemove = 2,
  kSession = 3,  // this and those below: wire/layout.h
  kLayout = 4,
  kMissed = 5,
  kMap = 6,
  kMove = 7,
  kReceive = 8,
  kEmptied = 9,
  kSpread = 10,
  kSpreading = 11,
  kEndSession = 12
};

struct CoordinatorTruncateArgs {
  ByteView handle;
  std::uint64_t size = 0;
  Epoch epoch;
};
// REMOVE answers as soon as its intention is durable: from then on the coordinator owes the removal.
struct CoordinatorRemoveArgs {
  ByteView handle;
};
struct CoordinatorResult {
  nfs3::Status status = nfs3::Status::kOk;
};

void encode(rpc::XdrWriter& out, const CoordinatorTruncateArgs& args);
bool decode(ByteView bytes, CoordinatorTruncateArgs& out);
void encode(rpc::XdrWriter& out, const CoordinatorRemoveArgs& args);
bool decode(ByteView bytes, CoordinatorRemoveArgs& out);
void encode(rpc::XdrWriter& out, const CoordinatorResult& result);
bool decode(ByteView bytes, CoordinatorResult& out);

}  // namespace slice::wire

#endif  // SLICE_WIRE_COORDINATOR_H
