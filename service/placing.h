// What servers of all classes share of PLACE (wire/object.h), by which the old owner of sites that move has
// the new one do what it has done: the numbers of writes, who may place, and what an answer means. One loop.
#ifndef SLICE_SERVICE_PLACING_H
#define SLICE_SERVICE_PLACING_H

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "service/context.h"
#include "service/internal_call.h"
#include "service/site_data.h"
#include "service/site_gate.h"
#include "wire/object.h"

namespace slice::service {

using StripeName = std::pair<FileId, std::uint64_t>;  // of a file of one site: its stripe 0

// The numbers of writes that one server has another one do, by which the receiver does not do a late second
// copy of one behind a newer one.
class WriteNumbers {
 public:
  // For a write that is sent; greater than any before, also of a run before.
  std::uint64_t next(WallTime now);
  // A receiver has had greater ones.
  void see(std::uint64_t number);
  // Of a write that is received: whether it is greater than those before of its stripe.
  bool take(StripeName stripe, std::uint64_t number);
  std::uint64_t greatest(StripeName stripe) const;

 private:
  std::uint64_t last_ = 0;  // given
  std::map<StripeName, std::uint64_t> taken_;
  std::uint64_t forgotten_ = 0;  // at least those of all stripes that are not in taken_
};

// ---- at the old owner ----

using Leaving = std::shared_ptr<LeavingSites>;

// Attempts between join() and leave().
class Departures {
 public:
  bool none() const { return all_.empty(); }
  // By which the site leaves; null: it stays.
  Leaving of(std::uint32_t site) const;
  // Ends well when requests of the sites from before have ended: what is copied must have in it what nobody
  // has forwarded.
  Task<Status> join(Leaving leaving, SiteGate& gate);
  void leave(const LeavingSites& leaving) {
    std::erase_if(all_, [&](const Leaving& each) { return each.get() == &leaving; });
  }

 private:
  std::vector<Leaving> all_;
};

// kAgain: not yet, or not with this number. kRemoved: the file is gone there. kFailed: the attempt has
// failed.
enum class Placed { kDone, kAgain, kRemoved, kFailed };

inline constexpr Duration kPlaceTimeout = std::chrono::seconds(5), kPlaceRefused = std::chrono::seconds(1);
Placed judge(const Result<wire::PlaceResult>& result, LeavingSites& leaving, ServiceContext& context,
             WriteNumbers& numbers);

// Has the new owner do it, under a number of its own where the arguments have none yet; the attempt fails
// where that does not answer, or cannot.
template <class Args>
Task<Placed> place_there(ServiceContext& context, WriteNumbers& numbers, Leaving leaving,
                         rpc::Urgency urgency, wire::ObjectProcedure procedure, Args args) {
  const rpc::Endpoint to = context.tables.get()->server(leaving->move().to)->endpoint;
  args.move = leaving->move().id.value;
  args.attempt = leaving->attempt();
  if (args.number == 0) args.number = numbers.next(context.loop.wall());
  rpc::Request request =
      internal_request(to, wire::kObjectProgram, procedure, args, kPlaceTimeout, kPlaceRefused);
  request.urgency = urgency;
  auto result = co_await internal_call_encoded<wire::PlaceResult>(context.channel, std::move(request));
  co_return judge(result, *leaving, context, numbers);
}

// ---- at the new owner ----

// Attempts that may place, between open() and close().
class Arrivals {
 private:
  struct Arriving {
    std::uint64_t attempt = 0;
    std::vector<std::uint32_t> sites;
    unsigned placing = 0;
  };

 public:
  explicit Arrivals(Loop& loop) : loop_(loop) {}

  // Something that is being placed, until its destruction; nothing where the attempt is over, or is not of
  // this site.
  class [[nodiscard]] Placing {
   public:
    explicit Placing(std::shared_ptr<Arriving> arriving) : arriving_(std::move(arriving)) {
      if (arriving_) ++arriving_->placing;
    }
    Placing(Placing&&) = default;
    Placing& operator=(Placing&&) = delete;
    ~Placing() {
      if (arriving_) --arriving_->placing;
    }
    explicit operator bool() const { return arriving_ != nullptr; }

   private:
    std::shared_ptr<Arriving> arriving_;
  };
  Placing enter(std::uint64_t move, std::uint64_t attempt, std::uint32_t site) const;

  void open(const wire::SiteMove& move, std::uint64_t attempt);
  // Ends when nothing that came by the move is being placed any more.
  Task<void> close(wire::MoveId move);

 private:
  Loop& loop_;
  std::map<std::uint64_t, std::shared_ptr<Arriving>> by_move_;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_PLACING_H
