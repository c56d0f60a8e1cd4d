#include "proxy/gss/gss_contexts.h"

#include <openssl/rand.h>

#include <algorithm>
#include <stdexcept>

namespace slice::proxy {
namespace {

GssContext::Handle new_handle() {
  GssContext::Handle out{};
  if (RAND_bytes(out.data(), static_cast<int>(out.size())) != 1) throw std::runtime_error("no random bytes");
  return out;
}

Buffer encoded(const rpc::AuthSys& user) {
  rpc::XdrWriter out;
  rpc::encode_auth_sys(out, user);
  return out.take();
}

}  // namespace

GssContext::GssContext(Accepted accepted, Handle handle_in, MonoTime ends_in)
    : handle(handle_in),
      principal(std::move(accepted.principal)),
      ends(ends_in),
      context_(std::move(accepted.context)),
      credential_(encoded(accepted.user)) {}

bool GssContext::verify(ByteView bytes, ByteView checksum) {
  const std::lock_guard lock(mutex_);
  return context_->verify(bytes, checksum);
}

bool GssContext::take(std::uint32_t sequence) {
  const std::lock_guard lock(mutex_);
  const auto bit = [&](std::uint32_t number) -> std::pair<std::uint64_t&, std::uint64_t> {
    return {taken_[number % kWindow / 64], std::uint64_t{1} << (number % 64)};
  };
  if (sequence > highest_) {
    // What lies between was not seen yet.
    const std::uint32_t first = sequence - highest_ >= kWindow ? sequence - kWindow + 1 : highest_ + 1;
    for (std::uint32_t number = first; number != sequence; ++number) {
      auto [word, mask] = bit(number);
      word &= ~mask;
    }
    highest_ = sequence;
  } else if (highest_ - sequence >= kWindow) {
    return false;
  } else if (auto [word, mask] = bit(sequence); (word & mask) != 0) {
    return false;
  }
  auto [word, mask] = bit(sequence);
  word |= mask;
  return true;
}

std::optional<Buffer> GssContext::unwrap(ByteView token) {
  const std::lock_guard lock(mutex_);
  return context_->unwrap(token);
}

std::optional<Buffer> GssContext::checksum(ByteView bytes) {
  const std::lock_guard lock(mutex_);
  return context_->checksum(bytes);
}

std::optional<Buffer> GssContext::wrap(ByteView bytes) {
  const std::lock_guard lock(mutex_);
  return context_->wrap(bytes);
}

GssContexts::GssContexts(Metrics& metrics, Limits limits)
    : limits_(limits),
      now_(metrics.gauge(
          "proxy_gss_contexts",
          "security contexts of users who came by Kerberos; at most 16384, and 4096 of a user")),
      evicted_(metrics.counter(
          "proxy_gss_contexts_evicted_total",
          "security contexts that went to make room for others; their clients make new ones")) {}

std::shared_ptr<GssContext> GssContexts::add(Accepted accepted, MonoTime now) {
  const MonoTime ends = now + accepted.lifetime;
  auto made = std::make_shared<GssContext>(std::move(accepted), new_handle(), ends);
  const std::lock_guard lock(mutex_);
  make_room(made->principal);
  const auto user = users_.try_emplace(made->principal).first;
  user->second.push_back(made);
  places_[made->handle] = {user, std::prev(user->second.end())};
  now_.set(places_.size());
  return made;
}

std::shared_ptr<GssContext> GssContexts::find(ByteView handle, MonoTime now) {
  GssContext::Handle key{};
  if (handle.size() != key.size()) return nullptr;
  std::copy(handle.begin(), handle.end(), key.begin());
  const std::lock_guard lock(mutex_);
  const auto found = places_.find(key);
  if (found == places_.end()) return nullptr;
  auto& [user, at] = found->second;
  if ((*at)->ends <= now) {
    forget(found);
    return nullptr;
  }
  user->second.splice(user->second.end(), user->second, at);
  return *at;
}

void GssContexts::remove(const GssContext& context) {
  const std::lock_guard lock(mutex_);
  if (const auto found = places_.find(context.handle); found != places_.end()) forget(found);
}

void GssContexts::forget(std::map<GssContext::Handle, Place>::iterator found) {
  const Place place = found->second;
  places_.erase(found);
  place.user->second.erase(place.at);
  if (place.user->second.empty()) users_.erase(place.user);
  now_.set(places_.size());
}

void GssContexts::make_room(const std::string& principal) {
  auto user = users_.find(principal);
  const bool too_many = user != users_.end() && user->second.size() >= limits_.of_user;
  if (!too_many && places_.size() < limits_.all) return;
  if (!too_many) {
    user = std::max_element(users_.begin(), users_.end(),
                            [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  }
  forget(places_.find(user->second.front()->handle));
  evicted_.add();
}

}  // namespace slice::proxy
