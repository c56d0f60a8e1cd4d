#include "tests/sim/network.h"

#include <algorithm>
#include <memory>

#include "common/crc32c.h"
#include "rpc/call.h"
#include "wire/nfs3.h"

namespace slice::sim {
namespace {

constexpr std::size_t kTypeAt = 4;  // after the xid: 0 a call, 1 a reply (RFC 5531 section 9)

std::uint32_t xid_of(const Buffer& bytes) {
  return load_be<std::uint32_t>(bytes.data());
}
bool is_reply(const Buffer& bytes) {
  return bytes.size() >= 2 * kTypeAt && load_be<std::uint32_t>(bytes.data() + kTypeAt) == 1;
}

// Of an NFS call: for whom a member sends it, and which bytes it writes.
std::string details(const rpc::CallHeader& call) {
  std::string text;
  auto verifier = rpc::decode_slice_verifier(call.verifier);
  if (call.verifier_flavor == rpc::kAuthSlice && verifier) {
    text += fmt::format(" for {} {:08x} relays={} layout={}", rpc::to_string(verifier->client),
                        verifier->client_xid.value, verifier->relays, verifier->layout.version);
  }
  nfs3::WriteArgs args;
  if (call.procedure == static_cast<std::uint32_t>(nfs3::Procedure::kWrite) &&
      nfs3::decode_arguments(call.arguments, args)) {
    text += fmt::format(" at={}+{} {:08x}", args.offset, args.count, crc32c(args.data));
  }
  return text;
}

// What a datagram is, for people who read the trace.
std::string summary(ByteView bytes) {
  std::string xid =
      bytes.size() < kTypeAt ? "?" : fmt::format("{:08x}", load_be<std::uint32_t>(bytes.data()));
  if (auto call = rpc::decode_call(bytes)) {
    return call->program == nfs3::kProgram
               ? fmt::format("call {} {} {:08x}{}", xid, nfs3::procedure_name(call->procedure), crc32c(bytes),
                             details(*call))
               : fmt::format("call {} {:x}.{} {:08x}", xid, call->program, call->procedure, crc32c(bytes));
  }
  auto reply = rpc::decode_reply(bytes);
  if (!reply || reply->results.size() < sizeof(std::uint32_t))
    return fmt::format("{} of {} bytes", xid, bytes.size());
  return fmt::format("reply {} {} {:08x}", xid, load_be<std::uint32_t>(reply->results.data()), crc32c(bytes));
}

}  // namespace

void SimNetwork::cut(rpc::Endpoint one, rpc::Endpoint other, Duration time, Ways ways) {
  trace_.note("network: nothing passes {} {} and {} for {} ms", ways == Ways::kBoth ? "between" : "from",
              to_string(one), to_string(other), in_milliseconds(time));
  cuts_.push_back({one, other, loop_.now() + time, ways});
}

void SimNetwork::isolate(rpc::Endpoint one, Duration time, Ways ways) {
  cut(one, {}, time, ways);
}

bool SimNetwork::reachable(rpc::Endpoint from, rpc::Endpoint to) {
  std::erase_if(cuts_, [&](const Cut& each) { return each.until <= loop_.now(); });
  return std::none_of(cuts_.begin(), cuts_.end(), [&](const Cut& each) {
    bool anybody = each.other == rpc::Endpoint{};
    return (from == each.one && (anybody || to == each.other)) ||
           (each.ways == Ways::kBoth && to == each.one && (anybody || from == each.other));
  });
}

void SimNetwork::send(rpc::Endpoint from, rpc::Endpoint to, ByteView bytes) {
  if (!reachable(from, to) || random_.chance(faults_.loss)) {
    trace_.note("network: lost {} -> {} {}", to_string(from), to_string(to), summary(bytes));
    return;
  }
  deliver_later(from, to, bytes);
  bool stream = streams_.contains(from) || streams_.contains(to);
  if (!stream && random_.chance(faults_.duplication)) deliver_later(from, to, bytes);
}

void SimNetwork::deliver_later(rpc::Endpoint from, rpc::Endpoint to, ByteView bytes) {
  Duration delay = random_.between(faults_.least_delay, faults_.most_delay);
  bool stream = streams_.contains(from) || streams_.contains(to);
  if (!stream && random_.chance(faults_.straggling))
    delay = random_.between(delay, std::max(delay, faults_.straggler_delay));
  auto copy = std::make_shared<Buffer>(bytes);
  loop_.after(delay, [this, from, to, copy, receiver = receivers_[to], sender = receivers_[from]] {
    if (!reachable(from, to) || receiver == nullptr || receivers_[to] != receiver) return;
    if (is_reply(*copy) && receivers_[from] != sender) return;
    trace_.note("network: {} -> {} {}", to_string(from), to_string(to), summary(copy->view()));
    tamper(from, to, *copy);
    receiver->receive(from, std::move(*copy));
  });
}

SimSocket::SimSocket(ProcessLoop& loop, SimNetwork& network, const Options& options)
    : loop_(loop), network_(network), options_(options), next_xid_(options.first_xid) {
  network_.attach(options_.self, this);
  if (options_.member) network_.add_member(options_.self);
}

void SimSocket::close() {
  network_.attach(options_.self, nullptr);
}

void SimSocket::send(rpc::Endpoint to, ByteView bytes) {
  if (loop_.alive()) network_.send(options_.self, to, bytes);
}

Task<Result<rpc::Response>> SimSocket::call(rpc::Request request) {
  std::uint32_t xid = next_xid_++;
  rpc::Caller caller{.member = options_.member, .sender = options_.sender, .generation = {}};
  Buffer record = rpc::encode_request(request, Xid{xid}, caller, 0);
  SLICE_CO_RETURN_IF_ERROR(rpc::check_call_size(request, record.size()));
  MonoTime deadline = loop_.now() + request.timeout;
  Duration wait = options_.resend_after;
  std::optional<Buffer> reply;
  while (!reply && loop_.now() < deadline) {
    Answer answered;
    waiting_.insert_or_assign(xid, Waiting{request.to, answered});
    TimerId timer =
        loop_.at(std::min(deadline, loop_.now() + wait), [answered] { answered.set(std::nullopt); });
    send(request.to, record.view());
    reply = co_await answered;
    request.to = waiting_[xid].to;
    loop_.cancel(timer);
    wait = std::min(wait * 2, options_.resend_after * 8);
  }
  waiting_.erase(xid);
  if (reply) co_return rpc::open_response(std::move(*reply), 0);
  co_return fail(Errc::kTimedOut, "no answer from {}", to_string(request.to));
}

void SimSocket::moved(rpc::Endpoint from, rpc::Endpoint to) {
  std::vector<Answer> again;
  for (auto& [xid, waiting] : waiting_) {
    if (waiting.to != from) continue;
    waiting.to = to;
    again.push_back(waiting.answer);
  }
  for (const Answer& each : again) each.set(std::nullopt);
}

void SimSocket::receive(rpc::Endpoint from, Buffer bytes) {
  if (!loop_.alive() || bytes.size() < kTypeAt + sizeof(std::uint32_t)) return;
  if (loop_.stopped()) {
    auto kept = std::make_shared<Buffer>(std::move(bytes));
    loop_.post([this, from, kept] { receive(from, std::move(*kept)); });
    return;
  }
  if (!is_reply(bytes)) {
    if (dispatcher_ != nullptr) spawn(answer(*dispatcher_, from, std::move(bytes)));
    return;
  }
  auto found = waiting_.find(xid_of(bytes));
  if (found == waiting_.end()) return;
  Answer waiting = found->second.answer;
  waiting.set(std::move(bytes));
}

Task<void> SimSocket::answer(rpc::Dispatcher& dispatcher, rpc::Endpoint from, Buffer call) {
  auto reply = co_await dispatcher.dispatch(std::move(call), from, 0,
                                            {.member = network_.is_member(from), .datagram = true});
  if (reply) send(from, reply->view());
}

}  // namespace slice::sim
