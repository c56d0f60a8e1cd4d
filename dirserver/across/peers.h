// Peers: the directory servers, this one among them, as places that own sites; and calls to the others. One
// loop.
#ifndef SLICE_DIRSERVER_ACROSS_PEERS_H
#define SLICE_DIRSERVER_ACROSS_PEERS_H

#include <map>
#include <vector>

#include "dirserver/cells/cells.h"
#include "rpc/dispatcher.h"
#include "service/context.h"
#include "service/internal_call.h"
#include "wire/directory.h"

namespace slice::dirserver {

wire::TransactionName name_of(const TransactionId& id);
TransactionId id_of(const wire::TransactionName& name);
wire::CellName name_of(const CellRef& ref);
CellRef ref_of(const wire::CellName& name);

class Peers {
 public:
  static constexpr Duration kCallTimeout = std::chrono::seconds(2);

  explicit Peers(service::ServiceContext& context);

  bool owns(SiteId site) const {
    return context_.tables.get()->owns(context_.self.index, wire::Role::kDirectory, site);
  }
  // The owner's number: sites of one number can be asked in one call.
  std::uint32_t server_of(SiteId site) const;
  // One site of each server but this one.
  std::vector<SiteId> others() const;

  // At the owner of `site`. Errors are the channel's; a status inside R is the caller's to look at.
  template <class R, class Args>
  Task<Result<R>> call(SiteId site, wire::DirectoryProcedure procedure, const Args& args,
                       Duration timeout = kCallTimeout) {
    calls_[static_cast<std::size_t>(procedure)]->add();
    const auto& tables = *context_.tables.get();
    return service::internal_call<R>(context_.channel,
                                     tables.server_of(wire::Role::kDirectory, site).endpoint,
                                     wire::kDirectoryProgram, procedure, args, timeout);
  }
  // The attribute cell; nothing where there is none of that generation.
  Task<Result<std::optional<AttributeCell>>> read(CellRef ref, bool lease);
  // An NFS SETATTR of a file there, on behalf of the client that made `call`: its arguments are the call's.
  Task<nfs3::Status> setattr(const rpc::Call& call, SiteId site);

 private:
  service::ServiceContext& context_;
  std::vector<Counter*> calls_;  // by procedure
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_ACROSS_PEERS_H
