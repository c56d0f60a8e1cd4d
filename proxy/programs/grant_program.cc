#include "proxy/programs/grant_program.h"

#include <utility>

#include "wire/portmap2.h"
#include "wire/rpcbind4.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;
using wire::Granting;

constexpr std::uint16_t kPortmapPort = 111;
constexpr std::size_t kPorts = 4096, kTold = 1024;  // that are remembered
constexpr Duration kUnderWayPause = 50ms;

// Together less than a directory server waits. GRANTED is sent once each time that one asks: it knows whether
// the client is still to be told, and a copy sent later might meet a client that waits for the same bytes
// again.
std::vector<Duration> port_tries() {
  return {300ms, 700ms, 1s};
}
constexpr Duration kFirstTry =
    400ms;  // at the port of before, which another run of the client may not have any more
constexpr Duration kGrantTry = 1s;

}  // namespace

GrantProgram::GrantProgram(Loop& loop, Metrics& metrics, std::uint64_t run, std::function<bool()> holds)
    : InternalProgram(wire::kLocksProgram),
      loop_(loop),
      run_(run),
      holds_(std::move(holds)),
      granted_(metrics.counter("proxy_lock_grants_total", "GRANTED calls of clients that wait for locks",
                               {{"answer", "granted"}})),
      denied_(metrics.counter("proxy_lock_grants_total", "GRANTED calls of clients that wait for locks",
                              {{"answer", "denied"}})),
      unreachable_(metrics.counter("proxy_lock_grants_total", "GRANTED calls of clients that wait for locks",
                                   {{"answer", "no-port"}})),
      unanswered_(metrics.counter("proxy_lock_grants_total", "GRANTED calls of clients that wait for locks",
                                  {{"answer", "none"}})) {
  on<wire::GrantArgs>(wire::LocksProcedure::kGrant, [this](const auto& args) { return grant(args); });
}

Task<wire::GrantResult> GrantProgram::grant(const wire::GrantArgs& args) {
  const bool can = call_ && holds_();
  if (args.run == 0)
    co_return wire::GrantResult{.how = can ? Granting::kHere : Granting::kNotHere, .run = can ? run_ : 0};
  // It was for the run before, which may have told the client; or the address has gone to another proxy
  // since.
  if (args.run != run_ || !can) co_return wire::GrantResult{.how = Granting::kNoAnswer};
  std::string key(as_text(args.call.view()));
  if (auto [at, first] = told_.try_emplace(key); !first) {
    while (at->second == std::nullopt) {
      co_await loop_.sleep(kUnderWayPause);
      if ((at = told_.find(key)) == told_.end()) co_return wire::GrantResult{.how = Granting::kNoAnswer};
    }
    co_return *at->second;
  }
  const wire::GrantResult result = co_await tell(args.address, args.call.clone());
  told_[key] = result;
  told_order_.push_back(std::move(key));
  if (told_order_.size() > kTold) {
    told_.erase(told_order_.front());
    told_order_.pop_front();
  }
  co_return result;
}

// A client that has taken the lock says of a copy that it does not wait: so only a first "denied" says that
// it has given up.
Task<wire::GrantResult> GrantProgram::tell(IpAddress address, Buffer call) {
  Said said;
  std::size_t sent = 0;
  if (const auto known = ports_.find(address); known != ports_.end()) {
    said = co_await granted({address, known->second}, call, kFirstTry);
    sent += said.sent;
  }
  if (!said.status) {
    const std::uint16_t port = co_await ask_port(address);
    if (port == 0 && sent == 0) {
      unreachable_.add();
      co_return wire::GrantResult{.how = Granting::kUnreachable};
    }
    if (port != 0) said = co_await granted({address, port}, call, kGrantTry);
    sent += said.sent;
  }
  if (!said.status || (*said.status == nlm4::Status::kDenied && sent > 1)) {
    unanswered_.add();
    co_return wire::GrantResult{.how = Granting::kNoAnswer};
  }
  (*said.status == nlm4::Status::kGranted ? granted_ : denied_).add();
  co_return wire::GrantResult{.how = Granting::kAnswered, .status = *said.status};
}

Task<GrantProgram::Said> GrantProgram::granted(rpc::Endpoint client, const Buffer& call, Duration patience) {
  constexpr ClientCalls::Procedure kGranted{nlm4::kProgram, nlm4::kVersion,
                                            static_cast<std::uint32_t>(nlm4::Procedure::kGranted)};
  const ClientCalls::Answer answer = co_await call_(client, kGranted, call.clone(), {patience});
  nlm4::Result result;
  if (!answer.results || !decode(answer.results->view(), result)) co_return Said{std::nullopt, answer.sent};
  co_return Said{result.status, answer.sent};
}

Task<std::uint16_t> GrantProgram::ask_port(IpAddress address) {
  const std::uint16_t port = co_await (address.is_v4() ? ask_portmap(address) : ask_rpcbind(address));
  ports_.erase(address);
  if (ports_.size() >= kPorts) ports_.clear();
  if (port != 0) ports_[address] = port;
  co_return port;
}

Task<std::uint16_t> GrantProgram::ask_portmap(IpAddress address) {
  constexpr ClientCalls::Procedure kGetport{portmap2::kProgram, portmap2::kVersion,
                                            static_cast<std::uint32_t>(portmap2::Procedure::kGetport)};
  rpc::XdrWriter asked;
  portmap2::encode(asked, portmap2::Mapping{nlm4::kProgram, nlm4::kVersion, portmap2::kUdp, 0});
  const auto results =
      (co_await call_({address, kPortmapPort}, kGetport, asked.take(), port_tries())).results;
  std::uint32_t port = 0;
  if (!results || !portmap2::decode_port(results->view(), port) || port > 0xffff) port = 0;
  co_return static_cast<std::uint16_t>(port);
}

// The port alone is taken: what address the client's host gives there need not be the one that it calls from.
Task<std::uint16_t> GrantProgram::ask_rpcbind(IpAddress address) {
  constexpr ClientCalls::Procedure kGetaddr{rpcbind4::kProgram, rpcbind4::kVersion,
                                            static_cast<std::uint32_t>(rpcbind4::Procedure::kGetaddr)};
  rpc::XdrWriter asked;
  rpcbind4::encode(asked, rpcbind4::Registration{.program = nlm4::kProgram,
                                                 .version = nlm4::kVersion,
                                                 .netid = std::string(rpcbind4::netid(false, false)),
                                                 .address = {},
                                                 .owner = {}});
  const auto results =
      (co_await call_({address, kPortmapPort}, kGetaddr, asked.take(), port_tries())).results;
  std::string said;
  if (!results || !rpcbind4::decode_address(results->view(), said)) co_return std::uint16_t{0};
  co_return rpcbind4::parse_universal_address(said).value_or(rpc::Endpoint{}).port;
}

}  // namespace slice::proxy
