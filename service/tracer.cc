#include "service/tracer.h"

#include <algorithm>
#include <utility>

#include "wire/nfs3.h"

namespace slice::service {
namespace {

Duration lease_of(std::uint32_t milliseconds) {
  return std::chrono::milliseconds(std::min(milliseconds, wire::kMaxTraceLease));
}

// Those up to `number` have been received.
void drop_received(std::deque<wire::TraceRecord>& ring, std::uint64_t number) {
  while (!ring.empty() && ring.front().number <= number) ring.pop_front();
}

}  // namespace

bool wanted(const wire::TraceFilter& filter, const wire::TraceRecord& record) {
  if (record.took < filter.slower) return false;
  if (!wire::of_client(record)) return true;
  return (!filter.client || *filter.client == record.client.address) &&
         (!filter.operation || *filter.operation == wire::TraceOperation{record.program, record.procedure}) &&
         (!filter.file || *filter.file == record.file);
}

Tracer::Tracer(const std::string& name, std::string data, Metrics& metrics)
    : data_(std::move(data)),
      lost_(metrics.counter("trace_records_lost_total",
                            "operations that somebody watched and that found no room in the ring")),
      watches_now_(metrics.gauge("trace_watches", "who watches operations now")),
      slow_(metrics.counter("slow_operations_total",
                            "operations of clients that took slow_operation_ms or longer here")),
      slow_log_(name) {}

void Tracer::log_slower(Duration than) {
  std::lock_guard lock(mutex_);
  slower_than_.store(than.count(), std::memory_order_relaxed);
  set_on();
}

void Tracer::set_on() {
  const bool watched = counting_ || !watches_.empty();
  watched_.store(watched, std::memory_order_relaxed);
  on_.store(watched || slower_than_.load(std::memory_order_relaxed) != 0, std::memory_order_relaxed);
}

void Tracer::finished(wire::TraceRecord record, MonoTime now) {
  const Duration slower_than(slower_than_.load(std::memory_order_relaxed));
  const bool slow = slower_than > Duration(0) && record.took >= slower_than && wire::of_client(record);
  if (!slow && !watched_.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(mutex_);
  if (slow) {
    slow_.add();
    slow_log_.note(record);
  }
  end_old(now);
  if (counting_ && wire::of_client(record) && record.program == nfs3::kProgram) count(record);
  for (Watch& watch : watches_) {
    if (wanted(watch.filter, record)) keep(watch, record);
  }
}

void Tracer::count(const wire::TraceRecord& record) {
  clients_.add({.client = record.client.address}, record);
  procedures_.add({.number = record.procedure}, record);
  if (record.file != FileId{}) files_.add({.number = record.file.value}, record);
}

void Tracer::keep(Watch& watch, const wire::TraceRecord& record) {
  auto& ring = wire::of_client(record) ? watch.calls : watch.internal;
  if (ring.size() >= kRing) {
    ring.pop_front();
    ++watch.lost;
    lost_.add();
  }
  ring.push_back(record);
  ring.back().number = ++watch.last;
}

void Tracer::end_old(MonoTime now) {
  std::erase_if(watches_, [now](const Watch& watch) { return watch.until <= now; });
  if (counting_ && top_until_ <= now) {
    counting_ = false;
    for (TopCounts* counts : {&clients_, &files_, &procedures_}) counts->clear();
  }
  watches_now_.set(watches_.size() + (counting_ ? 1 : 0));
  set_on();
}

Tracer::Watch* Tracer::find(const wire::TraceArgs& args, MonoTime now) {
  const MonoTime until = now + lease_of(args.lease_ms);
  auto found = std::find_if(watches_.begin(), watches_.end(),
                            [&](const Watch& each) { return each.id == args.watch; });
  if (found != watches_.end()) {
    found->until = until;
    return &*found;
  }
  if (args.lease_ms == 0 || watches_.size() >= kMostWatches) return nullptr;
  watches_.push_back({.id = args.watch, .filter = args.filter, .until = until, .calls = {}, .internal = {}});
  return &watches_.back();
}

wire::TraceResult Tracer::trace(const wire::TraceArgs& args, MonoTime now) {
  std::lock_guard lock(mutex_);
  end_old(now);
  wire::TraceResult result{.refused = {}, .data = data_, .records = {}};
  Watch* watch = find(args, now);
  if (watch == nullptr) {
    if (args.lease_ms != 0) result.refused = "as many as can are watching already";
    return result;
  }
  drop_received(watch->calls, args.after);
  drop_received(watch->internal, args.after);
  // In the order of their numbers, so that what is received can be told by one number.
  auto call = watch->calls.begin(), internal = watch->internal.begin();
  while (result.records.size() < wire::kMaxTraceRecords) {
    const bool no_call = call == watch->calls.end(), no_internal = internal == watch->internal.end();
    if (no_call && no_internal) break;
    const bool take_call = no_internal || (!no_call && call->number < internal->number);
    result.records.push_back(take_call ? *call++ : *internal++);
  }
  result.lost = watch->lost;
  end_old(now);  // where the lease is 0
  return result;
}

wire::TopResult Tracer::top(const wire::TopArgs& args, MonoTime now) {
  std::lock_guard lock(mutex_);
  end_old(now);
  if (args.lease_ms > 0 && !std::exchange(counting_, true)) top_since_ = now;
  top_until_ = std::max(top_until_, now + lease_of(args.lease_ms));
  wire::TopResult result;
  if (counting_) {
    result.counted = now - top_since_;
    result.clients = clients_.entries();
    result.files = files_.entries();
    result.procedures = procedures_.entries();
  }
  end_old(now);
  return result;
}

}  // namespace slice::service
