// The NBD protocol: its numbers, and the messages of its two phases as bytes. Sections in comments are those
// of doc/proto.md (github.com/NetworkBlockDevice/nbd).
//
// Encoders append to a Buffer. Decoders look at bytes that anybody may have sent: they trust no length, and
// what they answer are views into these bytes. Nothing here keeps anything.
#ifndef SLICE_BLOCK_NBD_H
#define SLICE_BLOCK_NBD_H

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "common/bytes.h"
#include "common/result.h"

namespace slice::block::nbd {

// "Conventions": no string is longer.
inline constexpr std::size_t kLongestName = 4096;

// "Fixed newstyle negotiation", "Handshake flags", "Client flags".
inline constexpr std::uint64_t kInitPassword = 0x4e42444d41474943;  // NBDMAGIC
inline constexpr std::uint64_t kOptionMagic = 0x49484156454f5054;   // IHAVEOPT
inline constexpr std::uint64_t kOptionReplyMagic = 0x0003e889045565a9;
inline constexpr std::uint16_t kFixedNewstyle = 1 << 0, kNoZeroes = 1 << 1;  // of both sides
inline constexpr std::size_t kGreetingSize = 18, kClientFlagsSize = 4;
inline constexpr std::size_t kOptionHeaderSize = 16, kOptionReplyHeaderSize = 20;

// "Transmission flags".
enum TransmissionFlag : std::uint16_t {
  kHasFlags = 1 << 0,
  kSendFlush = 1 << 2,
  kSendFua = 1 << 3,
  kSendTrim = 1 << 5,
  kSendWriteZeroes = 1 << 6,
  kSendDf = 1 << 7,
  kCanMultiConn = 1 << 8,
};

// "Option types". Others may come as well.
enum class Option : std::uint32_t {
  kExportName = 1,
  kAbort = 2,
  kList = 3,
  kStartTls = 5,
  kInfo = 6,
  kGo = 7,
  kStructuredReply = 8,
  kListMetaContext = 9,
  kSetMetaContext = 10,
};

// "Option reply types".
inline constexpr std::uint32_t kErrorReplies = 1u << 31;
enum class OptionReply : std::uint32_t {
  kAck = 1,
  kServer = 2,
  kInfo = 3,
  kMetaContext = 4,
  kUnsupported = kErrorReplies + 1,
  kPolicy = kErrorReplies + 2,
  kInvalid = kErrorReplies + 3,
  kTlsRequired = kErrorReplies + 5,
  kUnknownExport = kErrorReplies + 6,
  kShutdown = kErrorReplies + 7,
  kTooBig = kErrorReplies + 9,
};

// What NBD_REP_INFO is about.
enum class Info : std::uint16_t { kExport = 0, kName = 1, kDescription = 2, kBlockSize = 3 };

// "Request types", "Command flags". Others may come as well.
enum class Command : std::uint16_t {
  kRead = 0,
  kWrite = 1,
  kDisconnect = 2,
  kFlush = 3,
  kTrim = 4,
  kWriteZeroes = 6,
  kBlockStatus = 7,
};
enum CommandFlag : std::uint16_t {
  kFua = 1 << 0,
  kNoHole = 1 << 1,
  kDf = 1 << 2,
  kReqOne = 1 << 3,
  kFastZero = 1 << 4
};

// "Metadata querying": the one context that there is here, "base:allocation metadata context".
inline constexpr std::string_view kAllocation = "base:allocation";
inline constexpr std::uint32_t kAllocationId = 1;
enum AllocationState : std::uint32_t { kStateHole = 1 << 0, kStateZero = 1 << 1 };

// "Error values".
enum class ErrorNumber : std::uint32_t {
  kNone = 0,
  kIo = 5,
  kInvalid = 22,
  kNoSpace = 28,
  kOverflow = 75,
  kShutdown = 108,
};

// The server's greeting, and what the client says to it.
void encode_greeting(Buffer& out, std::uint16_t flags);
// Of kClientFlagsSize bytes.
std::uint32_t decode_client_flags(ByteView bytes);

struct OptionHeader {
  Option option{};
  std::uint32_t length = 0;  // of what follows; as the client says
};
void encode(Buffer& out, const OptionHeader& header);
// Of kOptionHeaderSize bytes. None: no option begins here.
std::optional<OptionHeader> decode_option_header(ByteView bytes);

// What follows NBD_OPT_INFO and NBD_OPT_GO.
struct ExportRequest {
  std::string_view name;
  std::vector<Info> wanted;
};
void encode(Buffer& out, const ExportRequest& request);
// kInvalid: lengths that do not fit, or bytes behind it. kTooLarge: a name that no export has.
Result<ExportRequest> decode_export_request(ByteView data);

// What follows NBD_OPT_LIST_META_CONTEXT and NBD_OPT_SET_META_CONTEXT.
struct MetaContextRequest {
  std::string_view name;
  std::vector<std::string_view> queries;
};
void encode(Buffer& out, const MetaContextRequest& request);
// The same errors.
Result<MetaContextRequest> decode_meta_context_request(ByteView data);

struct OptionReplyHeader {
  Option option{};
  OptionReply type{};
  std::uint32_t length = 0;  // of the data behind it
};
// None: no reply to an option begins here. Of kOptionReplyHeaderSize bytes.
std::optional<OptionReplyHeader> decode_option_reply_header(ByteView bytes);
// Header and data. Of errors the data is text for people.
void encode_option_reply(Buffer& out, Option to, OptionReply type, std::string_view data = {});
// NBD_REP_META_CONTEXT, of the one that there is.
void encode_context_reply(Buffer& out, Option to);
// NBD_REP_SERVER.
void encode_server_reply(Buffer& out, std::string_view name);

struct ExportInfo {
  std::uint64_t size = 0;   // bytes
  std::uint16_t flags = 0;  // TransmissionFlag
};
struct BlockSizes {
  std::uint32_t least = 1, preferred = 4096, most = 32 << 20;  // bytes
};
// NBD_REP_INFO, of each of its kinds.
void encode_info_reply(Buffer& out, Option to, const ExportInfo& info);
void encode_info_reply(Buffer& out, Option to, std::string_view name);
void encode_info_reply(Buffer& out, Option to, const BlockSizes& sizes);
// The answer to NBD_OPT_EXPORT_NAME ("Newstyle negotiation"); `zeroes`: with the 124 bytes behind it.
void encode_export_name_reply(Buffer& out, const ExportInfo& info, bool zeroes);

// "Request message".
inline constexpr std::uint32_t kRequestMagic = 0x25609513;
inline constexpr std::size_t kRequestSize = 28;
struct Request {
  std::uint16_t flags = 0;  // CommandFlag
  Command command{};
  std::uint64_t cookie = 0;  // the client's; replies carry it
  std::uint64_t offset = 0;
  std::uint32_t length = 0;  // bytes; of kWrite so many follow
};
void encode(Buffer& out, const Request& request);
// Of kRequestSize bytes. None: no request begins here.
std::optional<Request> decode_request(ByteView bytes);

// "Simple reply message". The data of a read follows.
inline constexpr std::uint32_t kSimpleReplyMagic = 0x67446698;
inline constexpr std::size_t kSimpleReplySize = 16;
struct SimpleReply {
  ErrorNumber error{};
  std::uint64_t cookie = 0;
};
// Into kSimpleReplySize bytes.
void put_simple_reply(std::uint8_t* at, const SimpleReply& reply);
// Of kSimpleReplySize bytes. None: it is not one.
std::optional<SimpleReply> decode_simple_reply(ByteView bytes);

// "Structured reply chunk message", "Structured reply types".
inline constexpr std::uint32_t kChunkMagic = 0x668e33ef;
inline constexpr std::size_t kChunkHeaderSize = 20, kDataChunkSize = kChunkHeaderSize + 8;
inline constexpr std::uint16_t kDone = 1 << 0;
enum class ChunkType : std::uint16_t { kNone = 0, kOffsetData = 1, kBlockStatus = 5, kError = (1 << 15) + 1 };
struct ChunkHeader {
  std::uint16_t flags = 0;
  ChunkType type{};
  std::uint64_t cookie = 0;
  std::uint32_t length = 0;  // of the payload
};
// Of kChunkHeaderSize bytes. None: it is not one.
std::optional<ChunkHeader> decode_chunk_header(ByteView bytes);
// The last chunk of a read: header and offset, into kDataChunkSize bytes; `length` bytes of data follow, at
// least one.
void put_data_chunk(std::uint8_t* at, std::uint64_t cookie, std::uint64_t offset, std::uint32_t length);
// The last chunk of a block status, of kAllocationId; more are put behind by put_state().
void put_status_chunk(Buffer& out, std::uint64_t cookie, std::size_t extents);
void put_state(Buffer& out, std::uint32_t length, std::uint32_t state);
// A success without data.
void encode_none_chunk(Buffer& out, std::uint64_t cookie);
// A last chunk, with text for people.
void encode_error_chunk(Buffer& out, std::uint64_t cookie, ErrorNumber error, std::string_view text);
struct ErrorChunk {
  ErrorNumber error{};
  std::string_view text;
};
// Its payload. kInvalid: lengths that do not fit, or no error.
Result<ErrorChunk> decode_error_chunk(ByteView payload);

}  // namespace slice::block::nbd

#endif  // SLICE_BLOCK_NBD_H
