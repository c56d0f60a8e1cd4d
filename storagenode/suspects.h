// Suspects: storage nodes that were silent when this one asked them for something. Nobody waits for one of
// them again until it has answered a probe, which goes to it in the background: else every write would wait
// for a node that is away. A call that takes long is probed beside, so that a busy node is waited for, and
// one that does nothing any more is not. One loop.
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
  static constexpr Duration kPause = std::chrono::milliseconds(500);  // between two probes
  static constexpr Duration kProbeTimeout = std::chrono::seconds(2);
  // Of the probe beside a call: with the pause before it, what a silent server is given everywhere.
  static constexpr Duration kAnswers = std::chrono::milliseconds(1500);

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
    co_return co_await answer;
  }
  // Probes nobody any more.
  void stop() { *stopped_ = true; }

 private:
  struct Call {
    MonoTime began;
    std::function<void()> give_up;
  };
  // A call that is waited for.
  class Waiting {
   public:
    Waiting(Suspects& suspects, std::uint32_t server, std::function<void()> give_up);
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    Suspects& suspects_;
    const std::uint32_t server_;
    std::list<Call>::iterator call_;
  };
  template <class R>
  static Task<void> take(Task<Result<R>> call, OneShot<Result<R>> answer) {
    answer.set(co_await std::move(call));
  }
  bool waits_since(std::uint32_t server, MonoTime then) const;
  Task<bool> answers(std::uint32_t server, Duration timeout);
  Task<void> probe(std::uint32_t server, std::shared_ptr<bool> stopped);
  Task<void> watch(std::uint32_t server, std::shared_ptr<bool> stopped);

  service::ServiceContext& context_;
  std::set<std::uint32_t> servers_;
  std::map<std::uint32_t, std::list<Call>> calls_;  // that are waited for, in their order
  std::set<std::uint32_t> watched_;                 // servers that a watch() is for
  std::shared_ptr<bool> stopped_ = std::make_shared<bool>(false);
};

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_SUSPECTS_H
