// Frames of the link: blocks of raw volumes over datagrams or Ethernet, after EBD (a link-layer block
// device). docs/formats/link.md has every field. Encoding, decoding and MACs; nothing here knows of sessions'
// state.
#ifndef SLICE_LINK_FRAME_H
#define SLICE_LINK_FRAME_H

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/bytes.h"
#include "common/keys.h"

namespace slice::link {

inline constexpr std::uint32_t kMagic = 0x534c4b31;  // "SLK1": the version is part of it
inline constexpr std::size_t kMacSize = 8, kHeadSize = 48;
inline constexpr std::size_t kSmallestBlock = 512, kLargestBlock = 32 << 10;  // bytes; powers of two
inline constexpr std::size_t kMostBlocks = 255;                               // of a request
inline constexpr std::size_t kMostName = 64;                                  // bytes, of clients and volumes

enum class Op : std::uint8_t {
  kHello = 1,  // of the initiator: nonce; asks for a ticket
  kTicket,     // of the target, which has remembered nothing
  kHandshake,  // with the ticket
  kWelcome,    // there is a session
  kRead,       // its data may be a map of the blocks that are wanted
  kData,       // a block of it
  kWrite,      // a block of one
  kZeroes,     //
  kFlush,      //
  kDone,       // of a write, zeroes or a flush; of a read that failed
  kWack,       // the request came; of a WRITE with the map of its blocks that did
  kNak,        // the session, or its handshake, is refused
  kCongestion,
  kLeave,
  kShutdown,
  kKinds
};

enum class Code : std::uint8_t {
  kOk,
  kIo,         // the medium failed
  kRange,      // beyond the end
  kNoSession,  // the target knows none of this number
  kNoSpace,
  kQuota,
  kTakenAway,  // the volume is another opener's, or the session another client's of this name
  kNotFound,   // no such volume
  kBusy,       // too many sessions
  kBlock,      // a block size that the target does not take
  kKinds
};

namespace flag {
inline constexpr std::uint8_t kWack = 1;      // a WACK is wanted
inline constexpr std::uint8_t kMore = 2;      // more frames of this request follow at once
inline constexpr std::uint8_t kDurable = 4;   // of a write: answered when it is (FUA)
inline constexpr std::uint8_t kGiveBack = 8;  // of zeroes: block::Room::kGivenBack
inline constexpr std::uint8_t kAll = 15;
}  // namespace flag

struct Head {
  Op op{};
  std::uint8_t flags = 0;
  Code code = Code::kOk;
  std::uint16_t credit = 0;  // blocks
  std::uint16_t tag = 0, fragment = 0;
  std::uint64_t session = 0, offset = 0;  // bytes from the volume's begin
  std::uint32_t count = 0;                // bytes of the whole request
  std::uint32_t generation = 0;           // of the tag
  bool operator==(const Head&) const = default;
};

struct Frame {
  Head head;
  ByteView data;  // of the bytes that were decoded
};

// Nothing where it is no frame, whole and of exactly this length. Its MAC is not looked at.
std::optional<Frame> decode(ByteView bytes);
// Of a frame that was decoded: whether its MAC is right under this key.
bool authentic(const Key& key, ByteView frame);
// Head, data (at most kLargestBlock) and MAC.
Buffer sealed(const Key& key, const Head& head, ByteView data = {});

using Nonce = std::array<std::uint8_t, 16>;

// What a direction's frames are sealed with.
struct Keys {
  Key to_target{}, to_initiator{};
};
// Of frames without a session, by the shared key.
Keys handshake_keys(const Key& shared);
// Of one session: nothing that was sent in another fits.
Keys session_keys(const Key& shared, const Nonce& initiator, const Nonce& target, std::uint64_t session);

// Which blocks of a request: 32 bytes, the first block in the first byte's lowest bit.
using BlockMap = std::bitset<256>;
inline constexpr std::size_t kBlockMapSize = 32;
Buffer encode(const BlockMap& map);
std::optional<BlockMap> decode_block_map(ByteView data);

// How many blocks so many bytes are, and what the one of a number has.
constexpr std::size_t blocks_of(std::size_t bytes, std::size_t block) {
  return (bytes + block - 1) / block;
}
constexpr std::size_t length_of(std::size_t fragment, std::size_t bytes, std::size_t block) {
  return bytes - fragment * block < block ? bytes - fragment * block : block;
}

// The data of handshakes' frames. Decoders take exactly what encoders make.
struct Ticket {
  std::uint64_t time = 0;  // of the target's clock, nanoseconds
  std::array<std::uint8_t, 16> mac{};
  bool operator==(const Ticket&) const = default;
};
struct TicketAnswer {
  Nonce nonce{};
  Ticket ticket;
};
struct Handshake {
  Nonce nonce{};
  Ticket ticket;
  std::uint32_t block = 0;  // bytes
  std::string client, volume;
};
struct Welcome {
  Nonce nonce{}, target_nonce{};
  std::uint64_t size = 0;      // of the volume, bytes
  std::uint32_t largest = 0;   // request, bytes
  std::uint32_t block = 0;     // bytes, as the handshake had it
  std::uint64_t instance = 0;  // another one: what was not flushed is lost
  std::uint64_t opening = 0;   // block::Device::opening()
  std::uint16_t tags = 0;      // 0 to tags - 1
};

Buffer encode(const Nonce& nonce);
Buffer encode(const TicketAnswer& answer);
Buffer encode(const Handshake& handshake);
Buffer encode(const Welcome& welcome);
std::optional<Nonce> decode_nonce(ByteView data);
std::optional<TicketAnswer> decode_ticket_answer(ByteView data);
std::optional<Handshake> decode_handshake(ByteView data);
std::optional<Welcome> decode_welcome(ByteView data);

std::string_view name_of(Op op);

}  // namespace slice::link

#endif  // SLICE_LINK_FRAME_H
