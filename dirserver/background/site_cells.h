// SiteCells: what a directory server does with the cells of sites that move to it or from it (docs/moves.md).
// All keys of a site lie together. While it leaves, the old owner notes which of them change, and sends those
// again behind the others, until little is left; the rest goes when requests are held and the site is frozen.
// What was under way goes along as the records that a start goes on with. One loop.
#ifndef SLICE_DIRSERVER_BACKGROUND_SITE_CELLS_H
#define SLICE_DIRSERVER_BACKGROUND_SITE_CELLS_H

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dirserver/across/peers.h"
#include "dirserver/store/cell_store.h"
#include "dirserver/store/duplicate_cache.h"
#include "service/context.h"
#include "service/site_data.h"
#include "service/site_gate.h"

namespace slice::dirserver {

class SiteCells : public service::SiteData {
 public:
  // All outlive it.
  SiteCells(service::ServiceContext& context, CellStore& cells, DuplicateCache& duplicates);
  ~SiteCells() override;

  service::SiteGate& gate() { return gate_; }
  // The directory program's CELLS.
  wire::PeerResult take(const wire::CellsArgs& args);

  Task<Status> clear(std::vector<std::uint32_t> sites) override;
  void open(const wire::SiteMove& move, std::uint64_t attempt) override;
  Task<void> close(wire::MoveId move) override;
  // kCorrupt: a record came that a start here could not go on with.
  Task<Status> sync() override;
  void learn(const std::vector<wire::LateWrite>&) override {}
  Task<Status> join(std::shared_ptr<service::LeavingSites> leaving) override;
  void leave(const service::LeavingSites& leaving) override;
  Task<Status> copy(std::shared_ptr<service::LeavingSites> leaving) override;
  Task<Status> copy_rest(std::shared_ptr<service::LeavingSites> leaving) override;
  Task<Result<std::uint64_t>> count(std::vector<std::uint32_t> sites) override;
  std::vector<wire::LateWrite> late_writes(const std::vector<std::uint32_t>&) override { return {}; }

 private:
  struct Arriving {
    std::uint64_t attempt = 0, taken = 0;  // taken: the number of the last change
    std::vector<std::uint32_t> sites;
    storage::LogPosition position;
    std::map<std::string, Error> unreadable;  // records that a start could not go on with, by key
  };
  // A try that goes on.
  struct Leaving {
    std::shared_ptr<service::LeavingSites> sites;
    std::set<std::string> changed;  // keys, since they were sent last
    std::uint64_t sent = 0;         // the number of the last change
  };
  using Try = std::shared_ptr<Leaving>;
  struct Batch;

  void note(const storage::WriteBatch& batch);
  Try try_of(const service::LeavingSites& sites) const;
  Task<Status> copy_site(Try leaving, SiteId site);
  // All that is noted as changed now.
  Task<Status> send_changed(Try leaving);
  // What calls that changed nothing were answered: a late copy of one must not change anything either.
  Task<Status> send_answers(Try leaving);
  // Empties the batch; nothing is sent of an empty one.
  Task<Status> send(Try leaving, Batch& batch);
  void look_at(Arriving& arriving, const wire::CellChange& change);

  service::ServiceContext& context_;
  CellStore& cells_;
  DuplicateCache& duplicates_;
  service::SiteGate gate_;
  std::vector<Try> leaving_;
  std::map<wire::MoveId, Arriving> arriving_;
  Counter &copied_, &copied_again_, &taken_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_BACKGROUND_SITE_CELLS_H
