#include "coordinator/program.h"

#include "common/log.h"
#include "service/relay.h"

namespace slice::coordinator {
namespace {

using wire::CoordinatorProcedure;

bool is(const rpc::Call& call, CoordinatorProcedure procedure) {
  return call.procedure == static_cast<std::uint32_t>(procedure);
}

// Results begin with their status.
bool told_to_wait(ByteView results) {
  return results.size() >= 4 &&
         load_be<std::uint32_t>(results.data()) == static_cast<std::uint32_t>(nfs3::Status::kJukebox);
}

}  // namespace

CoordinatorProgram::CoordinatorProgram(service::ServiceContext& context, Parts parts)
    : InternalProgram(wire::kCoordinatorProgram),
      context_(context),
      parts_(parts),
      misdirected_(context.metrics.counter("coordinator_misdirected_total",
                                           "internal calls for files of other coordinators")),
      relayed_(context.metrics.counter(
          "coordinator_relayed_total",
          "internal calls for files of other coordinators that were passed on, and answered there")) {
  serve_by<wire::CoordinatorTruncateArgs>(CoordinatorProcedure::kTruncate);
  serve_by<wire::CoordinatorRemoveArgs>(CoordinatorProcedure::kRemove);
  serve_by<wire::SessionArgs>(CoordinatorProcedure::kSession);
  serve_by<wire::EndSessionArgs>(CoordinatorProcedure::kEndSession);
  serve_by<wire::LayoutArgs>(CoordinatorProcedure::kLayout);
  serve_by<wire::MissedArgs>(CoordinatorProcedure::kMissed);
  serve_by<wire::MapArgs>(CoordinatorProcedure::kMap);
  serve_by<wire::MoveArgs>(CoordinatorProcedure::kMove);
  serve_by<wire::ReceiveArgs>(CoordinatorProcedure::kReceive);
  serve_by<wire::EmptiedArgs>(CoordinatorProcedure::kEmptied);
  serve_by<wire::SpreadArgs>(CoordinatorProcedure::kSpread);
  serve_by<service::NoArguments>(CoordinatorProcedure::kSpreading);
}

// ---- whose it is ----

std::optional<FileId> CoordinatorProgram::file_of(const rpc::Call& call) const {
  if (!call.internal || is(call, CoordinatorProcedure::kNull) || is(call, CoordinatorProcedure::kSession) ||
      is(call, CoordinatorProcedure::kEndSession) || is(call, CoordinatorProcedure::kReceive) ||
      is(call, CoordinatorProcedure::kEmptied) || is(call, CoordinatorProcedure::kSpread) ||
      is(call, CoordinatorProcedure::kSpreading)) {
    return std::nullopt;
  }
  // The arguments of all others begin with its handle.
  rpc::XdrReader in(call.arguments);
  nfs3::Status status = nfs3::Status::kOk;
  auto handle = admit(in.opaque(nfs3::kMaxHandle), status);
  if (!handle) return std::nullopt;
  return handle->fileid;
}

Task<rpc::Outcome> CoordinatorProgram::handle(const rpc::Call& call, rpc::XdrWriter& results) {
  const std::optional<FileId> file = file_of(call);
  if (!file) co_return co_await InternalProgram::handle(call, results);
  const std::size_t start = results.size();
  while (true) {
    if (parts_.gate.held(*file)) {
      // A node that asks for a layout may be one that a write waits for, and a recall for that.
      if (is(call, CoordinatorProcedure::kLayout) ||
          !co_await parts_.gate.sites().released(parts_.gate.site_of(*file))) {
        put_off(call, context_.self.index, results);
        co_return rpc::Outcome::kReply;
      }
      continue;
    }
    if (!parts_.gate.owns(*file)) {
      if (co_await redirect(call, *file, results)) co_return rpc::Outcome::kReply;
      continue;
    }
    auto pass = parts_.gate.enter(*file);
    const rpc::Outcome outcome = co_await InternalProgram::handle(call, results);
    // Some are given up where the site is held: they begin anew, here or at its new owner.
    const bool again = parts_.gate.held(*file) && told_to_wait(results.view().subspan(start));
    if (!again || is(call, CoordinatorProcedure::kLayout)) co_return outcome;
    results.rewind(start);
  }
}

Task<bool> CoordinatorProgram::redirect(const rpc::Call& call, FileId file, rpc::XdrWriter& results) {
  if (call.generation > context_.tables.get()->generation() && context_.refresh_tables) {
    co_await context_.refresh_tables();
    if (parts_.gate.owns(file)) co_return false;
  }
  misdirected_.add();
  const routing::RoutingTables& tables = *context_.tables.get();
  const wire::ServerEntry owner = tables.server_of(wire::Role::kCoordinator, tables.coordinator_site(file));
  // Where they contradict one another, nobody is to pass it to and fro.
  const bool passes = !is(call, CoordinatorProcedure::kLayout) && call.relays < service::Relay::kMaxRelays;
  if (!passes) {
    put_off(call, owner.server, results);
    co_return true;
  }
  auto reply = co_await context_.channel.call(service::forwarded_internal(call, number(), owner.endpoint));
  if (reply) {
    relayed_.add();
    results.fixed(reply->results());
    co_return true;
  }
  if (log_.allow())
    log_warning("a call for a file of {} could not be passed on: {}", owner.name, reply.error().message);
  put_off(call, owner.server, results);
  co_return true;
}

void CoordinatorProgram::put_off(const rpc::Call& call, std::uint32_t owner, rpc::XdrWriter& results) {
  if (is(call, CoordinatorProcedure::kLayout)) {
    encode(results, wire::LayoutResult{.status = nfs3::Status::kJukebox, .layout = {}, .owner = owner});
  } else if (is(call, CoordinatorProcedure::kMap)) {
    encode(results, wire::MapResult{.status = nfs3::Status::kJukebox, .piece = {}});
  } else {
    encode(results, wire::CoordinatorResult{nfs3::Status::kJukebox});
  }
}

std::optional<routing::FileHandle> CoordinatorProgram::admit(ByteView bytes, nfs3::Status& status) const {
  auto handle = context_.handles.open(bytes);
  if (!handle) {
    status = nfs3::Status::kBadHandle;
    return std::nullopt;
  }
  if (handle->type != nfs3::FileType::kRegular) {
    status = nfs3::Status::kInval;
    return std::nullopt;
  }
  return *handle;
}

// ---- procedures ----

Task<wire::CoordinatorResult> CoordinatorProgram::serve(const wire::CoordinatorTruncateArgs& args) {
  wire::CoordinatorResult result;
  auto handle = admit(args.handle, result.status);
  if (handle) result.status = co_await parts_.truncate.run(*handle, args.size, args.epoch);
  co_return result;
}

Task<wire::CoordinatorResult> CoordinatorProgram::serve(const wire::CoordinatorRemoveArgs& args) {
  wire::CoordinatorResult result;
  auto handle = admit(args.handle, result.status);
  if (handle) result.status = co_await parts_.remove.run(*handle);
  co_return result;
}

Task<wire::SessionResult> CoordinatorProgram::serve(const wire::SessionArgs& args) {
  const wire::ServerEntry* node = context_.tables.get()->server(args.server);
  bool known = node != nullptr && node->role == wire::Role::kStorage;
  if (!known) co_return wire::SessionResult{.status = nfs3::Status::kInval};
  wire::SessionResult result = parts_.sessions.renew(args);
  // A node that has started: what was sent to it before has an older one.
  result.version = args.session == 0 ? parts_.layouts.next_version() : parts_.layouts.version();
  co_return result;
}

Task<wire::CoordinatorResult> CoordinatorProgram::serve(const wire::EndSessionArgs& args) {
  parts_.sessions.end(args);
  co_return wire::CoordinatorResult{};
}

Task<wire::LayoutResult> CoordinatorProgram::serve(const wire::LayoutArgs& args) {
  wire::LayoutResult result{.owner = context_.self.index};
  auto handle = admit(args.handle, result.status);
  if (!handle) co_return result;
  co_await parts_.sessions.settled();
  result = co_await parts_.layouts.give(*handle, args.stripe, args.place);
  result.owner = context_.self.index;
  co_return result;
}

Task<wire::MapResult> CoordinatorProgram::serve(const wire::MapArgs& args) {
  wire::MapResult result;
  auto handle = admit(args.handle, result.status);
  if (!handle) co_return result;
  auto layout = parts_.layouts.of(*handle, args.stripe);
  if (layout) {
    result.piece = routing::spelled_out(*context_.tables.get(), *handle, std::move(layout->piece));
  } else {
    result.status = nfs3::status_of(layout.error());
  }
  co_return result;
}

Task<wire::CoordinatorResult> CoordinatorProgram::serve(const wire::MoveArgs& args) {
  wire::CoordinatorResult result;
  auto handle = admit(args.handle, result.status);
  if (!handle) co_return result;
  co_await parts_.sessions.settled();
  // A move of before that nobody goes on with yet comes first.
  parts_.sites.go_on();
  result.status = co_await parts_.move.run(*handle, args.stripe, SiteId{args.site});
  co_return result;
}

Task<wire::CoordinatorResult> CoordinatorProgram::serve(const wire::SpreadArgs& args) {
  co_return wire::CoordinatorResult{co_await parts_.spreading.begin(args)};
}

Task<wire::SpreadingResult> CoordinatorProgram::serve(const service::NoArguments&) {
  co_return parts_.spreading.state();
}

Task<wire::EmptiedResult> CoordinatorProgram::serve(const wire::EmptiedArgs& args) {
  if (args.known > context_.tables.get()->generation() && context_.refresh_tables)
    co_await context_.refresh_tables();
  co_return parts_.evacuation.emptied(args);
}

Task<wire::CoordinatorResult> CoordinatorProgram::serve(const wire::MissedArgs& args) {
  wire::CoordinatorResult result;
  auto handle = admit(args.handle, result.status);
  if (!handle) co_return result;
  co_await parts_.sessions.settled();
  result.status = co_await parts_.layouts.missed(*handle, args.server, args.stripes);
  co_return result;
}

}  // namespace slice::coordinator
