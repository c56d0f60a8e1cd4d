// Writes the calls that the proxy sends to servers: the client's credential, the ensemble's verifier, or a
// client's own where the proxy is no member (rpc/auth.h), arguments with the proxy's hint in their handle.
#ifndef SLICE_PROXY_SERVERS_CALL_ENCODER_H
#define SLICE_PROXY_SERVERS_CALL_ENCODER_H

#include "bpf/shared/routing.h"
#include "proxy/stream/buffers.h"
#include "rpc/message.h"

namespace slice::proxy {

// Who a call is forwarded for.
struct Origin {
  rpc::Endpoint client;
  Xid xid;
  CallSecurity security;
  std::uint32_t credential_flavor = rpc::kAuthNone;
  Buffer credential;        // its body, a copy
  rpc::LayoutStamp layout;  // with a WRITE of a file that has one; else nothing is said
};

// What a worker's calls have in common.
struct Sender {
  std::uint32_t index = 0;  // of this proxy in the configuration
  const slice_config* config = nullptr;
  bool member = true;  // of the ensemble; else it serves its own host alone (Tables::outside())
  bool own = false;    // with member: what it sends are its own calls, as the superuser, and no clients'
};

class CallEncoder {
 public:
  CallEncoder(ChunkPool& pool, Sender sender) : pool_(pool), sender_(sender) {}

  // Whether what is sent are this process's own calls.
  bool own() const { return sender_.own; }

  // An NFS call with its record mark. The arguments are `head` followed by `total` bytes, of which `data` are
  // the first.
  BufferChain encode(const Origin& origin, std::uint32_t xid, std::uint32_t procedure, ByteView head,
                     const BufferChain& data, std::size_t total);

 private:
  void put_header(rpc::XdrWriter& out, const Origin& origin, const rpc::CallHeader& call) const;
  ChunkPool& pool_;
  Sender sender_;
  Buffer scratch_;
};

// READ3args, WRITE3args without the data, COMMIT3args for a part of a call, `hint` in the handle.
Buffer read_arguments(const std::uint8_t* handle, std::uint64_t hint, std::uint64_t offset,
                      std::uint32_t count);
inline constexpr std::size_t kWriteHead = 4 + SLICE_HANDLE_SIZE + 20;
Buffer write_arguments(const std::uint8_t* handle, std::uint64_t hint, std::uint64_t offset,
                       std::uint32_t count, std::uint32_t stable, std::uint32_t data_size);

}  // namespace slice::proxy

#endif  // SLICE_PROXY_SERVERS_CALL_ENCODER_H
