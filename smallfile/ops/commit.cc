// COMMIT (RFC 1813 section 3.3.21).
#include "service/room.h"
#include "smallfile/ops/durable.h"

namespace slice::smallfile {

using Freshness = service::AuthorityClient::Freshness;
using service::NfsAnswer;
using service::NfsRequest;

namespace {

Task<NfsAnswer> pass_to_coordinator(Shared& shared, NfsRequest& request, rpc::XdrWriter& results) {
  const routing::RoutingTables& tables = *shared.context.tables.get();
  shared.commits_passed_on.add();
  SiteId site = tables.coordinator_site(request.handle.fileid);
  rpc::Request call;
  call.to = tables.server_of(wire::Role::kCoordinator, site).endpoint;
  call.program = nfs3::kProgram;
  call.version = nfs3::kVersion;
  call.procedure = static_cast<std::uint32_t>(nfs3::Procedure::kCommit);
  call.arguments = Buffer(request.call.arguments);
  auto response = co_await shared.context.channel.call(std::move(call));
  if (!response) co_return std::move(response).error();
  ByteView answer = response->results();
  if (answer.size() < 4) co_return Error{Errc::kInvalid, "the coordinator's COMMIT reply is too short"};
  results.fixed(answer);
  co_return NfsAnswer::written(static_cast<nfs3::Status>(load_be<std::uint32_t>(answer.data())));
}

}  // namespace

Task<NfsAnswer> commit(Shared& shared, NfsRequest& request, const nfs3::CommitArgs&,
                       rpc::XdrWriter& results) {
  if (nfs3::Status type = service::check_transfer_type(request.handle); type != nfs3::Status::kOk) {
    co_return type;
  }
  auto known = co_await shared.authority.fetch_for_transfer(request.who, request.handle, true);
  if (!known) co_return std::move(known).error();
  if (known->striped) co_return co_await pass_to_coordinator(shared, request, results);
  auto committed = shared.store.begin_commit(request.handle.fileid);
  if (!committed) co_return std::move(committed).error();
  if (committed->unreported) {
    Status finished = co_await make_durable_and_tell(shared, request, *committed);
    if (!finished) co_return std::move(finished).error();
  } else {
    Status durable = co_await make_durable(shared, committed->sequence);
    if (!durable) co_return std::move(durable).error();
    auto fresh = co_await shared.authority.fetch(request.handle, Freshness::kNow);
    if (!fresh) co_return std::move(fresh).error();
  }
  // A storage node says "striped" before it answers a file's first write: after asking the authority it is
  // certain whether other servers hold unstable bytes that this COMMIT has to cover.
  auto latest = co_await shared.authority.fetch(request.handle, Freshness::kCached);
  if (!latest) co_return std::move(latest).error();
  if (latest->striped) co_return co_await pass_to_coordinator(shared, request, results);
  nfs3::encode_result(
      results,
      nfs3::CommitOk{.wcc = {.after = service::room_for(request.handle, *latest, own_part(committed->seen))},
                     .verifier = shared.context.verifier.largest()});
  co_return NfsAnswer::written();
}

}  // namespace slice::smallfile
