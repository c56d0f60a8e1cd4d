// CrashPoints: named places between durable steps, where a process may be made to die: by a simulation, or in
// production by an operator who asks for it (service/crash_at.h). Otherwise nothing is set and reaching one
// costs a test of a pointer.
//
//   co_await crash_points.reach("truncate.durable");
//
// A coroutine that dies there is never resumed; its frame is kept, reachable, until the program ends, as the
// memory of a killed process would be of no concern to it.
#ifndef SLICE_SERVICE_CRASH_POINTS_H
#define SLICE_SERVICE_CRASH_POINTS_H

#include <coroutine>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

namespace slice {

// Coroutines of simulated processes that have died.
inline std::vector<std::coroutine_handle<>>& graveyard() {
  static auto* handles = new std::vector<std::coroutine_handle<>>();
  return *handles;
}

// co_await StopsHere{true}: the coroutine ends its life there, without being destroyed.
struct StopsHere {
  bool stops = true;
  bool await_ready() const noexcept { return !stops; }
  void await_suspend(std::coroutine_handle<> dead) const { graveyard().push_back(dead); }
  void await_resume() const noexcept {}
};

class CrashPoints {
 public:
  // `dies(name)` is asked at every point reached; true: the process dies there, so it has to answer true from
  // then on.
  void set(std::function<bool(std::string_view)> dies) { dies_ = std::move(dies); }

  StopsHere reach(std::string_view name) const { return StopsHere{dies_ && dies_(name)}; }

 private:
  std::function<bool(std::string_view)> dies_;
};

// For what is not to die anywhere.
inline const CrashPoints& no_crash_points() {
  static const CrashPoints none;
  return none;
}

}  // namespace slice

#endif  // SLICE_SERVICE_CRASH_POINTS_H
