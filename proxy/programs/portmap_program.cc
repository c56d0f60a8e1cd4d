#include "proxy/programs/portmap_program.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>

#include "rpc/message.h"
#include "wire/mount3.h"
#include "wire/nfs3.h"
#include "wire/nlm4.h"
#include "wire/nsm1.h"
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
    if (with_portmap) all.push_back({portmap2::kProgram, portmap2::kVersion, protocol, config.portmap_port});
    all.push_back({nfs3::kProgram, nfs3::kVersion, protocol, config.nfs_port});
    all.push_back({nfs3::kAclProgram, nfs3::kVersion, protocol, config.nfs_port});
    all.push_back({mount3::kProgram, mount3::kVersion, protocol, config.mount_port});
    if (!with_portmap) continue;
    for (const portmap2::Mapping& mapping : beside_nfs(config, protocol)) all.push_back(mapping);
  }
  return all;
}

}  // namespace

PortmapProgram::PortmapProgram(const ProxyConfig& config) : mappings_(served(config, true)) {}

Task<rpc::Outcome> PortmapProgram::handle(const rpc::Call& call, rpc::XdrWriter& results) {
  switch (static_cast<portmap2::Procedure>(call.procedure)) {
    case portmap2::Procedure::kGetport: {
      portmap2::Mapping asked;
      if (!portmap2::decode(call.arguments, asked)) co_return rpc::Outcome::kGarbage;
      std::uint32_t port = 0;
      for (const portmap2::Mapping& mapping : mappings_) {
        if (mapping.program != asked.program || mapping.protocol != asked.protocol) continue;
        // RFC 1833 section 3.2: another version's port where the one asked for is not there.
        if (port == 0 || mapping.version == asked.version) port = mapping.port;
      }
      portmap2::encode_port(results, port);
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
  explicit Rpcbind(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    if (fd_ < 0) return;
    timeval patience{0, 80'000};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    // It believes a sender on this host with a reserved port.
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (std::uint16_t own = 1023; own >= 600; --own) {
      address.sin_port = htons(own);
      if (::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) break;
    }
    address.sin_port = htons(port);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  Rpcbind(const Rpcbind&) = delete;
  Rpcbind& operator=(const Rpcbind&) = delete;
  ~Rpcbind() {
    if (fd_ >= 0) ::close(fd_);
  }

  // Whether it answered SET or UNSET, with yes or no.
  bool change(portmap2::Procedure procedure, const portmap2::Mapping& mapping) {
    bool done = false;
    auto reply = ask(procedure, mapping);
    return reply && portmap2::decode_done(*reply, done);
  }
  // 0 where it does not know one.
  std::uint32_t port_of(const portmap2::Mapping& mapping) {
    std::uint32_t port = 0;
    auto reply = ask(portmap2::Procedure::kGetport, mapping);
    return reply && portmap2::decode_port(*reply, port) ? port : 0;
  }

 private:
  // A view of `reply_`.
  std::optional<ByteView> ask(portmap2::Procedure procedure, const portmap2::Mapping& mapping) {
    if (!connected_) return std::nullopt;
    rpc::XdrWriter arguments, out;
    portmap2::encode(arguments, mapping);
    rpc::CallHeader call;
    call.xid = Xid{++xid_};
    call.program = portmap2::kProgram;
    call.version = portmap2::kVersion;
    call.procedure = static_cast<std::uint32_t>(procedure);
    call.arguments = arguments.view();
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
  auto change = on ? portmap2::Procedure::kSet : portmap2::Procedure::kUnset;
  for (const portmap2::Mapping& mapping : served(config, false)) {
    if (!rpcbind.change(change, mapping)) return false;
  }
  // Those that are there stay.
  for (std::uint32_t protocol : {portmap2::kTcp, portmap2::kUdp}) {
    for (const portmap2::Mapping& mapping : beside_nfs(config, protocol)) {
      std::uint32_t port = rpcbind.port_of(mapping);
      if (port == (on ? 0 : mapping.port)) rpcbind.change(change, mapping);
    }
  }
  return true;
}

}  // namespace slice::proxy
