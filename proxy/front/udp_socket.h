// UdpSocket: the datagrams of a socket on the virtual address.
#ifndef SLICE_PROXY_FRONT_UDP_SOCKET_H
#define SLICE_PROXY_FRONT_UDP_SOCKET_H

#include "proxy/front/udp_front.h"
#include "rpc/epoll_loop.h"

namespace slice::proxy {

class UdpSocket : public DatagramPort {
 public:
  // `fd` is its own from here on.
  UdpSocket(rpc::EpollLoop& loop, int fd);
  ~UdpSocket() override;
  UdpSocket(const UdpSocket&) = delete;
  UdpSocket& operator=(const UdpSocket&) = delete;

  // From now on gives what comes to `front`, which lives until the loop runs no more. Once.
  void serve(UdpFront& front);
  bool send(rpc::Endpoint to, std::span<const iovec> datagram) override;

 private:
  void read();

  rpc::EpollLoop& loop_;
  const int fd_;
  Buffer buffer_;
  UdpFront* front_ = nullptr;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_FRONT_UDP_SOCKET_H
