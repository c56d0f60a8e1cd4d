#include "rpc/udp_buffers.h"

#include <sys/socket.h>

#include <atomic>

#include "common/log.h"

namespace slice::rpc {
namespace {

// Bytes that there are then.
int set_one(int socket, int forced, int limited, int bytes) {
  if (::setsockopt(socket, SOL_SOCKET, forced, &bytes, sizeof bytes) != 0) {
    ::setsockopt(socket, SOL_SOCKET, limited, &bytes, sizeof bytes);
  }
  int room = 0;
  socklen_t size = sizeof room;
  if (::getsockopt(socket, SOL_SOCKET, limited, &room, &size) != 0) return 0;
  return room / 2;  // the kernel counts its own bookkeeping, and doubles what it is told
}

}  // namespace

bool set_udp_buffers(int socket, int receive_bytes, int send_bytes) {
  int receive = set_one(socket, SO_RCVBUFFORCE, SO_RCVBUF, receive_bytes);
  int send = set_one(socket, SO_SNDBUFFORCE, SO_SNDBUF, send_bytes);
  if (receive >= receive_bytes && send >= send_bytes) return true;
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) {
    log_warning(
        "UDP sockets have less room than they should, and drop datagrams when many come at once: "
        "raise net.core.rmem_max and net.core.wmem_max to receive={} send={} have_receive={} have_send={}",
        receive_bytes, send_bytes, receive, send);
  }
  return false;
}

}  // namespace slice::rpc
