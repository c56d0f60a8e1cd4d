#include "link/remote_device.h"

#include <algorithm>
#include <utility>

#include "common/log.h"

namespace slice::link {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kAgainAtOnce = 16, kHolesAtOnce = 16;
constexpr Duration kAgainPause = 1s;

Status first_failure(std::vector<Status> all) {
  for (Status& each : all) {
    if (!each) return std::move(each);
  }
  return {};
}

}  // namespace

RemoteDevice::RemoteDevice(Loop& loop, FramePort& port, const Address& target, const Key& key,
                           InitiatorMetrics& metrics, Options options)
    : loop_(loop),
      metrics_(metrics),
      options_(std::move(options)),
      exchange_(loop, port, target, key, metrics, *this,
                {.client = options_.client, .volume = options_.volume, .seed = options_.seed}),
      patience_(loop, options_.patience,
                fmt::format("volume {}: the target of the link does not answer", options_.volume)),
      writing_(loop),
      flushing_(loop) {}

RemoteDevice::~RemoteDevice() {
  unflushed_.forget(0, size_);
  count_unflushed();
}

void RemoteDevice::count_unflushed() {
  metrics_.unflushed_bytes.set(metrics_.unflushed_bytes.value() - counted_ + unflushed_.bytes());
  counted_ = unflushed_.bytes();
}

Status RemoteDevice::status_of(Code code) const {
  const std::string& name = options_.volume;
  switch (code) {
    case Code::kOk:
      return {};
    case Code::kNoSpace:
      return fail(Errc::kNoSpace, "volume {}: the target has no space", name);
    case Code::kQuota:
      return fail(Errc::kQuota, "volume {}: the target has no quota left", name);
    case Code::kTakenAway:
      return fail(Errc::kStale, "volume {}: it is another opener's", name);
    case Code::kNotFound:
      return fail(Errc::kNotFound, "volume {}: the target has none of this name", name);
    case Code::kBlock:
      return fail(Errc::kInvalid, "volume {}: the target's network takes no frames as long as this one's",
                  name);
    case Code::kRange:
      return fail(Errc::kIo, "volume {}: beyond its end", name);
    default:
      return fail(Errc::kIo, "volume {}: the target failed", name);
  }
}

// --- sessions -------------------------------------------------------------------------------------------

Task<Status> RemoteDevice::begin(Duration at_most) {
  exchange_.begin();
  const TimerId over = loop_.after(at_most, [begun = begun_] { begun.set(std::nullopt); });
  const auto code = co_await begun_;
  loop_.cancel(over);
  if (!code)
    co_return fail(Errc::kUnavailable, "volume {}: the target of the link does not answer", options_.volume);
  co_return status_of(*code);
}

void RemoteDevice::on_session() {
  const Welcome& now = exchange_.welcome();
  const std::uint64_t turn = ++turn_;
  // Also what a session before this one did not come to write again.
  const bool lost = !unflushed_.others(unflushed_.last(), Verifier{now.instance}).empty();
  const std::uint64_t before = std::exchange(opening_, now.opening);
  if (!std::exchange(had_session_, true)) {
    size_ = now.size;
    exchange_.allow();
    begun_.set(Code::kOk);
  } else if (!lost) {
    exchange_.allow();
  } else if (now.opening != before && now.opening != before + 1) {
    take_away("others have opened it meanwhile, and what was not flushed may not be written over theirs");
  } else {
    spawn(write_again(shared_from_this(), turn));
  }
}

void RemoteDevice::on_refused(Code why) {
  if (!had_session_) {
    if (why != Code::kBusy) begun_.set(why);
  } else if (why == Code::kTakenAway) {
    take_away("it is another opener's, or this session another client's of the same name");
  }
}

void RemoteDevice::take_away(const char* because) {
  if (std::exchange(taken_away_, true)) return;
  log_error("link: volume {}: nothing of it is read or written here any more: {}", options_.volume, because);
  exchange_.close(Code::kTakenAway);
}

Task<Code> RemoteDevice::write_again(Piece piece) {
  Exchange::Request request = request_of(piece);
  request.durable = true;
  request.urgent = true;
  co_return co_await exchange_.perform(request);
}

// Nothing is read or written beside: what came later is not to be undone.
Task<void> RemoteDevice::write_again(std::shared_ptr<RemoteDevice> self, std::uint64_t turn) {
  std::uint64_t bytes = 0;
  const Verifier instance{exchange_.welcome().instance};
  while (turn == turn_) {
    std::vector<Piece> pieces = unflushed_.others(unflushed_.last(), instance);
    if (pieces.empty()) break;
    pieces.resize(std::min(pieces.size(), kAgainAtOnce));
    std::vector<Task<Code>> writes;
    for (const Piece& piece : pieces) writes.push_back(write_again(piece));
    const std::vector<Code> codes = co_await all(std::move(writes));
    if (turn != turn_) co_return;  // the next session does it all again
    Code worst = Code::kOk;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (codes[i] != Code::kOk) {
        worst = codes[i];
        continue;
      }
      unflushed_.forget(pieces[i].offset, pieces[i].size);
      bytes += pieces[i].size;
    }
    count_unflushed();
    if (worst == Code::kNoSession) co_return;
    if (worst == Code::kTakenAway) co_return take_away("it is another opener's");
    if (worst != Code::kOk) {
      log_warning("link: volume {}: what was not flushed cannot be written again yet: {}", options_.volume,
                  status_of(worst).error().message);
      co_await loop_.sleep(kAgainPause);
    }
  }
  if (turn != turn_) co_return;
  metrics_.repeated_bytes.add(bytes);
  log_info("link: volume {}: the target has lost what was not flushed: {} bytes are written again",
           options_.volume, bytes);
  exchange_.allow();
  self.reset();
}

// --- operations -----------------------------------------------------------------------------------------

Task<Status> RemoteDevice::read_piece(std::uint64_t offset, ByteSpan into) {
  co_return status_of(co_await exchange_.perform(
      {.op = Op::kRead, .offset = offset, .count = static_cast<std::uint32_t>(into.size()), .into = into}));
}

Task<Status> RemoteDevice::read_all(std::uint64_t offset, ByteSpan into) {
  const std::size_t most = exchange_.largest();
  if (into.size() <= most) co_return co_await read_piece(offset, into);
  std::vector<Task<Status>> pieces;
  for (std::size_t at = 0; at < into.size(); at += most)
    pieces.push_back(read_piece(offset + at, into.subspan(at, std::min(most, into.size() - at))));
  co_return first_failure(co_await all(std::move(pieces)));
}

Task<Status> RemoteDevice::read(std::uint64_t offset, ByteSpan into) {
  if (into.empty()) co_return Status{};
  co_return co_await patience_.fill(
      into, [this, offset](ByteSpan bytes) { return read_all(offset, bytes); }, shared_from_this());
}

Exchange::Request RemoteDevice::request_of(const Piece& piece) const {
  const bool is_hole = piece.data == nullptr, is_zeroes = is_hole || piece.data == zeroes_;
  return {.op = is_zeroes ? Op::kZeroes : Op::kWrite,
          .gives_back = is_hole,
          .offset = piece.offset,
          .count = static_cast<std::uint32_t>(piece.size),
          .out = is_zeroes ? ByteView() : piece.bytes()};
}

// It is kept as soon as it is acknowledged: a session that begins while others of the same write are under
// way has to have it.
Task<Status> RemoteDevice::write_piece(Piece piece, bool durable) {
  Exchange::Request request = request_of(piece);
  request.durable = durable;
  const Code code = co_await exchange_.perform(request);
  if (code != Code::kOk) co_return status_of(code);
  if (durable) {
    unflushed_.forget(piece.offset, piece.size);
  } else {
    unflushed_.add(piece.offset, std::move(piece.data), piece.from, piece.size,
                   Verifier{exchange_.welcome().instance});
  }
  count_unflushed();
  co_return Status{};
}

Task<Status> RemoteDevice::write_data(std::uint64_t offset, Data data, std::size_t size, bool durable) {
  while (!durable && unflushed_.bytes() + size > options_.most_unflushed && !unflushed_.empty())
    SLICE_CO_RETURN_IF_ERROR(co_await flush_all());
  const auto held = co_await writing_.acquire(offset, size);
  const std::size_t most = exchange_.largest();
  std::vector<Task<Status>> pieces;
  for (std::size_t at = 0; at < size; at += most)
    pieces.push_back(write_piece(
        {.offset = offset + at, .data = data, .from = at, .size = std::min(most, size - at), .verifier = {}},
        durable));
  co_return first_failure(co_await all(std::move(pieces)));
}

Task<Status> RemoteDevice::write(std::uint64_t offset, Buffer data, bool durable) {
  const std::size_t size = data.size();
  return patience_.within(write_data(offset, std::make_shared<const Buffer>(std::move(data)), size, durable),
                          shared_from_this());
}

Task<Status> RemoteDevice::write_zeroes(std::uint64_t offset, std::uint64_t length, bool durable,
                                        block::Room room) {
  const bool keeps_room = room == block::Room::kKept;
  const std::uint64_t most = exchange_.welcome().largest, step = keeps_room ? most : kHolesAtOnce * most;
  if (keeps_room && zeroes_ == nullptr) zeroes_ = std::make_shared<const Buffer>(block::zeros(most));
  for (std::uint64_t at = 0; at < length; at += step) {
    const auto size = static_cast<std::size_t>(std::min(step, length - at));
    SLICE_CO_RETURN_IF_ERROR(co_await patience_.within(
        write_data(offset + at, keeps_room ? zeroes_ : nullptr, size, durable), shared_from_this()));
  }
  co_return Status{};
}

Task<Status> RemoteDevice::flush() {
  return patience_.within(flush_all(), shared_from_this());
}

// Also where nothing is kept here: the target may have what a process before this one wrote, and the client,
// who was told so, means that as well.
Task<Status> RemoteDevice::flush_all() {
  const auto one = co_await flushing_.lock();
  const std::uint64_t last = unflushed_.last();
  const Code code = co_await exchange_.perform({.op = Op::kFlush});
  if (code != Code::kOk) co_return status_of(code);
  // What an earlier instance had acknowledged has been written again, durably.
  unflushed_.forget_committed(last, Verifier{exchange_.welcome().instance});
  count_unflushed();
  co_return Status{};
}

}  // namespace slice::link
