// Tracer: what became of operations of one server or proxy: for who watches (slicectl trace, slicectl top;
// docs/trace.md), and for the log, where one was slow. Where neither is wanted, on() is all that an operation
// looks at.
//
// A watch is a lease: its filter is applied here, and what passes waits in a bounded ring until the watcher
// asks again, or its lease ends. Any thread.
#ifndef SLICE_SERVICE_TRACER_H
#define SLICE_SERVICE_TRACER_H

#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "common/metrics.h"
#include "service/slow_log.h"
#include "service/top_counts.h"
#include "wire/trace.h"

namespace slice::service {

class Tracer {
 public:
  static constexpr std::size_t kMostWatches = 8;
  static constexpr std::size_t kRing = 512;  // records of a watch: of clients, and as many of internal calls

  // The server's name, and its data directory; empty: none. The metrics outlive it.
  Tracer(const std::string& name, std::string data, Metrics& metrics);
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  // Whether somebody wants to know of an operation that begins now.
  bool on() const { return on_.load(std::memory_order_relaxed); }
  // Whether one that took so long is to be told of when it ends: most are not, where only the log wants them.
  bool wants(Duration took) const {
    if (watched_.load(std::memory_order_relaxed)) return true;
    const Duration slower_than(slower_than_.load(std::memory_order_relaxed));
    return slower_than > Duration(0) && took >= slower_than;
  }
  // From when on an operation of a client is logged; 0: none is, as at first.
  void log_slower(Duration than);
  // One has ended; its `number` is set here.
  void finished(wire::TraceRecord record, MonoTime now);

  // TRACE and TOP.
  wire::TraceResult trace(const wire::TraceArgs& args, MonoTime now);
  wire::TopResult top(const wire::TopArgs& args, MonoTime now);

 private:
  struct Watch {
    std::uint64_t id = 0;
    wire::TraceFilter filter;
    MonoTime until;
    std::uint64_t last = 0;  // number given
    std::uint64_t lost = 0;
    std::deque<wire::TraceRecord> calls, internal;
  };
  Watch* find(const wire::TraceArgs& args, MonoTime now);
  void end_old(MonoTime now);
  void keep(Watch& watch, const wire::TraceRecord& record);
  void count(const wire::TraceRecord& record);
  void set_on();

  const std::string data_;
  Counter& lost_;
  Gauge& watches_now_;
  Counter& slow_;
  std::atomic<bool> on_{false}, watched_{false};
  std::atomic<Duration::rep> slower_than_{0};
  std::mutex mutex_;  // guards what follows
  SlowLog slow_log_;
  std::vector<Watch> watches_;
  MonoTime top_until_{}, top_since_{};
  bool counting_ = false;
  TopCounts clients_, files_, procedures_;
};

// Whether a watch with this filter wants the record. Internal calls have neither client nor file: each that
// took long enough may be a part of what is wanted.
bool wanted(const wire::TraceFilter& filter, const wire::TraceRecord& record);

}  // namespace slice::service

#endif  // SLICE_SERVICE_TRACER_H
