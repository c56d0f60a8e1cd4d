#include "wire/configuration.h"

#include <string_view>

namespace slice::wire {
namespace {

constexpr std::uint32_t kMaxReason = 4096, kMaxVersion = 255;  // bytes

}  // namespace

void encode(rpc::XdrWriter& out, const ConfigurationResult& result) {
  out.text(std::string_view(result.refused).substr(0, kMaxReason));
  out.text(std::string_view(result.version).substr(0, kMaxVersion));
  out.u64(result.now_ns);
  out.text(result.text);
}
bool decode(ByteView bytes, ConfigurationResult& out) {
  rpc::XdrReader in(bytes);
  out.refused = std::string(in.text(kMaxReason));
  out.version = std::string(in.text(kMaxVersion));
  out.now_ns = in.u64();
  out.text = std::string(in.text(kMaxConfigurationText));
  return in.complete();
}

}  // namespace slice::wire
