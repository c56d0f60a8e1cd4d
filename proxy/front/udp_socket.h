// UdpSocket: the datagrams of the sockets on the virtual addresses, one of IPv4 and one of IPv6 at most.
#ifndef SLICE_PROXY_FRONT_UDP_SOCKET_H
#define SLICE_PROXY_FRONT_UDP_SOCKET_H

#include "proxy/front/udp_front.h"
#include "rpc/epoll_loop.h"

namespace slice::proxy {

class UdpSocket : public DatagramPort {
 public:
  explicit UdpSocket(rpc::EpollLoop& loop);
  ~UdpSocket() override;
  UdpSocket(const UdpSocket&) = delete;
  UdpSocket& operator=(const UdpSocket&) = delete;

  // Gives what comes to `front`, which lives until the loop runs no more. Once, before there are sockets.
  void serve(UdpFront& front) { front_ = &front; }
  bool serves() const { return front_ != nullptr; }
  // A bound socket, its own from here on.
  void add(int fd);
  bool send(rpc::Endpoint to, std::span<const iovec> datagram) override;

 private:
  void read(int fd);

  rpc::EpollLoop& loop_;
  int v4_ = -1, v6_ = -1;
  Buffer buffer_;
  UdpFront* front_ = nullptr;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_FRONT_UDP_SOCKET_H
