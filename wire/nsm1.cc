#include "wire/nsm1.h"

namespace slice::nsm1 {

void encode(rpc::XdrWriter& out, const NotifyArgs& args) {
  out.text(args.name);
  out.u32(static_cast<std::uint32_t>(args.state));
}

bool decode(ByteView bytes, NotifyArgs& out) {
  rpc::XdrReader in(bytes);
  out.name = in.text(kMaxName);
  out.state = static_cast<std::int32_t>(in.u32());
  return in.complete();
}

}  // namespace slice::nsm1
