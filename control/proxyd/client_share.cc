#include "control/proxyd/client_share.h"

#include <algorithm>
#include <utility>

#include "common/log.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;

constexpr Duration kRenewStep = 900ms;
constexpr unsigned kConnectionRounds = 2;  // connections are looked at every so many rounds
constexpr Duration kLeave = 1500ms, kLeaveStep = 50ms;
// Who has the address goes by its next question: until then clients are sent where they were before.
constexpr Duration kLinger = ClientShare::kRound + 200ms;

}  // namespace

ClientShare::ClientShare(Seams seams)
    : seams_(std::move(seams)),
      patience_(seams_.patience),
      last_round_(seams_.loop.now()),
      confirmed_at_(last_round_),
      waker_(seams_.loop, seams_.host, seams_.metrics),
      slots_gauge_(
          seams_.metrics.gauge("proxy_client_slots",
                               "of the 4096 parts of clients over TCP those that this proxy serves as its "
                               "own; 0 where it stands by, or has the virtual address and serves all")),
      unanswered_(seams_.metrics.counter("proxy_share_unanswered_total",
                                         "questions for clients over TCP that no manager answered")),
      ended_(seams_.metrics.counter("proxy_foreign_connections_ended_total",
                                    "connections of clients that another proxy serves, which were ended")) {}

// What a run before left there is a moment old at most. Whether it serves still the manager knows; where none
// answers it goes on with all who come. Who serves otherwise is to be known before this proxy may get the
// address: the tables of the run before may be old.
Task<void> ClientShare::start() {
  seams_.serve_until(MonoTime{});
  last_round_ = confirmed_at_ = seams_.loop.now_exactly();
  seen_ = seams_.host.look();
  if (seen_.at_loopback && seams_.begin_anew()) {
    all_mine_ = true;
    serve(true);
  }
  co_await ask_and_follow(*this);
}

void ClientShare::begin() {
  started_ = true;
  last_round_ = seams_.loop.now_exactly();
  round_and_wait();
}

void ClientShare::round_and_wait() {
  if (stopping_) return;
  round();
  seams_.loop.after(kRound, [this] { round_and_wait(); });
}

void ClientShare::round() {
  const MonoTime now = seams_.loop.now_exactly();
  const bool moved = moves(now);
  last_round_ = now;
  look(now);
  if (serves_) seams_.serve_until(now + patience_);
  be_careful(now);
  if (rounds_++ % kConnectionRounds == 0) end_foreign();
  bind();
  if (moved && !asking_) spawn(ask_and_follow(*this));
}

void ClientShare::look(MonoTime now) {
  seen_ = seams_.host.look();
  const Program program = seams_.program();
  std::string unfit = seen_.unfit.empty() ? seen_.unshared : seen_.unfit;
  if (unfit.empty() && !program.there && !(program.loading && serves_)) unfit = program.reason;
  sends_on_ = program.there || program.loading;
  unfit_ = std::move(unfit);
  renew_loopback(now);
}

void ClientShare::renew_loopback(MonoTime now) {
  if (!unfit_.empty() && !serves_) {
    if (seen_.at_loopback && now - served_at_ > kLinger) (void)seams_.host.take_off_loopback();
    return;
  }
  if (seen_.at_loopback && now - put_at_ < kRenewStep) return;
  if (Status put = seams_.host.put_at_loopback(address_life(patience_)); !put) {
    unfit_ = put.error().message;
  } else {
    put_at_ = now;
  }
}

bool ClientShare::moves(MonoTime now) {
  if (!serves_ || now - last_round_ <= patience_) return true;
  log_warning("serves its part of the clients no more: this process stood still for {} ms",
              in_milliseconds(now - last_round_));
  current_.clear();
  wanted_.clear();
  slots_ = wanted_slots_ = routing::ClientSlots();
  prepared_ = 0;
  all_mine_ = heard_ = false;
  serve(false);
  end_all();
  return false;
}

void ClientShare::be_careful(MonoTime now) {
  const bool silent = serves_ && now - confirmed_at_ > careful_after(patience_);
  const bool careful =
      silent || preparing_ || prepared_ != 0 || now < changed_at_ + kLinger || (stopping_ && serves_);
  if (std::exchange(careful_, careful) == careful) return;
  seams_.remember_nothing(careful);
  if (silent) spawn(seams_.save());
}

bool ClientShare::is_mine(IpAddress client) const {
  const bool here = std::ranges::find(seams_.addresses, client) != seams_.addresses.end();
  if (here || all_mine_) return true;  // the first: a client on this host
  if (wanted_slots_.of(client) == seams_.self || slots_.of(client) == seams_.self) return true;
  return seams_.holds() && (current_.empty() || !sends_on_);
}

std::uint32_t ClientShare::owner(std::uint32_t slot) const {
  if (current_.empty()) return seams_.self;
  // Who has the address may have heard before this one; itself it must not take clients before it is time.
  if (!seams_.holds() && wanted_slots_.of_slot(slot) == seams_.self) return seams_.self;
  return slots_.of_slot(slot);
}

bool ClientShare::keeps(const wire::AddressPeer& peer) const {
  return serves_ && peer.at == seams_.nfs_port && is_mine(peer.address);
}

// What is left of a connection after its client went to another proxy would answer it by old numbers when it
// comes back.
void ClientShare::end_foreign() {
  if (serves_ && seams_.loop.now_exactly() < changed_at_ + kLinger) return;
  peers_.clear();
  peers_digest_ = 0;
  if (all_mine_ || !(seen_.at_loopback || seen_.has)) return;
  std::uint64_t foreign = 0;
  for (const wire::AddressPeer& peer : seams_.host.peers()) {
    if (peer.at != seams_.nfs_port) continue;
    if (is_mine(peer.address)) {
      peers_.push_back(peer);
    } else {
      ++foreign;
    }
  }
  if (!peers_.empty()) peers_digest_ = digest(peers_);
  if (foreign == 0) return;
  ended_.add(foreign);
  seams_.host.drop_connections(
      [this](const wire::AddressPeer& peer) { return peer.at != seams_.nfs_port || is_mine(peer.address); });
}

void ClientShare::end_all() {
  seams_.host.drop_connections([this](const wire::AddressPeer& peer) { return peer.at != seams_.nfs_port; });
}

void ClientShare::connected() {
  if (!started_ || !serves_ || stopping_ || seams_.holds()) return;
  end_foreign();
  if (peers_digest_ != peers_told_ && !asking_) spawn(ask_and_follow(*this));
}

Task<void> ClientShare::ask_and_follow(ClientShare& self) {
  self.asking_ = true;
  const MonoTime asked = self.seams_.loop.now_exactly();
  const bool fit = (self.started_ ? self.unfit_.empty() : self.serves_) && !self.stopping_;
  wire::ShareClientsArgs args{
      .server = self.seams_.self,
      .run = self.seams_.run,
      .number = ++self.questions_,
      .hardware = self.seen_.hardware,
      .fit = fit,
      .serves = self.serves_ && (self.all_mine_ || wire::has(self.current_, self.seams_.self)),
      .holds = self.seams_.holds(),
      .prepared = self.prepared_,
      .heard = self.heard_,
      .follows = self.current_};
  if (args.serves && self.peers_digest_ != self.peers_told_) args.peers = self.peers_;
  auto told = co_await self.seams_.ask(args, kAskPatience);
  self.asking_ = false;
  const MonoTime now = self.seams_.loop.now_exactly();
  if (!told) self.unanswered_.add();
  // An answer that lay in the socket while this process stood still counts for nothing.
  if (!told || !self.moves(now) || now - asked > self.patience_ / 2) co_return;
  self.peers_told_ = told->peers_digest;
  self.patience_ = bounded_patience(told->patience_ms);
  self.confirmed_at_ = asked;
  if (told->known) self.follow(*told);
}

void ClientShare::follow(const wire::ShareClientsResult& told) {
  if (!heard_ || told.current != current_) follow_current(told.current);
  if (!all_mine_) follow_wanted(told.wanted == told.current ? wire::Sharers{} : told.wanted);
  bind();
  be_careful(seams_.loop.now_exactly());
  if (!seams_.holds() || told.left.empty()) return;
  if (std::exchange(woken_, told.left_ns) != told.left_ns)
    waker_.wake(told.left, [this] { return seams_.holds(); });
}

void ClientShare::follow_current(const wire::Sharers& current) {
  const bool in = wire::has(current, seams_.self);
  if (in && !all_mine_ && digest(current) != prepared_ && !seams_.begin_anew()) return;  // in the next round
  all_mine_ = false;
  heard_ = true;
  current_ = current;
  changed_at_ = seams_.loop.now_exactly();
  slots_ = routing::ClientSlots(current_);
  slots_gauge_.set(slots_.count(seams_.self));
  if (in) log_info("serves {}", describe());
  if (!in && stopping_) return;  // stop() goes on
  if (!in && serves_) spawn(seams_.save());
  serve(in);
  if (!in) end_foreign();
}

void ClientShare::follow_wanted(const wire::Sharers& wanted) {
  if (preparing_) return;
  if (wire::has(wanted, seams_.self)) {
    if (prepared_ == 0 || wanted != wanted_) spawn(prepare(*this, wanted));
    return;
  }
  wanted_.clear();
  wanted_slots_ = routing::ClientSlots();
  prepared_ = 0;
  if (!stopping_) serve(wire::has(current_, seams_.self));
}

// Until all who are to serve are ready nobody gets other clients than before. What this proxy alone knows of
// its clients' files is told by then, and nothing more comes to it; and it takes clients of others at once,
// for it may hear last that they come here.
Task<void> ClientShare::prepare(ClientShare& self, wire::Sharers wanted) {
  self.preparing_ = true;
  self.prepared_ = 0;
  self.be_careful(self.seams_.loop.now_exactly());
  if (self.seams_.begin_anew()) {
    if (!self.serves_ && !self.seams_.holds()) self.end_all();
    self.wanted_ = std::move(wanted);
    self.wanted_slots_ = routing::ClientSlots(self.wanted_);
    self.serve(true);
    self.bind();
    co_await self.seams_.save();
    self.prepared_ = digest(self.wanted_);
  }
  self.preparing_ = false;
  if (!self.asking_ && !self.stopping_) spawn(ask_and_follow(self));
}

void ClientShare::serve(bool on) {
  if (std::exchange(serves_, on) == on) return;
  if (!on) served_at_ = seams_.loop.now_exactly();
  seams_.serve_until(on ? seams_.loop.now_exactly() + patience_ : MonoTime{});
}

void ClientShare::bind() {
  if (!heard_) return;  // as the run before had it
  spread_.bind(seams_.tables, current_, seams_.self, seen_.interface, seen_.hardware,
               [this](std::uint32_t slot) { return owner(slot); });
}

// It serves on until the others have its clients, and who has the address knows it. They connect anew then,
// and lose no call.
Task<void> ClientShare::stop() {
  if (std::exchange(stopping_, true)) co_return;
  be_careful(seams_.loop.now_exactly());
  if (serves_) co_await seams_.save();
  const auto has_part = [this] { return serves_ && (all_mine_ || wire::has(current_, seams_.self)); };
  const auto keep_on = [this] {
    const MonoTime now = seams_.loop.now_exactly();
    seams_.serve_until(now + patience_);
    renew_loopback(now);
  };
  if (has_part()) {
    for (const MonoTime end = seams_.loop.now() + kLeave; has_part() && seams_.loop.now() < end;) {
      keep_on();
      if (!asking_) co_await ask_and_follow(*this);
      if (has_part()) co_await seams_.loop.sleep(kLeaveStep);
    }
    keep_on();
    co_await seams_.loop.sleep(kLinger);
  }
  serve(false);
  if (!seen_.at_loopback) co_return;
  end_all();
  (void)seams_.host.take_off_loopback();
}

std::string ClientShare::describe() const {
  if (!wire::has(current_, seams_.self))
    return unfit_.empty() ? "" : "shares no clients with others: " + unfit_;
  std::string others;
  for (const wire::Sharer& each : current_)
    if (each.server != seams_.self)
      others += (others.empty() ? ", beside " : ", ") + seams_.name_of(each.server);
  return fmt::format("{} % of the clients over TCP{}", slots_.count(seams_.self) * 100 / SLICE_CLIENT_SLOTS,
                     others);
}

}  // namespace slice::proxy
