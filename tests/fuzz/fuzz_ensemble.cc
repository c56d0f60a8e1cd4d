// Sends mutated calls, records and frames to every port of every process of a running ensemble, and expects
// each process to go on answering:
//
//   fuzz_ensemble --config ensemble.toml --handles HEX[,HEX...] --cases N|--seconds S [--seed S] [--case N]
//   [--as stranger|member]
//                 [--link eth0 --gateway AABBCCDDEEFF --sources A,B]  (addresses of either family)
//
// Handles: of a folder, a small and a large file that may be changed. Every case is made from seed and
// number, and goes to the port that its number says; --case sends one again, and prints it. Prints what each
// port was sent; exit code 1 when a process fell silent.
#include <poll.h>

#include <cstdio>

#include "common/config.h"
#include "tests/cluster/client/session.h"
#include "tests/fuzz/port.h"

namespace slice::fuzz {
namespace {

using client::Arguments;
using client::now;

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    if (end > at) parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::string from_hex(const std::string& text) {
  std::string bytes;
  for (std::size_t at = 0; at + 1 < text.size(); at += 2) {
    bytes += static_cast<char>(std::stoul(text.substr(at, 2), nullptr, 16));
  }
  return bytes;
}

// `keys`: of a member, which has sessions with servers; null: a stranger's.
std::vector<std::unique_ptr<Port>> ports_of(const EnsembleConfig& config, const CaseMaker& maker,
                                            const rpc::KeyRing* keys, const Arguments& arguments) {
  std::vector<std::unique_ptr<Port>> ports;
  const auto both = [&](const std::string& name, Address at, const rpc::KeyRing* with = nullptr) {
    ports.push_back(tcp_port(name + "/tcp", at, maker, with));
    ports.push_back(udp_port(name + "/udp", at, maker));
  };
  for (const ServerConfig& server : config.servers)
    both(server.name, {server.address.v4(), server.port}, keys);
  const ProxyConfig& proxy = config.proxy;
  const std::uint32_t address = proxy.address_of(true).v4();
  both("nfs", {address, proxy.nfs_port});
  both("mount", {address, proxy.mount_port});
  both("portmap", {address, proxy.portmap_port});
  if (const std::string link = arguments.text("--link", ""); !link.empty()) {
    Link way{.name = link,
             .gateway = from_hex(arguments.needed("--gateway")),
             .sources = {},
             .v4 = address,
             .v6 = proxy.address_of(false)};
    for (const std::string& source : parts_of(arguments.needed("--sources")))
      way.sources.push_back(parse_address(source).value());
    ports.push_back(frame_port("frames", {address, proxy.nfs_port}, maker, way));
  }
  return ports;
}

class Run {
 public:
  Run(const CaseMaker& maker, std::vector<std::unique_ptr<Port>> ports, std::uint64_t cases, double seconds)
      : maker_(maker), ports_(std::move(ports)), next_(ports_.size()), cases_(cases), end_(now() + seconds) {
    for (std::size_t i = 0; i < ports_.size(); ++i) next_[i] = i;
  }

  // False where a port fell silent.
  bool go() {
    while (!finished()) {
      for (std::size_t i = 0; i < ports_.size(); ++i) {
        if (ports_[i]->idle() && wanted(i)) give(i);
      }
      wait();
      for (auto& port : ports_) {
        port->work(now());
        if (!port->silent(now())) continue;
        std::printf("not ok fuzz %s: no answer behind cases %llu to %llu (every %zu)\n", port->name().c_str(),
                    static_cast<unsigned long long>(port->first_case()),
                    static_cast<unsigned long long>(port->last_case()), ports_.size());
        return false;
      }
    }
    return true;
  }

  // Sends the case alone, and prints it.
  bool replay(std::uint64_t number) {
    Port& port = *ports_[number % ports_.size()];
    const Case one = maker_.make(number);
    std::printf("case %llu to %s:", static_cast<unsigned long long>(number), port.name().c_str());
    for (std::size_t at = 0; at < one.message.size(); ++at) {
      std::printf("%s%02x", at % 4 == 0 ? " " : "",
                  static_cast<unsigned>(static_cast<std::uint8_t>(one.message[at])));
    }
    std::printf("\n");
    port.begin({one}, now());
    while (!port.idle() && !port.silent(now())) {
      wait();
      port.work(now());
    }
    return port.idle();
  }

  void tell() const {
    std::uint64_t all = 0;
    for (const auto& port : ports_) {
      const PortCounters& c = port->counters();
      all += c.cases;
      std::printf("%-14s cases %10llu  replies %10llu  connections closed %8llu  asked again %6llu\n",
                  port->name().c_str(), static_cast<unsigned long long>(c.cases),
                  static_cast<unsigned long long>(c.replies), static_cast<unsigned long long>(c.closed),
                  static_cast<unsigned long long>(c.asked_again));
    }
    std::printf("%llu cases\n", static_cast<unsigned long long>(all));
  }

 private:
  bool wanted(std::size_t port) const { return next_[port] < cases_ && now() < end_; }
  bool finished() const {
    for (std::size_t i = 0; i < ports_.size(); ++i) {
      if (!ports_[i]->idle() || wanted(i)) return false;
    }
    return true;
  }
  void give(std::size_t which) {
    std::vector<Case> batch;
    while (next_[which] < cases_) {
      Case one = maker_.make(next_[which]);
      if (!ports_[which]->takes(batch, one)) break;
      batch.push_back(std::move(one));
      next_[which] += ports_.size();
    }
    ports_[which]->begin(std::move(batch), now());
  }
  void wait() {
    std::vector<pollfd> polls;
    for (const auto& port : ports_) polls.push_back({port->descriptor(), port->events(), 0});
    (void)::poll(polls.data(), polls.size(), 10);
  }

  const CaseMaker& maker_;
  std::vector<std::unique_ptr<Port>> ports_;
  std::vector<std::uint64_t> next_;
  std::uint64_t cases_;
  double end_;
};

int run(const Arguments& arguments) {
  auto config = load_ensemble(arguments.needed("--config"));
  if (!config) {
    std::fprintf(stderr, "fuzz_ensemble: %s\n", config.error().message.c_str());
    return 2;
  }
  Volume volume;
  volume.id = config->volume.id.value;
  for (const std::string& hex : parts_of(arguments.needed("--handles")))
    volume.handles.push_back(from_hex(hex));
  const CaseMaker maker(arguments.number("--seed", 1), volume);
  const rpc::KeyRing keys(*config);
  const bool member = arguments.text("--as", "stranger") == "member";
  const std::uint64_t seconds = arguments.number("--seconds", 1 << 20);
  Run fuzz(maker, ports_of(*config, maker, member ? &keys : nullptr, arguments),
           arguments.number("--cases", ~0ULL), static_cast<double>(seconds));
  if (const std::uint64_t one = arguments.number("--case", ~0ULL); one != ~0ULL)
    return fuzz.replay(one) ? 0 : 1;
  const bool good = fuzz.go();
  fuzz.tell();
  return good ? 0 : 1;
}

}  // namespace
}  // namespace slice::fuzz

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return slice::fuzz::run(slice::client::Arguments(argc, argv, {}));
}
