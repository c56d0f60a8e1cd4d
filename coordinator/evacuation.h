// Evacuation: what files with a layout have on storage servers that are drained goes elsewhere, stripe by
// stripe, in the background (docs/block-maps.md). One loop.
#ifndef SLICE_COORDINATOR_EVACUATION_H
#define SLICE_COORDINATOR_EVACUATION_H

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/block_maps.h"
#include "coordinator/layouts.h"
#include "coordinator/ops/move.h"
#include "coordinator/pieces.h"
#include "coordinator/placement.h"
#include "service/ownership.h"

namespace slice::coordinator {

class Evacuation {
 public:
  struct Options {
    Duration period = std::chrono::seconds(1);                 // between passes
    std::uint64_t bytes_per_second = std::uint64_t{64} << 20;  // that are moved
  };
  struct Parts {
    FileGate& gate;
    BlockMaps& maps;
    Sessions& sessions;
    Layouts& layouts;
    MoveOperation& move;
  };
  // All outlive it.
  Evacuation(service::ServiceContext& context, Parts parts, Options options);
  ~Evacuation() { context_.loop.cancel(timer_); }
  Evacuation(const Evacuation&) = delete;
  Evacuation& operator=(const Evacuation&) = delete;

  void start();
  void stop() {
    stopping_ = true;
    pieces_.stop();
  }
  // The coordinator program's EMPTIED.
  wire::EmptiedResult emptied(const wire::EmptiedArgs& args);
  // Some server is drained, and not known to be empty.
  bool goes_on() {
    look();
    return !leaving_.empty() && !holds();
  }
  // To be called before anything is decided by the tables of now: what was found by others is void then.
  void look();

 private:
  // Servers that are drained and may have stripes of files with a layout.
  std::set<std::uint32_t> leaving() const;
  // Another number when sites have come, or are about to; those that are about to have pieces that no pass
  // sees.
  std::uint64_t record() const { return context_.ownership == nullptr ? 0 : context_.ownership->version(); }
  bool some_come() const;
  bool holds() const { return emptied_ && *emptied_ == record() && !some_come(); }
  Task<void> work();
  Task<void> lost_sessions_ended();
  // Goes through everything once. True: there was nothing to do.
  Task<Result<bool>> pass();
  Placement placement(std::uint32_t copies) const;
  bool has_left_site(const routing::FileHandle& handle, const wire::MapPiece& piece) const;
  Task<void> empty(routing::FileHandle handle, std::uint64_t piece);
  Task<bool> move(const routing::FileHandle& handle, std::uint64_t stripe, SiteId from);

  service::ServiceContext& context_;
  Parts parts_;
  Options options_;
  Pieces pieces_;
  std::shared_ptr<const routing::RoutingTables> looked_at_;
  std::set<std::uint32_t> leaving_;  // by these
  std::set<std::uint32_t> lost_;     // of those
  std::uint64_t changes_ = 0;        // of that
  // Since it changed last:
  bool recalled_ = false;                 // nobody goes by a layout of before
  std::optional<std::uint64_t> emptied_;  // a pass found nothing to do, of the sites of this record()
  MonoTime next_{};                       // not before, another pass
  Duration pause_{};                      // that came before the last one
  std::string stuck_;                     // what a pass has found that it can do nothing about
  std::string trouble_;  // why there is something left after the last pass, where more of them will not help
  bool stopping_ = false, working_ = false;
  TimerId timer_ = TimerId::kNone;
  LogLimiter log_{1};
  Counter& moved_;
  Counter& passes_;
};

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_EVACUATION_H
