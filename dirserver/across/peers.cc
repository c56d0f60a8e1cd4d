#include "dirserver/across/peers.h"

#include <set>

#include "service/ownership.h"
#include "service/relay.h"

namespace slice::dirserver {
namespace {

constexpr std::string_view kProcedures[] = {"NULL",  "LOCK",   "PREPARE", "FINISH", "OUTCOME", "READ",
                                            "TOUCH", "REVOKE", "LIST",    "OWNER",  "CELLS"};

constexpr Duration kComing = std::chrono::milliseconds(500);  // of Peers::kCallTimeout
constexpr Duration kComingPoll = std::chrono::milliseconds(1);

}  // namespace

wire::TransactionName name_of(const TransactionId& id) {
  return {id.site, id.incarnation, id.sequence};
}
TransactionId id_of(const wire::TransactionName& name) {
  return {name.site, name.incarnation, name.sequence};
}
wire::CellName name_of(const CellRef& ref) {
  return {ref.site, ref.fileid, ref.generation};
}
CellRef ref_of(const wire::CellName& name) {
  return {name.site, name.file, name.generation};
}

Peers::Peers(service::ServiceContext& context, Stays& stays) : context_(context), stays_(stays) {
  for (std::string_view procedure : kProcedures) {
    calls_.push_back(&context.metrics.counter("directory_peer_calls_total",
                                              "calls of other directory servers, by procedure: LOCK, "
                                              "PREPARE, FINISH, OUTCOME, READ, TOUCH, REVOKE, LIST",
                                              {{"procedure", procedure}}));
  }
}

Task<bool> Peers::here(SiteId site) {
  co_await stays_.until_open(site, stays_.of(site));
  // Its old owner has given it away, and tells so within moments.
  const service::Ownership* record = context_.ownership;
  const MonoTime deadline = context_.loop.now() + kComing;
  while (!owns(site) && record != nullptr && record->known() && record->offered().contains(site.value) &&
         context_.loop.now() < deadline) {
    co_await context_.loop.sleep(kComingPoll);
  }
  co_return owns(site);
}

std::uint32_t Peers::server_of(SiteId site) const {
  auto told = told_.find(site);
  if (told != told_.end() && told->second.when == context_.tables.get()->generation() && !owns(site))
    return told->second.server;
  return context_.tables.get()->server_of(wire::Role::kDirectory, site).server;
}

std::vector<SiteId> Peers::others() const {
  std::vector<SiteId> sites;
  std::set<std::uint32_t> servers{context_.self.index};
  const auto& owners = context_.tables.get()->wire().sites[static_cast<std::size_t>(wire::Role::kDirectory)];
  for (SiteId site{0}; site.value < owners.size(); ++site.value) {
    if (servers.insert(server_of(site)).second) sites.push_back(site);
  }
  return sites;
}

Task<void> Peers::ask_owner(SiteId site, std::uint32_t server) {
  auto owner = co_await call_at<wire::OwnerResult>(server, wire::DirectoryProcedure::kOwner,
                                                   wire::OwnerArgs{site}, kCallTimeout);
  if (owner && owner->status == wire::PeerStatus::kOk && owner->server != server)
    told_[site] = {owner->server, context_.tables.get()->generation()};
}

Task<Result<std::optional<AttributeCell>>> Peers::read(CellRef ref, bool lease) {
  wire::CellReadArgs args{.cell = name_of(ref), .lease = lease};
  auto result = co_await call_owner<wire::CellResult>(ref.site, wire::DirectoryProcedure::kRead, args);
  if (!result) co_return fail(std::move(result.error()));
  switch (result->status) {
    case wire::PeerStatus::kOk: {
      auto cell = decode_attribute_cell(ref.site, result->cell);
      if (!cell) co_return fail(cell.error(), "from another directory server");
      co_return std::optional<AttributeCell>(std::move(*cell));
    }
    case wire::PeerStatus::kStale:
      co_return std::optional<AttributeCell>();
    default:
      co_return fail(Errc::kUnavailable, "site {} answered {} to a read", ref.site.value,
                     static_cast<unsigned>(result->status));
  }
}

Task<nfs3::Status> Peers::setattr(const rpc::Call& call, SiteId site) {
  const wire::ServerEntry* owner = context_.tables.get()->server(server_of(site));
  if (owner == nullptr) co_return nfs3::Status::kJukebox;
  rpc::Endpoint to = owner->endpoint;
  auto response = co_await context_.channel.call(service::forwarded(call, to));
  if (!response) co_return nfs3::status_of(response.error());
  rpc::XdrReader in(response->results());
  auto status = static_cast<nfs3::Status>(in.u32());
  co_return in.ok() ? status : nfs3::Status::kServerFault;
}

}  // namespace slice::dirserver
