#include "link/target.h"

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "common/log.h"
#include "link/frame.h"
#include "link/randomness.h"
#include "link/target_session.h"
#include "rpc/siphash.h"

namespace slice::link {
namespace {

constexpr std::size_t kEndedRemembered = 256;
// Of answers to who has shown the key and has no session, and of NAKs to who may have shown nothing: the one
// does not use up the other.
constexpr unsigned kAnswersInSecond = 2000, kNaksInSecond = 2000;

Code code_of_opening(const Error& error) {
  switch (error.code) {
    case Errc::kNotFound:
      return Code::kNotFound;
    case Errc::kStale:
      return Code::kTakenAway;
    default:
      return Code::kIo;
  }
}

// At most so many a second.
class Rate {
 public:
  explicit Rate(unsigned most) : most_(most) {}
  bool allow(MonoTime now) {
    if (now - since_ >= std::chrono::seconds(1)) {
      since_ = now;
      used_ = 0;
    }
    return used_++ < most_;
  }

 private:
  const unsigned most_;
  unsigned used_ = 0;
  MonoTime since_{};
};

}  // namespace

class TargetCore : public std::enable_shared_from_this<TargetCore> {
 public:
  TargetCore(Loop& loop, Metrics& metrics, block::Devices& devices, TargetOptions options);

  void serve(FramePort& port);
  void replace_keys(const std::vector<Key>& keys);
  void finish();
  void stop();
  std::size_t sessions() const { return sessions_.size(); }
  std::size_t running() const { return shared_->running; }

 private:
  // A key that clients may have, and what is made of it.
  struct Shared {
    Key key{};
    Keys keys;
  };
  // What a client asked for in its last handshake.
  struct Wanted {
    FramePort* port = nullptr;
    Address peer;
    Shared key;
    Handshake handshake;
  };
  // Of one client's name and one volume.
  struct Place {
    std::shared_ptr<Lane> lane = std::make_shared<Lane>();
    std::shared_ptr<TargetSession> session;
    Buffer welcome;                       // of the session, to be sent again
    std::shared_ptr<block::Device> kept;  // of the session before: it is not closed between the two
    Wanted wanted;
    bool opening = false;
  };
  using PlaceName = std::pair<std::string, std::string>;
  struct Ended {
    Keys keys;
    Code why{};
  };
  struct Instance {
    std::weak_ptr<block::Device> device;
    std::uint64_t number = 0;
  };

  void take(FramePort& port, const Address& from, ByteView bytes);
  void take_first(FramePort& port, const Address& from, const Frame& frame, ByteView bytes);
  void give_ticket(FramePort& port, const Address& from, const Shared& key, ByteView data);
  void shake_hands(FramePort& port, const Address& from, const Shared& key, ByteView data);
  void refuse_session(FramePort& port, const Address& from, const Frame& frame, ByteView bytes);
  void refuse(Refusal why, const FramePort& port, const Address& from);
  void nak(const Wanted& to, Code why);
  std::array<std::uint8_t, 16> ticket_mac(const Address& from, const Nonce& nonce, std::uint64_t time) const;
  bool fresh(const Address& from, const Handshake& handshake) const;
  Task<void> open(std::shared_ptr<TargetCore> self, PlaceName name, std::shared_ptr<Place> place);
  void begin(Place& place, std::shared_ptr<block::Device> device);
  void end(Place& place, Code why, std::string_view because);
  void leave(const Frame& frame);
  std::uint64_t instance_of(const std::string& volume, const std::shared_ptr<block::Device>& device);
  void look_for_idle();
  void forget_empty();
  std::uint64_t now_ns() const { return static_cast<std::uint64_t>(loop_.now().time_since_epoch().count()); }
  void count() {
    shared_->sessions = sessions_.size();
    shared_->metrics.sessions.set(sessions_.size());
  }

  Loop& loop_;
  block::Devices& devices_;
  const TargetOptions options_;
  const std::shared_ptr<SessionShared> shared_;
  std::vector<Shared> keys_;
  Randomness random_;
  const Key ticket_key_;
  std::vector<FramePort*> ports_;
  std::map<PlaceName, std::shared_ptr<Place>> places_;
  std::unordered_map<std::uint64_t, std::shared_ptr<TargetSession>> sessions_;  // by number
  std::map<std::uint64_t, Ended> ended_;
  std::deque<std::uint64_t> ended_order_;
  std::map<std::string, Instance> instances_;
  Rate answers_{kAnswersInSecond}, naks_{kNaksInSecond};
  TimerId look_ = TimerId::kNone;
  bool finishing_ = false, stopped_ = false;
};

TargetCore::TargetCore(Loop& loop, Metrics& metrics, block::Devices& devices, TargetOptions options)
    : loop_(loop),
      devices_(devices),
      options_(std::move(options)),
      shared_(std::make_shared<SessionShared>(loop, metrics, options_.bytes)),
      random_(options_.seed),
      ticket_key_(random_.bytes<16>()) {
  replace_keys(options_.keys);
}

void TargetCore::serve(FramePort& port) {
  ports_.push_back(&port);
  port.set_taker([this, &port](const Address& from, ByteView bytes) { take(port, from, bytes); });
  if (look_ == TimerId::kNone) look_for_idle();
}

void TargetCore::replace_keys(const std::vector<Key>& keys) {
  keys_.clear();
  for (const Key& key : keys) keys_.push_back({key, handshake_keys(key)});
}

void TargetCore::finish() {
  finishing_ = true;
  for (const auto& [number, session] : sessions_) session->tell(Op::kShutdown);
}

void TargetCore::stop() {
  stopped_ = true;
  for (FramePort* port : ports_) port->set_taker({});
  for (const auto& [number, session] : sessions_) session->retire();
  sessions_.clear();
  places_.clear();
  loop_.cancel(look_);
  count();
}

void TargetCore::look_for_idle() {
  const MonoTime now = loop_.now();
  for (const auto& [name, place] : places_) {
    if (place->session != nullptr && place->session->idle() &&
        now - place->session->used_at() >= options_.idle)
      end(*place, Code::kNoSession, "idle");
  }
  forget_empty();
  look_ = loop_.after(options_.idle / 4, [this] { look_for_idle(); });
}

void TargetCore::forget_empty() {
  std::erase_if(places_, [](const auto& each) {
    const Place& place = *each.second;
    return place.session == nullptr && !place.opening && place.lane->quiet();
  });
  std::erase_if(instances_, [](const auto& each) { return each.second.device.expired(); });
}

void TargetCore::refuse(Refusal why, const FramePort& port, const Address& from) {
  shared_->metrics.refuse(why);
  if (shared_->metrics.may_log(why))
    log_warning("link: refused from={} why={}", port.name_of(from), text_of(why));
}

void TargetCore::take(FramePort& port, const Address& from, ByteView bytes) {
  shared_->metrics.frames.add();
  const auto frame = decode(bytes);
  if (!frame) return refuse(Refusal::kMalformed, port, from);
  if (frame->head.session == 0) return take_first(port, from, *frame, bytes);
  const auto found = sessions_.find(frame->head.session);
  if (found == sessions_.end()) return refuse_session(port, from, *frame, bytes);
  if (!authentic(found->second->options().keys.to_target, bytes)) return refuse(Refusal::kForged, port, from);
  if (frame->head.op == Op::kLeave) return leave(*frame);
  if (finishing_) return;
  const auto session = found->second;  // lives until this is done
  session->take(*frame);
}

void TargetCore::leave(const Frame& frame) {
  for (const auto& [name, place] : places_) {
    if (place->session != nullptr && place->session->options().number == frame.head.session)
      end(*place, Code::kNoSession, "left");
  }
  forget_empty();
}

// The number is none of now: after a restart, or of a session that has ended.
void TargetCore::refuse_session(FramePort& port, const Address& from, const Frame& frame, ByteView bytes) {
  refuse(Refusal::kNoSession, port, from);
  if (finishing_ || !naks_.allow(loop_.now())) return;
  const Head nak{.op = Op::kNak, .code = Code::kNoSession, .session = frame.head.session};
  if (const auto found = ended_.find(frame.head.session); found != ended_.end()) {
    if (!authentic(found->second.keys.to_target, bytes)) return;
    Head why = nak;
    why.code = found->second.why;
    return port.send(from, sealed(found->second.keys.to_initiator, why));
  }
  for (const Shared& key : keys_) port.send(from, sealed(key.keys.to_initiator, nak));
}

void TargetCore::take_first(FramePort& port, const Address& from, const Frame& frame, ByteView bytes) {
  if (finishing_) return;
  if (frame.head.op != Op::kHello && frame.head.op != Op::kHandshake)
    return refuse(Refusal::kMalformed, port, from);
  const auto key =
      std::ranges::find_if(keys_, [&](const Shared& each) { return authentic(each.keys.to_target, bytes); });
  if (key == keys_.end()) return refuse(Refusal::kForged, port, from);
  if (!answers_.allow(loop_.now())) return refuse(Refusal::kCrowded, port, from);
  if (frame.head.op == Op::kHello) return give_ticket(port, from, *key, frame.data);
  shake_hands(port, from, *key, frame.data);
}

std::array<std::uint8_t, 16> TargetCore::ticket_mac(const Address& from, const Nonce& nonce,
                                                    std::uint64_t time) const {
  std::array<std::uint8_t, 8> number{};
  store_be(number.data(), time);
  rpc::SipHash128 hash(ticket_key_);
  hash.update(number);
  hash.update(nonce);
  hash.update(from.view());
  return hash.finish();
}

void TargetCore::give_ticket(FramePort& port, const Address& from, const Shared& key, ByteView data) {
  const auto nonce = decode_nonce(data);
  if (!nonce) return refuse(Refusal::kMalformed, port, from);
  const std::uint64_t time = now_ns();
  const TicketAnswer answer{.nonce = *nonce, .ticket = {time, ticket_mac(from, *nonce, time)}};
  port.send(from, sealed(key.keys.to_initiator, {.op = Op::kTicket}, encode(answer).view()));
}

bool TargetCore::fresh(const Address& from, const Handshake& handshake) const {
  const Ticket& ticket = handshake.ticket;
  const std::uint64_t now = now_ns();
  return ticket.time <= now &&
         now - ticket.time <= static_cast<std::uint64_t>(options_.ticket_life.count()) &&
         ticket.mac == ticket_mac(from, handshake.nonce, ticket.time);
}

void TargetCore::shake_hands(FramePort& port, const Address& from, const Shared& key, ByteView data) {
  auto handshake = decode_handshake(data);
  if (!handshake) return refuse(Refusal::kMalformed, port, from);
  if (!fresh(from, *handshake)) return refuse(Refusal::kTicket, port, from);
  const Wanted wanted{.port = &port, .peer = from, .key = key, .handshake = std::move(*handshake)};
  if (wanted.handshake.block + kHeadSize > port.largest()) return nak(wanted, Code::kBlock);
  const PlaceName name(wanted.handshake.client, wanted.handshake.volume);
  if (!places_.contains(name)) forget_empty();
  if (!places_.contains(name) && places_.size() >= options_.sessions) {
    refuse(Refusal::kCrowded, port, from);
    return nak(wanted, Code::kBusy);
  }
  auto& place = places_[name];
  if (place == nullptr) place = std::make_shared<Place>();
  // Not newer than the last one: a copy of it, or what was recorded before it.
  if (wanted.handshake.ticket.time <= place->wanted.handshake.ticket.time &&
      wanted.handshake.nonce != place->wanted.handshake.nonce)
    return refuse(Refusal::kTicket, port, from);
  if (wanted.handshake.nonce == place->wanted.handshake.nonce) {
    if (place->session != nullptr) return port.send(from, Buffer(place->welcome.view()));
    if (place->opening) return;
  }
  if (place->session != nullptr) place->kept = place->session->device();
  end(*place, Code::kTakenAway, "its client has begun anew");
  place->wanted = wanted;
  if (std::exchange(place->opening, true)) return;
  spawn(open(shared_from_this(), name, place));
}

Task<void> TargetCore::open(std::shared_ptr<TargetCore> self, PlaceName name, std::shared_ptr<Place> place) {
  Nonce nonce;
  Result<std::shared_ptr<block::Device>> device = nullptr;
  do {
    nonce = place->wanted.handshake.nonce;
    // What the session before had begun may still change the volume.
    co_await place->lane->until_quiet();
    device = co_await devices_.open(name.second);
  } while (!stopped_ && (nonce != place->wanted.handshake.nonce || !place->lane->quiet()));
  place->opening = false;
  place->kept = nullptr;
  if (stopped_) co_return;
  if (device) {
    begin(*place, std::move(*device));
    co_return;
  }
  shared_->metrics.refuse(Refusal::kVolume);
  if (shared_->metrics.may_log(Refusal::kVolume))
    log_warning("link: volume {}: cannot be opened: {}", name.second, device.error().message);
  nak(place->wanted, code_of_opening(device.error()));
  forget_empty();
  self.reset();
}

void TargetCore::begin(Place& place, std::shared_ptr<block::Device> device) {
  const Wanted& wanted = place.wanted;
  const Handshake& asked = wanted.handshake;
  std::uint64_t number = 0;
  while (number == 0 || sessions_.contains(number) || ended_.contains(number)) number = random_.number();
  Welcome welcome{.nonce = asked.nonce,
                  .size = device->size(),
                  .largest = std::min<std::uint32_t>(options_.largest, kMostBlocks * asked.block),
                  .block = asked.block,
                  .instance = instance_of(asked.volume, device),
                  .opening = device->opening(),
                  .tags = options_.tags};
  welcome.target_nonce = random_.bytes<16>();
  const std::string who = wanted.port->name_of(wanted.peer);
  place.session = std::make_shared<TargetSession>(
      shared_, place.lane, *wanted.port, wanted.peer, std::move(device),
      TargetSession::Options{.number = number,
                             .keys = session_keys(wanted.key.key, asked.nonce, welcome.target_nonce, number),
                             .block = asked.block,
                             .largest = welcome.largest,
                             .tags = options_.tags,
                             .bytes = options_.session_bytes,
                             .name = fmt::format("client={} volume={}", asked.client, asked.volume)});
  sessions_[number] = place.session;
  count();
  shared_->metrics.opened.add();
  if (shared_->metrics.may_log_session())
    log_info("link: session begun {} from={} block={}", place.session->options().name, who, asked.block);
  place.welcome = sealed(wanted.key.keys.to_initiator,
                         {.op = Op::kWelcome, .credit = place.session->credit(), .session = number},
                         encode(welcome).view());
  wanted.port->send(wanted.peer, Buffer(place.welcome.view()));
}

void TargetCore::end(Place& place, Code why, std::string_view because) {
  if (place.session == nullptr) return;
  const auto session = std::exchange(place.session, nullptr);
  const auto& options = session->options();
  session->retire();
  sessions_.erase(options.number);
  count();
  ended_[options.number] = {options.keys, why};
  ended_order_.push_back(options.number);
  if (ended_order_.size() > kEndedRemembered) {
    ended_.erase(ended_order_.front());
    ended_order_.pop_front();
  }
  shared_->metrics.ended.add();
  if (shared_->metrics.may_log_session()) log_info("link: session ended {} why={}", options.name, because);
}

// The same as long as somebody has the device open: with it goes what it keeps that is not flushed.
std::uint64_t TargetCore::instance_of(const std::string& volume,
                                      const std::shared_ptr<block::Device>& device) {
  Instance& instance = instances_[volume];
  if (instance.device.lock() != device) instance = {.device = device, .number = random_.number()};
  return instance.number;
}

void TargetCore::nak(const Wanted& to, Code why) {
  to.port->send(to.peer, sealed(to.key.keys.to_initiator, {.op = Op::kNak, .code = why},
                                encode(to.handshake.nonce).view()));
}

Target::Target(Loop& loop, Metrics& metrics, block::Devices& devices, Options options)
    : core_(std::make_shared<TargetCore>(loop, metrics, devices, std::move(options))) {}

Target::~Target() {
  core_->stop();
}

void Target::serve(FramePort& port) {
  core_->serve(port);
}
void Target::replace_keys(const std::vector<Key>& keys) {
  core_->replace_keys(keys);
}
void Target::finish() {
  core_->finish();
}
std::size_t Target::sessions() const {
  return core_->sessions();
}
std::size_t Target::running() const {
  return core_->running();
}

}  // namespace slice::link
