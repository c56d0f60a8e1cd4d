#include "link/exchange.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/log.h"

namespace slice::link {
namespace {

using namespace std::chrono_literals;

constexpr Duration kFirstHello = 50ms, kLastHello = 1s;
// Without a word of the target, with requests outstanding: it may have another key by now, or have forgotten.
constexpr Duration kSilence = 5s;
constexpr std::size_t kRequestsInCredit = 4;  // that credit is for, at least

}  // namespace

Exchange::Exchange(Loop& loop, FramePort& port, const Address& target, const Key& key,
                   InitiatorMetrics& metrics, Owner& owner, Options options)
    : loop_(loop),
      port_(port),
      target_(target),
      key_(key),
      metrics_(metrics),
      owner_(owner),
      options_(std::move(options)),
      random_(options_.seed) {}

Exchange::~Exchange() {
  loop_.cancel(hello_timer_);
  loop_.cancel(timer_);
}

// --- sessions -------------------------------------------------------------------------------------------

void Exchange::begin() {
  if (state_ == State::kClosed) return;
  state_ = State::kShaking;
  drop_session();
  nonce_ = random_.bytes<16>();
  shared_ = key_;
  handshake_keys_ = handshake_keys(shared_);
  hellos_ = 0;
  say_hello();
}

void Exchange::say_hello() {
  loop_.cancel(hello_timer_);
  port_.send(target_, sealed(handshake_keys_.to_target, {.op = Op::kHello}, encode(nonce_).view()));
  const Duration pause =
      std::min<Duration>(kFirstHello * (std::int64_t{1} << std::min(hellos_++, 5U)), kLastHello);
  hello_timer_ = loop_.after(pause, [this] { say_hello(); });
}

// What it had under way is to be done in the next one, from its beginning: of this one nothing is known.
void Exchange::drop_session() {
  session_ = 0;
  allowed_ = false;
  outstanding_ = 0;
  by_tag_.clear();
  std::vector<Jobs::iterator> over;
  for (auto job = jobs_.begin(); job != jobs_.end(); ++job) {
    job->outstanding = job->heard = false;
    job->have.reset();
    job->tries = 0;
    if (job->request.urgent) over.push_back(job);
  }
  for (const auto job : over) finish(job, Code::kNoSession);
}

bool Exchange::take(const Frame& frame, ByteView bytes) {
  const Op op = frame.head.op;
  if (op == Op::kTicket || op == Op::kWelcome || (op == Op::kNak && frame.head.session == 0))
    return shaking_hands() && take_handshake(frame, bytes);
  if (state_ != State::kOpen || frame.head.session != session_) return false;
  if (op == Op::kNak) return take_nak(frame, bytes);
  if (!authentic(keys_.to_initiator, bytes)) return false;
  metrics_.frames.add();
  heard_at_ = loop_.now();
  pace_.credit(frame.head.credit);
  if (op == Op::kShutdown) {
    log_info("link: volume {}: the target ends", options_.volume);
    begin();
    return true;
  }
  if (const auto job = job_of(frame); job != jobs_.end()) {
    if (op == Op::kData) {
      take_data(job, frame);
    } else if (op == Op::kWack) {
      take_wack(job, frame);
    } else if (job->request.op == Op::kRead && frame.head.code == Code::kOk) {
      metrics_.forged.add();  // it is done by its data
    } else {
      finish(job, frame.head.code);
    }
  }
  pump();
  return true;
}

bool Exchange::take_handshake(const Frame& frame, ByteView bytes) {
  // The nonce is the first of all of them.
  if (frame.data.size() < nonce_.size() || !std::ranges::equal(frame.data.first(nonce_.size()), nonce_) ||
      !authentic(handshake_keys_.to_initiator, bytes))
    return false;
  metrics_.frames.add();
  if (frame.head.op == Op::kTicket) {
    answer_ticket(frame.data);
  } else if (frame.head.op == Op::kWelcome) {
    take_welcome(frame);
  } else {
    refused(frame.head.code);
  }
  return true;
}

void Exchange::answer_ticket(ByteView data) {
  const auto answer = decode_ticket_answer(data);
  if (!answer) return;
  const Handshake handshake{.nonce = nonce_,
                            .ticket = answer->ticket,
                            .block = static_cast<std::uint32_t>(block_for(port_)),
                            .client = options_.client,
                            .volume = options_.volume};
  port_.send(target_, sealed(handshake_keys_.to_target, {.op = Op::kHandshake}, encode(handshake).view()));
}

void Exchange::take_welcome(const Frame& frame) {
  const auto welcome = decode_welcome(frame.data);
  if (!welcome || frame.head.session == 0) return;
  // Requests are cut to what the first session took.
  if (welcome_.block != 0 && (welcome->block != welcome_.block || welcome->largest < welcome_.largest))
    return refused(Code::kBlock);
  loop_.cancel(hello_timer_);
  welcome_ = *welcome;
  session_ = frame.head.session;
  keys_ = session_keys(shared_, welcome_.nonce, welcome_.target_nonce, session_);
  state_ = State::kOpen;
  generations_.assign(welcome_.tags, 0);
  by_tag_.assign(welcome_.tags, jobs_.end());
  free_tags_.clear();
  for (std::uint16_t tag = 0; tag < welcome_.tags; ++tag) free_tags_.push_back(tag);
  credit_at_first_ = frame.head.credit;
  pace_.begin(frame.head.credit, std::max<std::size_t>(frame.head.credit / (2 * kRequestsInCredit), 1));
  for (Job& job : jobs_) job.blocks = block_count(job.request);
  heard_at_ = loop_.now();
  metrics_.handshakes.add();
  owner_.on_session();
  pump();
}

bool Exchange::take_nak(const Frame& frame, ByteView bytes) {
  if (!authentic(handshake_keys_.to_initiator, bytes) && !authentic(keys_.to_initiator, bytes)) return false;
  metrics_.frames.add();
  if (frame.head.code == Code::kNoSession) {
    begin();
  } else {
    refused(frame.head.code);
  }
  return true;
}

void Exchange::refused(Code why) {
  metrics_.refused.add();
  owner_.on_refused(why);
}

void Exchange::allow() {
  allowed_ = true;
  pump();
}

void Exchange::close(Code why) {
  if (state_ == State::kClosed) return;
  if (state_ == State::kOpen)
    port_.send(target_, sealed(keys_.to_target, {.op = Op::kLeave, .session = session_}));
  loop_.cancel(hello_timer_);
  state_ = State::kClosed;
  closed_as_ = why;
  by_tag_.clear();
  while (!jobs_.empty()) finish(jobs_.begin(), why);
}

// --- requests -------------------------------------------------------------------------------------------

std::size_t Exchange::block_count(const Request& request) const {
  const bool has_data = request.op == Op::kRead || request.op == Op::kWrite;
  return has_data && welcome_.block != 0 ? blocks_of(request.count, welcome_.block) : 1;
}

Task<Code> Exchange::perform(Request request) {
  if (state_ == State::kClosed || (request.urgent && state_ != State::kOpen))
    co_return state_ == State::kClosed ? closed_as_ : Code::kNoSession;
  const auto job = jobs_.emplace(jobs_.end(), Job{.request = request, .blocks = block_count(request)});
  const OneShot<Code> ended = job->ended;
  pump();
  co_return co_await ended;
}

std::uint32_t Exchange::largest() const {
  const std::size_t at_once = std::min<std::size_t>(credit_at_first_, port_.room(welcome_.block));
  const std::size_t blocks = std::max<std::size_t>(at_once / kRequestsInCredit, 1);
  return static_cast<std::uint32_t>(std::min<std::size_t>(welcome_.largest, blocks * welcome_.block));
}

std::size_t Exchange::window() const {
  return std::min(pace_.window(), std::max<std::size_t>(port_.room(welcome_.block), 1));
}

void Exchange::pump() {
  if (std::exchange(pumping_, true)) return;
  for (auto job = jobs_.begin(); state_ == State::kOpen && job != jobs_.end() && !free_tags_.empty(); ++job) {
    if (job->outstanding || (!allowed_ && !job->request.urgent)) continue;
    // One of them is always let out: the target has memory for it.
    if (outstanding_ > 0 && outstanding_ + job->blocks > window()) break;
    if (generations_[free_tags_.back()] == std::numeric_limits<std::uint32_t>::max()) {
      pumping_ = false;
      return begin();
    }
    start(job);
  }
  pumping_ = false;
}

void Exchange::start(Jobs::iterator job) {
  const std::uint16_t tag = free_tags_.back();
  free_tags_.pop_back();
  by_tag_[tag] = job;
  job->outstanding = true;
  job->tag = tag;
  job->generation = ++generations_[tag];
  job->begun = loop_.now_exactly();
  job->again = false;
  if (outstanding_ == 0) heard_at_ = loop_.now();
  outstanding_ += job->blocks;
  metrics_.requests.add();
  transmit(*job, true);
  job->deadline = loop_.now() + pace_.unheard(0);
  look_at(job->deadline);
}

void Exchange::send(Head head, const Job& job, ByteView data) {
  head.session = session_;
  head.tag = job.tag;
  head.generation = job.generation;
  head.offset = job.request.offset;
  head.count = job.request.count;
  if (job.request.durable) head.flags |= flag::kDurable;
  if (job.request.gives_back) head.flags |= flag::kGiveBack;
  port_.send(target_, sealed(keys_.to_target, head, data));
}

// `whole`: of a write all that the target is not known to have; else its last block alone, whose WACK tells
// what it has.
void Exchange::transmit(Job& job, bool whole) {
  const Op op = job.request.op;
  if (op == Op::kWrite) return send_blocks(job, whole);
  if (op != Op::kRead || job.have.none()) return send({.op = op, .flags = flag::kWack}, job, {});
  const BlockMap wanted = ~job.have;
  send({.op = op, .flags = flag::kWack}, job, encode(wanted).view());
}

void Exchange::send_blocks(Job& job, bool whole) {
  std::size_t last = job.blocks - 1;
  while (last > 0 && job.have[last]) --last;
  for (std::size_t at = whole ? 0 : last; at <= last; ++at) {
    if (at < last && job.have[at]) continue;
    if (job.again) metrics_.blocks_again.add();
    send({.op = Op::kWrite,
          .flags = at < last ? flag::kMore : flag::kWack,
          .fragment = static_cast<std::uint16_t>(at)},
         job, job.request.out.subspan(at * welcome_.block, length_of(at, job.request.count, welcome_.block)));
  }
}

Exchange::Jobs::iterator Exchange::job_of(const Frame& frame) {
  const Head& head = frame.head;
  if (head.op != Op::kData && head.op != Op::kWack && head.op != Op::kDone) return jobs_.end();
  const auto job = head.tag < by_tag_.size() ? by_tag_[head.tag] : jobs_.end();
  if (job != jobs_.end() && job->generation == head.generation) return job;
  metrics_.forged.add();
  return jobs_.end();
}

void Exchange::take_data(Jobs::iterator job, const Frame& frame) {
  const std::size_t at = frame.head.fragment;
  const Request& request = job->request;
  if (request.op != Op::kRead || at >= job->blocks ||
      frame.data.size() != length_of(at, request.count, welcome_.block))
    return metrics_.forged.add();
  if (!job->have[at]) {
    std::ranges::copy(frame.data, request.into.begin() + static_cast<std::ptrdiff_t>(at * welcome_.block));
    job->have.set(at);
  }
  if (!misses_some(*job)) return finish(job, Code::kOk);
  job->heard = true;
  const bool more = (frame.head.flags & flag::kMore) != 0;
  job->deadline = loop_.now() + (more ? pace_.unheard(0) : pace_.missing());
  if (!more) look_at(job->deadline);
}

void Exchange::take_wack(Jobs::iterator job, const Frame& frame) {
  job->heard = true;
  if (job->request.op == Op::kWrite) {
    const auto map = decode_block_map(frame.data);
    if (!map) return metrics_.forged.add();
    for (std::size_t at = 0; at < job->blocks; ++at) job->have[at] = job->have[at] || (*map)[at];
    if (misses_some(*job)) {
      job->deadline = loop_.now() + pace_.missing();
      return look_at(job->deadline);
    }
  }
  job->deadline = loop_.now() + pace_.heard(job->tries);
  look_at(job->deadline);
}

void Exchange::finish(Jobs::iterator job, Code code) {
  if (job->outstanding) {
    if (!job->again) pace_.answered(loop_.now_exactly() - job->begun);
    pace_.grow(job->blocks);
    metrics_.latency.observe(loop_.now_exactly() - job->begun);
    outstanding_ -= job->blocks;
    if (job->tag < by_tag_.size()) {
      by_tag_[job->tag] = jobs_.end();
      free_tags_.push_back(job->tag);
    }
  }
  const OneShot<Code> ended = job->ended;
  jobs_.erase(job);
  ended.set(code);
}

// --- time-outs ------------------------------------------------------------------------------------------

void Exchange::look_at(MonoTime when) {
  if (timer_ != TimerId::kNone && timer_at_ <= when) return;
  loop_.cancel(timer_);
  timer_at_ = when;
  timer_ = loop_.at(when, [this] { look(); });
}

void Exchange::look() {
  timer_ = TimerId::kNone;
  if (state_ != State::kOpen) return;
  const MonoTime now = loop_.now();
  if (outstanding_ > 0 && now - heard_at_ > kSilence) {
    log_warning("link: volume {}: no answer of the target: asks for a session again", options_.volume);
    return begin();
  }
  MonoTime next = MonoTime::max();
  for (Job& job : jobs_) {
    if (!job.outstanding) continue;
    if (job.deadline <= now) ask_again(job);
    next = std::min(next, job.deadline);
  }
  if (next != MonoTime::max()) look_at(next);
}

void Exchange::ask_again(Job& job) {
  metrics_.timeouts.add();
  pace_.lost(loop_.now());
  job.again = true;
  // Of a write that was not heard of the last block asks what came.
  const bool known_to_miss = job.heard && misses_some(job);
  transmit(job, job.request.op != Op::kWrite || known_to_miss);
  job.deadline = loop_.now() + (job.heard ? pace_.heard(job.tries) : pace_.unheard(job.tries));
  if (known_to_miss) job.deadline = loop_.now() + pace_.unheard(job.tries);
  ++job.tries;
}

}  // namespace slice::link
