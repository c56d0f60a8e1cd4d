// Snapshots: the cells of this server's sites as they were at a moment, for backups: one that is the same at
// all directory servers, since each keeps still until all have taken theirs (SNAPSHOT, wire/scan.h). Clients
// notice a wait of some milliseconds; who asks may die at any step, and what it held is let go. One loop.
#ifndef SLICE_DIRSERVER_BACKGROUND_SNAPSHOTS_H
#define SLICE_DIRSERVER_BACKGROUND_SNAPSHOTS_H

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "dirserver/store/cell_store.h"
#include "service/context.h"
#include "service/site_gate.h"
#include "wire/scan.h"

namespace slice::dirserver {

class Snapshots {
 public:
  static constexpr Duration kPatience = std::chrono::milliseconds(500);  // with requests under way
  static constexpr std::size_t kMost = 4;                                // that are kept

  // All outlive it.
  Snapshots(service::ServiceContext& context, CellStore& cells, service::SiteGate& gate);
  ~Snapshots();
  Snapshots(const Snapshots&) = delete;
  Snapshots& operator=(const Snapshots&) = delete;

  Task<wire::SnapshotResult> step(wire::SnapshotArgs args);
  // Null: there is none of that number any more, or it does not have the site.
  const storage::KvReader* find(std::uint64_t number, SiteId site);
  // Before the store goes.
  void drop_all() { kept_.clear(); }

 private:
  struct Held {
    std::uint64_t number = 0;
    std::vector<std::uint32_t> sites;
    bool still = false;  // requests under way have ended
    bool frozen = false;
  };
  struct Kept {
    std::unique_ptr<storage::KvReader> cells;
    std::vector<std::uint32_t> sites;
    MonoTime read;
  };
  Task<wire::SnapshotResult> hold(std::uint64_t number);
  wire::SnapshotResult freeze();
  wire::SnapshotResult take();
  void release();
  bool holds(std::uint64_t number) const { return held_ && held_->number == number; }
  std::vector<std::uint32_t> own_sites() const;
  void drop_when_unread(std::uint64_t number, Duration after);

  service::ServiceContext& context_;
  CellStore& cells_;
  service::SiteGate& gate_;
  std::optional<Held> held_;
  std::map<std::uint64_t, Kept> kept_;  // by number
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  Counter &taken_, &given_up_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_BACKGROUND_SNAPSHOTS_H
