// Ownership: which sites of its class a server has, as the server itself knows it, durably. Tables are hints:
// a server that has a record goes by no tables that say otherwise, so that a manager that lost its state, or
// got back an old one, can neither take sites from where their data is nor give them to where it is not.
// Sites come and go by moves alone (wire/moves.h, docs/moves.md); what the record says of a move is what
// decides it. File `ownership` of the data directory (docs/formats/ownership.md). One loop.
#ifndef SLICE_SERVICE_OWNERSHIP_H
#define SLICE_SERVICE_OWNERSHIP_H

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "common/config.h"
#include "common/loop.h"
#include "common/task.h"
#include "storage/disk.h"
#include "wire/manager.h"
#include "wire/moves.h"

namespace slice::service {

class Ownership {
 public:
  // Both outlive it, as does the loop.
  Ownership(Loop& loop, storage::Disk& disk, const ServerConfig& self)
      : disk_(disk), self_(self), writing_(loop) {}

  // Servers whose class has no sites have no record.
  static bool applies_to(ServerRole role) { return static_cast<std::size_t>(role) < wire::kSiteClasses; }

  // Reads the record, where there is one. The server must not serve where it ends otherwise. kCorrupt: it is
  // damaged. kInvalid: it is that of another number.
  Task<Status> load();
  // Has a record of before servers could be removed say whose it is: this server's.
  Task<Status> keep_number();
  bool known() const { return record_.has_value(); }
  // In order; known().
  std::vector<wire::OwnedSite> sites() const;
  // Of a storage server: those that it has for files with a layout, which no move changes; in order; known().
  const std::vector<std::uint32_t>& layout_sites() const { return record_->layout_sites; }
  // Grows with every change; 0: there is no record.
  std::uint64_t version() const { return record_ ? record_->version : 0; }
  // As in HEARTBEAT; 0: there is no record.
  std::uint64_t digest() const;

  // Records the sites that the server has by these tables; durable when it ends well. There was no record.
  Task<Status> grant(const wire::Tables& tables);
  // The same where there was a record and it is lost, with all else: for data that comes back from a backup.
  // `now`: wall clock; the record's number of changes begins there, beyond that of the one that was lost.
  Task<Status> grant_again(const wire::Tables& tables, WallTime now);
  // kInvalid: there is a record, and these tables say otherwise; unless they only do not know of a move yet.
  Status check(const wire::Tables& tables) const;
  // These tables, which check() takes, with the moves that they do not know of yet.
  wire::Tables applied_to(wire::Tables tables) const;

  // ---- moves; each durable when it ends well, and without effect when it does not ----
  struct Given {
    std::uint32_t to = 0;
    wire::MoveId move;
    Generation begun;       // as in wire::SiteMove
    bool freed = false;     // what was here of it is gone
    Generation shown = {};  // of the first tables seen that show the move; 0: none yet. Not recorded
  };
  struct Offered {
    std::uint32_t from = 0;
    wire::MoveId move;
    Generation begun;           // as in wire::SiteMove
    std::uint64_t attempt = 0;  // of the move, by which it came
  };
  // Sites that went by a move, until they come back; by site.
  const std::map<std::uint32_t, Given>& given() const { return record_->given; }
  // Sites whose data is here, durably, and that are this server's as soon as the old owner gives them away.
  const std::map<std::uint32_t, Offered>& offered() const { return record_->offered; }

  // kInvalid: one of them is this server's already.
  Task<Status> offer(wire::SiteMove move, std::uint64_t attempt);
  // kInvalid: one of them is not this server's. From when this ends well the sites are the new owner's.
  Task<Status> give(wire::SiteMove move);
  // The old owner has given away what `move` offered here. Fine where that was done.
  Task<Status> take(wire::MoveId move);
  // Nothing came of the move's attempts up to this one.
  Task<Status> withdraw(wire::MoveId move, std::uint64_t attempt);
  // What was here of the sites that went by this move is gone.
  Task<Status> freed(wire::MoveId move);
  // The manager has these tables.
  void saw(const wire::Tables& tables);
  // The moves with offers that the old owners have accepted, as these tables show.
  std::vector<wire::MoveId> taken_by(const wire::Tables& tables) const;
  bool has_given(const wire::SiteMove& move) const;
  bool owns_all(const std::vector<std::uint32_t>& sites) const;
  // By which attempt the move's sites are offered; 0: they are not.
  std::uint64_t offered_by(wire::MoveId move) const;

  // `changed` is called when sites came or went; there is one at most.
  void on_change(std::function<void()> changed) { changed_ = std::move(changed); }

 private:
  static constexpr std::uint32_t kGranted = 0xffffffff;  // came from nobody: at the volume's birth
  struct Held {
    Generation since;
    std::uint32_t from = kGranted;
  };
  struct Record {
    std::uint32_t server = 0;  // whose it is
    std::uint64_t version = 0;
    std::map<std::uint32_t, Held> sites;
    std::map<std::uint32_t, Given> given;
    std::map<std::uint32_t, Offered> offered;
    std::vector<std::uint32_t> layout_sites;
  };
  static Buffer encoded(const Record& record);
  bool decode(ByteView bytes, Record& out);
  // Changes a copy, writes it, and goes by it; `change` says whether there is anything to write.
  template <class Change>
  Task<Status> replace(Change change);

  storage::Disk& disk_;
  const ServerConfig& self_;
  AsyncMutex writing_;
  std::optional<Record> record_;
  bool has_number_ = true;  // the file says whose it is
  std::function<void()> changed_;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_OWNERSHIP_H
