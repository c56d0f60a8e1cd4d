#include "proxy/programs/status_program.h"

#include <string>

#include "proxy/programs/free_locks.h"
#include "service/access.h"

namespace slice::proxy {

StatusProgram::StatusProgram(service::ServiceContext& context)
    : context_(context),
      notified_(context.metrics.counter("proxy_client_restarts_total",
                                        "NSM notices of clients that were restarted, whose locks are free")),
      unanswered_(
          context.metrics.counter("proxy_client_restarts_unanswered_total",
                                  "the same that got no answer, since a directory server gave none: the "
                                  "client sends it again")),
      refusals_(context.metrics) {}

Task<rpc::Outcome> StatusProgram::handle(const rpc::Call& call, rpc::XdrWriter& /*results*/) {
  if (call.procedure != static_cast<std::uint32_t>(nsm1::Procedure::kNotify))
    co_return rpc::Outcome::kNoProcedure;
  nsm1::NotifyArgs args;
  if (!decode(call.arguments, args)) co_return rpc::Outcome::kGarbage;
  // Any program of the client's host could free its locks otherwise.
  auto who = service::identify_beside(*context_.settings.get(), call);
  if (!who) {
    refusals_.note(service::refused(who.error()), call.client, "NSM NOTIFY");
    co_return rpc::Outcome::kDrop;
  }
  const bool done = co_await free_locks(context_, call.client.address, std::string(args.name), args.state);
  (done ? notified_ : unanswered_).add();
  co_return done ? rpc::Outcome::kReply : rpc::Outcome::kDrop;
}

}  // namespace slice::proxy
