#include "proxy/programs/grant_program.h"

#include <utility>

#include "wire/portmap2.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;
using wire::Granting;

constexpr std::uint16_t kPortmapPort = 111;
constexpr Duration kPortLife = 60s;
constexpr std::size_t kPorts = 4096, kTold = 1024;  // that are remembered
constexpr Duration kUnderWayPause = 50ms;

// Together less than a directory server waits.
std::vector<Duration> port_tries() {
  return {300ms, 700ms, 1s};
}
std::vector<Duration> grant_tries() {
  return {300ms, 700ms, 1s, 1s};
}

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
  // It was for the run before, which may have told the client.
  if (args.run != run_ || !call_) co_return wire::GrantResult{.how = Granting::kNoAnswer};
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

Task<wire::GrantResult> GrantProgram::tell(std::uint32_t address, Buffer call) {
  const std::uint16_t port = co_await port_of(address);
  if (port == 0) {
    unreachable_.add();
    co_return wire::GrantResult{.how = Granting::kUnreachable};
  }
  constexpr ClientCalls::Procedure kGranted{nlm4::kProgram, nlm4::kVersion,
                                            static_cast<std::uint32_t>(nlm4::Procedure::kGranted)};
  auto results = co_await call_({address, port}, kGranted, std::move(call), grant_tries());
  nlm4::Result result;
  if (!results || !decode(results->view(), result)) {
    ports_.erase(address);
    unanswered_.add();
    co_return wire::GrantResult{.how = Granting::kNoAnswer};
  }
  (result.status == nlm4::Status::kGranted ? granted_ : denied_).add();
  co_return wire::GrantResult{.how = Granting::kAnswered, .status = result.status};
}

Task<std::uint16_t> GrantProgram::port_of(std::uint32_t address) {
  if (auto known = ports_.find(address); known != ports_.end() && loop_.now() < known->second.until)
    co_return known->second.number;
  constexpr ClientCalls::Procedure kGetport{portmap2::kProgram, portmap2::kVersion,
                                            static_cast<std::uint32_t>(portmap2::Procedure::kGetport)};
  rpc::XdrWriter asked;
  portmap2::encode(asked, portmap2::Mapping{nlm4::kProgram, nlm4::kVersion, portmap2::kUdp, 0});
  auto results = co_await call_({address, kPortmapPort}, kGetport, asked.take(), port_tries());
  std::uint32_t port = 0;
  if (!results || !portmap2::decode_port(results->view(), port) || port > 0xffff) port = 0;
  if (ports_.size() >= kPorts) ports_.clear();
  if (port != 0) ports_[address] = {static_cast<std::uint16_t>(port), loop_.now() + kPortLife};
  co_return static_cast<std::uint16_t>(port);
}

}  // namespace slice::proxy
