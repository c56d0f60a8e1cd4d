#include "wire/admin.h"

#include "rpc/xdr.h"
#include "wire/codec.h"

namespace slice::wire {
namespace {

constexpr std::uint32_t kMaxSamples = 4096;

}  // namespace

void encode(rpc::XdrWriter& out, const MetricsResult& result) {
  out.text(bounded(result.process));
  std::size_t count = std::min<std::size_t>(result.samples.size(), kMaxSamples);
  out.u32(static_cast<std::uint32_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    out.text(bounded(result.samples[i].name));
    out.u64(result.samples[i].value);
  }
}

bool decode(ByteView bytes, MetricsResult& out) {
  rpc::XdrReader in(bytes);
  out.process = std::string(in.text(kMaxText));
  out.samples.clear();
  std::uint32_t count = in.u32();
  if (count > kMaxSamples) in.fail();
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) {
    MetricSample sample;
    sample.name = std::string(in.text(kMaxText));
    sample.value = in.u64();
    out.samples.push_back(std::move(sample));
  }
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
