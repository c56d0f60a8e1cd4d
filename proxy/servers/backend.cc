#include "proxy/servers/backend.h"

#include <algorithm>
#include <utility>

#include "common/log.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;

constexpr Duration kFirstBackoff = 50ms, kLastBackoff = 200ms;
// Without a byte from a server that owes replies; and between its answer to a probe and the next.
constexpr Duration kSuspicion = 500ms;

bool is_bulk(const Leg& leg) {
  return leg.request_size > kStoreLimit || leg.expected_reply > kStoreLimit;
}

}  // namespace

Backend::Backend(Plumbing plumbing, rpc::Endpoint to, CallEncoder& encoder, Servers& all, Metrics& metrics,
                 Histogram* latency)
    : plumbing_(plumbing),
      to_(to),
      all_(all),
      reconnects_(metrics.counter("proxy_backend_reconnects_total", "connections to servers opened again")),
      resends_(metrics.counter("proxy_requests_sent_again_total",
                               "requests sent again after a server's connection broke")),
      latency_(latency),
      probe_(plumbing, to, encoder, static_cast<Probe::Listener&>(*this)),
      backoff_(kFirstBackoff) {}

Backend::~Backend() {
  plumbing_.loop.cancel(timer_);
}

std::unique_ptr<BackendConnection> Backend::connect() {
  auto made =
      std::make_unique<BackendConnection>(plumbing_, to_, static_cast<BackendConnection::Listener&>(*this));
  return made->open() ? std::move(made) : nullptr;
}

BackendConnection* Backend::short_connection() {
  if (short_ == nullptr || short_->closed()) short_ = connect();
  return short_.get();
}

BackendConnection* Backend::bulk_connection() {
  BackendConnection* best = nullptr;
  for (auto& connection : bulk_) {
    if (connection->closed() || connection->uploading()) continue;
    if (best == nullptr || connection->pending() + connection->queued() < best->pending() + best->queued()) {
      best = connection.get();
    }
  }
  bool idle = best != nullptr && best->pending() == 0 && best->queued() == 0;
  if (idle || bulk_.size() >= kBulkConnections) return best;
  if (auto made = connect()) {
    bulk_.push_back(std::move(made));
    return bulk_.back().get();
  }
  return best;
}

rpc::Dispatcher* Backend::local_server() {
  if (local_ == nullptr) local_ = plumbing_.local.find(to_);
  return local_;
}

void Backend::wait(Leg& leg) {
  waiting_.push_back(leg);
  leg.set_waits(true);
}

void Backend::send(Leg& leg) {
  leg.latency = latency_;
  leg.server = to_;
  if (rpc::Dispatcher* local = local_server()) return plumbing_.local.send(leg, *local);
  if (down_) return wait(leg);
  BackendConnection* connection = is_bulk(leg) ? bulk_connection() : nullptr;
  if (connection == nullptr) connection = short_connection();
  if (connection == nullptr) {
    wait(leg);
    return go_down();
  }
  if (leg.sends > 0) resends_.add();
  connection->send(leg);
}

BackendConnection* Backend::begin_upload(Leg& leg) {
  if (down_ || local_server() != nullptr) return nullptr;
  BackendConnection* connection = bulk_connection();
  if (connection == nullptr || !connection->connected()) return nullptr;
  leg.latency = latency_;
  leg.server = to_;
  connection->begin_upload(leg);
  return connection;
}

void Backend::go_down() {
  if (!std::exchange(down_, true)) backoff_ = kFirstBackoff;
  try_again();
}

void Backend::come_up() {
  log_info("server {} can be reached again", rpc::to_string(to_));
  down_ = false;
  backoff_ = kFirstBackoff;
  release_waiting();
}

void Backend::on_alive() {
  if (down_) come_up();
}

// The kernel of a host accepts connections for a process that hangs, and a host that is gone says nothing:
// only an answer shows that somebody serves.
void Backend::on_dead(std::string_view why) {
  std::vector<BackendConnection*> all;
  for (auto& connection : bulk_) all.push_back(connection.get());
  if (short_ != nullptr) all.push_back(short_.get());
  for (BackendConnection* connection : all) connection->fail(why);
  go_down();
}

void Backend::release_waiting() {
  IntrusiveList<Leg, LegTag> again;
  again.take_all(waiting_);
  while (!again.empty()) {
    Leg* leg = again.front();
    leg->ListHook<LegTag>::unlink();
    all_.send(*leg);
  }
}

void Backend::on_broken(BackendConnection& connection, IntrusiveList<Leg, LegTag>& orphans,
                        std::string_view why) {
  if (orphans.empty()) {
    log_info("connection to server {} lost: {} (no requests were under way)", rpc::to_string(to_), why);
  } else {
    log_warning("connection to server {} lost: {} (requests under way are sent again)", rpc::to_string(to_),
                why);
  }
  while (!orphans.empty()) wait(*orphans.front());
  retire(connection);
  reconnects_.add();
  go_down();
}

void Backend::retire(BackendConnection& connection) {
  std::unique_ptr<BackendConnection> old;
  if (short_.get() == &connection) {
    old = std::move(short_);
  } else {
    for (auto& candidate : bulk_) {
      if (candidate.get() != &connection) continue;
      old = std::move(candidate);
      candidate = std::move(bulk_.back());
      bulk_.pop_back();
      break;
    }
  }
  // It is on the stack above us.
  if (old == nullptr) return;
  retired_.push_back(std::move(old));
  if (retired_.size() == 1) plumbing_.loop.post([this] { retired_.clear(); });
}

// Asks after a while whether it is there; until it answers, legs wait here.
void Backend::try_again() {
  if (timer_ != TimerId::kNone) return;
  timer_ = plumbing_.loop.after(backoff_, [this] {
    timer_ = TimerId::kNone;
    if (!down_) return;
    backoff_ = std::min(backoff_ * 2, Duration(kLastBackoff));
    // One connection alone was lost?
    for (auto& connection : bulk_) {
      if (connection->connected()) return come_up();
    }
    if (short_ != nullptr && short_->connected()) return come_up();
    probe_.ask();
  });
}

bool Backend::owes_replies(MonoTime now) const {
  auto silent = [&](const auto& one) { return one != nullptr && one->silent_for(now) > kSuspicion; };
  return silent(short_) || std::any_of(bulk_.begin(), bulk_.end(), silent);
}

void Backend::tick() {
  MonoTime now = plumbing_.loop.now();
  if (short_ != nullptr) short_->tick(now);
  for (std::size_t i = 0; i < bulk_.size(); ++i) {
    BackendConnection* connection = bulk_[i].get();
    connection->tick(now);
    if (i < bulk_.size() && bulk_[i].get() != connection) --i;
  }
  probe_.tick();
  // A table that has changed since sends what waits elsewhere, and what does not comes back here.
  if (down_) release_waiting();
  bool wanted = down_ ? timer_ == TimerId::kNone : owes_replies(now);
  if (!wanted) return probe_.rest();
  if (down_ || now - probe_.answered_at() > kSuspicion) probe_.ask();
}

}  // namespace slice::proxy
