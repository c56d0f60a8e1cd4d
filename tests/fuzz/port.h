// A way into a process: a TCP connection, a UDP socket, or frames on the link. It is given cases in batches;
// a batch is done when the process has answered a NULL call behind it, so that nothing counts which lay in a
// queue or was lost in one.
#ifndef SLICE_TESTS_FUZZ_PORT_H
#define SLICE_TESTS_FUZZ_PORT_H

#include <memory>
#include <string>
#include <vector>

#include "rpc/key_ring.h"
#include "tests/fuzz/case.h"

namespace slice::fuzz {

struct Address {
  std::uint32_t ipv4 = 0;  // host's byte order
  std::uint16_t port = 0;
};

struct PortCounters {
  std::uint64_t cases = 0;        // in batches that were done
  std::uint64_t replies = 0;      // of cases; without those that were lost
  std::uint64_t closed = 0;       // connections that the process ended
  std::uint64_t asked_again = 0;  // NULL calls that had to be sent again
};

// Not copied, not moved; used by one thread. Failures of sockets throw std::system_error.
class Port {
 public:
  explicit Port(std::string name) : name_(std::move(name)) {}
  virtual ~Port() = default;
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  const std::string& name() const { return name_; }
  const PortCounters& counters() const { return counters_; }
  bool idle() const { return batch_.empty(); }
  // Where the last batch that was begun starts, for the word about one that was never done.
  std::uint64_t first_case() const { return batch_.empty() ? 0 : batch_.front().number; }
  std::uint64_t last_case() const { return batch_.empty() ? 0 : batch_.back().number; }

  // How many cases a batch may have; over TCP a case that stands alone is a batch.
  virtual bool takes(const std::vector<Case>& batch, const Case& next) const = 0;
  void begin(std::vector<Case> batch, double now);
  // Sends and receives what can be, without waiting.
  virtual void work(double now) = 0;
  // What to poll, and for which events.
  virtual int descriptor() const = 0;
  virtual short events() const = 0;
  // True where the process has not answered for so long that it counts as gone.
  bool silent(double now) const { return !idle() && now - begun_ > kPatience; }

 protected:
  static constexpr double kPatience = 30;  // seconds
  static constexpr double kAskAgain = 1.5;
  virtual void send_batch() = 0;
  void done() {
    counters_.cases += batch_.size();
    batch_.clear();
  }
  std::uint32_t null_xid() const { return 0xf0000000 | (batches_ & 0xfffffff); }

  std::vector<Case> batch_;
  PortCounters counters_;
  double begun_ = 0, asked_ = 0;
  std::uint32_t batches_ = 0;

 private:
  std::string name_;
};

// `keys`: of the session that each connection is; null: none. They outlive the port.
std::unique_ptr<Port> tcp_port(std::string name, Address to, const CaseMaker& maker,
                               const rpc::KeyRing* keys);
std::unique_ptr<Port> udp_port(std::string name, Address to, const CaseMaker& maker);
// Frames by `link` to the hardware address of the way there; NULL calls by a socket.
struct Link {
  std::string name;
  std::string gateway;             // six bytes
  std::vector<IpAddress> sources;  // addresses to send as, of either family
  IpAddress v4, v6;                // of the other side
};
std::unique_ptr<Port> frame_port(std::string name, Address to, const CaseMaker& maker, const Link& link);

}  // namespace slice::fuzz

#endif  // SLICE_TESTS_FUZZ_PORT_H
