#include "control/proxy/portmap_program.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rpc/message.h"
#include "wire/mount3.h"
#include "wire/nfs3.h"

namespace slice::proxy {
namespace {

std::vector<portmap2::Mapping> served(const ProxyConfig& config, bool with_portmap) {
  std::vector<portmap2::Mapping> all;
  for (std::uint32_t protocol : {portmap2::kTcp, portmap2::kUdp}) {
    if (with_portmap) all.push_back({portmap2::kProgram, portmap2::kVersion, protocol, config.portmap_port});
    all.push_back({nfs3::kProgram, nfs3::kVersion, protocol, config.nfs_port});
    all.push_back({mount3::kProgram, mount3::kVersion, protocol, config.mount_port});
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

bool register_at_rpcbind(const ProxyConfig& config, bool on) {
  int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  timeval patience{0, 80'000};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  // It believes a sender on this host with a reserved port.
  for (std::uint16_t port = 1023; port >= 600; --port) {
    sockaddr_in from{};
    from.sin_family = AF_INET;
    from.sin_port = htons(port);
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::bind(fd, reinterpret_cast<sockaddr*>(&from), sizeof from) == 0) break;
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(config.portmap_port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  bool all = ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  std::uint32_t xid = 1;
  for (const portmap2::Mapping& mapping : served(config, false)) {
    if (!all) break;
    rpc::XdrWriter arguments, out;
    portmap2::encode(arguments, mapping);
    rpc::CallHeader call;
    call.xid = Xid{xid++};
    call.program = portmap2::kProgram;
    call.version = portmap2::kVersion;
    call.procedure = static_cast<std::uint32_t>(on ? portmap2::Procedure::kSet : portmap2::Procedure::kUnset);
    call.arguments = arguments.view();
    rpc::encode_call(out, call);
    std::uint8_t reply[256];
    ssize_t n = -1;
    if (::send(fd, out.view().data(), out.size(), 0) > 0) n = ::recv(fd, reply, sizeof reply, 0);
    auto header = rpc::decode_reply({reply, static_cast<std::size_t>(std::max<ssize_t>(n, 0))});
    bool done = false;
    all = header && header->xid == call.xid && portmap2::decode_done(header->results, done);
  }
  ::close(fd);
  return all;
}

}  // namespace slice::proxy
