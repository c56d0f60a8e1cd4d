#include "service/relay.h"

#include <map>
#include <utility>

#include "service/internal_call.h"
#include "wire/admin.h"

namespace slice::service {
namespace {

constexpr Duration kReportTimeout = std::chrono::seconds(2);

}  // namespace

rpc::Request forwarded(const rpc::Call& call, rpc::Endpoint to, std::uint32_t program,
                       std::uint32_t version) {
  rpc::Request request;
  request.to = to;
  const bool nfs = program == nfs3::kProgram;
  const nfs3::WireProcedure called =
      nfs ? nfs3::on_the_wire(call.procedure) : nfs3::WireProcedure{program, call.procedure};
  request.program = called.program;
  request.version = version;
  request.procedure = called.number;
  request.arguments = Buffer(call.arguments);
  request.timeout = Relay::kPatience;
  request.long_answer = nfs && call.procedure == static_cast<std::uint32_t>(nfs3::Procedure::kRead);
  if (call.has_auth_sys) request.credential = call.credential;
  if (!call.internal || call.own) {
    request.on_behalf.client = call.client;
    request.on_behalf.xid = call.xid;
    request.on_behalf.own = call.own;
  }
  request.on_behalf.relays = static_cast<std::uint8_t>(call.relays + 1);
  request.on_behalf.datagram = call.datagram;
  request.on_behalf.security = call.security;
  request.on_behalf.layout = call.layout;
  return request;
}

rpc::Request forwarded_internal(const rpc::Call& call, std::uint32_t program, rpc::Endpoint to) {
  rpc::Request request;
  request.to = to;
  request.program = program;
  request.version = wire::kInternalVersion;
  request.procedure = call.procedure;
  request.arguments = Buffer(call.arguments);
  request.timeout = Relay::kPatience;
  request.on_behalf.relays = static_cast<std::uint8_t>(call.relays + 1);
  return request;
}

// Tells proxies of misdirected requests. A proxy puts all of its entries right at once, so that one report a
// second will do, whatever site it is of.
class Relay::Reports {
 public:
  explicit Reports(ServiceContext& context)
      : context_(context),
        sent_(context.metrics.counter(
            "nfs_misdirected_reports_total",
            "reports of misdirected requests to proxies, at most one a second to each")),
        failures_(context.metrics.counter("nfs_misdirected_report_failures_total",
                                          "reports of misdirected requests without an answer")) {}

  static void send(const std::shared_ptr<Reports>& self, routing::Route place) {
    const routing::RoutingTables& tables = *self->context_.tables.get();
    wire::MisdirectedArgs report{
        .site_class = place.site_class, .site = place.site, .generation = tables.generation()};
    MonoTime now = self->context_.loop.now();
    for (const wire::ServerEntry* proxy : tables.servers(wire::Role::kProxy)) {
      auto [next, first] = self->next_.try_emplace(proxy->server, now);
      if (!first && now < next->second) continue;
      next->second = now + kReportInterval;
      self->sent_.add();
      spawn(tell(self, proxy->endpoint, report));
    }
  }

 private:
  static Task<void> tell(std::shared_ptr<Reports> self, rpc::Endpoint proxy, wire::MisdirectedArgs report) {
    auto told = co_await internal_call<NoResults>(self->context_.channel, proxy, wire::kAdminProgram,
                                                  wire::AdminProcedure::kMisdirected, report, kReportTimeout);
    if (told) co_return;
    self->failures_.add();
    if (self->log_.allow()) {
      log_warning("proxy {} was not told of a misdirected request: {}", rpc::to_string(proxy),
                  told.error().message);
    }
  }

  ServiceContext& context_;
  Counter& sent_;
  Counter& failures_;
  LogLimiter log_{1};
  std::map<std::uint32_t, MonoTime> next_;  // by proxy: when it may be told again
};

Relay::Relay(ServiceContext& context)
    : context_(context),
      relayed_(context.metrics.counter("nfs_relayed_total",
                                       "misdirected requests answered with what the owner answered")),
      failures_(context.metrics.counter("nfs_relay_failures_total",
                                        "misdirected requests relayed without an answer of the owner within "
                                        "8 s: the client was told to wait, or repeats the call")),
      loops_(context.metrics.counter("nfs_relay_loops_total",
                                     "misdirected requests that two servers had passed on already: servers' "
                                     "tables contradict one another, and the client was told to wait")),
      reports_(std::make_shared<Reports>(context)) {}

Task<Result<rpc::Response>> Relay::pass_on(const rpc::Call& call, routing::Route place, std::uint32_t to) {
  if (call.relays >= kMaxRelays) {
    loops_.add();
    if (log_.allow()) {
      log_warning("a misdirected request was relayed {} times already; the client is told to wait sender={}",
                  call.relays, call.sender);
    }
    co_return fail(Errc::kMisdirected, "relayed {} times", call.relays);
  }
  // What another server relayed, that server has reported.
  if (call.relays == 0) Reports::send(reports_, place);
  const wire::ServerEntry owner = *context_.tables.get()->server(to);
  auto reply = co_await context_.channel.call(forwarded(call, owner.endpoint));
  if (reply) {
    relayed_.add();
    co_return reply;
  }
  failures_.add();
  if (log_.allow()) {
    log_warning("a misdirected request could not be relayed to {}: {}", owner.name, reply.error().message);
  }
  co_return reply;
}

}  // namespace slice::service
