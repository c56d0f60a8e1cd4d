#include "block/nbd.h"

#include <type_traits>

namespace slice::block::nbd {
namespace {

constexpr std::size_t kReserved = 124;  // zeroes behind the answer to NBD_OPT_EXPORT_NAME

template <class T>
void put(Buffer& out, T value) {
  if constexpr (std::is_enum_v<T>) {
    put(out, static_cast<std::underlying_type_t<T>>(value));
  } else {
    store_be(out.extend(sizeof value), value);
  }
}

void put_text(Buffer& out, std::string_view text) {
  put(out, static_cast<std::uint32_t>(text.size()));
  out.append(as_bytes(text));
}

// Takes from the front; where there is too little, everything from then on is nothing, and ok() is false.
class NbdReader {
 public:
  explicit NbdReader(ByteView bytes) : rest_(bytes) {}

  template <class T>
  T number() {
    const ByteView bytes = take(sizeof(T));
    if constexpr (std::is_enum_v<T>) {
      return bytes.empty() ? T{} : static_cast<T>(load_be<std::underlying_type_t<T>>(bytes.data()));
    } else {
      return bytes.empty() ? T{} : load_be<T>(bytes.data());
    }
  }
  std::string_view text(std::size_t length) { return as_text(take(length)); }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && rest_.empty(); }
  std::size_t left() const { return rest_.size(); }

 private:
  ByteView take(std::size_t n) {
    ok_ = ok_ && n <= rest_.size();
    if (!ok_) return {};
    const ByteView taken = rest_.first(n);
    rest_ = rest_.subspan(n);
    return taken;
  }

  ByteView rest_;
  bool ok_ = true;
};

// Strings have no NUL.
Status check_name(const NbdReader& in, std::string_view name) {
  if (!in.ok()) return fail(Errc::kInvalid, "the name is longer than the option");
  if (name.size() > kLongestName) return fail(Errc::kTooLarge, "a name of {} bytes", name.size());
  if (name.find('\0') != std::string_view::npos) return fail(Errc::kInvalid, "a NUL in the name");
  return {};
}

void put_info_header(Buffer& out, Option to, Info kind, std::size_t length) {
  put(out, kOptionReplyMagic);
  put(out, to);
  put(out, OptionReply::kInfo);
  put(out, static_cast<std::uint32_t>(sizeof kind + length));
  put(out, kind);
}

void put_chunk_header(std::uint8_t* at, const ChunkHeader& header) {
  store_be(at, kChunkMagic);
  store_be(at + 4, header.flags);
  store_be(at + 6, static_cast<std::uint16_t>(header.type));
  store_be(at + 8, header.cookie);
  store_be(at + 16, header.length);
}

}  // namespace

void encode_greeting(Buffer& out, std::uint16_t flags) {
  put(out, kInitPassword);
  put(out, kOptionMagic);
  put(out, flags);
}

std::uint32_t decode_client_flags(ByteView bytes) {
  return NbdReader(bytes).number<std::uint32_t>();
}

void encode(Buffer& out, const OptionHeader& header) {
  put(out, kOptionMagic);
  put(out, header.option);
  put(out, header.length);
}

std::optional<OptionHeader> decode_option_header(ByteView bytes) {
  NbdReader in(bytes);
  if (in.number<std::uint64_t>() != kOptionMagic) return std::nullopt;
  OptionHeader header;
  header.option = in.number<Option>();
  header.length = in.number<std::uint32_t>();
  return in.ok() ? std::optional(header) : std::nullopt;
}

void encode(Buffer& out, const ExportRequest& request) {
  put_text(out, request.name);
  put(out, static_cast<std::uint16_t>(request.wanted.size()));
  for (const Info each : request.wanted) put(out, each);
}

Result<ExportRequest> decode_export_request(ByteView data) {
  NbdReader in(data);
  ExportRequest request;
  request.name = in.text(in.number<std::uint32_t>());
  SLICE_RETURN_IF_ERROR(check_name(in, request.name));
  const auto count = in.number<std::uint16_t>();
  if (!in.ok() || in.left() != count * sizeof(Info)) {
    return fail(Errc::kInvalid, "{} requests for information in {} bytes", count, in.left());
  }
  while (in.left() > 0) request.wanted.push_back(in.number<Info>());
  return request;
}

void encode(Buffer& out, const MetaContextRequest& request) {
  put_text(out, request.name);
  put(out, static_cast<std::uint32_t>(request.queries.size()));
  for (const std::string_view each : request.queries) put_text(out, each);
}

Result<MetaContextRequest> decode_meta_context_request(ByteView data) {
  NbdReader in(data);
  MetaContextRequest request;
  request.name = in.text(in.number<std::uint32_t>());
  SLICE_RETURN_IF_ERROR(check_name(in, request.name));
  const auto count = in.number<std::uint32_t>();
  while (in.ok() && in.left() > 0 && request.queries.size() < count) {
    request.queries.push_back(in.text(in.number<std::uint32_t>()));
  }
  if (!in.at_end() || request.queries.size() != count) {
    return fail(Errc::kInvalid, "{} queries do not fit the option's data", count);
  }
  return request;
}

std::optional<OptionReplyHeader> decode_option_reply_header(ByteView bytes) {
  NbdReader in(bytes);
  if (in.number<std::uint64_t>() != kOptionReplyMagic) return std::nullopt;
  OptionReplyHeader header;
  header.option = in.number<Option>();
  header.type = in.number<OptionReply>();
  header.length = in.number<std::uint32_t>();
  return in.ok() ? std::optional(header) : std::nullopt;
}

void encode_option_reply(Buffer& out, Option to, OptionReply type, std::string_view data) {
  put(out, kOptionReplyMagic);
  put(out, to);
  put(out, type);
  put_text(out, data);
}

void encode_context_reply(Buffer& out, Option to) {
  put(out, kOptionReplyMagic);
  put(out, to);
  put(out, OptionReply::kMetaContext);
  put(out, static_cast<std::uint32_t>(sizeof kAllocationId + kAllocation.size()));
  put(out, to == Option::kSetMetaContext ? kAllocationId : 0);
  out.append(as_bytes(kAllocation));
}

void encode_server_reply(Buffer& out, std::string_view name) {
  put(out, kOptionReplyMagic);
  put(out, Option::kList);
  put(out, OptionReply::kServer);
  put(out, static_cast<std::uint32_t>(sizeof(std::uint32_t) + name.size()));
  put_text(out, name);
}

void encode_info_reply(Buffer& out, Option to, const ExportInfo& info) {
  put_info_header(out, to, Info::kExport, sizeof info.size + sizeof info.flags);
  put(out, info.size);
  put(out, info.flags);
}

void encode_info_reply(Buffer& out, Option to, std::string_view name) {
  put_info_header(out, to, Info::kName, name.size());
  out.append(as_bytes(name));
}

void encode_info_reply(Buffer& out, Option to, const BlockSizes& sizes) {
  put_info_header(out, to, Info::kBlockSize, 3 * sizeof sizes.least);
  put(out, sizes.least);
  put(out, sizes.preferred);
  put(out, sizes.most);
}

void encode_export_name_reply(Buffer& out, const ExportInfo& info, bool zeroes) {
  put(out, info.size);
  put(out, info.flags);
  if (zeroes) std::memset(out.extend(kReserved), 0, kReserved);
}

void encode(Buffer& out, const Request& request) {
  put(out, kRequestMagic);
  put(out, request.flags);
  put(out, request.command);
  put(out, request.cookie);
  put(out, request.offset);
  put(out, request.length);
}

std::optional<Request> decode_request(ByteView bytes) {
  NbdReader in(bytes);
  if (in.number<std::uint32_t>() != kRequestMagic) return std::nullopt;
  Request request;
  request.flags = in.number<std::uint16_t>();
  request.command = in.number<Command>();
  request.cookie = in.number<std::uint64_t>();
  request.offset = in.number<std::uint64_t>();
  request.length = in.number<std::uint32_t>();
  return in.ok() ? std::optional(request) : std::nullopt;
}

void put_simple_reply(std::uint8_t* at, const SimpleReply& reply) {
  store_be(at, kSimpleReplyMagic);
  store_be(at + 4, static_cast<std::uint32_t>(reply.error));
  store_be(at + 8, reply.cookie);
}

std::optional<SimpleReply> decode_simple_reply(ByteView bytes) {
  NbdReader in(bytes);
  if (in.number<std::uint32_t>() != kSimpleReplyMagic) return std::nullopt;
  SimpleReply reply;
  reply.error = in.number<ErrorNumber>();
  reply.cookie = in.number<std::uint64_t>();
  return in.ok() ? std::optional(reply) : std::nullopt;
}

std::optional<ChunkHeader> decode_chunk_header(ByteView bytes) {
  NbdReader in(bytes);
  if (in.number<std::uint32_t>() != kChunkMagic) return std::nullopt;
  ChunkHeader header;
  header.flags = in.number<std::uint16_t>();
  header.type = in.number<ChunkType>();
  header.cookie = in.number<std::uint64_t>();
  header.length = in.number<std::uint32_t>();
  return in.ok() ? std::optional(header) : std::nullopt;
}

void put_data_chunk(std::uint8_t* at, std::uint64_t cookie, std::uint64_t offset, std::uint32_t length) {
  put_chunk_header(at, {.flags = kDone,
                        .type = ChunkType::kOffsetData,
                        .cookie = cookie,
                        .length = static_cast<std::uint32_t>(sizeof offset + length)});
  store_be(at + kChunkHeaderSize, offset);
}

void put_status_chunk(Buffer& out, std::uint64_t cookie, std::size_t extents) {
  constexpr std::size_t kExtentSize = 2 * sizeof(std::uint32_t);
  put_chunk_header(out.extend(kChunkHeaderSize),
                   {.flags = kDone,
                    .type = ChunkType::kBlockStatus,
                    .cookie = cookie,
                    .length = static_cast<std::uint32_t>(sizeof kAllocationId + extents * kExtentSize)});
  put(out, kAllocationId);
}

void put_state(Buffer& out, std::uint32_t length, std::uint32_t state) {
  put(out, length);
  put(out, state);
}

void encode_none_chunk(Buffer& out, std::uint64_t cookie) {
  put_chunk_header(out.extend(kChunkHeaderSize),
                   {.flags = kDone, .type = ChunkType::kNone, .cookie = cookie});
}

void encode_error_chunk(Buffer& out, std::uint64_t cookie, ErrorNumber error, std::string_view text) {
  const std::size_t length = sizeof error + sizeof(std::uint16_t) + text.size();
  put_chunk_header(out.extend(kChunkHeaderSize), {.flags = kDone,
                                                  .type = ChunkType::kError,
                                                  .cookie = cookie,
                                                  .length = static_cast<std::uint32_t>(length)});
  put(out, error);
  put(out, static_cast<std::uint16_t>(text.size()));
  out.append(as_bytes(text));
}

Result<ErrorChunk> decode_error_chunk(ByteView payload) {
  NbdReader in(payload);
  ErrorChunk chunk;
  chunk.error = in.number<ErrorNumber>();
  chunk.text = in.text(in.number<std::uint16_t>());
  if (!in.ok() || chunk.error == ErrorNumber::kNone) return fail(Errc::kInvalid, "not an error chunk");
  return chunk;
}

}  // namespace slice::block::nbd
