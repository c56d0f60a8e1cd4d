#include "proxy/programs/routes_program.h"

#include "proxy/tables/routes.h"

namespace slice::proxy {

Task<rpc::Outcome> RoutesProgram::handle(const rpc::Call& call, rpc::XdrWriter& results) {
  if (call.procedure != static_cast<std::uint32_t>(wire::RoutesProcedure::kGet))
    co_return rpc::Outcome::kNoProcedure;
  wire::RoutesArgs args;
  if (!decode(call.arguments, args)) co_return rpc::Outcome::kGarbage;
  if (settings_.now().any_export_for(call.client.address) == nullptr) {
    refusals_.note(rpc::Refused::kExport, call.client, "ROUTES");
    co_return rpc::Outcome::kDenied;
  }
  const Generation generation{slice_load_relaxed32(&tables_.config->generation)};
  if (args.known == generation && generation.value != 0) {
    encode(results, wire::Routes{.generation = generation});
    co_return rpc::Outcome::kReply;
  }
  told_.add();
  encode(results, routes_of(tables_));
  co_return rpc::Outcome::kReply;
}

}  // namespace slice::proxy
