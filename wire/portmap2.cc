#include "wire/portmap2.h"

#include <algorithm>
#include <array>

namespace slice::portmap2 {

using rpc::XdrReader;
using rpc::XdrWriter;

namespace {

void decode_mapping(XdrReader& in, Mapping& out) {
  out.program = in.u32();
  out.version = in.u32();
  out.protocol = in.u32();
  out.port = in.u32();
}

}  // namespace

std::string_view procedure_name(std::uint32_t procedure) {
  static constexpr std::array<std::string_view, 6> kNames{"NULL",    "SET",  "UNSET",
                                                          "GETPORT", "DUMP", "CALLIT"};
  return procedure < kNames.size() ? kNames[procedure] : "?";
}

bool decode(ByteView bytes, Mapping& out) {
  XdrReader in(bytes);
  decode_mapping(in, out);
  return in.complete();
}
void encode(XdrWriter& out, const Mapping& mapping) {
  out.u32(mapping.program);
  out.u32(mapping.version);
  out.u32(mapping.protocol);
  out.u32(mapping.port);
}

bool decode_port(ByteView bytes, std::uint32_t& port) {
  XdrReader in(bytes);
  port = in.u32();
  return in.complete();
}
void encode_port(XdrWriter& out, std::uint32_t port) {
  out.u32(port);
}

bool decode_done(ByteView bytes, bool& done) {
  XdrReader in(bytes);
  done = in.boolean();
  return in.complete();
}
void encode_done(XdrWriter& out, bool done) {
  out.boolean(done);
}

bool decode(ByteView bytes, std::vector<Mapping>& out) {
  XdrReader in(bytes);
  out.clear();
  while (in.boolean()) {
    if (out.size() == kMaxMappings) return false;
    decode_mapping(in, out.emplace_back());
  }
  return in.complete();
}
void encode(XdrWriter& out, const std::vector<Mapping>& mappings) {
  std::size_t count = std::min(mappings.size(), kMaxMappings);
  for (std::size_t i = 0; i < count; ++i) {
    out.boolean(true);
    encode(out, mappings[i]);
  }
  out.boolean(false);
}

bool decode(ByteView bytes, CallitArgs& out) {
  XdrReader in(bytes);
  out.program = in.u32();
  out.version = in.u32();
  out.procedure = in.u32();
  out.arguments = in.opaque(kMaxCall);
  return in.complete();
}
void encode(XdrWriter& out, const CallitArgs& args) {
  out.u32(args.program);
  out.u32(args.version);
  out.u32(args.procedure);
  out.opaque(args.arguments);
}

}  // namespace slice::portmap2
