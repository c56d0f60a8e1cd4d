#include "proxy/programs/client_calls.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "rpc/bound_socket.h"
#include "rpc/message.h"

namespace slice::proxy {
Result<std::unique_ptr<ClientCalls>> ClientCalls::open(Loop& loop, const std::vector<IpAddress>& addresses,
                                                       const std::function<std::uint64_t()>& random) {
  std::unique_ptr<ClientCalls> made(new ClientCalls(loop, static_cast<std::uint32_t>(random())));
  for (const IpAddress address : addresses) {
    if (Status added = made->add_socket(address); !added) return fail(std::move(added).error());
  }
  return made;
}

ClientCalls::ClientCalls(Loop& loop, std::uint32_t first_xid) : loop_(loop), xid_(first_xid) {}

Status ClientCalls::add_socket(IpAddress address) {
  const int socket = rpc::socket_for(address, SOCK_DGRAM | SOCK_NONBLOCK);
  if (socket < 0) return fail(Errc::kIo, "a socket for calls of clients: {}", std::strerror(errno));
  rpc::bind_freely(socket);
  if (!rpc::bind_reserved(socket, address)) {
    const int error = errno;
    ::close(socket);
    return fail(Errc::kIo, "no port of {} for calls of clients: {}", address_text(address),
                std::strerror(error));
  }
  (address.is_v4() ? v4_ : v6_) = socket;
  loop_.watch_readable(socket, [this, socket] { read(socket); });
  return {};
}

ClientCalls::~ClientCalls() {
  for (const int socket : {v4_, v6_})
    if (socket >= 0) loop_.unwatch_readable(socket);
  closed_ = true;
  // Who waits ends now.
  for (auto& [xid, waiting] : std::exchange(waiting_, {})) waiting.reply.set(std::nullopt);
  for (const int socket : {v4_, v6_})
    if (socket >= 0) ::close(socket);
}

Task<ClientCalls::Answer> ClientCalls::call(rpc::Endpoint to, Procedure what, Buffer arguments,
                                            std::vector<Duration> tries) {
  rpc::CallHeader header;
  header.xid = Xid{++xid_};
  header.program = what.program;
  header.version = what.version;
  header.procedure = what.number;
  header.arguments = arguments.view();
  rpc::XdrWriter datagram;
  rpc::encode_call(datagram, header);
  const rpc::SocketAddress address(to);
  Answer answer;
  std::optional<Buffer> record;
  for (auto wait = tries.begin(); wait != tries.end() && !record; ++wait) {
    OneShot<std::optional<Buffer>> reply;
    waiting_[header.xid.value] = {to, reply};
    ::sendto(to.address.is_v4() ? v4_ : v6_, datagram.view().data(), datagram.size(), 0, address.get(),
             address.length());
    ++answer.sent;
    const TimerId over = loop_.after(*wait, [reply] { reply.set(std::nullopt); });
    record = co_await reply;
    loop_.cancel(over);
    if (closed_) co_return answer;
  }
  waiting_.erase(header.xid.value);
  if (!record) co_return answer;
  const auto decoded = rpc::decode_reply(record->view());
  if (decoded && decoded->accepted && decoded->accept_stat == rpc::AcceptStat::kSuccess)
    answer.results = Buffer(decoded->results);
  co_return answer;
}

void ClientCalls::read(int socket) {
  std::array<std::uint8_t, 2048> bytes;
  while (true) {
    rpc::SocketAddress from;
    const ssize_t got = ::recvfrom(socket, bytes.data(), bytes.size(), 0, from.get(), from.size());
    if (got < 0) return;
    if (got < 4) continue;
    auto found = waiting_.find(load_be<std::uint32_t>(bytes.data()));
    if (found == waiting_.end() || found->second.from != from.endpoint()) continue;
    const OneShot<std::optional<Buffer>> reply = found->second.reply;
    reply.set(Buffer(ByteView(bytes).first(static_cast<std::size_t>(got))));
  }
}

}  // namespace slice::proxy
