#include "block/front_options.h"

#include <utility>

#include "common/config.h"

namespace slice::block {
namespace {

constexpr std::uint16_t kNbdPort = 10809;

}  // namespace

FrontWords::FrontWords(const cli::Command& app, std::string_view awaited) {
  app.add_option("--listen", listen_, "ADDRESS[:PORT] for TCP; port 10809 where none is said");
  app.add_option("--unix", paths_, "path of a unix socket, which its owner and group may use");
  app.add_option("--allow", allow_,
                 "networks whose clients come in over TCP, e.g. 10.0.0.0/8; none: this host's, by loopback");
  app.add_option("--volume", volumes_, "that is served, by its name; none: all that there are");
  app.add_option("--patience", patience_,
                 fmt::format("seconds that {} is waited for before an operation fails; 0: for ever", awaited))
      .in_range(0.0, 86400.0)
      .capture_default();
  app.add_option("--metrics", metrics_, "ADDRESS:PORT of a page for Prometheus (docs/metrics.md)");
}

void FrontWords::add_spin(const cli::Command& app) {
  app.add_option("--spin", spin_us_,
                 "microseconds that it looks for work before it sleeps, as long as something mostly comes")
      .in_range(0u, kMostSpinUs)
      .capture_default();
}

Result<FrontOptions> FrontWords::take() const {
  FrontOptions out;
  for (const std::string& text : listen_) {
    auto at = parse_place(text, kNbdPort);
    if (!at) return fail(std::move(at.error()));
    out.listen.push_back(*at);
  }
  for (const std::string& text : allow_) {
    auto network = parse_network(text);
    if (!network) return fail(std::move(network.error()));
    out.allow.push_back(*network);
  }
  if (!metrics_.empty()) {
    auto at = rpc::parse_endpoint(metrics_);
    if (!at) return fail(std::move(at.error()));
    out.metrics = *at;
  }
  out.spin = std::chrono::microseconds(spin_us_);
  out.paths = paths_;
  out.volumes = volumes_;
  out.patience = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(patience_));
  return out;
}

Result<rpc::Endpoint> parse_place(const std::string& text, std::uint16_t usual_port) {
  auto named = rpc::parse_host_and_port(text);
  if (!named) return fail(std::move(named.error()));
  auto address = parse_address(named->host);
  if (!address) return fail(std::move(address.error()));
  return rpc::Endpoint{*address, named->port.value_or(usual_port)};
}

}  // namespace slice::block
