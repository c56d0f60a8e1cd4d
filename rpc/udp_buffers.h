// Room of UDP sockets in the kernel.
#ifndef SLICE_RPC_UDP_BUFFERS_H
#define SLICE_RPC_UDP_BUFFERS_H

namespace slice::rpc {

// Gives a socket room for that many bytes each way: over the system's limit where this thread has
// CAP_NET_ADMIN, else up to it, with one warning a process. False where it got less. A server without that
// room drops datagrams when many come at once, and clients send them again after a second.
bool set_udp_buffers(int socket, int receive_bytes, int send_bytes);

}  // namespace slice::rpc

#endif  // SLICE_RPC_UDP_BUFFERS_H
