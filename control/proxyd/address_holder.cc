#include "control/proxyd/address_holder.h"

#include <algorithm>
#include <array>
#include <utility>

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;

constexpr Duration kRenewal = 900ms;
// After it was put there; then every kAnnounceStep. Neighbours may miss some, and a host that had the address
// and did not know that it lost it is to hear one.
constexpr std::array<Duration, 7> kAnnouncements{0ms, 50ms, 200ms, 500ms, 1s, 2s, 4s};
constexpr Duration kAnnounceStep = 5s;
constexpr unsigned kPeersRounds = 2;  // connections are looked at every so many rounds
constexpr Duration kDefence = 200ms;  // between announcements against claims
constexpr Duration kAfterFailure = 3s;
// Where no manager answers, and a host has claimed the address: so often it is asked who has it, and so long
// answers may take.
constexpr int kProbes = 3;
constexpr Duration kProbeStep = 300ms;
constexpr Duration kAloneStep = 100ms;  // by the proxy's number: two that ask at once would both hear nothing
constexpr unsigned kAloneSteps = 16;

}  // namespace

AddressHolder::AddressHolder(Seams seams)
    : seams_(std::move(seams)),
      patience_(seams_.patience),
      last_round_(seams_.loop.now()),
      confirmed_at_(last_round_),
      holds_gauge_(seams_.metrics.gauge("proxy_holds_address",
                                        "1 where this proxy has the virtual address, put there by itself")),
      taken_(seams_.metrics.counter("proxy_address_taken_total",
                                    "times that this proxy put the virtual address on its interface")),
      lost_(seams_.metrics.counter("proxy_address_lost_total",
                                   "times that this proxy took the virtual address off its interface")),
      claims_(seams_.metrics.counter("proxy_address_claims_total",
                                     "ARP packets by which another host said that it has the virtual address "
                                     "while this proxy had it")),
      unanswered_(seams_.metrics.counter("proxy_address_unanswered_total",
                                         "questions for the virtual address that no manager answered")),
      waker_(seams_.loop, seams_.host, seams_.metrics) {}

bool AddressHolder::ready() const {
  return started_ && !stopping_ && unfit_.empty() && !failed_;
}

// What a run before left there is a moment old at most. Whose it is now the manager knows; where none answers
// it is this one's.
Task<void> AddressHolder::start() {
  seams_.serve_until(MonoTime{});
  look();
  if (!seams_.host.look().has) co_return;
  holds_ = seams_.begin_anew();
  last_round_ = confirmed_at_ = seams_.loop.now_exactly();
  auto told = co_await ask(kAskPatience);
  if (told && told->known && told->holder != seams_.self) holds_ = false;
  if (!holds_) co_return take_off();
  log_info("has the virtual address from the run before");
  holds_gauge_.set(1);
  last_round_ = seams_.loop.now_exactly();
  renew();
  seams_.serve_until(last_round_ + patience_);
}

void AddressHolder::begin() {
  started_ = true;
  last_round_ = seams_.loop.now_exactly();
  announce_again(0, term_);
  round_and_wait();
}

void AddressHolder::round_and_wait() {
  if (stopping_) return;
  round();
  seams_.loop.after(kRound, [this] { round_and_wait(); });
}

void AddressHolder::round() {
  const MonoTime now = seams_.loop.now_exactly();
  const bool moved = moves(now);
  last_round_ = now;
  look();
  if (failed_ && now - failed_at_ >= kAfterFailure) failed_ = false;
  if (holds_ && !unfit_.empty()) {
    spawn(let_go(*this, unfit_));
  } else if (holds_) {
    if (now - put_at_ >= kRenewal) renew();
    if (holds_) seams_.serve_until(now + patience_);
    be_careful(now);
    if (holds_ && rounds_++ % kPeersRounds == 0) look_at_peers();
  }
  if (moved && !asking_) spawn(ask_and_follow(*this));
}

void AddressHolder::look() {
  AddressHost::Look seen = seams_.host.look();
  if (std::exchange(unfit_, seen.unfit) != seen.unfit) {
    if (!seen.unfit.empty()) log_warning("cannot have the virtual address: {}", seen.unfit);
    if (seen.unfit.empty()) log_info("could have the virtual address");
  }
  if (!seen.has && holds_) put_at_ = {};  // taken away by somebody: it is put there again
  if (seen.has && !holds_ && started_) take_off();
}

void AddressHolder::look_at_peers() {
  peers_ = seams_.host.peers();
  peers_digest_ = peers_.empty() ? 0 : digest(peers_);
}

void AddressHolder::connected() {
  if (!holds_ || stopping_) return;
  look_at_peers();
  if (peers_digest_ != peers_told_ && !asking_) spawn(ask_and_follow(*this));
}

void AddressHolder::renew() {
  if (Status put = seams_.host.put(address_life(patience_)); !put) {
    failed_ = true;
    failed_at_ = seams_.loop.now_exactly();
    spawn(let_go(*this, put.error().message));
    return;
  }
  put_at_ = seams_.loop.now_exactly();
}

bool AddressHolder::moves(MonoTime now) {
  if (!holds_ || now - last_round_ <= patience_) return true;
  spawn(let_go(*this, fmt::format("this process stood still for {} ms", in_milliseconds(now - last_round_))));
  return false;
}

void AddressHolder::be_careful(MonoTime now) {
  const bool silent = now - confirmed_at_ > patience_;
  if (std::exchange(said_silent_, silent) != silent)
    log_warning("the manager {}: keeps the virtual address", silent ? "does not answer" : "answers again");
  const bool careful = now - confirmed_at_ > careful_after(patience_);
  if (std::exchange(careful_, careful) == careful) return;
  seams_.remember_nothing(careful);
  if (careful) spawn(seams_.save());
}

Task<std::optional<wire::HoldAddressResult>> AddressHolder::ask(Duration patience) {
  const std::uint64_t term = term_;
  const MonoTime asked = seams_.loop.now_exactly();
  wire::HoldAddressArgs args{.server = seams_.self,
                             .ready = ready(),
                             .holds = holds_ || letting_go_,
                             .run = seams_.run,
                             .number = ++questions_};
  if (holds_ && peers_digest_ != peers_told_) args.peers = peers_;
  auto told = co_await seams_.ask(args, patience);
  const MonoTime now = seams_.loop.now_exactly();
  if (!told) {
    unanswered_.add();
    co_return std::nullopt;
  }
  // An answer that lay in the socket while this process stood still, or to what was so before.
  if (!moves(now) || term != term_ || now - asked > patience_ / 2) co_return std::nullopt;
  patience_ = bounded_patience(told->patience_ms);
  if (!told->known || told->holder == seams_.self) confirmed_at_ = asked;
  peers_told_ = told->peers_digest;
  peers_asked_ = args.peers.empty() ? 0 : peers_digest_;
  co_return std::move(*told);
}

Task<void> AddressHolder::ask_and_follow(AddressHolder& self) {
  self.asking_ = true;
  auto told = co_await self.ask(kAskPatience);
  self.asking_ = false;
  if (!told || self.stopping_) co_return;
  self.follow(*told);
  // A manager that has just started is to know at once: the holder may be gone in a moment.
  if (self.holds_ && self.peers_told_ != self.peers_digest_ && self.peers_asked_ != self.peers_digest_)
    spawn(ask_and_follow(self));
}

void AddressHolder::follow(const wire::HoldAddressResult& told) {
  alone_ = false;
  if (!told.known) return;
  if (told.holder == seams_.self) {
    if (holds_ || letting_go_ || !ready()) return;
    take("the manager says so");
    if (holds_) waker_.wake(told.peers, [this, term = term_] { return holds_ && term == term_; });
  } else if (holds_) {
    spawn(let_go(*this, told.holder == wire::kNoServer
                            ? "the manager says so"
                            : fmt::format("the manager gave it to {}", seams_.name_of(told.holder))));
  }
}

// In this order: what is left of connections from an earlier time would answer clients by old numbers; with
// none of it they get a reset, and connect anew at once.
void AddressHolder::take(const std::string& why) {
  if (!seams_.begin_anew()) return;  // in the next round
  seams_.host.drop_connections(seams_.keeps);
  const MonoTime now = seams_.loop.now_exactly();
  if (Status put = seams_.host.put(address_life(patience_)); !put) {
    log_error("cannot take the virtual address: {}", put.error().message);
    failed_ = true;
    failed_at_ = now;
    return;
  }
  holds_ = true;
  ++term_;
  put_at_ = last_round_ = now;
  be_careful(now);
  seams_.serve_until(now + patience_);
  holds_gauge_.set(1);
  taken_.add();
  log_warning("takes the virtual address: {}", why);
  announce_again(0, term_);
  if (!asking_) spawn(ask_and_follow(*this));
}

Task<void> AddressHolder::let_go(AddressHolder& self, std::string why) {
  if (!std::exchange(self.holds_, false)) co_return;
  self.letting_go_ = true;
  ++self.term_;
  self.take_off();
  self.seams_.serve_until(MonoTime{});
  self.holds_gauge_.set(0);
  self.lost_.add();
  log_warning("gives up the virtual address: {}", why);
  co_await self.seams_.save();
  self.letting_go_ = false;
  if (!self.stopping_ && !self.asking_) spawn(ask_and_follow(self));
}

void AddressHolder::take_off() {
  if (Status off = seams_.host.take_off(); !off)
    log_error("cannot take the virtual address off: {}", off.error().message);
  seams_.host.drop_connections(seams_.keeps);
}

void AddressHolder::announce_again(std::size_t number, std::uint64_t term) {
  if (!holds_ || term != term_) return;
  seams_.host.announce();
  announced_at_ = seams_.loop.now_exactly();
  const Duration wait = number + 1 < kAnnouncements.size()
                            ? kAnnouncements[number + 1] - kAnnouncements[number]
                            : kAnnounceStep;
  seams_.loop.after(wait, [this, number, term] { announce_again(number + 1, term); });
}

// The manager is asked before anything is given up: it answers within a millisecond, and anybody on the
// clients' link can send such a packet.
void AddressHolder::claimed(const std::string& by) {
  claimed_at_ = seams_.loop.now_exactly();
  if (!holds_) return;
  claims_.add();
  if (claim_log_.allow()) log_warning("{} says by ARP that it has the virtual address", by);
  if (!contesting_) spawn(contest(*this, by));
}

Task<void> AddressHolder::contest(AddressHolder& self, std::string by) {
  self.contesting_ = true;
  auto told = co_await self.ask(kContestPatience);
  self.contesting_ = false;
  if (self.stopping_ || !self.holds_) co_return;
  if (!told) {
    self.alone_ = true;
    co_await let_go(self, fmt::format("{} says that it has it, and no manager answers", by));
    if (!self.stopping_) spawn(look_whether_alone(self));
    co_return;
  }
  self.follow(*told);
  if (self.holds_) self.defend(by);
}

void AddressHolder::defend(const std::string& against) {
  if (std::exchange(defends_, true)) return;
  const MonoTime now = seams_.loop.now_exactly();
  const Duration since = now - announced_at_;
  seams_.loop.after(since >= kDefence ? 0ms : kDefence - since, [this, against, term = term_] {
    defends_ = false;
    if (!holds_ || term != term_) return;
    seams_.host.announce();
    announced_at_ = seams_.loop.now_exactly();
    if (claim_log_.allow()) log_warning("keeps the virtual address against {}: the manager says so", against);
  });
}

// It may have been a lie, or a proxy that has gone since: where nobody has the address it is taken back.
Task<void> AddressHolder::look_whether_alone(AddressHolder& self) {
  while (self.alone_ && !self.holds_ && !self.stopping_) {
    const MonoTime began = self.seams_.loop.now_exactly();
    co_await self.seams_.loop.sleep(kAloneStep * (self.seams_.self % kAloneSteps));
    for (int i = 0; i < kProbes; ++i) {
      if (!self.alone_ || self.stopping_) co_return;
      self.seams_.host.probe();
      co_await self.seams_.loop.sleep(kProbeStep);
    }
    if (self.alone_ && self.ready() && !self.letting_go_ && self.claimed_at_ < began)
      self.take("nobody else has it, and no manager answers");
  }
}

Task<void> AddressHolder::stop() {
  if (std::exchange(stopping_, true)) co_return;
  co_await let_go(*this, "a clean stop");
  letting_go_ = false;
  (void)co_await ask(kContestPatience);
}

std::string AddressHolder::describe() const {
  if (holds_) return "holds the address";
  if (!unfit_.empty()) return "cannot have the address: " + unfit_;
  return "stands by";
}

}  // namespace slice::proxy
