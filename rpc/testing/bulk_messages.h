// Messages with bytes of files, as RFC 1813 has them.
#ifndef SLICE_RPC_TESTING_BULK_MESSAGES_H
#define SLICE_RPC_TESTING_BULK_MESSAGES_H

#include <string>

#include "rpc/xdr.h"

namespace slice::rpc::testing {

struct BulkMessage {
  std::string bytes;
  std::size_t before_data = 0;
};

inline BulkMessage bulk_message(XdrWriter head, std::string_view data) {
  head.u32(static_cast<std::uint32_t>(data.size()));
  std::size_t before = head.size();
  head.fixed(as_bytes(data));
  Buffer whole = head.take();
  return {std::string(as_text(whole.view())), before};
}

inline BulkMessage write_message(std::string_view data, std::uint32_t procedure = 7) {
  XdrWriter out;
  for (std::uint32_t word : {1u, 0u, 2u, 100003u, 3u, procedure, 1u}) out.u32(word);
  out.text("a credential of some length");
  out.u32(0x534c4943);
  out.text("the ensemble's verifier, of 36 bytes");
  out.text("a handle with 32 bytes, as ours is");
  out.u64(1 << 20);
  out.u32(static_cast<std::uint32_t>(data.size()));
  out.u32(2);
  return bulk_message(std::move(out), data);
}

inline BulkMessage read_answer(std::string_view data, bool attributes = true) {
  XdrWriter out;
  for (std::uint32_t word : {1u, 1u, 0u, 0u, 0u, 0u, 0u, attributes ? 1u : 0u}) out.u32(word);
  if (attributes) out.fixed(as_bytes(std::string(84, 'a')));
  out.u32(static_cast<std::uint32_t>(data.size()));
  out.boolean(true);
  return bulk_message(std::move(out), data);
}

}  // namespace slice::rpc::testing

#endif  // SLICE_RPC_TESTING_BULK_MESSAGES_H
