#include "proxy/programs/quota_program.h"

#include <netinet/in.h>

#include <utility>

#include "service/access.h"

namespace slice::proxy {
namespace {

constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;

// quota(1) is run by users, who have no reserved ports; so from other ports nobody is the superuser.
tl::expected<service::Identity, service::Stranger> identify_user(const Settings& settings,
                                                                 const rpc::Call& call) {
  auto who = service::identify_beside(settings, call);
  if (who || who.error() != service::Stranger::kUnreservedPort) return who;
  rpc::Call from_reserved = call;
  from_reserved.client.port = IPPORT_RESERVED - 1;
  auto user = service::identify_beside(settings, from_reserved);
  return user && !user->superuser() ? user : who;
}

bool may_ask(const service::Identity& who, QuotaId whose) {
  if (who.superuser()) return true;
  return whose.kind == QuotaKind::kUser ? whose.id == who.uid : who.in_group(whose.id);
}

}  // namespace

QuotaProgram::QuotaProgram(service::ServiceContext& context, std::uint32_t version, Ask ask)
    : context_(context),
      version_(version),
      ask_(std::move(ask)),
      told_(context.metrics.counter("proxy_quotas_told_total",
                                    "RQUOTA calls that were answered with a quota, or that there is none")),
      refused_(
          context.metrics.counter("proxy_quotas_refused_total",
                                  "RQUOTA calls of users about others than themselves and their groups")),
      unanswered_(context.metrics.counter("proxy_quotas_unanswered_total",
                                          "RQUOTA calls without an answer, since the manager gave none")),
      refusals_(context.metrics) {}

Task<rpc::Outcome> QuotaProgram::handle(const rpc::Call& call, rpc::XdrWriter& results) {
  switch (static_cast<rquota::Procedure>(call.procedure)) {
    case rquota::Procedure::kGetQuota:
    case rquota::Procedure::kGetActiveQuota:
      break;
    default:
      co_return rpc::Outcome::kNoProcedure;
  }
  rquota::Args args;
  if (!decode(call.arguments, args, version_)) co_return rpc::Outcome::kGarbage;
  const auto who = identify_user(*context_.settings.get(), call);
  if (!who) refusals_.note(service::refused(who.error()), call.client, "RQUOTA GETQUOTA");
  if (!who || !may_ask(*who, args.whose)) {
    refused_.add();
    encode(results, rquota::Result{rquota::Status::kPermission, {}});
    co_return rpc::Outcome::kReply;
  }
  auto usage = co_await ask_({.whose = args.whose});
  if (!usage) {
    unanswered_.add();
    co_return rpc::Outcome::kDrop;
  }
  told_.add();
  rquota::Result result{rquota::Status::kNoQuota, {}};
  if (!usage->quotas.empty()) {
    const auto now = static_cast<std::uint64_t>(context_.loop.wall().ns / kNanosecondsPerSecond);
    result = {rquota::Status::kOk,
              rquota::figures_of(usage->quotas.front().quota, usage->quotas.front().usage, now)};
  }
  encode(results, result);
  co_return rpc::Outcome::kReply;
}

}  // namespace slice::proxy
