#include "wire/configuration.h"

#include <string_view>

#include "wire/codec.h"

namespace slice::wire {
namespace {

constexpr std::uint32_t kMaxReason = 4096, kMaxVersion = 255, kMaxFileName = 255;  // bytes
constexpr std::uint32_t kMaxFiles = 16;

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

void encode(rpc::XdrWriter& out, const StateResult& result) {
  out.u32(static_cast<std::uint32_t>(result.files.size()));
  for (const StateFile& file : result.files) {
    out.text(file.name);
    out.text(file.contents);
  }
}
bool decode(ByteView bytes, StateResult& out) {
  rpc::XdrReader in(bytes);
  decode_list(in, kMaxFiles, out.files, [](rpc::XdrReader& each) {
    StateFile file{.name = std::string(each.text(kMaxFileName)), .contents = {}};
    file.contents = std::string(each.text(kMaxStateBytes));
    return file;
  });
  return in.complete();
}

}  // namespace slice::wire
