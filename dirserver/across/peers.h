// Peers: the directory servers, this one among them, as places that own sites; and calls to the others. A
// server that does not own a site any more tells who does, so that no manager is waited for where the tables
// here do not know of a move yet. One loop.
#ifndef SLICE_DIRSERVER_ACROSS_PEERS_H
#define SLICE_DIRSERVER_ACROSS_PEERS_H

#include <map>
#include <vector>

#include "dirserver/cells/cells.h"
#include "dirserver/store/stays.h"
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

  // Both must outlive this.
  Peers(service::ServiceContext& context, Stays& stays);

  bool owns(SiteId site) const {
    return context_.tables.get()->owns(context_.self.index, wire::Role::kDirectory, site);
  }
  // Whether this server has the site, and may change it: waits as long as it is about to go, or to come.
  Task<bool> here(SiteId site);
  // The owner's number: sites of one number can be asked in one call.
  std::uint32_t server_of(SiteId site) const;
  // One site of each server but this one.
  std::vector<SiteId> others() const;

  // At the owner of `site`. Errors are the channel's; a status inside R is the caller's to look at. Where one
  // server answers kMisdirected, it is asked who owns the site, and who asks again asks that one.
  template <class R, class Args>
  Task<Result<R>> call(SiteId site, wire::DirectoryProcedure procedure, Args args,
                       Duration timeout = kCallTimeout) {
    const std::uint32_t server = server_of(site);
    auto result = co_await call_at<R>(server, procedure, std::move(args), timeout);
    if (result && result->status == wire::PeerStatus::kMisdirected) co_await ask_owner(site, server);
    co_return result;
  }
  // The same, once more at the owner where another one was asked first: of what is about one site alone.
  template <class R, class Args>
  Task<Result<R>> call_owner(SiteId site, wire::DirectoryProcedure procedure, Args args,
                             Duration timeout = kCallTimeout) {
    const std::uint32_t server = server_of(site);
    auto result = co_await call<R>(site, procedure, args, timeout);
    const bool another = server_of(site) != server;
    if (another && result && result->status == wire::PeerStatus::kMisdirected)
      result = co_await call<R>(site, procedure, std::move(args), timeout);
    co_return result;
  }
  // The attribute cell; nothing where there is none of that generation.
  Task<Result<std::optional<AttributeCell>>> read(CellRef ref, bool lease);
  // An NFS SETATTR of a file there, on behalf of the client that made `call`: its arguments are the call's.
  Task<nfs3::Status> setattr(const rpc::Call& call, SiteId site);

 private:
  // What a server said of who has a site, counted until tables come that are newer than those of then.
  struct Told {
    std::uint32_t server = 0;
    Generation when;
  };
  template <class R, class Args>
  Task<Result<R>> call_at(std::uint32_t server, wire::DirectoryProcedure procedure, Args args,
                          Duration timeout) {
    calls_[static_cast<std::size_t>(procedure)]->add();
    const wire::ServerEntry* entry = context_.tables.get()->server(server);
    if (entry == nullptr) co_return fail(Errc::kUnavailable, "server {} is no member", server);
    co_return co_await service::internal_call<R>(context_.channel, entry->endpoint, wire::kDirectoryProgram,
                                                 procedure, args, timeout);
  }
  Task<void> ask_owner(SiteId site, std::uint32_t server);

  service::ServiceContext& context_;
  Stays& stays_;
  std::map<SiteId, Told> told_;
  std::vector<Counter*> calls_;  // by procedure
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_ACROSS_PEERS_H
