#include "tests/fuzz/case.h"

#include <algorithm>

#include "rpc/message.h"
#include "rpc/session.h"
#include "wire/nfs3.h"

namespace slice::fuzz {
namespace {

constexpr std::size_t kIpv4Header = 20, kUdpHeader = 8;
constexpr std::uint8_t kUdp = 17, kVersion6 = 0x60, kHopLimit = 64;
// Extension headers of IPv6 (RFC 8200 section 4).
constexpr std::uint8_t kHopByHop = 0, kRouting = 43, kFragment = 44, kDestination = 60;
constexpr std::uint16_t kNfsPort = 2049, kSourcePort = 701;
constexpr std::size_t kLongestFrame = 1500;

void append16(std::string& bytes, std::uint16_t value) {
  bytes += static_cast<char>(value >> 8);
  bytes += static_cast<char>(value);
}

std::uint16_t checksum(const std::string& bytes) {
  std::uint32_t sum = 0;
  for (std::size_t at = 0; at + 1 < bytes.size(); at += 2)
    sum += get32(std::string(2, '\0') + bytes.substr(at, 2), 0) & 0xffff;
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

void append_address(std::string& bytes, IpAddress address) {
  const AddressBytes raw(address);
  bytes.append(reinterpret_cast<const char*>(raw.data()), raw.size());
}

void patch16(std::string& bytes, std::size_t at, std::uint16_t value) {
  bytes[at] = static_cast<char>(value >> 8);
  bytes[at + 1] = static_cast<char>(value);
}

// A UDP datagram, whose length may lie; without a checksum.
std::string datagram(Random& random, const std::string& message) {
  std::string udp;
  append16(udp, kSourcePort);
  append16(udp, kNfsPort);
  const std::string payload = message.substr(0, kLongestFrame - 100);
  append16(udp, static_cast<std::uint16_t>(random.once_in(16) ? random.next() : kUdpHeader + payload.size()));
  append16(udp, 0);
  return udp + payload;
}

// `udp` in a packet of IPv4, whose checksum is right.
std::string packet_of_v4(Random& random, const std::string& udp, IpAddress source, IpAddress destination) {
  const std::size_t options = random.once_in(12) ? 4 * random.below(10) : 0;
  std::string head;
  head += static_cast<char>(random.once_in(40) ? random.next() : 0x45 + options / 4);
  head += '\0';
  append16(head, static_cast<std::uint16_t>(random.once_in(16) ? random.next()
                                                               : kIpv4Header + options + udp.size()));
  append16(head, static_cast<std::uint16_t>(random.below(64)));
  append16(head, static_cast<std::uint16_t>(random.once_in(6) ? random.next() : 0));
  head += static_cast<char>(kHopLimit);
  head += static_cast<char>(random.once_in(60) ? random.next() : kUdp);
  append16(head, 0);
  append_address(head, source);
  append_address(head, destination);
  for (std::size_t i = 0; i < options; ++i)
    head += static_cast<char>(random.below(2) == 0 ? 1 : random.next());
  patch16(head, 10, checksum(head));
  return head + udp;
}

// Some extension headers, one behind another, whose lengths may lie; `next`: the first one's kind, or UDP's
// where there is none.
std::string extensions(Random& random, std::uint8_t& next) {
  constexpr std::uint8_t kKinds[]{kHopByHop, kRouting, kFragment, kDestination};
  std::string out;
  next = kUdp;
  for (std::size_t left = random.once_in(5) ? 1 + random.below(4) : 0; left > 0; --left) {
    const std::uint8_t kind = random.one_of(kKinds);
    const std::size_t units = kind == kFragment ? 0 : random.below(3);  // of 8 bytes, behind the first 8
    std::string header;
    header += static_cast<char>(random.once_in(30) ? random.next() : next);
    header += static_cast<char>(random.once_in(10) ? random.next() : units);
    while (header.size() < 8 * (units + 1))
      header += static_cast<char>(random.below(2) == 0 ? 0 : random.next());
    out = header + out;
    next = kind;
  }
  return out;
}

// The same of IPv6, where UDP has to have a checksum: most have theirs.
std::string packet_of_v6(Random& random, std::string udp, IpAddress source, IpAddress destination) {
  std::string pseudo;
  append_address(pseudo, source);
  append_address(pseudo, destination);
  append32(pseudo, static_cast<std::uint32_t>(udp.size()));
  append32(pseudo, kUdp);
  pseudo += udp;
  if (pseudo.size() % 2 != 0) pseudo += '\0';
  if (!random.once_in(8)) patch16(udp, 6, checksum(pseudo));
  std::uint8_t next = 0;
  const std::string more = extensions(random, next);
  std::string head;
  head += static_cast<char>(random.once_in(40) ? random.next() : kVersion6);
  head += '\0';
  append16(head, 0);
  append16(head, static_cast<std::uint16_t>(random.once_in(16) ? random.next() : more.size() + udp.size()));
  head += static_cast<char>(random.once_in(60) ? random.next() : next);
  head += static_cast<char>(kHopLimit);
  append_address(head, source);
  append_address(head, destination);
  return head + more + udp;
}

// A generator for what is decided about a case after its message was made.
Random afterwards(std::uint64_t seed, std::uint64_t number) {
  return Random::of_case(~seed, number);
}

// As a session's hello, with another key or lengths than a member's.
std::string hello(Random& random) {
  std::string out;
  append32(out, rpc::kSessionMagic);
  for (std::size_t words = random.below(24); words > 0; --words) {
    append32(out, random.once_in(2) ? 0U : static_cast<std::uint32_t>(random.next()));
  }
  return out;
}

}  // namespace

CaseMaker::CaseMaker(std::uint64_t seed, Volume volume)
    : seed_(seed), volume_(std::move(volume)), messages_(corpus(volume_)) {}

std::string CaseMaker::null_call(std::uint32_t xid) {
  std::string call;
  for (std::uint32_t word : {xid, 0U, 2U, nfs3::kProgram, nfs3::kVersion, 0U, 0U, 0U, 0U, 0U})
    append32(call, word);
  return call;
}

// With a member's verifier: an internal call, or one forwarded for a client. It counts over a session alone.
std::string CaseMaker::from_member(Random& random, const Message& message, std::uint64_t number,
                                   const std::string& credential, const std::string& arguments) const {
  rpc::CallHeader call;
  call.xid = Xid{static_cast<std::uint32_t>(number) & 0x7fffffff};
  call.program = message.program;
  call.version = message.version;
  call.procedure = message.procedure;
  call.credential_flavor = get32(credential, 0);
  call.credential =
      as_bytes(std::string_view(credential).substr(std::min<std::size_t>(8, credential.size())));
  call.arguments = as_bytes(std::string_view(arguments));
  rpc::SliceVerifier verifier;
  verifier.sender = static_cast<std::uint32_t>(random.below(12));
  verifier.generation = Generation{random.below(4)};
  verifier.relays = static_cast<std::uint8_t>(random.below(4));
  if (!message.internal) verifier.client = {0x0a4d6402, static_cast<std::uint16_t>(random.next())};
  rpc::XdrWriter out;
  rpc::encode_member_header(out, call, verifier);
  return std::string(as_text(out.view())) + arguments;
}

std::string CaseMaker::header(Random& random, Mutator& mutator, const Message& message, std::uint64_t number,
                              const std::string& arguments) const {
  const std::string credential = mutator.credential();
  const bool whole = get32(credential, 4) == credential.size() - 8 && credential.size() % 4 == 0;
  if (whole && !random.once_in(message.internal ? 4 : 8) == message.internal) {
    return from_member(random, message, number, credential, arguments);
  }
  std::string call;
  for (std::uint32_t word : {static_cast<std::uint32_t>(number) & 0x7fffffff, 0U, 2U, message.program,
                             message.version, message.procedure}) {
    append32(call, word);
  }
  call += credential;
  append32(call, 0);
  append32(call, 0);
  return call + arguments;
}

Case CaseMaker::make(std::uint64_t number) const {
  Random random = Random::of_case(seed_, number);
  Mutator mutator(random, volume_, messages_);
  const Message& message = random.one_of(messages_);
  std::string arguments = message.arguments;
  if (!random.once_in(16)) mutator.arguments(arguments);
  arguments.resize(arguments.size() / 4 * 4);
  Case one{number, header(random, mutator, message, number, arguments), false};
  if (random.once_in(12)) {
    mutator.anywhere(one.message);
    one.alone = true;
  }
  return one;
}

std::string CaseMaker::framed(const Case& one) const {
  Random random = afterwards(seed_, one.number);
  std::string out;
  const std::string& message = one.message;
  if (one.alone && random.once_in(4)) out = hello(random);
  std::size_t pieces = random.once_in(6) ? 1 + random.below(20) : 1;
  std::size_t at = 0;
  while (pieces > 1) {
    const std::size_t size = random.below(message.size() - at + 1);
    append32(out, static_cast<std::uint32_t>(size));
    out += message.substr(at, size);
    at += size;
    --pieces;
  }
  append32(out, rpc::kLastFragment | static_cast<std::uint32_t>(message.size() - at));
  out += message.substr(at);
  if (!one.alone || random.below(2) == 0) return out;
  Mutator(random, volume_, messages_).anywhere(out);
  return out;
}

std::string CaseMaker::packet(const Case& one, IpAddress source, IpAddress destination) const {
  Random random = afterwards(seed_, one.number);
  const std::string udp = datagram(random, one.message);
  return source.is_v4() ? packet_of_v4(random, udp, source, destination)
                        : packet_of_v6(random, udp, source, destination);
}

}  // namespace slice::fuzz
