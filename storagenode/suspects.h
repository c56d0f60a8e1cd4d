// Suspects: storage nodes that were silent when this one asked them for something. Nobody waits for one of
// them again until it has answered a probe, which goes to it in the background: else every write would wait
// for a node that is away. Who is asked for something is probed once a second beside, so that a node which is
// busy is waited for, and one that does nothing any more is known before the next call. One loop.
#ifndef SLICE_STORAGENODE_SUSPECTS_H
#define SLICE_STORAGENODE_SUSPECTS_H

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "common/task.h"
#include "service/context.h"

namespace slice::storagenode {

class Suspects {
 public:
  static constexpr Duration kPause = std::chrono::milliseconds(500);  // between two probes of a suspect
  static constexpr Duration kProbeTimeout = std::chrono::seconds(2);
  // Of one that is asked for something: from one probe to the next, and how long its answer may take.
  static constexpr Duration kInterval = std::chrono::seconds(1);
  static constexpr Duration kAnswers = std::chrono::milliseconds(1500);
  static constexpr Duration kLately = std::chrono::seconds(10);  // it is probed for so long after a call

  explicit Suspects(service::ServiceContext& context) : context_(context) {}
  ~Suspects() { *stopped_ = true; }
  Suspects(const Suspects&) = delete;
  Suspects& operator=(const Suspects&) = delete;

  bool has(std::uint32_t server) const { return servers_.contains(server); }
  // It has not answered in time.
  void silent(std::uint32_t server);
  // What the call of that server comes to; kTimedOut as soon as the server answers no probe either: it may
  // still carry the call out. This outlives it.
  template <class R>
  Task<Result<R>> unless_silent(std::uint32_t server, Task<Result<R>> call) {
    const OneShot<Result<R>> answer;
    spawn(take(std::move(call), answer));
    const Waiting waiting(*this, server,
                          [answer] { answer.set(fail(Errc::kTimedOut, "it answers no probe")); });
    auto result = co_await answer;
    if (result) heard(server);
    co_return result;
  }
  // Probes nobody any more.
  void stop() { *stopped_ = true; }

 private:
  using GiveUp = std::function<void()>;
  struct Peer {
    std::list<GiveUp> calls;  // that are waited for
    MonoTime asked{}, heard{};
    bool watched = false;
  };
  // A call that is waited for.
  class Waiting {
   public:
    Waiting(Suspects& suspects, std::uint32_t server, GiveUp give_up);
    ~Waiting() { peer_.calls.erase(call_); }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    Peer& peer_;
    std::list<GiveUp>::iterator call_;
  };
  template <class R>
  static Task<void> take(Task<Result<R>> call, OneShot<Result<R>> answer) {
    answer.set(co_await std::move(call));
  }
  void heard(std::uint32_t server) { peers_[server].heard = context_.loop.now(); }
  Task<bool> answers(std::uint32_t server, Duration timeout);
  Task<void> probe(std::uint32_t server, std::shared_ptr<bool> stopped);
  Task<void> watch(std::uint32_t server, std::shared_ptr<bool> stopped);

  service::ServiceContext& context_;
  std::set<std::uint32_t> servers_;
  std::map<std::uint32_t, Peer> peers_;  // all that were ever asked
  std::shared_ptr<bool> stopped_ = std::make_shared<bool>(false);
};

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_SUSPECTS_H
