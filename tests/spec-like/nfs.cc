#include "tests/spec-like/nfs.h"

#include <algorithm>

#include "wire/mount3.h"
#include "wire/portmap2.h"

namespace slice::load {
namespace {

constexpr std::uint16_t kPortmapPort = 111;

Connection::Options options_of(const Target& target, std::uint16_t port) {
  return {.server = {target.server.address, port},
          .transport = target.transport,
          .credential = {.machine_name = "slice-load", .uid = target.uid, .gid = target.gid},
          .patience = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(target.patience))};
}

// MOUNT and PORTMAP stay in clear, as those of kernel clients do.
Connection::Options options_for_nfs(const Target& target) {
  Connection::Options options = options_of(target, target.server.port);
  options.tls = target.tls;
  return options;
}

Task<Result<std::uint16_t>> find_mount_port(rpc::EpollLoop& loop, const Target& target) {
  if (target.mount_port != 0) co_return target.mount_port;
  Connection connection(loop, options_of(target, kPortmapPort));
  rpc::XdrWriter call = connection.begin(portmap2::kProgram, portmap2::kVersion,
                                         static_cast<std::uint32_t>(portmap2::Procedure::kGetport));
  portmap2::encode(call, {.program = mount3::kProgram,
                          .version = mount3::kVersion,
                          .protocol = target.transport == Transport::kTcp ? portmap2::kTcp : portmap2::kUdp});
  auto reply = co_await connection.call(std::move(call));
  if (!reply) co_return fail(reply.error(), "PORTMAP (--mount-port spares it)");
  std::uint32_t port = 0;
  if (!portmap2::decode_port(reply->results(), port) || port > 65535) {
    co_return fail(Errc::kCorrupt, "PORTMAP's answer is malformed");
  }
  if (port == 0) co_return fail(Errc::kNotFound, "PORTMAP knows no MOUNT program, version 3");
  co_return static_cast<std::uint16_t>(port);
}

}  // namespace

Status load_tls(Target& target) {
  if (target.tls_authority.empty()) return {};
  const TlsConfig files{.certificate = "", .key = "", .authority = target.tls_authority, .revoked = ""};
  auto tls = rpc::Tls::load(files, rpc::Tls::Peers::kClients);
  if (!tls) return fail(std::move(tls).error());
  target.tls = std::move(*tls);
  return {};
}

Task<Result<Handle>> mount_root(rpc::EpollLoop& loop, const Target& target) {
  auto port = co_await find_mount_port(loop, target);
  if (!port) co_return fail(std::move(port).error());
  Connection connection(loop, options_of(target, *port));
  rpc::XdrWriter call = connection.begin(mount3::kProgram, mount3::kVersion,
                                         static_cast<std::uint32_t>(mount3::Procedure::kMnt));
  mount3::encode_path(call, target.path);
  auto reply = co_await connection.call(std::move(call));
  if (!reply) co_return fail(reply.error(), "MNT");
  mount3::MntResult result;
  if (!mount3::decode(reply->results(), result)) co_return fail(Errc::kCorrupt, "MNT's answer is malformed");
  if (result.status != mount3::Status::kOk) {
    co_return fail(Errc::kDenied, "MNT of {} is refused with status {}", target.path,
                   static_cast<std::uint32_t>(result.status));
  }
  co_return Handle::of(result.handle);
}

Nfs::Nfs(rpc::EpollLoop& loop, const Target& target)
    : loop_(loop), transport_(target.transport), connection_(loop, options_for_nfs(target)) {}

Task<Status> Nfs::ask_limits(const Handle& root) {
  auto answer = co_await ask<nfs3::FsinfoOk>(nfs3::Procedure::kFsinfo, root.view());
  if (!answer) co_return fail(answer.error(), "FSINFO");
  if (answer->status != nfs3::Status::kOk) {
    co_return fail(Errc::kIo, "FSINFO answers {}", nfs3::status_name(answer->status));
  }
  const std::uint32_t most = transport_ == Transport::kUdp ? nfs3::kMaxUdpTransfer : nfs3::kMaxTransfer;
  if (answer->ok.rtmax == 0 || answer->ok.wtmax == 0)
    co_return fail(Errc::kIo, "FSINFO tells rtmax or wtmax 0");
  limits_.read = std::min(answer->ok.rtmax, most);
  limits_.write = std::min(answer->ok.wtmax, most);
  limits_.names = std::min<std::uint32_t>(32 << 10, most);
  co_return Status();
}

}  // namespace slice::load
