// ClientProxy: a proxy on a client's own host, outside of the ensemble and its trust (docs/client-proxy.md).
// It serves that host's kernel over the loopback interface, asks the ensemble's proxies where sites are
// (wire/routes.h), and sends each request to its server itself, as a client that servers check like any
// other. It has no key, keeps no attributes and makes no promises of its own.
#ifndef SLICE_CONTROL_CLIENTD_CLIENT_PROXY_H
#define SLICE_CONTROL_CLIENTD_CLIENT_PROXY_H

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/settings.h"
#include "proxy/front/listeners.h"
#include "proxy/shared_state.h"
#include "proxy/socket_worker.h"
#include "rpc/client.h"
#include "wire/routes.h"

namespace slice::clientd {

inline constexpr std::uint32_t kLoopback = 0x7f000001;  // where it serves

// The ensemble, as a client knows it.
struct Server {
  IpAddress address;
  std::uint16_t port = 2049, mount_port = 20048;
  bool operator==(const Server&) const = default;
};
// Nothing where it is none, or 0.
std::optional<std::uint16_t> parse_port(std::string_view text);
// "ADDRESS[:PORT[:MOUNTPORT]]"; to_string() leaves off what is usual.
Result<Server> parse_server(std::string_view text);
std::string to_string(const Server& server);

class ClientProxy {
 public:
  struct Options {
    Server server;
    // Of the loopback interface. A process that was killed before may have left its sockets there, with
    // connections that wait (proxy/front/listeners.h).
    std::uint16_t port = 0;
    std::size_t threads = 1;
    std::filesystem::path kept;  // the file of its routes (kept_routes.h)
  };
  // All of it outlives the proxy.
  ClientProxy(rpc::EpollLoop& loop, Metrics& metrics, const Options& options);
  ~ClientProxy();

  // Asks for the routes, for `patience`, and serves. Where some are kept it asks once, and begins with those
  // if nobody answers.
  Task<Status> start(Duration patience);
  // Its sockets are closed, unless another takes them over within seconds.
  void stop() { listeners_.release(); }

 private:
  struct Thread {
    std::unique_ptr<rpc::EpollLoop> loop;
    std::unique_ptr<proxy::SocketWorker> worker;
    std::thread thread;
  };
  Task<Status> ask();
  Status learn(const wire::Routes& routes);
  Status begin_with(const wire::Routes& kept);
  Task<Status> first_routes(Duration patience);
  // Asks again and again.
  Task<void> keep_asking();
  Status serve();

  rpc::EpollLoop& loop_;
  Metrics& metrics_;
  const Options options_;
  const EnsembleConfig config_;  // none of its own: what it knows comes with the routes
  const LiveSettings settings_;
  const routing::HandleCodec handles_{config_};
  const proxy::MemoryTables memory_;
  proxy::Tables tables_;
  rpc::SocketChannel channel_;
  proxy::SharedState shared_;
  proxy::Listeners listeners_;
  std::vector<std::unique_ptr<Thread>> threads_;
  Generation generation_;
  bool answered_ = true;
  Counter &asked_, &unanswered_;
};

}  // namespace slice::clientd

#endif  // SLICE_CONTROL_CLIENTD_CLIENT_PROXY_H
