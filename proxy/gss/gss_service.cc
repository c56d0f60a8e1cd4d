#include "proxy/gss/gss_service.h"

#include <utility>

namespace slice::proxy {
namespace {

constexpr std::array<std::string_view, static_cast<std::size_t>(GssService::Refused::kKinds)> kWhy{
    "credential", "context", "verifier", "sequence", "body", "token", "busy", "datagram"};

}  // namespace

GssService::GssService(std::unique_ptr<ContextAcceptor> acceptor, Metrics& metrics)
    : acceptor_(std::move(acceptor)),
      contexts_(metrics, {}),
      established_(metrics.counter("proxy_gss_contexts_made_total",
                                   "security contexts that were made with users who came by Kerberos")),
      unknown_(metrics.counter(
          "proxy_gss_unknown_users_total",
          "security contexts made with users who have no account on this host, and are nobody")) {
  for (std::size_t i = 0; i < kWhy.size(); ++i) {
    refused_[i] = &metrics.counter("proxy_gss_refused_total",
                                   "calls of users who come by Kerberos that were not taken, by why",
                                   {{"why", std::string(kWhy[i])}});
  }
  thread_ = std::thread([this] { run(); });
}

GssService::~GssService() {
  stop();
}

void GssService::stop() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  more_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool GssService::accept(Loop& loop, rpc::Endpoint client, Buffer token,
                        std::function<void(const Made&)> done) {
  {
    const std::lock_guard lock(mutex_);
    std::size_t& of_address = waiting_[client.address];
    if (over_ || jobs_.size() >= kMostWaiting || of_address >= kMostWaitingOfAddress) {
      if (of_address == 0) waiting_.erase(client.address);
      return false;
    }
    ++of_address;
    jobs_.push_back({&loop, client, std::move(token), std::move(done)});
  }
  more_.notify_one();
  return true;
}

void GssService::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    more_.wait(lock, [this] { return over_ || !jobs_.empty(); });
    if (over_) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    if (const auto found = waiting_.find(job.client.address); --found->second == 0) waiting_.erase(found);
    lock.unlock();
    auto made = std::make_shared<Made>(make(job));
    lock.lock();
    // Under the lock: stop() comes back only when nothing more is posted.
    if (!over_) job.loop->post_from_any_thread([made, done = std::move(job.done)] { done(*made); });
  }
}

GssService::Made GssService::make(const Job& job) {
  Accepted accepted = acceptor_->accept(job.token.view());
  Made out{.major = accepted.major, .minor = accepted.minor, .token = std::move(accepted.token)};
  if (accepted.context == nullptr) {
    note(Refused::kToken, job.client, accepted.why);
    return out;
  }
  established_.add();
  if (accepted.user.uid == rpc::kNoUser) {
    unknown_.add();
    if (unknown_log_.allow())
      log_warning("Kerberos: {} is nobody here: {} from={}", accepted.principal, accepted.why,
                  rpc::to_string(job.client));
  } else {
    log_debug("Kerberos: {} is user {} from={}", accepted.principal, accepted.user.uid,
              rpc::to_string(job.client));
  }
  out.context = contexts_.add(std::move(accepted), job.loop->now_exactly());
  return out;
}

void GssService::note(Refused why, rpc::Endpoint client, std::string_view what) {
  refused_[static_cast<std::size_t>(why)]->add();
  const std::lock_guard lock(log_mutex_);
  if (log_limits_.allow(why))
    log_warning("Kerberos: a call is not taken: why={} {} from={}", kWhy[static_cast<std::size_t>(why)], what,
                rpc::to_string(client));
}

}  // namespace slice::proxy
