// The guard of a proxy's listening sockets: a small process beside it that has them open too. When the proxy
// is killed, connections of clients wait in the sockets' queues, where they would be refused otherwise, and
// the proxy that is started next takes the same sockets over.
//
// It listens on an abstract Unix socket, which belongs to the network namespace as the sockets do, and talks
// over SOCK_SEQPACKET. Proxy to guard: all sockets that it is to keep, in place of those before; or that it
// stops, which may be a restart. Guard to proxy: all that it keeps, once, as soon as no other proxy holds
// them. A message is one byte, a GuardWord, and descriptors (SCM_RIGHTS). What a socket is, its receiver asks
// the kernel.
#ifndef SLICE_PROXY_FRONT_LISTENER_GUARD_H
#define SLICE_PROXY_FRONT_LISTENER_GUARD_H

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rpc/endpoint.h"

namespace slice::proxy {

enum class GuardWord : std::uint8_t {
  kMore = 'm',  // sockets, and others follow
  kLast = 'l',  // the last sockets of the set
  kEnd = 'e',   // the proxy stops cleanly: the guard keeps all for 3 s, then closes it and ends
};

struct GuardMessage {
  GuardWord word = GuardWord::kEnd;
  std::vector<int> sockets;  // the receiver's to close
};

// Both wait as long as the channel's SO_SNDTIMEO and SO_RCVTIMEO say.
bool send_sockets(int channel, std::span<const int> sockets);
bool send_end(int channel);
// A whole set; nothing at the channel's end, when its time is over, or where no set comes. At kEnd `sockets`
// is empty.
std::optional<GuardMessage> receive_sockets(int channel);

void limit_waiting(int channel, int milliseconds);
void close_all(std::vector<int>& sockets);
// Connects to the guard of the proxy at this endpoint: -1 where there is none, or where what listens there is
// another user's (then with a log line).
int connect_to_guard(rpc::Endpoint at);
// Starts a guard; the channel to it, or -1 with errno. It is a child of this process, and lives on after it.
int start_guard(rpc::Endpoint at, int keep_milliseconds, int& pid);

// For main(), before anything else: does the guard's work and answers its exit code where the arguments are
// those that start_guard() gives to this program.
std::optional<int> run_guard(int argc, char** argv);

}  // namespace slice::proxy

#endif  // SLICE_PROXY_FRONT_LISTENER_GUARD_H
