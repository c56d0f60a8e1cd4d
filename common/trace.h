// Trace: where the time of one operation goes: what it waited for, and how long. There is one only while
// somebody watches (service/tracer.h); where there is none, nothing is measured.
//
// A Task is part of the operation of whoever awaits it (common/task.h), so that what waits finds the trace by
// itself, and no function passes it on:
//
//   TraceScope step(co_await current_trace(), TraceStep::Kind::kSync, path);
//   co_return co_await done;
//
// What is spawned is part of no operation. One loop's thread.
#ifndef SLICE_COMMON_TRACE_H
#define SLICE_COMMON_TRACE_H

#include <coroutine>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/ip_address.h"
#include "common/loop.h"

namespace slice {

// One wait of an operation, or several of one kind at the same place, one after another.
struct TraceStep {
  enum class Kind : std::uint32_t {
    kRead,   // a file of the data directory
    kWrite,  //
    kSync,   // until what was written is durable
    kCall,   // another server's answer
    kHeld,   // its site, which is being moved
    kLock,   // another operation, on the same file or range
    kLast = kLock
  };
  Kind kind = Kind::kRead;
  Duration began{};  // since the operation began
  Duration took{};
  std::string what = {};  // the file, or store; of a call nothing
  // Of a call: whom, which procedure, and the xid that it carries; how often it was sent.
  IpAddress address;
  std::uint16_t port = 0;
  std::uint32_t program = 0, procedure = 0, xid = 0, sends = 0;
};

// What is spawned and may go on after the operation has ended keeps it alive.
class Trace : public std::enable_shared_from_this<Trace> {
 public:
  static constexpr std::size_t kMostSteps = 16;
  // The loop outlives it. `began`: when the operation could begin.
  Trace(const Loop& loop, MonoTime began) : loop_(loop), began_(began) {}
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  MonoTime now() const { return loop_.now_exactly(); }
  MonoTime began() const { return began_; }
  // A step that began then and has ended now; its times are set here. Where there are kMostSteps already, the
  // shortest is left off.
  void add(TraceStep step, MonoTime began);
  const std::vector<TraceStep>& steps() const { return steps_; }
  std::vector<TraceStep> take_steps() { return std::move(steps_); }
  std::uint32_t left_off() const { return left_off_; }

 private:
  const Loop& loop_;
  const MonoTime began_;
  std::vector<TraceStep> steps_;  // in the order in which they ended
  std::uint32_t left_off_ = 0;
};

// Of an operation that took that long and had these steps: what is in none of them.
Duration outside_of(std::span<const TraceStep> steps, Duration took);

// Of the operation that a suspended coroutine is part of; null: nobody watches, or it is no Task.
template <class Promise>
Trace* trace_of(std::coroutine_handle<Promise> waiter) noexcept {
  if constexpr (requires { waiter.promise().trace; }) {
    return waiter.promise().trace;
  } else {
    return nullptr;
  }
}

namespace trace_internal {

struct Current {
  Trace* trace = nullptr;
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> self) noexcept {
    trace = trace_of(self);
    return false;
  }
  Trace* await_resume() const noexcept { return trace; }
};

struct Begin {
  Trace* trace;
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> self) noexcept {
    self.promise().trace = trace;
    return false;
  }
  void await_resume() const noexcept {}
};

}  // namespace trace_internal

// co_await current_trace(): of the operation that this coroutine is part of; null: nobody watches.
inline trace_internal::Current current_trace() {
  return {};
}

// co_await begin_trace(trace): this coroutine, and what it awaits from now on, is part of that operation. The
// trace lives until the coroutine ends.
inline trace_internal::Begin begin_trace(Trace& trace) {
  return {&trace};
}

// A step from its making to its end. Of no trace: nothing.
class TraceScope {
 public:
  TraceScope(Trace* trace, TraceStep::Kind kind, std::string_view what) : trace_(trace) {
    if (trace_ == nullptr) return;
    step_.kind = kind;
    step_.what = what;
    began_ = trace_->now();
  }
  TraceScope(Trace* trace, const TraceStep& step) : trace_(trace) {
    if (trace_ == nullptr) return;
    step_ = step;
    began_ = trace_->now();
  }
  ~TraceScope() {
    if (trace_ != nullptr) trace_->add(std::move(step_), began_);
  }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  Trace* trace_;
  TraceStep step_;
  MonoTime began_{};
};

// For an awaiter of a lock: its wait, where it has to, is a step.
class TraceWait {
 public:
  void begin(Trace* trace) {
    trace_ = trace;
    if (trace_ != nullptr) began_ = trace_->now();
  }
  void end() const {
    if (trace_ != nullptr) trace_->add({.kind = TraceStep::Kind::kLock}, began_);
  }

 private:
  Trace* trace_ = nullptr;
  MonoTime began_{};
};

}  // namespace slice

#endif  // SLICE_COMMON_TRACE_H
