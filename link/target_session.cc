#include "link/target_session.h"

#include <algorithm>
#include <utility>

#include "common/log.h"

namespace slice::link {
namespace {

Code code_of(const Status& status) {
  if (status) return Code::kOk;
  switch (status.error().code) {
    case Errc::kNoSpace:
      return Code::kNoSpace;
    case Errc::kQuota:
      return Code::kQuota;
    case Errc::kStale:
      return Code::kTakenAway;
    default:
      return Code::kIo;
  }
}

}  // namespace

void Lane::end() {
  if (--running_ > 0 || waits_ == nullptr) return;
  const auto waits = std::move(waits_);
  waits->set(true);
}

Task<void> Lane::until_quiet() {
  while (!quiet()) {
    waits_ = std::make_unique<OneShot<bool>>();
    const OneShot<bool> own = *waits_;
    (void)co_await own;
  }
}

TargetSession::TargetSession(std::shared_ptr<SessionShared> shared, std::shared_ptr<Lane> lane,
                             FramePort& port, const Address& peer, std::shared_ptr<block::Device> device,
                             Options options)
    : shared_(std::move(shared)),
      lane_(std::move(lane)),
      port_(port),
      peer_(peer),
      device_(std::move(device)),
      options_(std::move(options)),
      slots_(options_.tags),
      used_at_(shared_->loop.now()) {}

TargetSession::~TargetSession() {
  for (Slot& slot : slots_) give_back(slot);
}

void TargetSession::retire() {
  retired_ = true;
  for (Slot& slot : slots_) {
    if (slot.state != State::kCollecting) continue;
    slot.data = Buffer();
    give_back(slot);
  }
}

// No more than the port takes in at once, since it would be lost there.
std::uint16_t TargetSession::credit() const {
  const std::size_t memory = std::min(options_.bytes, held_ + shared_->memory.free()) / options_.block;
  const std::size_t in_port = port_.room(options_.block) / std::max<std::size_t>(shared_->sessions, 1);
  return static_cast<std::uint16_t>(std::clamp<std::size_t>(std::min(memory, in_port), 1, 0xffff));
}

void TargetSession::send(Head head, ByteView data) {
  if (retired_) return;
  head.session = options_.number;
  head.credit = credit();
  port_.send(peer_, sealed(options_.keys.to_initiator, head, data));
}

void TargetSession::tell(Op op) {
  send({.op = op});
}

void TargetSession::take(const Frame& frame) {
  used_at_ = shared_->loop.now();
  switch (frame.head.op) {
    case Op::kRead:
    case Op::kWrite:
    case Op::kZeroes:
    case Op::kFlush:
      return take_request(frame);
    default:
      shared_->metrics.refuse(Refusal::kMalformed);
  }
}

void TargetSession::take_request(const Frame& frame) {
  const Head& head = frame.head;
  if (head.tag >= slots_.size()) return shared_->metrics.refuse(Refusal::kMalformed);
  Slot& slot = slots_[head.tag];
  // A copy that was long on its way: the initiator has used the tag again since.
  if (head.generation < slot.generation || head.generation == 0)
    return shared_->metrics.refuse(Refusal::kStale);
  if (!(head.generation > slot.generation ? begin(slot, frame) : come_again(slot, frame))) return;
  if (slot.state == State::kCollecting) {
    collect(slot, frame);
    if (slot.blocks.count() == block_count(slot)) run(slot, head.tag);
  }
  if ((head.flags & flag::kWack) != 0 && slot.state != State::kDone) send_wack(slot, head.tag);
}

bool TargetSession::fits(const Head& head) const {
  if (head.op == Op::kFlush) return head.count == 0;
  const std::uint64_t size = device_->size();
  return head.count > 0 && head.count <= options_.largest && head.offset <= size &&
         head.count <= size - head.offset;
}

bool TargetSession::hold(Slot& slot, std::size_t bytes) {
  if (bytes > options_.bytes - std::min(held_, options_.bytes) || !shared_->memory.take(bytes)) {
    shared_->metrics.refuse(Refusal::kCrowded);
    tell(Op::kCongestion);
    return false;
  }
  slot.held = bytes;
  held_ += bytes;
  return true;
}

void TargetSession::give_back(Slot& slot) {
  held_ -= slot.held;
  shared_->memory.give_back(std::exchange(slot.held, 0));
}

// False: there is no memory for it now, and nothing of it is known; or it is answered.
bool TargetSession::begin(Slot& slot, const Frame& frame) {
  const Head& head = frame.head;
  if (slot.state == State::kRunning) {
    shared_->metrics.refuse(Refusal::kMalformed);
    return false;
  }
  const bool good = fits(head), has_data = head.op == Op::kRead || head.op == Op::kWrite;
  give_back(slot);  // of one that was given up before it was whole
  if (good && has_data && !hold(slot, head.count)) {
    slot = Slot{.generation = slot.generation};
    return false;
  }
  const std::size_t held = slot.held;
  slot = Slot{.generation = head.generation,
              .state = good ? State::kCollecting : State::kDone,
              .answer = Code::kRange,
              .durable = (head.flags & flag::kDurable) != 0,
              .room = (head.flags & flag::kGiveBack) != 0 ? block::Room::kGivenBack : block::Room::kKept,
              .op = head.op,
              .offset = head.offset,
              .count = head.count,
              .held = held};
  shared_->metrics.count_request(head.op);
  if (!good) {
    answer(slot, head.tag);
    return false;
  }
  if (head.op == Op::kWrite) {
    slot.data = Buffer(head.count);
    return true;
  }
  if (head.op == Op::kRead) slot.blocks = decode_block_map(frame.data).value_or(BlockMap().set());
  run(slot, head.tag);
  return true;
}

// Of a request that is known: false where its answer is all that there is to do.
bool TargetSession::come_again(Slot& slot, const Frame& frame) {
  const Head& head = frame.head;
  if (slot.state == State::kUnused || head.op != slot.op || head.offset != slot.offset ||
      head.count != slot.count) {
    shared_->metrics.refuse(Refusal::kMalformed);
    return false;
  }
  if (slot.state == State::kCollecting) return true;
  shared_->metrics.repeated.add();
  if (slot.state == State::kRunning) return true;
  if (slot.op == Op::kRead && slot.answer == Code::kOk) return read_again(slot, frame);
  answer(slot, head.tag);
  return false;
}

void TargetSession::collect(Slot& slot, const Frame& frame) {
  const std::size_t at = frame.head.fragment;
  if (at >= block_count(slot) || frame.data.size() != length_of(at, slot.count, options_.block))
    return shared_->metrics.refuse(Refusal::kMalformed);
  if (slot.blocks[at]) return shared_->metrics.repeated.add();
  std::ranges::copy(frame.data, slot.data.data() + at * options_.block);
  slot.blocks.set(at);
}

// Its answer was lost, in part: what is wanted is read anew, which is no harm, as the request is not over.
bool TargetSession::read_again(Slot& slot, const Frame& frame) {
  if (!fits(frame.head)) {
    slot.answer = Code::kRange;
    answer(slot, frame.head.tag);
    return false;
  }
  if (!hold(slot, slot.count)) return false;
  slot.blocks = decode_block_map(frame.data).value_or(BlockMap().set());
  run(slot, frame.head.tag);
  return true;
}

void TargetSession::run(Slot& slot, std::uint16_t tag) {
  slot.state = State::kRunning;
  ++running_;
  ++shared_->running;
  lane_->begin();
  spawn(carry_out(shared_from_this(), tag));
}

Task<Status> TargetSession::ask_device(Slot& slot) {
  switch (slot.op) {
    case Op::kRead:
      slot.data = Buffer(slot.count);
      return device_->read(slot.offset, slot.data.span());
    case Op::kWrite:
      return device_->write(slot.offset, std::move(slot.data), slot.durable);
    case Op::kZeroes:
      return device_->write_zeroes(slot.offset, slot.count, slot.durable, slot.room);
    default:
      return device_->flush();
  }
}

Task<void> TargetSession::carry_out(std::shared_ptr<TargetSession> self, std::uint16_t tag) {
  Slot& slot = slots_[tag];  // stays this request's until it is done
  const Status status = co_await ask_device(slot);
  slot.state = State::kDone;
  slot.answer = code_of(status);
  if (slot.answer != Code::kOk) {
    shared_->metrics.failed.add();
  } else if (slot.op == Op::kRead) {
    shared_->metrics.read_bytes.add(slot.count);
  } else if (slot.op != Op::kFlush) {
    shared_->metrics.written_bytes.add(slot.count);
  }
  if (slot.op == Op::kRead && slot.answer == Code::kOk) send_blocks(slot, tag);
  slot.data = Buffer();
  give_back(slot);
  if (slot.op != Op::kRead || slot.answer != Code::kOk) answer(slot, tag);
  --running_;
  --shared_->running;
  lane_->end();
  self.reset();
}

void TargetSession::answer(const Slot& slot, std::uint16_t tag) {
  send({.op = Op::kDone,
        .code = slot.answer,
        .tag = tag,
        .offset = slot.offset,
        .count = slot.count,
        .generation = slot.generation});
}

void TargetSession::send_blocks(const Slot& slot, std::uint16_t tag) {
  const std::size_t blocks = block_count(slot);
  std::size_t last = blocks;
  while (last > 0 && !slot.blocks[last - 1]) --last;
  for (std::size_t at = 0; at < last; ++at) {
    if (!slot.blocks[at]) continue;
    send({.op = Op::kData,
          .flags = at + 1 < last ? flag::kMore : std::uint8_t{0},
          .tag = tag,
          .fragment = static_cast<std::uint16_t>(at),
          .offset = slot.offset,
          .count = slot.count,
          .generation = slot.generation},
         slot.data.view().subspan(at * options_.block, length_of(at, slot.count, options_.block)));
  }
}

void TargetSession::send_wack(const Slot& slot, std::uint16_t tag) {
  const Head head{
      .op = Op::kWack, .tag = tag, .offset = slot.offset, .count = slot.count, .generation = slot.generation};
  if (slot.op != Op::kWrite) return send(head);
  send(head, encode(slot.state == State::kCollecting ? slot.blocks : BlockMap().set()).view());
}

}  // namespace slice::link
