// SocketPort: frames of the link over a socket: UDP datagrams, or Ethernet frames of a type of our own, which
// no router carries and no other program takes; or those of another protocol (aoe/target.h). All with
// sendmmsg(2) and recvmmsg(2).
#ifndef SLICE_LINK_SOCKET_PORT_H
#define SLICE_LINK_SOCKET_PORT_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/metrics.h"
#include "common/result.h"
#include "link/frame_port.h"
#include "rpc/endpoint.h"
#include "rpc/epoll_loop.h"

namespace slice::link {

inline constexpr std::uint16_t kLinkPort = 10810;
struct EtherType {
  std::uint16_t number = 0;
  bool broadcasts = false;  // whether those to everybody are taken, too
};
// IEEE 802's "local experimental EtherType 1".
inline constexpr EtherType kLinkEtherType{.number = 0x88b5};

using HardwareAddress = std::array<std::uint8_t, 6>;
Result<HardwareAddress> parse_hardware_address(std::string_view text);  // "02:00:00:00:00:01"

class SocketPort : public FramePort {
 public:
  // Loop and metrics outlive it. kIo: the system refused.
  //
  // UDP at this address. Frames are no longer than the path to `towards` takes; where it is none, than any.
  static Result<std::unique_ptr<SocketPort>> udp(rpc::EpollLoop& loop, Metrics& metrics, rpc::Endpoint at,
                                                 std::optional<rpc::Endpoint> towards = {});
  // Needs CAP_NET_RAW. Frames are no longer than the interface takes.
  static Result<std::unique_ptr<SocketPort>> ethernet(rpc::EpollLoop& loop, Metrics& metrics,
                                                      const std::string& interface,
                                                      EtherType type = kLinkEtherType);
  ~SocketPort() override;

  void set_taker(Taker taker) override { taker_ = std::move(taker); }
  void send(const Address& to, Buffer frame) override;
  std::size_t largest() const override { return largest_; }
  std::size_t room(std::size_t block) const override;
  std::string name_of(const Address& address) const override;

  static Address address_of(rpc::Endpoint at);
  // On the interface of this port.
  Address address_of(const HardwareAddress& at) const;
  rpc::Endpoint bound_at() const;

 private:
  struct Waiting {
    Address to;
    Buffer frame;
  };
  struct Batch;
  // `interface`: of Ethernet frames of that type; 0: UDP.
  SocketPort(rpc::EpollLoop& loop, Metrics& metrics, int fd, int interface, EtherType type,
             std::size_t largest);
  void on_events(std::uint32_t events);
  void receive();
  bool is_for_us(unsigned char packet_type) const;
  void flush();
  // How many of the first went out or are given up; 0: later.
  std::size_t send_some();
  void flush_later();

  rpc::EpollLoop& loop_;
  Counter &sent_, &dropped_;
  const int fd_, interface_;
  const EtherType type_;
  const std::size_t largest_;
  std::size_t buffer_ = 0;  // bytes of the kernel's, as it counts them
  Taker taker_;
  std::deque<Waiting> waiting_;
  std::size_t waiting_bytes_ = 0;
  bool watches_room_ = false;
  std::unique_ptr<Batch> batch_;
  std::shared_ptr<SocketPort*> self_;  // for the end of a round, which may come later than this goes
  Loop::RoundEnd round_end_;
};

}  // namespace slice::link

#endif  // SLICE_LINK_SOCKET_PORT_H
