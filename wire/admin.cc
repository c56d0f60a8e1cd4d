#include "wire/admin.h"

#include "rpc/xdr.h"
#include "wire/codec.h"

namespace slice::wire {
void encode(rpc::XdrWriter& out, const MetricsResult& result) {
  out.text(bounded(result.process));
  out.text(std::string_view(result.text).substr(0, kMaxMetricsText));
}

bool decode(ByteView bytes, MetricsResult& out) {
  rpc::XdrReader in(bytes);
  out.process = std::string(in.text(kMaxText));
  out.text = std::string(in.text(kMaxMetricsText));
  return in.complete();
}

void encode(rpc::XdrWriter& out, const MisdirectedArgs& args) {
  out.u32(static_cast<std::uint32_t>(args.site_class));
  out.u32(args.site.value);
  out.u64(args.generation.value);
}

bool decode(ByteView bytes, MisdirectedArgs& out) {
  rpc::XdrReader in(bytes);
  std::uint32_t site_class = in.u32();
  if (site_class >= kSiteClasses) in.fail();
  out.site_class = static_cast<Role>(site_class);
  out.site = SiteId{in.u32()};
  out.generation = Generation{in.u64()};
  return in.complete();
}

void encode(rpc::XdrWriter& out, const NewTablesArgs& args) {
  out.u64(args.generation.value);
}

bool decode(ByteView bytes, NewTablesArgs& out) {
  rpc::XdrReader in(bytes);
  out.generation = Generation{in.u64()};
  return in.complete();
}

}  // namespace slice::wire
