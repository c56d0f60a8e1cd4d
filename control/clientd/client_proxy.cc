#include "control/clientd/client_proxy.h"

#include <sys/socket.h>
#include <unistd.h>

#include <charconv>

#include "common/log.h"
#include "control/clientd/kept_routes.h"
#include "proxy/tables/routes.h"
#include "rpc/bound_socket.h"
#include "service/internal_call.h"

namespace slice::clientd {
namespace {

using namespace std::chrono_literals;

constexpr Duration kAgain = 500ms;          // between questions
constexpr Duration kPatience = 2s;          // of one question
constexpr std::size_t kMemory = 256 << 20;  // bytes of all workers' buffers

}  // namespace

std::optional<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

// An address of IPv6 that ports follow is in brackets.
Result<Server> parse_server(std::string_view text) {
  std::string_view host = text, ports;
  const bool bracketed = text.starts_with('[');
  const bool alone = parse_address(text).has_value();
  if (!alone) {
    const std::size_t end = bracketed ? text.find("]:") : text.find(':');
    if (end == std::string_view::npos)
      return fail(Errc::kInvalid, "{} is no ADDRESS[:PORT[:MOUNTPORT]]", text);
    host = bracketed ? text.substr(1, end - 1) : text.substr(0, end);
    ports = text.substr(end + (bracketed ? 2 : 1));
  }
  auto address = parse_address(host);
  if (!address) return fail(std::move(address).error());
  if (bracketed && address->is_v4()) return fail(Errc::kInvalid, "{}: brackets are for IPv6", text);
  Server server;
  server.address = *address;
  if (alone) return server;
  const std::size_t second = ports.find(':');
  auto port = parse_port(ports.substr(0, second));
  auto mount_port = second == std::string_view::npos ? std::optional(server.mount_port)
                                                     : parse_port(ports.substr(second + 1));
  if (!port || !mount_port) return fail(Errc::kInvalid, "{} has a port that is none", text);
  server.port = *port;
  server.mount_port = *mount_port;
  return server;
}

std::string to_string(const Server& server) {
  const Server usual;
  std::string text = address_text(server.address);
  if (server.port == usual.port && server.mount_port == usual.mount_port) return text;
  text = rpc::to_string(rpc::Endpoint{server.address, server.port});
  if (server.mount_port != usual.mount_port) text += fmt::format(":{}", server.mount_port);
  return text;
}

ClientProxy::ClientProxy(rpc::EpollLoop& loop, Metrics& metrics, const Options& options)
    : loop_(loop),
      metrics_(metrics),
      options_(options),
      settings_(settings_of(config_)),
      tables_(memory_.tables()),
      channel_(loop, {.keys = nullptr, .generation = nullptr}),
      shared_(loop, channel_, handles_, metrics, tables_),
      listeners_(loop, {.at = {kLoopback, options.port}}),
      asked_(metrics.counter("client_routes_asked_total",
                             "times that a proxy of the ensemble was asked where sites are")),
      unanswered_(metrics.counter("client_routes_unanswered_total", "such questions without an answer")) {
  tables_.virtual_address = {options.server.address, options.server.port};
}

ClientProxy::~ClientProxy() {
  for (auto& one : threads_) {
    one->loop->stop();
    if (one->thread.joinable()) one->thread.join();
  }
}

Task<Status> ClientProxy::ask() {
  asked_.add();
  const rpc::Endpoint to{options_.server.address, options_.server.mount_port};
  auto routes = co_await service::internal_call<wire::Routes>(channel_, to, wire::kRoutesProgram,
                                                              wire::RoutesProcedure::kGet,
                                                              wire::RoutesArgs{generation_}, kPatience);
  if (!routes) {
    unanswered_.add();
    co_return fail(std::move(routes).error());
  }
  co_return routes->changed ? learn(*routes) : Status{};
}

Status ClientProxy::learn(const wire::Routes& routes) {
  if (Status followed = proxy::follow(routes, tables_); !followed) {
    // What is kept is of a volume that this address had before: the next start is to do without.
    std::error_code ignored;
    std::filesystem::remove(options_.kept, ignored);
    return followed;
  }
  generation_ = routes.generation;
  log_info("routes of generation {} in use: servers={}", generation_.value, routes.servers.size());
  if (Status kept = keep_routes(options_.kept, routes); !kept)
    log_warning("the routes are not kept for the next start: {}", kept.error().message);
  return {};
}

Status ClientProxy::begin_with(const wire::Routes& kept) {
  SLICE_RETURN_IF_ERROR(proxy::follow(kept, tables_));
  // Of which generation they are is not said: the first answer to come is to have all.
  log_warning("{} does not say where sites are: begins with the routes of generation {}, which were kept",
              to_string(options_.server), kept.generation.value);
  answered_ = false;
  return {};
}

Task<Status> ClientProxy::first_routes(Duration patience) {
  const MonoTime until = loop_.now() + patience;
  for (;;) {
    Status asked = co_await ask();
    // Of what is refused, or is no answer to this question, there will be no other answer soon.
    const bool in_vain =
        !asked && (asked.error().code == Errc::kDenied || asked.error().code == Errc::kInvalid);
    if (asked || in_vain || loop_.now() >= until) co_return asked;
    co_await loop_.sleep(kAgain);
  }
}

Task<void> ClientProxy::keep_asking() {
  for (;;) {
    co_await loop_.sleep(kAgain);
    const Status asked = co_await ask();
    if (std::exchange(answered_, asked.has_value()) == answered_) continue;
    if (asked) {
      log_info("{} says again where sites are", to_string(options_.server));
    } else {
      log_warning("{} does not say where sites are: {}; those known are used", to_string(options_.server),
                  asked.error().message);
    }
  }
}

Task<Status> ClientProxy::start(Duration patience) {
  SLICE_CO_RETURN_IF_ERROR(listeners_.take_over());
  const auto kept = kept_routes(options_.kept);
  Status first = co_await first_routes(kept ? Duration{} : patience);
  const bool silent = !first && first.error().code != Errc::kDenied && first.error().code != Errc::kInvalid;
  if (silent && kept) first = begin_with(*kept);
  if (!first) {
    co_return fail(first.error().code, "{} does not say where sites are: {}", to_string(options_.server),
                   first.error().message);
  }
  shared_.keep_clock();
  SLICE_CO_RETURN_IF_ERROR(serve());
  listeners_.keep();
  spawn(keep_asking());
  co_return Status{};
}

Status ClientProxy::serve() {
  // One address for all connections, so that servers and the ensemble's proxies see one client.
  const IpAddress own_address = rpc::own_address_towards(tables_.virtual_address);
  for (std::size_t i = 0; i < options_.threads; ++i) {
    auto one = std::make_unique<Thread>();
    proxy::Worker::Options options;
    options.tables = tables_;
    options.sender = {.config = tables_.config, .member = false};
    options.config = &config_;
    options.settings = &settings_;
    options.workers = options_.threads;
    options.limits = proxy::Worker::client_limits(kMemory / options_.threads);
    options.limits.client_memory = options.limits.memory;  // all is one client's
    options.own_address = own_address;
    one->loop = std::make_unique<rpc::EpollLoop>();
    one->worker = std::make_unique<proxy::SocketWorker>(*one->loop, nullptr, options, shared_.cache(),
                                                        shared_.maps(), metrics_);
    auto bound = listeners_.bind(SOCK_STREAM, {kLoopback, options_.port}, proxy::Sharing::kWorkers);
    if (!bound) return fail(std::move(bound).error());
    one->worker->serve_tcp(bound->fd);
    threads_.push_back(std::move(one));
  }
  for (auto& one : threads_) one->thread = std::thread([loop = one->loop.get()] { loop->run(); });
  return {};
}

}  // namespace slice::clientd
