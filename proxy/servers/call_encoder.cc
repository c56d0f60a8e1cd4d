#include "proxy/servers/call_encoder.h"

#include <algorithm>

#include "rpc/xdr.h"
#include "wire/nfs3.h"

namespace slice::proxy {

void CallEncoder::put_header(rpc::XdrWriter& out, const Origin& origin, const rpc::CallHeader& call) const {
  if (sender_.member) {
    rpc::SliceVerifier verifier;
    verifier.sender = sender_.index;
    verifier.generation = Generation{slice_load_relaxed32(&sender_.config->generation)};
    verifier.client = origin.client;
    verifier.client_xid = origin.xid;
    verifier.security = origin.security;
    verifier.layout = origin.layout;
    verifier.own = sender_.own;
    encode_member_header(out, call, verifier);
  } else if (origin.client.port != 0) {
    encode_client_header(out, call, {origin.client.port, origin.xid});
  } else {
    encode_call(out, call);  // a probe
  }
}

BufferChain CallEncoder::encode(const Origin& origin, std::uint32_t xid, std::uint32_t procedure,
                                ByteView head, const BufferChain& data, std::size_t total) {
  scratch_.clear();
  rpc::XdrWriter out(std::move(scratch_));
  out.u32(0);  // record mark
  const nfs3::WireProcedure called = nfs3::on_the_wire(procedure);
  rpc::CallHeader call_header{.xid = Xid{xid},
                              .program = called.program,
                              .version = nfs3::kVersion,
                              .procedure = called.number,
                              .credential_flavor = origin.credential_flavor,
                              .credential = origin.credential.view()};
  put_header(out, origin, call_header);
  std::size_t header = out.size();
  out.patch_u32(0, rpc::kLastFragment | static_cast<std::uint32_t>(header - 4 + head.size() + total));

  BufferChain call;
  // Short data is copied behind its header: one piece to write instead of two.
  bool join = data.size() == total && header + head.size() + total <= kCoalesceLimit;
  std::uint8_t* into = nullptr;
  call.append(pool_.place(header + head.size() + (join ? total : 0), into));
  std::memcpy(into, out.view().data(), header);
  std::ranges::copy(head, into + header);  // of NULL's probe there is none
  if (join) {
    data.copy_to(into + header + head.size());
  } else {
    call.append(data);
  }
  scratch_ = out.take();
  return call;
}

namespace {

std::uint8_t* put_handle(Buffer& out, const std::uint8_t* handle, std::uint64_t hint) {
  std::uint8_t* p = out.data();
  store_be<std::uint32_t>(p, SLICE_HANDLE_SIZE);
  std::memcpy(p + 4, handle, SLICE_HANDLE_SIZE);
  store_be<std::uint64_t>(p + 4 + SLICE_HANDLE_AT_HINT, hint);
  return p + 4 + SLICE_HANDLE_SIZE;
}

}  // namespace

Buffer read_arguments(const std::uint8_t* handle, std::uint64_t hint, std::uint64_t offset,
                      std::uint32_t count) {
  Buffer out(4 + SLICE_HANDLE_SIZE + 12);
  std::uint8_t* p = put_handle(out, handle, hint);
  store_be<std::uint64_t>(p, offset);
  store_be<std::uint32_t>(p + 8, count);
  return out;
}

Buffer write_arguments(const std::uint8_t* handle, std::uint64_t hint, std::uint64_t offset,
                       std::uint32_t count, std::uint32_t stable, std::uint32_t data_size) {
  Buffer out(kWriteHead);
  std::uint8_t* p = put_handle(out, handle, hint);
  store_be<std::uint64_t>(p, offset);
  store_be<std::uint32_t>(p + 8, count);
  store_be<std::uint32_t>(p + 12, stable);
  store_be<std::uint32_t>(p + 16, data_size);
  return out;
}

}  // namespace slice::proxy
