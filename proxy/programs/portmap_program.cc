#include "proxy/programs/portmap_program.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>

#include "rpc/bound_socket.h"
#include "rpc/message.h"
#include "wire/mount3.h"
#include "wire/nfs3.h"
#include "wire/nlm4.h"
#include "wire/nsm1.h"
#include "wire/rpcbind4.h"
#include "wire/rquota.h"

namespace slice::proxy {
namespace {

// What a host that is an NFS client, or server, itself has programs of its own for: locks and quotas.
std::array<portmap2::Mapping, 4> beside_nfs(const ProxyConfig& config, std::uint32_t protocol) {
  return {{{nlm4::kProgram, nlm4::kVersion, protocol, config.mount_port},
           {nsm1::kProgram, nsm1::kVersion, protocol, config.mount_port},
           {rquota::kProgram, rquota::kVersion, protocol, config.mount_port},
           {rquota::kProgram, rquota::kExtendedVersion, protocol, config.mount_port}}};
}

std::vector<portmap2::Mapping> served(const ProxyConfig& config, bool with_portmap) {
  std::vector<portmap2::Mapping> all;
  for (std::uint32_t protocol : {portmap2::kTcp, portmap2::kUdp}) {
    for (std::uint32_t version : {portmap2::kVersion, rpcbind4::kOlderVersion, rpcbind4::kVersion})
      if (with_portmap) all.push_back({portmap2::kProgram, version, protocol, config.portmap_port});
    all.push_back({nfs3::kProgram, nfs3::kVersion, protocol, config.nfs_port});
    all.push_back({nfs3::kAclProgram, nfs3::kVersion, protocol, config.nfs_port});
    all.push_back({mount3::kProgram, mount3::kVersion, protocol, config.mount_port});
    if (!with_portmap) continue;
    for (const portmap2::Mapping& mapping : beside_nfs(config, protocol)) all.push_back(mapping);
  }
  return all;
}

}  // namespace

std::vector<portmap2::Mapping> served_programs(const ProxyConfig& config) {
  return served(config, true);
}

std::uint32_t port_of_program(const std::vector<portmap2::Mapping>& mappings, const portmap2::Mapping& asked,
                              bool this_version) {
  std::uint32_t port = 0;
  for (const portmap2::Mapping& mapping : mappings) {
    if (mapping.program != asked.program || mapping.protocol != asked.protocol) continue;
    if (mapping.version == asked.version || (port == 0 && !this_version)) port = mapping.port;
  }
  return port;
}

PortmapProgram::PortmapProgram(const ProxyConfig& config) : mappings_(served_programs(config)) {}

Task<rpc::Outcome> PortmapProgram::handle(const rpc::Call& call, rpc::XdrWriter& results) {
  switch (static_cast<portmap2::Procedure>(call.procedure)) {
    case portmap2::Procedure::kGetport: {
      portmap2::Mapping asked;
      if (!portmap2::decode(call.arguments, asked)) co_return rpc::Outcome::kGarbage;
      portmap2::encode_port(results, port_of_program(mappings_, asked));
      co_return rpc::Outcome::kReply;
    }
    case portmap2::Procedure::kDump:
      portmap2::encode(results, mappings_);
      co_return rpc::Outcome::kReply;
    case portmap2::Procedure::kSet:
    case portmap2::Procedure::kUnset:
      portmap2::encode_done(results, false);  // nobody registers anything at the virtual address
      co_return rpc::Outcome::kReply;
    default:
      co_return rpc::Outcome::kNoProcedure;  // CALLIT: an open relay is no service
  }
}

namespace {

// Calls of this host's own rpcbind, over UDP, one after another; each blocks for at most 80 ms.
class Rpcbind {
 public:
  explicit Rpcbind(std::uint16_t port) : fd_(rpc::socket_for(kLoopback, SOCK_DGRAM)) {
    if (fd_ < 0) return;
    timeval patience{0, 80'000};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    // It believes a sender on this host with a reserved port.
    rpc::bind_reserved(fd_, kLoopback);
    const rpc::SocketAddress there({kLoopback, port});
    connected_ = ::connect(fd_, there.get(), there.length()) == 0;
  }
  Rpcbind(const Rpcbind&) = delete;
  Rpcbind& operator=(const Rpcbind&) = delete;
  ~Rpcbind() {
    if (fd_ >= 0) ::close(fd_);
  }

  // Whether it answered SET or UNSET, with yes or no.
  bool change(portmap2::Procedure procedure, const portmap2::Mapping& mapping) {
    bool done = false;
    rpc::XdrWriter arguments;
    portmap2::encode(arguments, mapping);
    auto reply = ask(portmap2::kVersion, static_cast<std::uint32_t>(procedure), arguments.view());
    return reply && portmap2::decode_done(*reply, done);
  }
  // The same of IPv6, which PORTMAP does not know.
  bool change6(rpcbind4::Procedure procedure, const portmap2::Mapping& mapping) {
    bool done = false;
    auto reply = ask6(procedure, mapping);
    return reply && portmap2::decode_done(*reply, done);
  }
  std::uint32_t port6_of(const portmap2::Mapping& mapping) {
    std::string address;
    auto reply = ask6(rpcbind4::Procedure::kGetversaddr, mapping);
    if (!reply || !rpcbind4::decode_address(*reply, address)) return 0;
    return rpcbind4::parse_universal_address(address).value_or(rpc::Endpoint{}).port;
  }
  // 0 where it does not know one.
  std::uint32_t port_of(const portmap2::Mapping& mapping) {
    std::uint32_t port = 0;
    rpc::XdrWriter arguments;
    portmap2::encode(arguments, mapping);
    auto reply =
        ask(portmap2::kVersion, static_cast<std::uint32_t>(portmap2::Procedure::kGetport), arguments.view());
    return reply && portmap2::decode_port(*reply, port) ? port : 0;
  }

 private:
  static constexpr std::uint32_t kLoopback = INADDR_LOOPBACK;

  // Views of `reply_`.
  std::optional<ByteView> ask6(rpcbind4::Procedure procedure, const portmap2::Mapping& mapping) {
    rpc::XdrWriter arguments;
    const auto port = static_cast<std::uint16_t>(mapping.port);
    rpcbind4::encode(arguments,
                     rpcbind4::Registration{
                         .program = mapping.program,
                         .version = mapping.version,
                         .netid = std::string(rpcbind4::netid(mapping.protocol == portmap2::kTcp, false)),
                         .address = fmt::format("::.{}.{}", port >> 8, port & 255),
                         .owner = "slice"});
    return ask(rpcbind4::kVersion, static_cast<std::uint32_t>(procedure), arguments.view());
  }
  std::optional<ByteView> ask(std::uint32_t version, std::uint32_t procedure, ByteView arguments) {
    if (!connected_) return std::nullopt;
    rpc::XdrWriter out;
    rpc::CallHeader call;
    call.xid = Xid{++xid_};
    call.program = portmap2::kProgram;
    call.version = version;
    call.procedure = procedure;
    call.arguments = arguments;
    rpc::encode_call(out, call);
    if (::send(fd_, out.view().data(), out.size(), 0) <= 0) return std::nullopt;
    ssize_t n = ::recv(fd_, reply_.data(), reply_.size(), 0);
    auto header =
        rpc::decode_reply(ByteView(reply_).first(static_cast<std::size_t>(std::max<ssize_t>(n, 0))));
    if (!header || header->xid != call.xid) return std::nullopt;
    return header->results;
  }

  int fd_;
  bool connected_ = false;
  std::uint32_t xid_ = 0;
  std::array<std::uint8_t, 256> reply_{};
};

}  // namespace

bool register_at_rpcbind(const ProxyConfig& config, bool on) {
  Rpcbind rpcbind(config.portmap_port);
  const auto change = on ? portmap2::Procedure::kSet : portmap2::Procedure::kUnset;
  const auto change6 = on ? rpcbind4::Procedure::kSet : rpcbind4::Procedure::kUnset;
  const bool v4 = !config.address_of(true).none(), v6 = !config.address_of(false).none();
  for (const portmap2::Mapping& mapping : served(config, false)) {
    if (v4 && !rpcbind.change(change, mapping)) return false;
    if (v6 && !rpcbind.change6(change6, mapping)) return false;
  }
  // Those that are there stay.
  for (std::uint32_t protocol : {portmap2::kTcp, portmap2::kUdp}) {
    for (const portmap2::Mapping& mapping : beside_nfs(config, protocol)) {
      if (v4 && rpcbind.port_of(mapping) == (on ? 0 : mapping.port)) rpcbind.change(change, mapping);
      if (v6 && rpcbind.port6_of(mapping) == (on ? 0 : mapping.port)) rpcbind.change6(change6, mapping);
    }
  }
  return true;
}

}  // namespace slice::proxy
