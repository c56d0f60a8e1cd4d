#include "wire/failover.h"

#include "wire/codec.h"

namespace slice::wire {
namespace {

using rpc::XdrReader;
using rpc::XdrWriter;

}  // namespace

void encode(XdrWriter& out, const StandbyArgs& args) {
  out.u32(args.server);
  encode_endpoint(out, args.endpoint);
  out.u64(args.instance);
}

bool decode(ByteView bytes, StandbyArgs& out) {
  XdrReader in(bytes);
  out.server = in.u32();
  out.endpoint = decode_endpoint(in);
  out.instance = in.u64();
  if (out.instance == 0) in.fail();
  return in.complete();
}

void encode(XdrWriter& out, const StandbyResult& result) {
  out.boolean(result.take);
  encode_endpoint(out, result.serves);
}

bool decode(ByteView bytes, StandbyResult& out) {
  XdrReader in(bytes);
  out.take = in.boolean();
  out.serves = decode_endpoint(in);
  return in.complete();
}

void encode(XdrWriter& out, const FailoverArgs& args) {
  out.text(bounded(args.name));
  encode_address(out, args.address);
}

bool decode(ByteView bytes, FailoverArgs& out) {
  XdrReader in(bytes);
  out.name = std::string(in.text(kMaxText));
  out.address = decode_address(in);
  return in.complete();
}

void encode(XdrWriter& out, const FailoverResult& result) {
  out.text(bounded(result.refused));
  encode_endpoint(out, result.serves);
  out.u64(result.generation.value);
}

bool decode(ByteView bytes, FailoverResult& out) {
  XdrReader in(bytes);
  out.refused = std::string(in.text(kMaxText));
  out.serves = decode_endpoint(in);
  out.generation = Generation{in.u64()};
  return in.complete();
}

void encode(XdrWriter& out, const StandbysResult& result) {
  const std::size_t count = encode_count(out, result.standbys, kMaxStandbys);
  for (std::size_t i = 0; i < count; ++i) {
    out.u32(result.standbys[i].server);
    encode_endpoint(out, result.standbys[i].endpoint);
    out.u64(result.standbys[i].age_ms);
  }
}

bool decode(ByteView bytes, StandbysResult& out) {
  XdrReader in(bytes);
  decode_list(in, kMaxStandbys, out.standbys, [](XdrReader& each) {
    Standby standby{.server = each.u32(), .endpoint = {}};
    standby.endpoint = decode_endpoint(each);
    standby.age_ms = each.u64();
    return standby;
  });
  return in.complete();
}

}  // namespace slice::wire
