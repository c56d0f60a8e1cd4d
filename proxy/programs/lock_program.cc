#include "proxy/programs/lock_program.h"

#include <optional>
#include <string>

#include "bpf/shared/file_handle.h"
#include "proxy/programs/free_locks.h"
#include "rpc/endpoint.h"
#include "service/access.h"
#include "service/relay.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;
using nlm4::Procedure;

// As long as that a call over TCP is sent again, to whoever has the site then; a datagram's client does so
// itself.
constexpr Duration kPatience = 60s;
constexpr Duration kPause = 200ms;

void answer(const rpc::Call& call, ByteView cookie, nlm4::Status status, rpc::XdrWriter& results) {
  const auto procedure = static_cast<Procedure>(call.procedure);
  if (procedure == Procedure::kShare || procedure == Procedure::kUnshare) {
    encode(results, nlm4::ShareResult{cookie, status, 0});
  } else {
    encode(results, nlm4::Result{cookie, status});
  }
}

}  // namespace

LockProgram::LockProgram(service::ServiceContext& context)
    : context_(context),
      calls_(context.metrics.counter("proxy_lock_calls_total", "NLM calls of clients")),
      unanswered_(context.metrics.counter("proxy_lock_calls_unanswered_total",
                                          "NLM calls that no directory server has answered in time")),
      freed_(context.metrics.counter("proxy_lock_free_all_total",
                                     "FREE_ALL of clients, which have given up all of their locks")) {}

Task<rpc::Outcome> LockProgram::handle(const rpc::Call& call, rpc::XdrWriter& results) {
  calls_.add();
  if (call.procedure == static_cast<std::uint32_t>(Procedure::kFreeAll)) co_return co_await free_all(call);
  if (call.procedure == static_cast<std::uint32_t>(Procedure::kGranted)) {
    nlm4::TestArgs args;
    if (!decode(call.arguments, args)) co_return rpc::Outcome::kGarbage;
    answer(call, args.cookie, nlm4::Status::kDenied, results);  // nobody waits here for a lock
    co_return rpc::Outcome::kReply;
  }
  ByteView cookie, handle;
  const std::optional<bool> decoded =
      nlm4::decode_for_file(call.procedure, call.arguments, [&](const auto& args) {
        cookie = args.cookie;
        if constexpr (requires { args.lock; }) {
          handle = args.lock.handle;
        } else {
          handle = args.handle;
        }
      });
  if (!decoded) co_return rpc::Outcome::kNoProcedure;
  if (!*decoded) co_return rpc::Outcome::kGarbage;
  if (handle.size() != SLICE_HANDLE_SIZE) {
    answer(call, cookie, nlm4::Status::kStaleHandle, results);
    co_return rpc::Outcome::kReply;
  }
  co_return co_await forward(call, cookie, handle, results);
}

Task<rpc::Outcome> LockProgram::forward(const rpc::Call& call, ByteView cookie, ByteView handle,
                                        rpc::XdrWriter& results) {
  const SiteId site{load_be<std::uint16_t>(handle.data() + SLICE_HANDLE_AT_SITE)};
  const MonoTime began = context_.loop.now();
  while (true) {
    const wire::ServerEntry owner = context_.tables.get()->server_of(wire::Role::kDirectory, site);
    rpc::Request request = service::forwarded(call, owner.endpoint, number(), version());
    request.on_behalf.relays = 0;
    auto reply = co_await context_.channel.call(std::move(request));
    if (reply) {
      results.fixed(reply->results());
      co_return rpc::Outcome::kReply;
    }
    if (reply.error().code == Errc::kInvalid) {
      // It decodes, so the server is of a version without locks, and is still to be upgraded.
      answer(call, cookie, nlm4::Status::kDeniedNoLocks, results);
      co_return rpc::Outcome::kReply;
    }
    if (call.datagram || context_.loop.now() - began > kPatience) {
      unanswered_.add();
      if (log_.allow()) log_warning("a lock: no answer of {}: {}", owner.name, reply.error().message);
      co_return rpc::Outcome::kDrop;
    }
    co_await context_.loop.sleep(kPause);
  }
}

Task<rpc::Outcome> LockProgram::free_all(const rpc::Call& call) {
  nlm4::FreeAllArgs args;
  if (!decode(call.arguments, args)) co_return rpc::Outcome::kGarbage;
  if (!service::identify_beside(*context_.settings.get(), call)) co_return rpc::Outcome::kDrop;
  if (!co_await free_locks(context_, call.client.address, std::string(args.name), std::nullopt))
    co_return rpc::Outcome::kDrop;
  freed_.add();
  co_return rpc::Outcome::kReply;
}

}  // namespace slice::proxy
