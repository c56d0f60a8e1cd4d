#include "aoe/target.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "aoe/target_metrics.h"
#include "block/range_queue.h"
#include "common/log.h"
#include "common/task.h"

namespace slice::aoe {
namespace {

struct Client {
  link::FramePort* port = nullptr;
  link::Address address;
  auto operator<=>(const Client&) const = default;
};

// What was asked for by a frame, and who is to be answered.
struct Asked {
  Client from;
  Head head;
  Ata ata;
};

constexpr std::uint8_t kActive = 0xff;  // of CHECK POWER MODE
constexpr std::string_view kModel = "Slice raw volume";
// Who asks what a disk is has it opened anew where nobody has used it for so long.
constexpr Duration kUnused = std::chrono::seconds(1);
// Linux asks for blocks of so many bytes, in frames that come one by one: what ends within one waits for the
// next frame, so long at most.
constexpr std::uint64_t kBlock = 4096;
constexpr Duration kHeld = std::chrono::microseconds(20);

enum class Kind { kRead, kWrite, kFlush, kIdentify, kCheckPower };
bool moves_bytes(Kind kind) {
  return kind == Kind::kRead || kind == Kind::kWrite;
}

std::optional<Kind> kind_of(std::uint8_t command) {
  switch (command) {
    case ata::kRead:
    case ata::kReadExtended:
    case ata::kReadDma:
    case ata::kReadDmaExtended:
      return Kind::kRead;
    case ata::kWrite:
    case ata::kWriteExtended:
    case ata::kWriteDma:
    case ata::kWriteDmaExtended:
      return Kind::kWrite;
    case ata::kFlush:
    case ata::kFlushExtended:
      return Kind::kFlush;
    case ata::kIdentify:
      return Kind::kIdentify;
    case ata::kCheckPower:
      return Kind::kCheckPower;
    default:
      return {};
  }
}

Request counted_as(Kind kind) {
  switch (kind) {
    case Kind::kRead:
      return Request::kRead;
    case Kind::kWrite:
      return Request::kWrite;
    case Kind::kFlush:
      return Request::kFlush;
    default:
      return Request::kIdentify;
  }
}

// Requests that are done as one operation: of one client, each behind the one before.
struct Group {
  Kind kind{};
  std::uint64_t offset = 0, length = 0;  // bytes of the volume
  MonoTime came{};                       // the first of them
  Buffer data;                           // of writes
  std::vector<Asked> asked;
  bool within_block() const { return moves_bytes(kind) && (offset + length) % kBlock != 0; }
};

std::uint64_t offset_of(const Ata& ata) {
  return ata.sector * kSector;
}
std::uint64_t length_of(const Ata& ata) {
  return std::uint64_t{ata.count} * kSector;
}

Buffer answer_of(const Asked& asked, Ata registers, ByteView data) {
  Head head = asked.head;
  head.answer = true;
  return encode(head, registers, data);
}
Buffer good_answer(const Asked& asked, std::uint8_t count = 0, ByteView data = {}) {
  Ata registers = asked.ata;
  registers.command = ata::kReady;
  registers.feature = 0;
  registers.count = count;
  return answer_of(asked, registers, data);
}
Buffer wrong_answer(const Asked& asked, std::uint8_t what) {
  Ata registers = asked.ata;
  registers.command = ata::kReady | ata::kError;
  registers.feature = what;
  return answer_of(asked, registers, {});
}

}  // namespace

std::size_t most_sectors(const link::FramePort& port) {
  constexpr std::size_t kHeads = kHeadSize + kAtaHeadSize, kMost = 255;
  return std::min((std::max(port.largest(), kHeads) - kHeads) / kSector, kMost);
}

class TargetCore : public std::enable_shared_from_this<TargetCore> {
 public:
  TargetCore(Loop& loop, Metrics& metrics, block::Devices& devices, TargetOptions options);

  void begin();
  void serve(link::FramePort& port, std::vector<link::Address> clients);
  void finish();
  void stop();
  std::size_t running() const { return running_; }

 private:
  struct Served {
    Served(Loop& loop, Disk which) : disk(std::move(which)), writes(loop) {}
    const Disk disk;
    std::shared_ptr<block::Device> device;
    block::RangeQueue writes;
    std::vector<Group> came;                              // and have not begun
    std::map<Client, std::set<std::uint32_t>> under_way;  // tags
    std::size_t operations = 0;                           // under way
    MonoTime used{};                                      // when the last of them began, but for IDENTIFY
  };

  void take(const Client& from, ByteView bytes);
  void take_for(Served& served, const Client& from, const Frame& frame);
  void take_config(const Served& served, const Client& from, const Frame& frame);
  void take_ata(Served& served, const Client& from, const Frame& frame);
  std::optional<Refusal> wrong_with(const Asked& asked, Kind kind, ByteView data) const;
  bool admit(Served& served, const Asked& asked);
  void put(Served& served, Kind kind, const Asked& asked, ByteView data);
  void begin_round();
  void hold_last(Served& served, std::vector<Group>& groups);
  Task<void> carry_out(std::shared_ptr<TargetCore> self, Served& served, Group group);
  Task<Status> carry_out_on(const std::shared_ptr<block::Device>& device, Served& served, Group& group);
  Task<Result<std::shared_ptr<block::Device>>> open(Served& served, Kind kind);
  void answer_beyond(std::uint64_t size, Served& served, Group& group);
  void answer_all(Served& served, const Group& group, std::uint8_t count = 0);
  void answer_all(Served& served, const Group& group, const Error& why);
  void answer(Served& served, const Asked& asked, Buffer frame);
  void answer_failure(const Client& to, const Head& head, Failure why);
  void send(const Client& to, Buffer frame);
  Config config_of(const Served& served, const link::FramePort& port) const;
  void refuse(Refusal why, const Client& from);

  Loop& loop_;
  block::Devices& devices_;
  const TargetOptions options_;
  TargetMetrics metrics_;
  std::vector<std::unique_ptr<Served>> disks_;
  std::set<Client> clients_;
  Loop::RoundEnd round_end_;
  std::size_t running_ = 0;
  bool stopped_ = false, holds_ = false;
};

TargetCore::TargetCore(Loop& loop, Metrics& metrics, block::Devices& devices, TargetOptions options)
    : loop_(loop), devices_(devices), options_(std::move(options)), metrics_(metrics) {
  for (const Disk& disk : options_.disks) disks_.push_back(std::make_unique<Served>(loop_, disk));
}

void TargetCore::begin() {
  round_end_ = loop_.at_round_end([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->begin_round();
  });
}

void TargetCore::serve(link::FramePort& port, std::vector<link::Address> clients) {
  port.set_taker([weak = weak_from_this(), &port](const link::Address& from, ByteView bytes) {
    if (const auto self = weak.lock()) self->take({&port, from}, bytes);
  });
  for (const link::Address& client : clients) {
    clients_.insert({&port, client});
    for (const auto& served : disks_) {
      send(
          {&port, client},
          encode(Head{.answer = true, .place = served->disk.place, .command = std::uint8_t(Command::kConfig)},
                 config_of(*served, port)));
    }
  }
}

void TargetCore::finish() {
  for (const Client& client : clients_) client.port->set_taker({});
}

void TargetCore::stop() {
  finish();
  stopped_ = true;
}

void TargetCore::refuse(Refusal why, const Client& from) {
  metrics_.refuse(why);
  if (metrics_.may_log(why))
    log_warning("AoE: refused from={} why={}", from.port->name_of(from.address), text_of(why));
}

void TargetCore::take(const Client& from, ByteView bytes) {
  metrics_.frames.add();
  if (!clients_.contains(from)) return refuse(Refusal::kStranger, from);
  const auto frame = decode(bytes);
  if (!frame || frame->head.answer) return refuse(Refusal::kMalformed, from);
  if (frame->head.version != kVersion) {
    refuse(Refusal::kMalformed, from);
    return answer_failure(from, frame->head, Failure::kVersion);
  }
  bool here = false;
  for (const auto& served : disks_) {
    if (!is_for(frame->head.place, served->disk.place)) continue;
    here = true;
    take_for(*served, from, *frame);
  }
  if (!here) refuse(Refusal::kElsewhere, from);
}

void TargetCore::take_for(Served& served, const Client& from, const Frame& frame) {
  Frame one = frame;
  one.head.place = served.disk.place;
  if (frame.head.command == std::uint8_t(Command::kConfig)) return take_config(served, from, one);
  if (frame.head.place != served.disk.place)
    return refuse(Refusal::kElsewhere, from);  // questions alone go to all
  if (frame.head.command == std::uint8_t(Command::kAta)) return take_ata(served, from, one);
  refuse(Refusal::kUnknown, from);
  answer_failure(from, one.head, Failure::kCommand);
}

Config TargetCore::config_of(const Served& served, const link::FramePort& port) const {
  return {.buffers = static_cast<std::uint16_t>(options_.requests),
          .firmware = 1,
          .sectors = static_cast<std::uint8_t>(most_sectors(port)),
          .text = served.disk.volume};
}

// The text is the volume's name, which no client sets.
void TargetCore::take_config(const Served& served, const Client& from, const Frame& frame) {
  const auto asked = decode_config(frame.rest);
  if (!asked || asked->asks > std::uint8_t(Asks::kReplace)) {
    refuse(Refusal::kMalformed, from);
    return answer_failure(from, frame.head, Failure::kArgument);
  }
  metrics_.count(Request::kQuery);
  const std::string_view own = served.disk.volume;
  const auto asks = static_cast<Asks>(asked->asks);
  if ((asks == Asks::kSame && asked->text != own) || (asks == Asks::kBegins && !own.starts_with(asked->text)))
    return;
  if ((asks == Asks::kSet || asks == Asks::kReplace) && asked->text != own)
    return answer_failure(from, frame.head, Failure::kTextPresent);
  Head head = frame.head;
  head.answer = true;
  Config config = config_of(served, *from.port);
  config.asks = asked->asks;
  send(from, encode(head, config));
}

void TargetCore::take_ata(Served& served, const Client& from, const Frame& frame) {
  const auto got = decode_ata(frame.rest);
  if (!got) {
    refuse(Refusal::kMalformed, from);
    return answer_failure(from, frame.head, Failure::kArgument);
  }
  const Asked asked{.from = from, .head = frame.head, .ata = got->ata};
  const auto kind = kind_of(got->ata.command);
  if (const auto wrong = kind ? wrong_with(asked, *kind, got->data) : Refusal::kUnknown) {
    refuse(*wrong, from);
    return send(from, wrong_answer(asked, *wrong == Refusal::kRange ? ata::kNoAddress : ata::kAborted));
  }
  if (!admit(served, asked)) return;
  metrics_.count(counted_as(*kind));
  put(served, *kind, asked, got->data);
}

// By itself: where the disk ends is known when it is open.
std::optional<Refusal> TargetCore::wrong_with(const Asked& asked, Kind kind, ByteView data) const {
  if (asked.ata.write != (kind == Kind::kWrite)) return Refusal::kMalformed;
  if (!moves_bytes(kind)) return {};
  if (asked.ata.count == 0 || asked.ata.count > most_sectors(*asked.from.port)) return Refusal::kRange;
  if (kind == Kind::kWrite && data.size() < length_of(asked.ata)) return Refusal::kMalformed;
  return {};
}

bool TargetCore::admit(Served& served, const Asked& asked) {
  auto& tags = served.under_way[asked.from];
  const bool repeated = tags.contains(asked.head.tag);
  if (repeated || tags.size() >= options_.requests) {
    refuse(repeated ? Refusal::kRepeated : Refusal::kCrowded, asked.from);
    return false;
  }
  tags.insert(asked.head.tag);
  ++running_;
  return true;
}

void TargetCore::put(Served& served, Kind kind, const Asked& asked, ByteView data) {
  const std::uint64_t offset = offset_of(asked.ata), length = moves_bytes(kind) ? length_of(asked.ata) : 0;
  const Group* const last = served.came.empty() ? nullptr : &served.came.back();
  const bool follows = last != nullptr && length > 0 && last->kind == kind &&
                       last->asked[0].from == asked.from && last->offset + last->length == offset &&
                       last->length + length <= options_.together;
  if (!follows)
    served.came.push_back(
        {.kind = kind, .offset = offset, .length = 0, .came = loop_.now(), .data = {}, .asked = {}});
  Group& group = served.came.back();
  group.length += length;
  if (kind == Kind::kWrite) group.data.append(data.first(static_cast<std::size_t>(length)));
  group.asked.push_back(asked);
  round_end_.want();
}

void TargetCore::begin_round() {
  for (const auto& served : disks_) {
    std::vector<Group> groups = std::exchange(served->came, {});
    hold_last(*served, groups);
    for (Group& group : groups) spawn(carry_out(shared_from_this(), *served, std::move(group)));
  }
}

// No other one gets more.
void TargetCore::hold_last(Served& served, std::vector<Group>& groups) {
  if (groups.empty() || !groups.back().within_block() || loop_.now() - groups.back().came >= kHeld) return;
  served.came.push_back(std::move(groups.back()));
  groups.pop_back();
  if (std::exchange(holds_, true)) return;
  loop_.after(kHeld, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->holds_ = false;
    self->begin_round();
  });
}

Task<void> TargetCore::carry_out(std::shared_ptr<TargetCore> self, Served& served, Group group) {
  // First of all its place among the writes, in the order that they came.
  std::optional<block::RangeQueue::Held> held;
  if (group.kind == Kind::kWrite) held.emplace(co_await served.writes.acquire(group.offset, group.length));
  const auto device = co_await open(served, group.kind);
  ++served.operations;
  Status done = device ? co_await carry_out_on(*device, served, group) : slice::fail(device.error());
  if (!done) answer_all(served, group, done.error());
  --served.operations;
  held.reset();
  self.reset();
}

// Who asks what a disk is while nothing else is wanted of it gets to know of a new size.
Task<Result<std::shared_ptr<block::Device>>> TargetCore::open(Served& served, Kind kind) {
  if (kind != Kind::kIdentify) {
    served.used = loop_.now();
  } else if (served.operations == 0 && loop_.now() - served.used > kUnused) {
    served.device.reset();
  }
  if (served.device != nullptr) co_return served.device;
  auto device = co_await devices_.open(served.disk.volume);
  if (device) served.device = *device;
  co_return device;
}

Task<Status> TargetCore::carry_out_on(const std::shared_ptr<block::Device>& device, Served& served,
                                      Group& group) {
  answer_beyond(device->size(), served, group);
  if (group.asked.empty()) co_return Status{};
  switch (group.kind) {
    case Kind::kRead: {
      metrics_.operations.add();
      Buffer data(static_cast<std::size_t>(group.length));
      SLICE_CO_RETURN_IF_ERROR(co_await device->read(group.offset, data.span()));
      metrics_.read_bytes.add(group.length);
      for (const Asked& each : group.asked) {
        answer(served, each,
               good_answer(each, 0,
                           data.view().subspan(offset_of(each.ata) - group.offset, length_of(each.ata))));
      }
      break;
    }
    case Kind::kWrite:
      metrics_.operations.add();
      SLICE_CO_RETURN_IF_ERROR(co_await device->write(group.offset, std::move(group.data), true));
      metrics_.written_bytes.add(group.length);
      answer_all(served, group);
      break;
    case Kind::kFlush:
      SLICE_CO_RETURN_IF_ERROR(co_await device->flush());
      answer_all(served, group);
      break;
    case Kind::kIdentify:
      answer(served, group.asked[0],
             good_answer(group.asked[0], 1,
                         identity(device->size() / kSector, kModel, served.disk.volume).view()));
      break;
    case Kind::kCheckPower:
      answer_all(served, group, kActive);
      break;
  }
  co_return Status{};
}

// The volume ends in the midst of it, or was made smaller.
void TargetCore::answer_beyond(std::uint64_t size, Served& served, Group& group) {
  while (moves_bytes(group.kind) && !group.asked.empty()) {
    const Asked& last = group.asked.back();
    if (offset_of(last.ata) + length_of(last.ata) <= size) return;
    refuse(Refusal::kRange, last.from);
    group.length -= length_of(last.ata);
    if (group.kind == Kind::kWrite) group.data.resize(static_cast<std::size_t>(group.length));
    answer(served, last, wrong_answer(last, ata::kNoAddress));
    group.asked.pop_back();
  }
}

void TargetCore::answer_all(Served& served, const Group& group, std::uint8_t count) {
  for (const Asked& each : group.asked) answer(served, each, good_answer(each, count));
}

void TargetCore::answer_all(Served& served, const Group& group, const Error& why) {
  if (metrics_.may_log_failure())
    log_error("AoE: {} ({}) has an error: {}", to_string(served.disk.place), served.disk.volume, why.message);
  if (why.code == Errc::kStale) served.device.reset();  // for whoever takes it back
  for (const Asked& each : group.asked) {
    metrics_.failed.add();
    answer(served, each, wrong_answer(each, ata::kUncorrectable));
  }
}

void TargetCore::answer(Served& served, const Asked& asked, Buffer frame) {
  served.under_way[asked.from].erase(asked.head.tag);
  --running_;
  send(asked.from, std::move(frame));
}

void TargetCore::answer_failure(const Client& to, const Head& head, Failure why) {
  Head answered = head;
  answered.version = kVersion;
  answered.answer = true;
  answered.failure = why;
  send(to, encode(answered, Ata{}));
}

void TargetCore::send(const Client& to, Buffer frame) {
  if (!stopped_) to.port->send(to.address, std::move(frame));
}

Target::Target(Loop& loop, Metrics& metrics, block::Devices& devices, TargetOptions options)
    : core_(std::make_shared<TargetCore>(loop, metrics, devices, std::move(options))) {
  core_->begin();
}
Target::~Target() {
  core_->stop();
}
void Target::serve(link::FramePort& port, std::vector<link::Address> clients) {
  core_->serve(port, std::move(clients));
}
void Target::finish() {
  core_->finish();
}
std::size_t Target::running() const {
  return core_->running();
}

}  // namespace slice::aoe
