#include "block/nbd_shared.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "block/nbd_connection.h"
#include "common/log.h"

namespace slice::block {
namespace {

constexpr Duration kLook = std::chrono::seconds(1);
constexpr std::size_t kToldMost = 200;  // bytes of what a client says, and devices of it, in a log line

std::uint32_t longest_request(const NbdOptions& options, const ByteBudget& budget) {
  const std::size_t memory = std::min(options.connection_bytes, budget.most());
  return static_cast<std::uint32_t>(std::min<std::size_t>(options.longest, memory));
}

}  // namespace

NbdShared::NbdShared(rpc::EpollLoop& its_loop, Metrics& its_metrics, Devices& its_devices,
                     NbdOptions its_options)
    : loop(its_loop),
      devices(its_devices),
      options(std::move(its_options)),
      metrics(its_metrics),
      budget(loop, options.bytes, options.connections),
      longest(longest_request(options, budget)) {
  assert(options.connections > 0 && options.requests > 0 && longest > 0);
  assert(!options.only_tls || options.tls != nullptr);
}

void NbdShared::flush_later(std::shared_ptr<NbdConnection> connection) {
  if (!std::exchange(hooked_, true)) {
    round_end_ = loop.at_round_end([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->flush_all();
    });
  }
  dirty_.push_back(std::move(connection));
  round_end_.want();
}

// What is flushed gives room to requests that were read already, which may end at once.
void NbdShared::flush_all() {
  while (!dirty_.empty()) {
    flushing_.swap(dirty_);
    for (const auto& each : flushing_) each->flush();
    flushing_.clear();
  }
}

void NbdShared::look_later() {
  if (look_ != TimerId::kNone) return;
  look_ = loop.after(kLook, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->look();
  });
}

void NbdShared::look() {
  look_ = TimerId::kNone;
  if (!budget.waited_for()) return;
  const MonoTime since = loop.now() - options.patience;
  const auto all = connections;
  for (const auto& each : all) {
    if (each->stands_still(since)) each->end(NbdEnd::kStalled);
  }
  look_later();
}

void NbdShared::close_all() {
  loop.cancel(std::exchange(look_, TimerId::kNone));
  while (!connections.empty()) connections.front()->close("the server ends");
}

void NbdShared::closed(const std::shared_ptr<NbdConnection>& connection) {
  connections.remove(connection);
  metrics.connections.set(connections.size());
}

void NbdShared::refused(NbdRefusal why, std::string_view peer, std::string_view text) {
  metrics.count(why);
  if (!metrics.may_log(NbdLine::kRefused)) return;
  log_warning("refused a block client: {}{}{} from={}", text_of(why), text.empty() ? "" : ": ",
              text.substr(0, kToldMost), peer);
}

void NbdShared::count(const nbd::Request& request, const NbdReply& reply, std::string_view peer) {
  metrics.count(reply.error);
  const bool good = reply.error == nbd::ErrorNumber::kNone;
  if (good && request.command == nbd::Command::kRead) metrics.read.add(request.length);
  if (good && request.command == nbd::Command::kWrite) metrics.written.add(request.length);
  if (reply.failure.empty() || !metrics.may_log(NbdLine::kFailed)) return;
  log_warning("a block client's request failed: command {} of {} bytes at {}: {} from={}",
              static_cast<unsigned>(request.command), request.length, request.offset, reply.failure, peer);
}

}  // namespace slice::block
