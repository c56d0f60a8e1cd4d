#include "control/proxy/call_encoder.h"

#include <algorithm>

#include "rpc/message.h"
#include "rpc/xdr.h"
#include "wire/nfs3.h"

namespace slice::proxy {

SliceChain CallEncoder::encode(const Origin& origin, std::uint32_t xid, std::uint32_t procedure,
                               ByteView head, const SliceChain& data, std::size_t total) {
  std::uint8_t sealed[rpc::kSealedArguments];
  ByteView sealed_view = head;
  if (head.size() < rpc::kSealedArguments && !data.empty()) {
    std::size_t from_data = std::min(rpc::kSealedArguments - head.size(), data.size());
    std::uint8_t piece[rpc::kSealedArguments];
    ByteView begin = data.head(from_data, piece);
    std::memcpy(sealed, head.data(), head.size());
    std::memcpy(sealed + head.size(), begin.data(), begin.size());
    sealed_view = {sealed, head.size() + begin.size()};
  }
  scratch_.clear();
  rpc::XdrWriter out(std::move(scratch_));
  out.u32(0);  // record mark
  rpc::SliceVerifier verifier;
  verifier.sender = sender_.index;
  verifier.generation = Generation{sender_.config->generation};
  verifier.client = origin.client;
  verifier.client_xid = origin.xid;
  verifier.nonce = static_cast<std::uint64_t>(loop_.wall().ns);
  rpc::CallHeader call_header{.xid = Xid{xid},
                              .program = nfs3::kProgram,
                              .version = nfs3::kVersion,
                              .procedure = procedure,
                              .credential_flavor = origin.credential_flavor,
                              .credential = origin.credential.view(),
                              .arguments = sealed_view};
  rpc::encode_sealed_header(out, call_header, verifier, *sender_.key);
  std::size_t header = out.size();
  out.patch_u32(0, rpc::kLastFragment | static_cast<std::uint32_t>(header - 4 + head.size() + total));

  SliceChain call;
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

void CallEncoder::renew(SliceChain& call) {
  // Mark and header (at most 24 + 2 * 408 bytes), and what is sealed of the arguments.
  constexpr std::size_t kPrefix = 4 + 24 + 2 * 408 + rpc::kSealedArguments;
  std::uint8_t* into = nullptr;
  std::size_t size = std::min(kPrefix, call.size());
  Slice prefix = pool_.place(size, into);
  ByteView bytes = call.head(size, into);
  if (bytes.data() != into) std::memcpy(into, bytes.data(), size);
  auto header = rpc::decode_call({into + 4, size - 4});
  if (!header || header->verifier_flavor != rpc::kAuthSlice) return;
  rpc::SealedCall sealed = rpc::sealed_part(*header);
  auto verifier = rpc::open_slice_verifier(header->verifier, sealed, *sender_.key);
  if (!verifier) return;
  verifier->nonce = static_cast<std::uint64_t>(loop_.wall().ns);
  verifier->generation = Generation{sender_.config->generation};
  rpc::XdrWriter out;
  rpc::encode_slice_verifier(out, *verifier, sealed, *sender_.key);
  std::memcpy(into + (header->verifier.data() - into) - 8, out.view().data(), out.size());
  SliceChain renewed;
  renewed.append(std::move(prefix));
  renewed.append(call.sub(size, call.size() - size));
  call = std::move(renewed);
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
                       std::uint32_t count, std::uint32_t stable) {
  Buffer out(4 + SLICE_HANDLE_SIZE + 20);
  std::uint8_t* p = put_handle(out, handle, hint);
  store_be<std::uint64_t>(p, offset);
  store_be<std::uint32_t>(p + 8, count);
  store_be<std::uint32_t>(p + 12, stable);
  store_be<std::uint32_t>(p + 16, count);
  return out;
}

}  // namespace slice::proxy
