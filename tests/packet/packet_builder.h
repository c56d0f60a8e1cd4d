// Builds frames for the tests of the XDP program, from RFC 5531 and RFC 1813 and
// not from the headers under test, so that a wrong offset there shows here.
#ifndef SLICE_TESTS_PACKET_PACKET_BUILDER_H
#define SLICE_TESTS_PACKET_PACKET_BUILDER_H

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace slice::packet {

using Bytes = std::vector<uint8_t>;
using Ipv4 = std::array<uint8_t, 4>;
using Ipv6 = std::array<uint8_t, 16>;
using Mac = std::array<uint8_t, 6>;

// Appends XDR items.
class XdrWriter {
 public:
  XdrWriter& u32(uint32_t v);
  XdrWriter& u64(uint64_t v);
  XdrWriter& raw(std::span<const uint8_t> bytes);
  XdrWriter& opaque(std::span<const uint8_t> bytes);  // length, bytes, padding
  XdrWriter& name(std::string_view text);
  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

// Where a frame comes from and goes to.
struct Flow {
  Mac source_mac{2, 0, 0, 0, 1, 2};
  Mac destination_mac{2, 0, 0, 0, 1, 1};
  Ipv4 source{10, 77, 1, 2};
  Ipv4 destination{10, 77, 0, 1};
  uint16_t source_port = 700;
  uint16_t destination_port = 2049;
  uint16_t ip_id = 0x1234;
};

// fd77::1:2, say, from its last 32 bits.
inline Ipv6 ipv6(uint32_t last, uint16_t first = 0xfd77) {
  Ipv6 address{};
  address[0] = static_cast<uint8_t>(first >> 8);
  address[1] = static_cast<uint8_t>(first);
  for (size_t i = 0; i < 4; i++) address[12 + i] = static_cast<uint8_t>(last >> (24 - 8 * i));
  return address;
}

// The same over IPv6.
struct Flow6 {
  Mac source_mac{2, 0, 0, 0, 1, 2};
  Mac destination_mac{2, 0, 0, 0, 1, 1};
  Ipv6 source = ipv6(0x00010002);
  Ipv6 destination = ipv6(1);
  uint16_t source_port = 700;
  uint16_t destination_port = 2049;
  uint32_t id = 0x12345678;  // of fragments
};

// Of an answer.
template <class Flow>
Flow reversed(Flow flow) {
  std::swap(flow.source, flow.destination);
  std::swap(flow.source_port, flow.destination_port);
  std::swap(flow.source_mac, flow.destination_mac);
  return flow;
}

enum class Checksum { kFull, kNone, kUnfilled };

// Handle of a regular file unless said otherwise; MAC bytes are arbitrary.
struct HandleFields {
  uint8_t version = 1;
  uint8_t type = 1;
  uint8_t flags = 0;
  uint8_t stripe_shift = 16;
  uint32_t volume = 7;
  uint64_t fileid = 0x0003000000000042;
  uint32_t site = 3;
  uint64_t hint = 0;
};
Bytes handle_bytes(const HandleFields& fields);

struct CallHeader {
  uint32_t xid = 0x11223344;
  uint32_t rpc_version = 2;
  uint32_t program = 100003;
  uint32_t version = 3;
  uint32_t procedure = 0;
  uint32_t message_type = 0;
  uint32_t credential_flavor = 1;
  Bytes credential = Bytes(32, 0xc5);
  Bytes verifier;
};
Bytes rpc_call(const CallHeader& header, const Bytes& arguments);

// NFSv3 arguments (RFC 1813 section 3.3).
Bytes read_arguments(const Bytes& handle, uint64_t offset, uint32_t count);
Bytes write_arguments(const Bytes& handle, uint64_t offset, uint32_t count, size_t data_bytes);
Bytes commit_arguments(const Bytes& handle, uint64_t offset, uint32_t count);
Bytes name_arguments(const Bytes& directory, std::string_view name, size_t trailing_bytes = 0);
Bytes rename_arguments(const Bytes& from, std::string_view old_name, const Bytes& to, std::string_view name);
Bytes link_arguments(const Bytes& file, const Bytes& directory, std::string_view name);
Bytes readdir_arguments(const Bytes& directory, uint64_t cookie, bool plus);
// Some legal arguments of the procedure, for a file or directory `handle`.
Bytes some_arguments(uint32_t procedure, const Bytes& handle, std::string_view name = "a-file");

// fattr3 with the fields the proxy looks at.
struct Attributes {
  uint32_t type = 1;
  uint32_t mode = 0644;
  uint32_t nlink = 1;
  uint64_t size = 0;
  uint64_t used = 0;
  uint32_t epoch = 0;
  uint32_t site = 3;
  uint64_t fileid = 0x0003000000000042;
  uint64_t atime = 0;  // seconds << 32 | nanoseconds
  uint64_t mtime = 0;
  uint64_t ctime = 0;
};
// As a time of Attributes: so many seconds, and a few nanoseconds.
constexpr uint64_t seconds(uint64_t seconds) {
  return seconds << 32 | 5;
}
Bytes fattr3(const Attributes& attributes);
Attributes read_fattr3(std::span<const uint8_t> wire);

// Accepted, successful RPC reply with `results` (which begin with the status).
Bytes rpc_reply(uint32_t xid, const Bytes& results);
Bytes post_op(const std::optional<Attributes>& attributes);
Bytes wcc(const std::optional<Attributes>& after, bool with_before = false);
Bytes join(std::initializer_list<Bytes> parts);
Bytes word(uint32_t v);

// A whole UDP datagram in one Ethernet frame.
Bytes udp_frame(const Flow& flow, const Bytes& payload, Checksum checksum = Checksum::kFull);
// The same in IP fragments of at most `piece` bytes (a multiple of 8) of IP payload.
std::vector<Bytes> udp_fragments(const Flow& flow, const Bytes& payload, size_t piece = 1480);

// The same over IPv6. `extensions` are whole headers between IPv6's and UDP's, of which the first is `next`.
Bytes udp_frame(const Flow6& flow, const Bytes& payload, Checksum checksum = Checksum::kFull,
                uint8_t next = 17, const Bytes& extensions = {});
std::vector<Bytes> udp_fragments(const Flow6& flow, const Bytes& payload, size_t piece = 1448);
// Any packet of IPv6: `body` behind the header, whose next header is `next`.
Bytes ipv6_frame(const Flow6& flow, uint8_t next, const Bytes& body);

// --- Reading back, by full recomputation -----------------------------------------
bool ip_checksum_right(std::span<const uint8_t> frame);
// Of an unfragmented frame; a checksum of zero counts as right.
bool udp_checksum_right(std::span<const uint8_t> frame);
// Of a datagram put together from its fragments in order.
bool udp_checksum_right(const std::vector<Bytes>& fragments);
uint16_t udp_checksum_field(std::span<const uint8_t> frame);
Flow read_flow(std::span<const uint8_t> frame);
// Of IPv6: of a frame without extensions; of fragments put together in order. A checksum of zero is wrong.
bool udp6_checksum_right(std::span<const uint8_t> frame);
bool udp6_checksum_right(const std::vector<Bytes>& fragments);
uint16_t udp6_checksum_field(std::span<const uint8_t> frame);
// Sum of the pseudo-header, as an unfilled checksum has it.
uint16_t udp6_pseudo_sum(std::span<const uint8_t> frame);
// Of a whole datagram, or a first fragment.
Flow6 read_flow6(std::span<const uint8_t> frame);

// Makes the IP header's checksum right after a test edited the header.
void fix_ip_checksum(Bytes& frame);
// The frame with these bytes at `at`, and the IP header's checksum right where `fix_ip` says so.
Bytes edited(Bytes frame, size_t at, std::initializer_list<uint8_t> bytes, bool fix_ip = false);

// A frame that is not routed.
struct Refused {
  const char* description;
  Bytes frame;
  uint32_t outcome;
};

constexpr size_t kPayloadAt = 14 + 20 + 8;
constexpr size_t kPayloadAt6 = 14 + 40 + 8;

}  // namespace slice::packet

#endif  // SLICE_TESTS_PACKET_PACKET_BUILDER_H
