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
namespace {

constexpr std::uint16_t kHighest = 1023, kLowest = 600;  // ports that programs look for one in

bool bind_reserved(int socket, std::uint32_t address) {
  for (std::uint16_t port = kHighest; port >= kLowest; --port) {
    const sockaddr_in at = rpc::socket_address({address, port});
    if (::bind(socket, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0) return true;
    if (errno != EADDRINUSE) return false;
  }
  return false;
}

}  // namespace

Result<std::unique_ptr<ClientCalls>> ClientCalls::open(Loop& loop, std::uint32_t address,
                                                       const std::function<std::uint64_t()>& random) {
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return fail(Errc::kIo, "a socket for calls of clients: {}", std::strerror(errno));
  const int on = 1;
  ::setsockopt(socket, IPPROTO_IP, IP_FREEBIND, &on, sizeof on);
  if (!bind_reserved(socket, address)) {
    const int error = errno;
    ::close(socket);
    return fail(Errc::kIo, "no port of {} for calls of clients: {}", rpc::address_text(address),
                std::strerror(error));
  }
  return std::unique_ptr<ClientCalls>(new ClientCalls(loop, socket, static_cast<std::uint32_t>(random())));
}

ClientCalls::ClientCalls(Loop& loop, int socket, std::uint32_t first_xid)
    : loop_(loop), socket_(socket), xid_(first_xid) {
  loop_.watch_readable(socket_, [this] { read(); });
}

ClientCalls::~ClientCalls() {
  loop_.unwatch_readable(socket_);
  closed_ = true;
  // Who waits ends now.
  for (auto& [xid, waiting] : std::exchange(waiting_, {})) waiting.reply.set(std::nullopt);
  ::close(socket_);
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
  const sockaddr_in address = rpc::socket_address(to);
  Answer answer;
  std::optional<Buffer> record;
  for (auto wait = tries.begin(); wait != tries.end() && !record; ++wait) {
    OneShot<std::optional<Buffer>> reply;
    waiting_[header.xid.value] = {to, reply};
    ::sendto(socket_, datagram.view().data(), datagram.size(), 0, reinterpret_cast<const sockaddr*>(&address),
             sizeof address);
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

void ClientCalls::read() {
  std::array<std::uint8_t, 2048> bytes;
  while (true) {
    sockaddr_in from{};
    socklen_t size = sizeof from;
    const ssize_t got =
        ::recvfrom(socket_, bytes.data(), bytes.size(), 0, reinterpret_cast<sockaddr*>(&from), &size);
    if (got < 0) return;
    if (got < 4) continue;
    auto found = waiting_.find(load_be<std::uint32_t>(bytes.data()));
    if (found == waiting_.end() || found->second.from != rpc::endpoint_of(from)) continue;
    const OneShot<std::optional<Buffer>> reply = found->second.reply;
    reply.set(Buffer(ByteView(bytes).first(static_cast<std::size_t>(got))));
  }
}

}  // namespace slice::proxy
