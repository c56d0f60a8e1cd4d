// Sites: what a coordinator does with what it has of sites that move to it or from it (docs/moves.md): open
// intentions, block maps, and which files were removed. To the new owner the move is as a start after a crash
// of the old one: what is durable goes along, the rest is made anew; nobody goes by what the old one said.
//
// Maps and intentions are copied while all go on, and what has changed since at the switch, while the sites
// are held: a large volume has more of both than can be copied within the time that a request may wait. One
// loop.
#ifndef SLICE_COORDINATOR_SITES_H
#define SLICE_COORDINATOR_SITES_H

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "coordinator/file_gate.h"
#include "coordinator/layouts.h"
#include "service/site_data.h"
#include "wire/coordinator.h"

namespace slice::coordinator {

class Sites : public service::SiteData {
 public:
  static constexpr Duration kPeriod = std::chrono::seconds(1);  // between looks for work that nobody does

  struct Parts {
    FileGate& gate;
    Intentions& intentions;
    BlockMaps& maps;
    Sessions& sessions;
    Layouts& layouts;
  };
  struct Hooks {
    // Takes up what was left of files that are here.
    std::function<void()> go_on;
    // Leaves what waits to be done for these files.
    std::function<void(const Layouts::Which&)> leave;
  };
  // All outlive it.
  Sites(service::ServiceContext& context, Parts parts, Hooks hooks);
  ~Sites() override { context_.loop.cancel(timer_); }

  // What there is to do goes on by itself, until stop().
  void start();
  void stop() { stopping_ = true; }
  // The coordinator program's RECEIVE.
  Task<wire::CoordinatorResult> receive(wire::ReceiveArgs args);

  Task<Status> clear(std::vector<std::uint32_t> sites) override;
  void open(const wire::SiteMove& move, std::uint64_t attempt) override;
  Task<void> close(wire::MoveId move) override;
  Task<Status> sync() override;
  void learn(const std::vector<wire::LateWrite>& /*writes*/) override {}
  Task<Status> join(std::shared_ptr<service::LeavingSites> leaving) override;
  void leave(const service::LeavingSites& leaving) override;
  Task<Status> copy(std::shared_ptr<service::LeavingSites> leaving) override;
  Task<Status> copy_rest(std::shared_ptr<service::LeavingSites> leaving) override;
  Task<Result<std::uint64_t>> count(std::vector<std::uint32_t> sites) override;
  std::vector<wire::LateWrite> late_writes(const std::vector<std::uint32_t>& /*sites*/) override {
    return {};
  }
  void go_on() override { hooks_.go_on(); }

 private:
  using Leaving = std::shared_ptr<service::LeavingSites>;
  using Piece = std::pair<FileId, std::uint64_t>;  // with its number
  // Of one attempt, at the old owner.
  struct Departing {
    Leaving leaving;
    std::set<Piece> changed;              // since they were copied
    std::set<storage::LogSequence> sent;  // intentions
    storage::LogSequence looked_at{};     // the last of the log's
    std::uint64_t messages = 0;
  };
  // Of one attempt, at the new owner.
  struct Arriving {
    std::uint64_t attempt = 0;
    std::vector<std::uint32_t> sites;
    std::uint64_t messages = 0;
    std::map<std::uint64_t, storage::LogSequence> intentions;  // by what the old owner calls them
  };
  using Going = std::shared_ptr<Departing>;

  Layouts::Which in(std::vector<std::uint32_t> sites) const;
  Intentions::Which of(Layouts::Which files) const;
  void note_change(FileId file, std::uint64_t number);
  Going going(const service::LeavingSites& leaving) const;
  Task<Status> send(Going going, wire::ReceiveArgs message);
  // The same, and waits as the pace says.
  Task<Status> send_slowly(Going going, wire::ReceiveArgs message);
  // Ends when nobody goes by a layout of these sites that was given before.
  Task<Status> copy_intentions(Going going, bool slowly);
  Task<Status> copy_changed(Going going, bool slowly);
  Status take(Arriving& arriving, const wire::ReceiveArgs& args);
  Status take_intentions(Arriving& arriving, const wire::ReceiveArgs& args);

  service::ServiceContext& context_;
  Parts parts_;
  Hooks hooks_;
  std::vector<Going> departing_;
  std::map<std::uint64_t, Arriving> arriving_;  // by the move's number
  bool stopping_ = false;
  TimerId timer_ = TimerId::kNone;
  Counter &copied_bytes_, &received_;
};

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_SITES_H
