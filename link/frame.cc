#include "link/frame.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <bit>
#include <cassert>

#include "rpc/derived_key.h"
#include "rpc/siphash.h"

namespace slice::link {
namespace {

constexpr std::size_t kOpAt = 4, kFlagsAt = 5, kCodeAt = 6, kZeroAt = 7, kLengthAt = 8, kCreditAt = 10,
                      kTagAt = 12, kFragmentAt = 14, kSessionAt = 16, kOffsetAt = 24, kCountAt = 32,
                      kGenerationAt = 36, kMacAt = kHeadSize - kMacSize;
constexpr std::size_t kNonceSize = 16, kTicketSize = 24, kWelcomeSize = 66;
constexpr std::array<std::string_view, static_cast<std::size_t>(Op::kKinds)> kNames{
    "",     "hello", "ticket", "handshake", "welcome", "read",       "data",  "write",
    "zero", "flush", "done",   "wack",      "nak",     "congestion", "leave", "shutdown"};

std::array<std::uint8_t, kMacSize> mac_of(const Key& key, ByteView frame) {
  rpc::SipHash128 hash(key);
  hash.update(frame.first(kMacAt));
  hash.update(frame.subspan(kHeadSize));
  const auto whole = hash.finish();
  std::array<std::uint8_t, kMacSize> out{};
  std::copy_n(whole.begin(), out.size(), out.begin());
  return out;
}

class Writer {
 public:
  template <class T>
  Writer& number(T value) {
    store_be(out_.extend(sizeof value), value);
    return *this;
  }
  Writer& bytes(ByteView bytes) {
    out_.append(bytes);
    return *this;
  }
  Writer& name(std::string_view text) {
    assert(text.size() <= kMostName);
    return number(static_cast<std::uint8_t>(text.size())).bytes(as_bytes(text));
  }
  Buffer done() { return std::move(out_); }

 private:
  Buffer out_;
};

// What is asked for beyond the end is zeros, and whole() is false.
class Reader {
 public:
  explicit Reader(ByteView data) : left_(data) {}
  template <class T>
  T number() {
    const ByteView bytes = take(sizeof(T));
    return bytes.empty() ? T{} : load_be<T>(bytes.data());
  }
  template <std::size_t N>
  std::array<std::uint8_t, N> array() {
    std::array<std::uint8_t, N> out{};
    std::ranges::copy(take(N), out.begin());
    return out;
  }
  std::string name() {
    const std::size_t size = number<std::uint8_t>();
    if (size == 0 || size > kMostName) good_ = false;
    return good_ ? std::string(as_text(take(size))) : std::string();
  }
  bool whole() const { return good_ && left_.empty(); }

 private:
  ByteView take(std::size_t size) {
    if (size > left_.size()) {
      good_ = false;
      return {};
    }
    const ByteView out = left_.first(size);
    left_ = left_.subspan(size);
    return out;
  }
  ByteView left_;
  bool good_ = true;
};

Ticket ticket_of(Reader& reader) {
  Ticket ticket{.time = reader.number<std::uint64_t>()};
  ticket.mac = reader.array<16>();
  return ticket;
}

bool block_size_is_good(std::uint32_t block) {
  return std::has_single_bit(block) && block >= kSmallestBlock && block <= kLargestBlock;
}

}  // namespace

std::optional<Frame> decode(ByteView bytes) {
  if (bytes.size() < kHeadSize || load_be<std::uint32_t>(bytes.data()) != kMagic) return std::nullopt;
  const std::uint8_t op = bytes[kOpAt], code = bytes[kCodeAt];
  if (op == 0 || op >= static_cast<std::uint8_t>(Op::kKinds) ||
      code >= static_cast<std::uint8_t>(Code::kKinds) || bytes[kZeroAt] != 0 ||
      (bytes[kFlagsAt] & ~flag::kAll) != 0)
    return std::nullopt;
  const std::size_t length = load_be<std::uint16_t>(&bytes[kLengthAt]);
  if (length != bytes.size() - kHeadSize || length > kLargestBlock) return std::nullopt;
  return Frame{.head = {.op = static_cast<Op>(op),
                        .flags = bytes[kFlagsAt],
                        .code = static_cast<Code>(code),
                        .credit = load_be<std::uint16_t>(&bytes[kCreditAt]),
                        .tag = load_be<std::uint16_t>(&bytes[kTagAt]),
                        .fragment = load_be<std::uint16_t>(&bytes[kFragmentAt]),
                        .session = load_be<std::uint64_t>(&bytes[kSessionAt]),
                        .offset = load_be<std::uint64_t>(&bytes[kOffsetAt]),
                        .count = load_be<std::uint32_t>(&bytes[kCountAt]),
                        .generation = load_be<std::uint32_t>(&bytes[kGenerationAt])},
               .data = bytes.subspan(kHeadSize)};
}

bool authentic(const Key& key, ByteView frame) {
  return CRYPTO_memcmp(mac_of(key, frame).data(), &frame[kMacAt], kMacSize) == 0;
}

Buffer sealed(const Key& key, const Head& head, ByteView data) {
  assert(data.size() <= kLargestBlock);
  Buffer out(kHeadSize);
  std::uint8_t* at = out.data();
  store_be(at, kMagic);
  at[kOpAt] = static_cast<std::uint8_t>(head.op);
  at[kFlagsAt] = head.flags;
  at[kCodeAt] = static_cast<std::uint8_t>(head.code);
  at[kZeroAt] = 0;
  store_be(at + kLengthAt, static_cast<std::uint16_t>(data.size()));
  store_be(at + kCreditAt, head.credit);
  store_be(at + kTagAt, head.tag);
  store_be(at + kFragmentAt, head.fragment);
  store_be(at + kSessionAt, head.session);
  store_be(at + kOffsetAt, head.offset);
  store_be(at + kCountAt, head.count);
  store_be(at + kGenerationAt, head.generation);
  out.append(data);
  std::ranges::copy(mac_of(key, out.view()), out.data() + kMacAt);
  return out;
}

Keys handshake_keys(const Key& shared) {
  return {.to_target = rpc::derived_key(shared, "slice link handshake to target", {}),
          .to_initiator = rpc::derived_key(shared, "slice link handshake to initiator", {})};
}

Keys session_keys(const Key& shared, const Nonce& initiator, const Nonce& target, std::uint64_t session) {
  std::array<std::uint8_t, 8> number{};
  store_be(number.data(), session);
  return {.to_target = rpc::derived_key(shared, "slice link to target", {initiator, target, number}),
          .to_initiator = rpc::derived_key(shared, "slice link to initiator", {initiator, target, number})};
}

Buffer encode(const BlockMap& map) {
  Buffer out(kBlockMapSize);
  for (std::size_t at = 0; at < kBlockMapSize; ++at) {
    unsigned byte = 0;
    for (std::size_t bit = 0; bit < 8; ++bit) byte |= unsigned{map[at * 8 + bit]} << bit;
    out.data()[at] = static_cast<std::uint8_t>(byte);
  }
  return out;
}

std::optional<BlockMap> decode_block_map(ByteView data) {
  if (data.size() != kBlockMapSize) return std::nullopt;
  BlockMap map;
  for (std::size_t bit = 0; bit < map.size(); ++bit) map[bit] = (data[bit / 8] >> (bit % 8) & 1) != 0;
  return map;
}

Buffer encode(const Nonce& nonce) {
  return Buffer(ByteView(nonce));
}

Buffer encode(const TicketAnswer& answer) {
  return Writer().bytes(answer.nonce).number(answer.ticket.time).bytes(answer.ticket.mac).done();
}

Buffer encode(const Handshake& handshake) {
  return Writer()
      .bytes(handshake.nonce)
      .number(handshake.ticket.time)
      .bytes(handshake.ticket.mac)
      .number(handshake.block)
      .name(handshake.client)
      .name(handshake.volume)
      .done();
}

Buffer encode(const Welcome& welcome) {
  return Writer()
      .bytes(welcome.nonce)
      .bytes(welcome.target_nonce)
      .number(welcome.size)
      .number(welcome.largest)
      .number(welcome.block)
      .number(welcome.instance)
      .number(welcome.opening)
      .number(welcome.tags)
      .done();
}

std::optional<Nonce> decode_nonce(ByteView data) {
  if (data.size() != kNonceSize) return std::nullopt;
  return Reader(data).array<kNonceSize>();
}

std::optional<TicketAnswer> decode_ticket_answer(ByteView data) {
  if (data.size() != kNonceSize + kTicketSize) return std::nullopt;
  Reader reader(data);
  TicketAnswer answer{.nonce = reader.array<kNonceSize>(), .ticket = {}};
  answer.ticket = ticket_of(reader);
  return answer;
}

std::optional<Handshake> decode_handshake(ByteView data) {
  Reader reader(data);
  Handshake out;
  out.nonce = reader.array<kNonceSize>();
  out.ticket = ticket_of(reader);
  out.block = reader.number<std::uint32_t>();
  out.client = reader.name();
  out.volume = reader.name();
  if (!reader.whole() || !block_size_is_good(out.block)) return std::nullopt;
  return out;
}

std::optional<Welcome> decode_welcome(ByteView data) {
  if (data.size() != kWelcomeSize) return std::nullopt;
  Reader reader(data);
  Welcome out;
  out.nonce = reader.array<kNonceSize>();
  out.target_nonce = reader.array<kNonceSize>();
  out.size = reader.number<std::uint64_t>();
  out.largest = reader.number<std::uint32_t>();
  out.block = reader.number<std::uint32_t>();
  out.instance = reader.number<std::uint64_t>();
  out.opening = reader.number<std::uint64_t>();
  out.tags = reader.number<std::uint16_t>();
  if (!block_size_is_good(out.block) || out.largest < out.block || out.largest > kMostBlocks * out.block ||
      out.tags == 0)
    return std::nullopt;
  return out;
}

std::string_view name_of(Op op) {
  return kNames.at(static_cast<std::size_t>(op));
}

}  // namespace slice::link
