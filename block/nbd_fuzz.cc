// Any bytes as each of the messages that clients and servers send: what is understood is encoded to the same
// bytes. Any bytes as the options of a handshake: each is answered with replies that are whole. Nothing
// crashes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "block/nbd.h"
#include "block/nbd_handshake.h"

namespace {

using slice::Buffer;
using slice::ByteView;
using slice::Status;
using slice::Task;
using slice::block::NbdHandshake;
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

class NoBytes : public slice::block::Device {
 public:
  std::uint64_t size() const override { return 0; }
  Task<Status> read(std::uint64_t, slice::ByteSpan) override { co_return Status(); }
  Task<Status> write(std::uint64_t, Buffer, bool) override { co_return Status(); }
  Task<Status> write_zeroes(std::uint64_t, std::uint64_t, bool, slice::block::Room) override {
    co_return Status();
  }
  Task<Status> flush() override { co_return Status(); }
};

class OneDevice : public slice::block::Devices {
 public:
  std::vector<std::string> names() const override { return {"a"}; }
  Task<slice::Result<std::shared_ptr<slice::block::Device>>> open(std::string name) override {
    if (name != "a") co_return slice::fail(slice::Errc::kNotFound, "no '{}'", name);
    co_return std::make_shared<NoBytes>();
  }
};

// Of any option but NBD_OPT_EXPORT_NAME.
void require_replies(nbd::Option to, ByteView bytes) {
  bool last = false;
  while (!bytes.empty()) {
    const auto header = nbd::decode_option_reply_header(bytes);
    if (!header || header->option != to || last) std::abort();
    last = header->type == nbd::OptionReply::kAck ||
           (static_cast<std::uint32_t>(header->type) & nbd::kErrorReplies) != 0;
    bytes = bytes.subspan(nbd::kOptionReplyHeaderSize);
    if (header->length > bytes.size()) std::abort();
    bytes = bytes.subspan(header->length);
  }
  if (!last) std::abort();
}

// Each option is a byte of its number, one of its length, and so many of data.
Task<void> shake_hands(ByteView input) {
  OneDevice devices;
  NbdHandshake handshake(devices, {.offers_tls = true, .wants_tls = input[0] % 2 == 1, .longest = 4096});
  (void)handshake.take_flags(input[0]);
  for (input = input.subspan(1); input.size() >= 2;) {
    const auto option = static_cast<nbd::Option>(input[0] % 16);
    const ByteView data = input.subspan(2, std::min<std::size_t>(input[1], input.size() - 2));
    input = input.subspan(2 + data.size());
    const NbdHandshake::Answer answer = co_await handshake.answer(option, Buffer(data));
    if (option != nbd::Option::kExportName) require_replies(option, answer.bytes.view());
    if (answer.next == NbdHandshake::Next::kTls) handshake.tls_began();
    if (answer.next == NbdHandshake::Next::kEnd) co_return;
    if (answer.next != NbdHandshake::Next::kTransmission) continue;
    if (handshake.take_device() == nullptr) std::abort();
    co_return;
  }
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
  if (size > 0) slice::spawn(shake_hands(input));
  (void)nbd::decode_client_flags(input);
  (void)nbd::decode_option_reply_header(input);
  (void)nbd::decode_chunk_header(input);
  return 0;
}
