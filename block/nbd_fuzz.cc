// Any bytes as each of the messages that clients and servers send: what is understood is encoded to the same
// bytes, and nothing crashes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "block/nbd.h"

namespace {

using slice::Buffer;
using slice::ByteView;
namespace nbd = slice::block::nbd;

void require_prefix(const Buffer& encoded, ByteView input) {
  if (encoded.size() > input.size() || !std::ranges::equal(encoded.view(), input.first(encoded.size())))
    std::abort();
}

template <class Message>
void require_same(const Message& message, ByteView input) {
  Buffer encoded;
  nbd::encode(encoded, message);
  require_prefix(encoded, input);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView input(data, size);
  if (const auto header = nbd::decode_option_header(input)) require_same(*header, input);
  if (const auto request = nbd::decode_request(input)) require_same(*request, input);
  if (const auto request = nbd::decode_export_request(input)) require_same(*request, input);
  if (const auto request = nbd::decode_meta_context_request(input)) require_same(*request, input);
  if (const auto reply = nbd::decode_simple_reply(input)) {
    Buffer encoded(nbd::kSimpleReplySize);
    nbd::put_simple_reply(encoded.data(), *reply);
    require_prefix(encoded, input);
  }
  if (const auto chunk = nbd::decode_error_chunk(input)) {
    Buffer encoded;
    nbd::encode_error_chunk(encoded, 0, chunk->error, chunk->text);
    const ByteView payload = encoded.view().subspan(nbd::kChunkHeaderSize);
    if (!std::ranges::equal(payload, input.first(payload.size()))) std::abort();
  }
  (void)nbd::decode_client_flags(input);
  (void)nbd::decode_option_reply_header(input);
  (void)nbd::decode_chunk_header(input);
  return 0;
}
