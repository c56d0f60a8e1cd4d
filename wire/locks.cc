#include "wire/locks.h"

#include "wire/codec.h"

namespace slice::wire {
namespace {

constexpr std::size_t kMaxGrant = 4096;  // bytes of GRANTED's arguments

void encode_lockers(rpc::XdrWriter& out, const std::vector<LockerName>& all) {
  const std::size_t count = encode_count(out, all, kMaxLockers);
  for (std::size_t i = 0; i < count; ++i) {
    encode_address(out, all[i].address);
    out.text(all[i].host);
    out.u32(static_cast<std::uint32_t>(all[i].process));
    out.text(all[i].handle);
  }
}
bool decode_lockers(ByteView bytes, std::vector<LockerName>& out) {
  rpc::XdrReader in(bytes);
  decode_list(in, kMaxLockers, out, [](rpc::XdrReader& from) {
    LockerName one;
    one.address = decode_address(from);
    one.host = from.text(nlm4::kMaxString);
    one.process = static_cast<std::int32_t>(from.u32());
    one.handle = from.text(nlm4::kMaxObject);
    return one;
  });
  return in.complete();
}

}  // namespace

void encode(rpc::XdrWriter& out, const FreeLocksArgs& args) {
  encode_address(out, args.address);
  out.text(args.host);
  out.boolean(args.keep.has_value());
  if (args.keep) out.u32(static_cast<std::uint32_t>(*args.keep));
  encode_numbers(out, args.sites, kMaxSites);
}
bool decode(ByteView bytes, FreeLocksArgs& out) {
  rpc::XdrReader in(bytes);
  out.address = decode_address(in);
  out.host = in.text(nlm4::kMaxString);
  out.keep.reset();
  if (in.boolean()) out.keep = static_cast<std::int32_t>(in.u32());
  out.sites = decode_numbers(in, kMaxSites);
  return in.complete();
}

void encode(rpc::XdrWriter& out, const FreeLocksResult& result) {
  encode_numbers(out, result.freed, kMaxSites);
}
bool decode(ByteView bytes, FreeLocksResult& out) {
  rpc::XdrReader in(bytes);
  out.freed = decode_numbers(in, kMaxSites);
  return in.complete();
}

void encode(rpc::XdrWriter& out, const GrantArgs& args) {
  out.u64(args.run);
  encode_address(out, args.address);
  out.opaque(args.call.view());
}
bool decode(ByteView bytes, GrantArgs& out) {
  rpc::XdrReader in(bytes);
  out.run = in.u64();
  out.address = decode_address(in);
  out.call = Buffer(in.opaque(kMaxGrant));
  return in.complete();
}

void encode(rpc::XdrWriter& out, const GrantResult& result) {
  out.u32(static_cast<std::uint32_t>(result.how));
  out.u32(static_cast<std::uint32_t>(result.status));
  out.u64(result.run);
}
bool decode(ByteView bytes, GrantResult& out) {
  rpc::XdrReader in(bytes);
  out.how = decode_enum(in, Granting::kHere);
  out.status = static_cast<nlm4::Status>(in.u32());
  out.run = in.u64();
  return in.complete();
}

void encode(rpc::XdrWriter& out, const WaitsArgs& args) {
  encode_lockers(out, args.who);
}
bool decode(ByteView bytes, WaitsArgs& out) {
  return decode_lockers(bytes, out.who);
}

void encode(rpc::XdrWriter& out, const WaitsResult& result) {
  encode_lockers(out, result.leads_to);
}
bool decode(ByteView bytes, WaitsResult& out) {
  return decode_lockers(bytes, out.leads_to);
}

}  // namespace slice::wire
