#include "rpc/admission.h"

#include <algorithm>
#include <utility>

#include "rpc/endpoint.h"
#include "rpc/free_memory.h"

namespace slice::rpc {
namespace {

constexpr std::size_t kCallsOfEverybody = 16;       // that an address may have, however many call
constexpr std::size_t kBytesOfACall = 16 << 10;     // held: a call that has more counts as several
constexpr std::size_t kCallsARound = 64;            // of one address, while several call
constexpr std::size_t kWorthGivingBack = 64 << 20;  // bytes
constexpr std::uint64_t kIdleTicks = 30;            // after which a connection goes for one of an equal

constexpr std::array<std::string_view, 5> kReasonTexts{"idle for too long", "its replies are not read",
                                                       "a record comes too slowly", "others need its place",
                                                       "it holds the most memory"};
constexpr std::array<std::string_view, 5> kReasonNames{"idle", "unread", "slow_record", "crowded", "memory"};

}  // namespace

Admission::Admission(Loop& loop, Limits limits, Metrics& metrics)
    : loop_(loop),
      made_with_(std::move(limits)),
      limits_(made_with_),
      waited_(metrics.counter(
          "connections_waited_total",
          "times that a connection was not read since its client, or all clients, had too much under way")),
      memory_now_(metrics.gauge("connections_memory_bytes", "memory that connections and their calls hold")) {
  for (std::size_t i = 0; i < kReasons; ++i) {
    ended_[i] = &metrics.counter("connections_ended_total",
                                 "clients' connections that the server ended, by why: idle, unread replies, "
                                 "a slow_record, crowded (another needed the place), memory",
                                 {{"why", kReasonNames[i]}});
  }
}

Admission::~Admission() {
  loop_.cancel(timer_);
}

std::shared_ptr<Admission> Admission::make(Loop& loop, Limits limits, Metrics& metrics) {
  auto made = std::make_shared<Admission>(loop, std::move(limits), metrics);
  made->round_end_ = loop.at_round_end([weak = std::weak_ptr(made)] {
    if (auto self = weak.lock()) self->round_ends();
  });
  return made;
}

void Admission::limit_clients(const ClientLimits& limits) {
  auto set = [](std::size_t& limit, std::uint64_t given, std::size_t otherwise) {
    limit = given != 0 ? given : otherwise;
  };
  set(limits_.connections, limits.connections, made_with_.connections);
  set(limits_.client_connections, limits.connections_of_address, made_with_.client_connections);
  set(limits_.memory, limits.memory, made_with_.memory);
  set(limits_.client_memory, limits.memory_of_address, made_with_.client_memory);
  set(limits_.calls, limits.calls, made_with_.calls);
  set(limits_.client_calls, limits.calls_of_address, made_with_.client_calls);
  look_at_memory_ = true;
  wake();
}

// Members come and go.

Admission::Share& Admission::share_of(IpAddress address, bool peer) {
  auto& share = shares_[{address, peer}];
  if (share == nullptr) {
    share = std::make_unique<Share>();
    share->address = address;
    share->peer = peer;
  }
  return *share;
}

void Admission::drop_if_empty(Share& share) {
  if (!share.members.empty()) return;
  if (share.in_turn) std::erase(waiting_, &share);
  shares_.erase({share.address, share.peer});
}

// Adds what the member has to the share's and the pool's figures, or takes it out of them.
void Admission::put_into(Member& member, Share& share, int sign) {
  Pool& pool = pool_of(share);
  auto change = [sign](std::size_t& figure, std::size_t by) {
    figure = sign > 0 ? figure + by : figure - by;
  };
  std::size_t connections = member.open_ && member.connection_ ? 1 : 0;
  change(share.connections, connections);
  change(pool.connections, connections);
  change(share.memory, member.memory_);
  change(pool.memory, member.memory_);
  change(share.calls, member.calls_);
  change(share.calls_aside, member.calls_aside_);
  change(share.memory_aside, member.memory_aside_);
  change(pool.calls, member.calls_);
}

void Admission::enter(Member& member, IpAddress address, bool connection) {
  Share& share = share_of(address, is_peer(address));
  member.admission_ = shared_from_this();
  member.share_ = &share;
  member.place_ = share.members.insert(share.members.end(), &member);
  member.open_ = true;
  member.connection_ = connection;
  put_into(member, share, 1);
  if (timer_ == TimerId::kNone) timer_ = loop_.after(limits_.tick, [this] { tick(); });
}

bool Admission::join(Member& member, IpAddress address) {
  bool room = is_peer(address) ? peers_.connections < limits_.peer_connections : make_room(address);
  if (room) enter(member, address, true);
  return room;
}

void Admission::join_datagrams(Member& member, IpAddress address) {
  enter(member, address, false);
}

Admission::Member::~Member() {
  if (admission_ == nullptr) return;
  leave();
  admission_->pool_of(*share_).leaving -= memory_;
  admission_->put_into(*this, *share_, -1);
  share_->members.erase(place_);
  admission_->drop_if_empty(*share_);
}

void Admission::Member::leave() {
  if (admission_ == nullptr || !open_) return;
  if (waits_ == Waits::kForOthers) share_->waiting.erase(waiting_place_);
  waits_ = Waits::kNot;
  Pool& pool = admission_->pool_of(*share_);
  if (connection_) {
    --share_->connections;
    --pool.connections;
  }
  pool.leaving += memory_;
  open_ = false;
}

bool Admission::Member::peer() const {
  return share_ != nullptr && share_->peer;
}

void Admission::Member::sealed_call_came() {
  if (admission_ == nullptr || share_->peer) return;
  Admission& admission = *admission_;
  if (admission.peers_.connections >= admission.limits_.peer_connections) return;
  Share& before = *share_;
  Share& after = admission.share_of(before.address, true);
  if (waits_ == Waits::kForOthers) {
    before.waiting.erase(waiting_place_);
    waits_ = Waits::kForItself;
  }
  admission.put_into(*this, before, -1);
  after.members.splice(after.members.end(), before.members, place_);
  share_ = &after;
  admission.put_into(*this, after, 1);
  admission.drop_if_empty(before);
  eased();
}

// Room for one more connection of that address.
bool Admission::make_room(IpAddress address) {
  auto found = shares_.find({address, false});
  std::size_t own = found == shares_.end() ? 0 : found->second->connections;
  if (own >= limits_.client_connections) {
    Member* victim = longest_idle(*found->second);
    if (victim == nullptr || victim->calls_ > 0) return false;
    end(*victim, Why::kCrowded);
  } else if (clients_.connections >= limits_.connections) {
    Share* most = most_connected();
    Member* victim = most == nullptr ? nullptr : longest_idle(*most);
    if (victim == nullptr) return false;
    // Of an equal one what was idle for long, of its own what is idle now.
    bool more = most->connections > own + 1;
    bool idle = victim->calls_ == 0 && (most->address == address || victim->idle_ticks_ >= kIdleTicks);
    if (!more && !idle) return false;
    end(*victim, Why::kCrowded);
  }
  return true;
}

Admission::Share* Admission::most_connected() {
  Share* most = nullptr;
  for (auto& [key, share] : shares_) {
    if (!share->peer && (most == nullptr || share->connections > most->connections)) most = share.get();
  }
  return most;
}

// Among connections; of those without calls where there is one.
Admission::Member* Admission::longest_idle(Share& share) {
  Member* first = nullptr;
  for (Member* member : share.members) {
    if (!member->open_ || !member->connection_) continue;
    if (member->calls_ == 0) return member;
    if (first == nullptr) first = member;
  }
  return first;
}

void Admission::end(Member& member, Why why) {
  auto index = static_cast<std::size_t>(why);
  ended_[index]->add();
  if (log_limits_.allow(why)) {
    log_warning("closed a connection: {} connections={} calls={} memory={} from={}", kReasonTexts[index],
                member.share_->connections, member.calls_, member.memory_,
                address_text(member.share_->address));
  }
  member.on_end(kReasonTexts[index]);
}

// What they hold.

std::size_t Admission::call_limit() const {
  if (active_ <= 1) return limits_.client_calls;
  return std::min(limits_.client_calls, std::max(kCallsOfEverybody, limits_.shared_calls / active_));
}

// Who asks for much at once keeps servers, and the network, as busy as who asks often. One call is
// everybody's, however large.
std::size_t Admission::weight(const Share& share) const {
  if (active_ <= 1) return share.calls;
  const std::size_t calls = share.calls - share.calls_aside;
  return calls == 0 ? 0 : std::max(calls, (share.memory - share.memory_aside) / kBytesOfACall);
}

bool Admission::at_round_limit(const Share& share) const {
  return active_ > 1 && share.round == loop_.now() && share.calls_of_round >= kCallsARound;
}

bool Admission::may_take(const Share& share) const {
  if (share.peer) return peers_.calls < limits_.peer_calls && peers_.memory < limits_.peer_memory;
  if (weight(share) >= call_limit() || at_round_limit(share)) return false;
  if (clients_.calls >= limits_.calls || share.memory >= limits_.client_memory) return false;
  if (clients_.memory < limits_.memory / 4 * 3) return true;
  return share.memory < limits_.memory / 4 / shares_.size();
}

bool Admission::Member::within_own_limits() const {
  const Limits& limits = admission_->limits_;
  return calls_ < (share_->peer ? limits.peer_connection_calls : limits.connection_calls) &&
         memory_ < (share_->peer ? limits.peer_connection_memory : limits.connection_memory);
}

bool Admission::Member::may_take() const {
  return open_ && waits_ != Waits::kForOthers && within_own_limits() && admission_->may_take(*share_);
}

void Admission::Member::wait() {
  if (!open_ || waits_ != Waits::kNot) return;
  if (!within_own_limits()) {
    waits_ = Waits::kForItself;
    return;
  }
  admission_->waited_.add();
  waits_ = Waits::kForOthers;
  waiting_place_ = share_->waiting.insert(share_->waiting.end(), this);
  admission_->queue(*share_);
  admission_->wake();
}

// It has less than before: where that was what it waited for, it goes on at the end of the round.
void Admission::Member::eased() {
  if (waits_ != Waits::kForItself || !within_own_limits()) return;
  waits_ = Waits::kNot;
  wait();
}

void Admission::Member::call_begins() {
  ++calls_;
  ++taken_;
  ++share_->calls;
  ++admission_->pool_of(*share_).calls;
  admission_->begins(*this);
}

void Admission::begins(Member& member) {
  Share& share = *member.share_;
  if (member.used_at_tick_ != ticks_) {
    member.used_at_tick_ = ticks_;
    share.members.splice(share.members.end(), share.members, member.place_);
  }
  if (share.peer) return;
  if (share.called_at_tick + 1 < ticks_) ++active_;
  share.called_at_tick = ticks_;
  MonoTime now = loop_.now();
  if (share.round != now) share.calls_of_round = 0;
  share.round = now;
  ++share.calls_of_round;
}

void Admission::Member::call_ends() {
  --calls_;
  --share_->calls;
  --admission_->pool_of(*share_).calls;
  if (waits_ != Waits::kNot) eased();
}

void Admission::Member::hold(std::size_t bytes) {
  Pool& pool = admission_->pool_of(*share_);
  memory_ += bytes;
  share_->memory += bytes;
  pool.memory += bytes;
  if (!open_) pool.leaving += bytes;
  const Limits& limits = admission_->limits_;
  if (share_->peer || (pool.memory <= limits.memory && share_->memory <= 2 * limits.client_memory)) return;
  admission_->look_at_memory_ = true;
  admission_->wake();
}

void Admission::Member::release(std::size_t bytes) {
  Pool& pool = admission_->pool_of(*share_);
  memory_ -= bytes;
  share_->memory -= bytes;
  pool.memory -= bytes;
  if (!open_) pool.leaving -= bytes;
  if (waits_ != Waits::kNot) eased();
}

void Admission::Member::set_aside(std::size_t bytes) {
  ++calls_aside_;
  ++share_->calls_aside;
  memory_aside_ += bytes;
  share_->memory_aside += bytes;
  admission_->wake();
}

void Admission::Member::take_back(std::size_t bytes) {
  --calls_aside_;
  --share_->calls_aside;
  memory_aside_ -= bytes;
  share_->memory_aside -= bytes;
}

// Where clients hold too much together, or one address does: the open connection with most memory, of the
// address with most.
Admission::Member* Admission::too_large() {
  Member* chosen = nullptr;
  std::size_t most = 0;
  for (auto& [key, share] : shares_) {
    if (share->peer) continue;
    std::size_t together = 0;
    Member* first = nullptr;
    for (Member* member : share->members) {
      if (!member->open_ || !member->connection_) continue;
      together += member->memory_;
      if (first == nullptr || member->memory_ > first->memory_) first = member;
    }
    if (first == nullptr || together <= most) continue;
    most = together;
    chosen = first;
  }
  bool over = clients_.memory - clients_.leaving > limits_.memory || most > 2 * limits_.client_memory;
  return over ? chosen : nullptr;
}

void Admission::keep_memory() {
  if (!std::exchange(look_at_memory_, false)) return;
  while (Member* victim = too_large()) end(*victim, Why::kMemory);
}

void Admission::queue(Share& share) {
  if (std::exchange(share.in_turn, true)) return;
  waiting_.push_back(&share);
}

// Lets one connection go on; false where nothing came of it, nor will without some event.
bool Admission::go_on(Share& share) {
  if (share.waiting.empty()) return false;
  if (!may_take(share)) {
    queue(share);
    return !share.peer && at_round_limit(share);
  }
  Member* member = share.waiting.front();
  share.waiting.pop_front();
  member->waits_ = Member::Waits::kNot;
  if (!share.waiting.empty()) queue(share);
  member->on_room();  // after which neither may be there any more
  return true;
}

// Who waits goes on, one connection of each address in turn. What is not to be had now is looked for again at
// the end of the next round.
void Admission::round_ends() {
  keep_memory();
  bool more = false;
  for (std::size_t left = waiting_.size(); left > 0 && !waiting_.empty(); --left) {
    Share* share = waiting_.front();
    waiting_.pop_front();
    share->in_turn = false;
    more = go_on(*share) || more;
  }
  if (waiting_.empty()) return;
  wake();
  if (more) loop_.post([] {});
}

// Time-outs.

void Admission::tick() {
  timer_ = TimerId::kNone;
  auto self = shared_from_this();
  ++ticks_;
  std::vector<Member*> all;
  std::size_t active = 0;
  for (auto& [key, share] : shares_) {
    all.insert(all.end(), share->members.begin(), share->members.end());
    if (!share->peer && (share->calls > 0 || share->called_at_tick + 1 >= ticks_)) ++active;
  }
  active_ = active;
  for (Member* member : all) look_at(*member);
  give_memory_back();
  if (!shares_.empty()) timer_ = loop_.after(limits_.tick, [this] { tick(); });
}

bool Admission::too_slow(Member::Progress& progress, bool under_way, std::uint64_t counter,
                         const Limits& limits) {
  if (!under_way || progress.ticks == 0) {
    progress = {.ticks = under_way ? 1u : 0u, .at_start = counter};
    return false;
  }
  ++progress.ticks;
  Duration late = limits.tick * static_cast<std::int64_t>(progress.ticks) - limits.patience;
  if (late <= Duration(0)) return false;
  auto seconds = static_cast<double>(late.count()) / 1e9;
  return static_cast<double>(counter - progress.at_start) < seconds * static_cast<double>(limits.rate);
}

void Admission::look_at(Member& member) {
  if (!member.open_ || !member.connection_ || member.share_->peer) return;
  Member::Standing now = member.standing();
  bool called = member.taken_ != member.taken_at_tick_;
  member.taken_at_tick_ = member.taken_;
  bool busy = called || member.calls_ > 0 || now.unread || now.within_record;
  member.idle_ticks_ = busy ? 0 : member.idle_ticks_ + 1;
  Duration idle = limits_.tick * static_cast<std::int64_t>(member.idle_ticks_);
  // A record that follows another is a new one.
  if (called) member.record_ = {};
  // One that may not go on is not slow; but where all of its address wait for records to end, none would.
  bool held_up = member.waiting() && member.share_->calls > 0;
  bool slow = too_slow(member.record_, now.within_record && !held_up, member.received_, limits_);
  bool unread = too_slow(member.unread_, now.unread, member.sent_, limits_);
  if (unread) return end(member, Why::kUnread);
  if (slow) return end(member, Why::kSlowRecord);
  if (idle > (member.taken_ == 0 ? limits_.first_call : limits_.idle)) end(member, Why::kIdle);
}

// The allocator keeps what was freed; after much of it the system gets it back. Not while more is still being
// freed: what comes after would stay.
void Admission::give_memory_back() {
  std::size_t now = clients_.memory + peers_.memory;
  bool falls = now < shown_memory_ && now > 0;
  memory_now_.add(now - shown_memory_);  // several fronts of a process add up
  shown_memory_ = now;
  peak_memory_ = std::max(peak_memory_, now);
  if (falls || peak_memory_ < kWorthGivingBack || now > peak_memory_ / 2) return;
  peak_memory_ = now;
  give_back_free_memory();
}

}  // namespace slice::rpc
