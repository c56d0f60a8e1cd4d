#include "wire/coordinator.h"

#include "rpc/xdr.h"

namespace slice::wire {

using rpc::XdrReader;
using rpc::XdrWriter;

void encode(XdrWriter& out, const CoordinatorTruncateArgs& args) {
  out.opaque(args.handle);
  out.u64(args.size);
  out.u32(args.epoch.value);
}
bool decode(ByteView bytes, CoordinatorTruncateArgs& out) {
  XdrReader in(bytes);
  out.handle = in.opaque(nfs3::kMaxHandle);
  out.size = in.u64();
  out.epoch = Epoch{in.u32()};
  return in.complete();
}

void encode(XdrWriter& out, const CoordinatorRemoveArgs& args) {
  out.opaque(args.handle);
}
bool decode(ByteView bytes, CoordinatorRemoveArgs& out) {
  XdrReader in(bytes);
  out.handle = in.opaque(nfs3::kMaxHandle);
  return in.complete();
}

void encode(XdrWriter& out, const CoordinatorResult& result) {
  out.u32(static_cast<std::uint32_t>(result.status));
}
bool decode(ByteView bytes, CoordinatorResult& out) {
  XdrReader in(bytes);
  out.status = static_cast<nfs3::Status>(in.u32());
  return in.complete();
}

}  // namespace slice::wire
