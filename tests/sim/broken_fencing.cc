#include "tests/sim/broken_fencing.h"

namespace slice::sim {
namespace {

// An owner at the beginning of each call's arguments (wire/backing.cc).
constexpr std::size_t kOwnerBytes = sizeof(std::uint32_t) + 2 * sizeof(std::uint64_t);

}  // namespace

Task<rpc::Outcome> ForgetfulNode::handle(const rpc::Call& call, rpc::XdrWriter& results) {
  if (call.arguments.size() < kOwnerBytes) co_return co_await program_.handle(call, results);
  const std::uint32_t server = load_be<std::uint32_t>(call.arguments.data());
  if (call.procedure == static_cast<std::uint32_t>(wire::BackingProcedure::kAttach)) {
    owners_[server] = Buffer(call.arguments.first(kOwnerBytes));
    co_return co_await program_.handle(call, results);
  }
  Buffer arguments(call.arguments);
  if (auto last = owners_.find(server); last != owners_.end()) {
    std::copy_n(last->second.data(), kOwnerBytes, arguments.data());
  }
  rpc::Call as_last = call;
  as_last.arguments = arguments.view();
  co_return co_await program_.handle(as_last, results);
}

}  // namespace slice::sim
