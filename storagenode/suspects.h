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
#include <string_view>
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
  // Of a call or a probe where nobody listens at a host that is there: longer than a start takes.
  static constexpr Duration kRefused = std::chrono::seconds(1);

  explicit Suspects(service::ServiceContext& context) : context_(context) {}
  ~Suspects() { *stopped_ = true; }
  Suspects(const Suspects&) = delete;
  Suspects& operator=(const Suspects&) = delete;

  bool has(std::uint32_t server) const {
    const auto found = peers_.find(server);
    return found != peers_.end() && found->second.silent;
  }
  // It has not answered in time.
  void silent(std::uint32_t server) { suspect(server, "is silent"); }
  // It says that its process ends.
  void leaves(std::uint32_t server) { suspect(server, "is being stopped"); }
  // What the call of that server comes to; kTimedOut as soon as the server answers no probe either: it may
  // still carry the call out. This outlives it.
  template <class R>
  Task<Result<R>> unless_silent(std::uint32_t server, Task<Result<R>> call) {
    const OneShot<Result<R>> answer;
    spawn(take(std::move(call), answer));
    Peer& peer = watched_peer(server);
    const Waiting waiting(peer, [answer] { answer.set(fail(Errc::kTimedOut, "it answers no probe")); });
    auto result = co_await answer;
    if (result) peer.heard = context_.loop.now();
    co_return result;
  }
  // Probes nobody any more.
  void stop() { *stopped_ = true; }

 private:
  using GiveUp = std::function<void()>;
  struct Peer {
    std::list<GiveUp> calls;  // that are waited for
    MonoTime asked{}, heard{};
    bool watched = false;  // there is a watch() for it
    bool silent = false;   // there is a probe() for it
  };
  // A call that is waited for.
  class Waiting {
   public:
    Waiting(Peer& peer, GiveUp give_up)
        : peer_(peer), call_(peer.calls.insert(peer.calls.end(), std::move(give_up))) {}
    ~Waiting() { peer_.calls.erase(call_); }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    Peer& peer_;
    const std::list<GiveUp>::iterator call_;
  };
  template <class R>
  static Task<void> take(Task<Result<R>> call, OneShot<Result<R>> answer) {
    answer.set(co_await std::move(call));
  }
  void suspect(std::uint32_t server, std::string_view why);
  // Which is asked for something now.
  Peer& watched_peer(std::uint32_t server);
  Task<bool> answers(std::uint32_t server, Duration timeout);
  Task<void> probe(std::uint32_t server, std::shared_ptr<bool> stopped);
  Task<void> watch(std::uint32_t server, std::shared_ptr<bool> stopped);

  service::ServiceContext& context_;
  std::map<std::uint32_t, Peer> peers_;  // all that were ever asked
  std::shared_ptr<bool> stopped_ = std::make_shared<bool>(false);
};

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_SUSPECTS_H
