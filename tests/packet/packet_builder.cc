#include "tests/packet/packet_builder.h"

#include <algorithm>

namespace slice::packet {
namespace {

void put16(Bytes& out, uint32_t v) {
  out.push_back(static_cast<uint8_t>(v >> 8));
  out.push_back(static_cast<uint8_t>(v));
}

uint32_t get16(std::span<const uint8_t> in, size_t at) {
  return uint32_t{in[at]} << 8 | in[at + 1];
}
uint32_t get32(std::span<const uint8_t> in, size_t at) {
  return get16(in, at) << 16 | get16(in, at + 2);
}
uint64_t get64(std::span<const uint8_t> in, size_t at) {
  return uint64_t{get32(in, at)} << 32 | get32(in, at + 4);
}

// RFC 1071: sum of 16-bit big-endian words, odd byte padded.
uint32_t ones_sum(std::span<const uint8_t> bytes) {
  uint64_t sum = 0;
  for (size_t i = 0; i < bytes.size(); i++) sum += i % 2 == 0 ? uint64_t{bytes[i]} << 8 : bytes[i];
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint32_t>(sum);
}

template <class Address>
Bytes pseudo_header(const Address& source, const Address& destination, size_t length) {
  Bytes pseudo(source.begin(), source.end());
  pseudo.insert(pseudo.end(), destination.begin(), destination.end());
  put16(pseudo, 17);
  put16(pseudo, static_cast<uint32_t>(length));
  return pseudo;
}

template <class Flow>
Bytes udp_segment(const Flow& flow, const Bytes& payload, Checksum checksum) {
  Bytes segment;
  put16(segment, flow.source_port);
  put16(segment, flow.destination_port);
  put16(segment, static_cast<uint32_t>(payload.size() + 8));
  put16(segment, 0);
  segment.insert(segment.end(), payload.begin(), payload.end());
  Bytes pseudo = pseudo_header(flow.source, flow.destination, segment.size());
  uint32_t sum = 0;
  if (checksum == Checksum::kUnfilled) sum = ones_sum(pseudo);
  if (checksum == Checksum::kFull) {
    pseudo.insert(pseudo.end(), segment.begin(), segment.end());
    sum = ~ones_sum(pseudo) & 0xffff;
    if (sum == 0) sum = 0xffff;
  }
  segment[6] = static_cast<uint8_t>(sum >> 8);
  segment[7] = static_cast<uint8_t>(sum);
  return segment;
}

Bytes ip_frame(const Flow& flow, std::span<const uint8_t> body, uint32_t fragment) {
  Bytes frame(flow.destination_mac.begin(), flow.destination_mac.end());
  frame.insert(frame.end(), flow.source_mac.begin(), flow.source_mac.end());
  put16(frame, 0x0800);
  put16(frame, 0x4500);
  put16(frame, static_cast<uint32_t>(body.size() + 20));
  put16(frame, flow.ip_id);
  put16(frame, fragment);
  put16(frame, 64 << 8 | 17);
  put16(frame, 0);
  frame.insert(frame.end(), flow.source.begin(), flow.source.end());
  frame.insert(frame.end(), flow.destination.begin(), flow.destination.end());
  frame.insert(frame.end(), body.begin(), body.end());
  fix_ip_checksum(frame);
  return frame;
}

bool segment_checksum_right(const Flow6& flow, const Bytes& segment) {
  if (get16(segment, 6) == 0) return false;
  Bytes all = pseudo_header(flow.source, flow.destination, segment.size());
  all.insert(all.end(), segment.begin(), segment.end());
  return ones_sum(all) == 0xffff;
}

}  // namespace

XdrWriter& XdrWriter::u32(uint32_t v) {
  put16(bytes_, v >> 16);
  put16(bytes_, v & 0xffff);
  return *this;
}

XdrWriter& XdrWriter::u64(uint64_t v) {
  return u32(static_cast<uint32_t>(v >> 32)).u32(static_cast<uint32_t>(v));
}

XdrWriter& XdrWriter::raw(std::span<const uint8_t> bytes) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  return *this;
}

XdrWriter& XdrWriter::opaque(std::span<const uint8_t> bytes) {
  u32(static_cast<uint32_t>(bytes.size())).raw(bytes);
  while (bytes_.size() % 4 != 0) bytes_.push_back(0);
  return *this;
}

XdrWriter& XdrWriter::name(std::string_view text) {
  return opaque({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

Bytes handle_bytes(const HandleFields& f) {
  XdrWriter w;
  w.raw(std::array<uint8_t, 4>{f.version, f.type, f.flags, f.stripe_shift});
  w.u32(f.volume).u64(f.fileid).u32(f.site).u32(1).u64(0xfeedface12345678).u64(f.hint);
  w.raw(Bytes(16, 0x3c));
  return w.bytes();
}

Bytes rpc_call(const CallHeader& h, const Bytes& arguments) {
  XdrWriter w;
  w.u32(h.xid).u32(h.message_type).u32(h.rpc_version).u32(h.program).u32(h.version).u32(h.procedure);
  w.u32(h.credential_flavor).opaque(h.credential).u32(0).opaque(h.verifier).raw(arguments);
  return w.bytes();
}

Bytes read_arguments(const Bytes& handle, uint64_t offset, uint32_t count) {
  return XdrWriter().opaque(handle).u64(offset).u32(count).bytes();
}

Bytes write_arguments(const Bytes& handle, uint64_t offset, uint32_t count, size_t data_bytes) {
  XdrWriter w;
  w.opaque(handle).u64(offset).u32(count).u32(2).u32(count);
  Bytes data(data_bytes);
  for (size_t i = 0; i < data_bytes; i++) data[i] = static_cast<uint8_t>(i * 7);
  return w.raw(data).bytes();
}

Bytes commit_arguments(const Bytes& handle, uint64_t offset, uint32_t count) {
  return XdrWriter().opaque(handle).u64(offset).u32(count).bytes();
}

Bytes name_arguments(const Bytes& directory, std::string_view name, size_t trailing_bytes) {
  return XdrWriter().opaque(directory).name(name).raw(Bytes(trailing_bytes, 0)).bytes();
}

Bytes rename_arguments(const Bytes& from, std::string_view old_name, const Bytes& to, std::string_view name) {
  return XdrWriter().opaque(from).name(old_name).opaque(to).name(name).bytes();
}

Bytes link_arguments(const Bytes& file, const Bytes& directory, std::string_view name) {
  return XdrWriter().opaque(file).opaque(directory).name(name).bytes();
}

Bytes readdir_arguments(const Bytes& directory, uint64_t cookie, bool plus) {
  XdrWriter w;
  w.opaque(directory).u64(cookie).u64(0x5555);
  if (plus) w.u32(1024);
  return w.u32(4096).bytes();
}

Bytes some_arguments(uint32_t procedure, const Bytes& handle, std::string_view name) {
  HandleFields other;
  other.fileid = 0x0005000000000077;
  other.site = 5;
  switch (procedure) {
    case 0:
      return {};
    case 1:
    case 5:
    case 18:
    case 19:
    case 20:
      return XdrWriter().opaque(handle).bytes();
    case 2:
      return XdrWriter().opaque(handle).raw(Bytes(28, 0)).bytes();
    case 4:
      return XdrWriter().opaque(handle).u32(0x3f).bytes();
    case 6:
      return read_arguments(handle, 4096, 4096);
    case 7:
      return write_arguments(handle, 4096, 512, 512);
    case 14:
      return rename_arguments(handle, name, handle_bytes(other), "new-name");
    case 15:
      return link_arguments(handle, handle_bytes(other), name);
    case 16:
    case 17:
      return readdir_arguments(handle, 0, procedure == 17);
    case 21:
      return commit_arguments(handle, 0, 0);
    default:  // a directory and a name, and what follows it
      return name_arguments(handle, name, procedure == 3 || procedure >= 12 ? 0 : 32);
  }
}

Bytes fattr3(const Attributes& a) {
  XdrWriter w;
  w.u32(a.type).u32(a.mode).u32(a.nlink).u32(1000).u32(1001).u64(a.size).u64(a.used);
  w.u32(a.epoch).u32(a.site).u64(0x99).u64(a.fileid).u64(a.atime).u64(a.mtime).u64(a.ctime);
  return w.bytes();
}

Attributes read_fattr3(std::span<const uint8_t> wire) {
  Attributes a;
  a.type = get32(wire, 0);
  a.mode = get32(wire, 4);
  a.nlink = get32(wire, 8);
  a.size = get64(wire, 20);
  a.used = get64(wire, 28);
  a.epoch = get32(wire, 36);
  a.site = get32(wire, 40);
  a.fileid = get64(wire, 52);
  a.atime = get64(wire, 60);
  a.mtime = get64(wire, 68);
  a.ctime = get64(wire, 76);
  return a;
}

Bytes rpc_reply(uint32_t xid, const Bytes& results) {
  return XdrWriter().u32(xid).u32(1).u32(0).u32(0).u32(0).u32(0).raw(results).bytes();
}

Bytes word(uint32_t v) {
  return XdrWriter().u32(v).bytes();
}

Bytes join(std::initializer_list<Bytes> parts) {
  Bytes out;
  for (const Bytes& part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

Bytes post_op(const std::optional<Attributes>& attributes) {
  return attributes ? join({word(1), fattr3(*attributes)}) : word(0);
}

Bytes wcc(const std::optional<Attributes>& after, bool with_before) {
  Bytes before = with_before ? join({word(1), Bytes(24, 0x11)}) : word(0);
  return join({before, post_op(after)});
}

Bytes udp_frame(const Flow& flow, const Bytes& payload, Checksum checksum) {
  return ip_frame(flow, udp_segment(flow, payload, checksum), 0x4000);
}

std::vector<Bytes> udp_fragments(const Flow& flow, const Bytes& payload, size_t piece) {
  Bytes segment = udp_segment(flow, payload, Checksum::kFull);
  std::vector<Bytes> frames;
  for (size_t at = 0; at < segment.size(); at += piece) {
    size_t length = std::min(piece, segment.size() - at);
    bool more = at + length < segment.size();
    frames.push_back(ip_frame(flow, std::span(segment).subspan(at, length),
                              static_cast<uint32_t>(at / 8) | (more ? 0x2000u : 0u)));
  }
  return frames;
}

Bytes ipv6_frame(const Flow6& flow, uint8_t next, const Bytes& body) {
  Bytes frame(flow.destination_mac.begin(), flow.destination_mac.end());
  frame.insert(frame.end(), flow.source_mac.begin(), flow.source_mac.end());
  put16(frame, 0x86dd);
  put16(frame, 0x6123);  // a traffic class and a flow label, which are of no account
  put16(frame, 0x4567);
  put16(frame, static_cast<uint32_t>(body.size()));
  put16(frame, uint32_t{next} << 8 | 64);
  frame.insert(frame.end(), flow.source.begin(), flow.source.end());
  frame.insert(frame.end(), flow.destination.begin(), flow.destination.end());
  frame.insert(frame.end(), body.begin(), body.end());
  return frame;
}

Bytes udp_frame(const Flow6& flow, const Bytes& payload, Checksum checksum, uint8_t next,
                const Bytes& extensions) {
  return ipv6_frame(flow, next, join({extensions, udp_segment(flow, payload, checksum)}));
}

std::vector<Bytes> udp_fragments(const Flow6& flow, const Bytes& payload, size_t piece) {
  Bytes segment = udp_segment(flow, payload, Checksum::kFull);
  std::vector<Bytes> frames;
  for (size_t at = 0; at < segment.size(); at += piece) {
    const size_t length = std::min(piece, segment.size() - at);
    Bytes body{17, 0};
    put16(body, static_cast<uint32_t>(at | (at + length < segment.size() ? 1 : 0)));
    put16(body, flow.id >> 16);
    put16(body, flow.id & 0xffff);
    auto from = segment.begin() + static_cast<std::ptrdiff_t>(at);
    body.insert(body.end(), from, from + static_cast<std::ptrdiff_t>(length));
    frames.push_back(ipv6_frame(flow, 44, body));
  }
  return frames;
}

bool udp6_checksum_right(std::span<const uint8_t> frame) {
  return segment_checksum_right(read_flow6(frame), Bytes(frame.begin() + 54, frame.end()));
}

bool udp6_checksum_right(const std::vector<Bytes>& fragments) {
  Bytes segment;
  for (const Bytes& each : fragments) segment.insert(segment.end(), each.begin() + 62, each.end());
  return segment_checksum_right(read_flow6(fragments.front()), segment);
}

uint16_t udp6_checksum_field(std::span<const uint8_t> frame) {
  return static_cast<uint16_t>(get16(frame, 14 + 40 + 6));
}

uint16_t udp6_pseudo_sum(std::span<const uint8_t> frame) {
  const Flow6 flow = read_flow6(frame);
  return static_cast<uint16_t>(ones_sum(pseudo_header(flow.source, flow.destination, frame.size() - 54)));
}

Flow6 read_flow6(std::span<const uint8_t> frame) {
  Flow6 flow;
  std::copy_n(frame.begin(), 6, flow.destination_mac.begin());
  std::copy_n(frame.begin() + 6, 6, flow.source_mac.begin());
  std::copy_n(frame.begin() + 22, 16, flow.source.begin());
  std::copy_n(frame.begin() + 38, 16, flow.destination.begin());
  const size_t udp = frame[20] == 44 ? 62 : 54;
  flow.source_port = static_cast<uint16_t>(get16(frame, udp));
  flow.destination_port = static_cast<uint16_t>(get16(frame, udp + 2));
  flow.id = get32(frame, 58);
  return flow;
}

bool ip_checksum_right(std::span<const uint8_t> frame) {
  return ones_sum(frame.subspan(14, 20)) == 0xffff;
}

bool udp_checksum_right(std::span<const uint8_t> frame) {
  return udp_checksum_right(std::vector<Bytes>{Bytes(frame.begin(), frame.end())});
}

bool udp_checksum_right(const std::vector<Bytes>& fragments) {
  Bytes segment;
  for (const Bytes& each : fragments) segment.insert(segment.end(), each.begin() + 34, each.end());
  if (get16(segment, 6) == 0) return true;
  Flow flow = read_flow(fragments.front());
  Bytes all = pseudo_header(flow.source, flow.destination, segment.size());
  all.insert(all.end(), segment.begin(), segment.end());
  return ones_sum(all) == 0xffff;
}

uint16_t udp_checksum_field(std::span<const uint8_t> frame) {
  return static_cast<uint16_t>(get16(frame, 14 + 20 + 6));
}

Flow read_flow(std::span<const uint8_t> frame) {
  Flow flow;
  std::copy_n(frame.begin(), 6, flow.destination_mac.begin());
  std::copy_n(frame.begin() + 6, 6, flow.source_mac.begin());
  std::copy_n(frame.begin() + 26, 4, flow.source.begin());
  std::copy_n(frame.begin() + 30, 4, flow.destination.begin());
  flow.source_port = static_cast<uint16_t>(get16(frame, 34));
  flow.destination_port = static_cast<uint16_t>(get16(frame, 36));
  flow.ip_id = static_cast<uint16_t>(get16(frame, 18));
  return flow;
}

void fix_ip_checksum(Bytes& frame) {
  frame[24] = frame[25] = 0;
  uint32_t sum = ~ones_sum(std::span(frame).subspan(14, 20)) & 0xffff;
  frame[24] = static_cast<uint8_t>(sum >> 8);
  frame[25] = static_cast<uint8_t>(sum);
}

Bytes edited(Bytes frame, size_t at, std::initializer_list<uint8_t> bytes, bool fix_ip) {
  std::copy(bytes.begin(), bytes.end(), frame.begin() + static_cast<std::ptrdiff_t>(at));
  if (fix_ip) fix_ip_checksum(frame);
  return frame;
}

}  // namespace slice::packet
