// Cuts: CREATE UNCHECKED with a size, of a name that exists: it sets the size of the file, which another
// server may have. Which file that is, is decided once and durably, so that a retransmission after a crash
// cuts no other: a cut record first; then a SETATTR for the same client, at the file's server; then the
// answer, in the batch that takes the record away. The name stays locked from the decision on. One loop.
#ifndef SLICE_DIRSERVER_BACKGROUND_CUTS_H
#define SLICE_DIRSERVER_BACKGROUND_CUTS_H

#include <optional>
#include <string>

#include "common/log.h"
#include "dirserver/across/lock_table.h"
#include "dirserver/across/peers.h"
#include "dirserver/store/cell_store.h"
#include "dirserver/store/duplicate_cache.h"

namespace slice::dirserver {

class Cuts {
 public:
  Cuts(service::ServiceContext& context, CellStore& cells, LockTable& held, Peers& peers,
       DuplicateCache& duplicates);

  // What is to be done for `call`, a CREATE. `file`: what the name pointed to when `id` held it locked.
  static CutRecord make(const TransactionId& id, const rpc::Call& call, LockKey name,
                        const AttributeCell& file, std::uint64_t size);
  // Does all of it, for as long as that takes: the results of the CREATE; nothing where the server stops
  // before it is known how it ends, and nothing may be answered.
  Task<std::optional<std::string>> run(CutRecord record);

  // The site is here: locks the names of unfinished ones again, and goes on with them. Before anything else
  // may run there. kCorrupt. When the site goes they end by themselves.
  Status recover(SiteId site);
  void stop() { stopping_ = true; }

 private:
  // One that goes on, as long as the stay of its site.
  struct Cut {
    CutRecord record;
    Stay stay;
  };
  bool over(const Cut& cut) const;
  Task<bool> put(const Cut& cut);
  Task<std::optional<nfs3::Status>> set_size(const Cut& cut);
  Task<std::optional<AttributeCell>> read(const Cut& cut);
  Task<std::optional<std::string>> answer(const Cut& cut, nfs3::Status status);
  Task<bool> commit(const Cut& cut, Transaction& transaction);
  Task<void> finish_recovered(Cut cut);

  service::ServiceContext& context_;
  CellStore& cells_;
  LockTable& held_;
  Peers& peers_;
  DuplicateCache& duplicates_;
  bool stopping_ = false;
  LogLimiter log_{2};
  Counter& begun_;
  Counter& retries_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_BACKGROUND_CUTS_H
