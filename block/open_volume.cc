#include "block/open_volume.h"

#include <algorithm>
#include <utility>

#include "common/log.h"

namespace slice::block {
namespace {

constexpr std::uint64_t kPiece = VolumeFile::kMostBytes;

}  // namespace

OpenVolume::Figures::Figures(Metrics& metrics)
    : repeated_bytes(metrics.counter("volume_repeated_bytes_total",
                                     "bytes of raw volumes that were acknowledged, lost by a server with its "
                                     "memory, and written again")),
      taken_away(metrics.counter("volume_taken_away_total",
                                 "raw volumes that were opened elsewhere while they were open here")),
      unflushed_bytes(
          metrics.gauge("volume_unflushed_bytes",
                        "bytes of raw volumes that are acknowledged and may not be durable yet")) {}

OpenVolume::OpenVolume(Loop& loop, std::unique_ptr<VolumeFile> file, Options options, Figures& figures)
    : loop_(loop),
      file_(std::move(file)),
      options_(std::move(options)),
      figures_(figures),
      writing_(loop),
      flushing_(loop) {}

OpenVolume::~OpenVolume() {
  unflushed_.forget(0, options_.size);
  count_unflushed();
}

void OpenVolume::count_unflushed() {
  figures_.unflushed_bytes.set(figures_.unflushed_bytes.value() - counted_ + unflushed_.bytes());
  counted_ = unflushed_.bytes();
}

Error OpenVolume::noted(Error error) {
  if (error.code != Errc::kStale || std::exchange(taken_away_, true)) return error;
  figures_.taken_away.add();
  log_error(
      "volume {}: it was opened elsewhere, or is no more: nothing of it is read or written here any more",
      options_.name);
  if (options_.on_taken_away) options_.on_taken_away();
  return error;
}

Task<Status> OpenVolume::read_piece(std::uint64_t offset, ByteSpan into) {
  // What is flushed while this waits is durable, but may have been on its way again when this was read.
  const auto before = unflushed_.within(offset, into.size());
  Status status = co_await file_->read(options_.begin + offset, into);
  if (!status) co_return fail(noted(std::move(status.error())));
  put_pieces(before, offset, into);
  put_pieces(unflushed_.within(offset, into.size()), offset, into);
  co_return Status{};
}

Task<void> OpenVolume::go_on(std::shared_ptr<OpenVolume> self, Task<Status> operation,
                             OneShot<std::optional<Status>> ended) {
  ended.set(co_await std::move(operation));
  self.reset();
}

Task<Status> OpenVolume::within_patience(Task<Status> operation) {
  const OneShot<std::optional<Status>> ended;
  spawn(go_on(shared_from_this(), std::move(operation), ended));
  const TimerId over = loop_.after(options_.patience, [ended] { ended.set(std::nullopt); });
  auto status = co_await ended;
  loop_.cancel(over);
  if (status) co_return std::move(*status);
  co_return fail(Errc::kTimedOut, "volume {}: a server does not answer", options_.name);
}

Task<Status> OpenVolume::read_into(std::uint64_t offset, std::shared_ptr<Buffer> into) {
  co_return co_await read_all(offset, into->span());
}

Task<Status> OpenVolume::read(std::uint64_t offset, ByteSpan into) {
  if (options_.patience == Duration(0)) co_return co_await read_all(offset, into);
  const auto own = std::make_shared<Buffer>(into.size());
  SLICE_CO_RETURN_IF_ERROR(co_await within_patience(read_into(offset, own)));
  std::ranges::copy(own->view(), into.begin());
  co_return Status{};
}

Task<Status> OpenVolume::read_all(std::uint64_t offset, ByteSpan into) {
  if (into.size() <= kPiece) co_return co_await read_piece(offset, into);
  std::vector<Task<Status>> pieces;
  for (std::size_t at = 0; at < into.size(); at += kPiece)
    pieces.push_back(
        read_piece(offset + at, into.subspan(at, std::min<std::size_t>(kPiece, into.size() - at))));
  for (Status& each : co_await all(std::move(pieces))) {
    if (!each) co_return std::move(each);
  }
  co_return Status{};
}

Task<Result<Verifier>> OpenVolume::write_piece(std::uint64_t offset, ByteView bytes, bool durable) {
  return file_->write(options_.begin + offset, bytes, durable);
}

Task<Status> OpenVolume::write_data(std::uint64_t offset, Data data, std::size_t size, bool durable) {
  while (!durable && unflushed_.bytes() + size > options_.most_unflushed && !unflushed_.empty())
    SLICE_CO_RETURN_IF_ERROR(co_await flush_all());
  const auto held = co_await writing_.acquire(offset, size);
  std::vector<Task<Result<Verifier>>> pieces;
  for (std::size_t at = 0; at < size; at += kPiece)
    pieces.push_back(write_piece(
        offset + at, data->view().subspan(at, std::min<std::size_t>(kPiece, size - at)), durable));
  auto verifiers = co_await all(std::move(pieces));
  for (auto& each : verifiers) {
    if (!each) co_return fail(noted(std::move(each.error())));
  }
  if (durable) unflushed_.forget(offset, size);
  for (std::size_t at = 0; !durable && at < size; at += kPiece)
    unflushed_.add(offset + at, data, at, std::min<std::size_t>(kPiece, size - at), *verifiers[at / kPiece]);
  count_unflushed();
  co_return Status{};
}

Task<Status> OpenVolume::write(std::uint64_t offset, Buffer data, bool durable) {
  const std::size_t size = data.size();
  auto writing = write_data(offset, std::make_shared<const Buffer>(std::move(data)), size, durable);
  if (options_.patience == Duration(0)) co_return co_await std::move(writing);
  co_return co_await within_patience(std::move(writing));
}

Task<Status> OpenVolume::write_zeroes(std::uint64_t offset, std::uint64_t length, bool durable) {
  if (zeroes_ == nullptr) {
    Buffer zeroes(kPiece);
    std::ranges::fill(zeroes.span(), std::uint8_t{0});
    zeroes_ = std::make_shared<const Buffer>(std::move(zeroes));
  }
  for (std::uint64_t at = 0; at < length; at += kPiece) {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, length - at));
    auto writing = write_data(offset + at, zeroes_, size, durable);
    if (options_.patience != Duration(0)) writing = within_patience(std::move(writing));
    SLICE_CO_RETURN_IF_ERROR(co_await std::move(writing));
  }
  co_return Status{};
}

Task<Status> OpenVolume::flush() {
  return options_.patience == Duration(0) ? flush_all() : within_patience(flush_all());
}

Task<Status> OpenVolume::flush_all() {
  const auto one = co_await flushing_.lock();
  if (unflushed_.empty()) co_return Status{};
  const std::uint64_t last = unflushed_.last();
  auto verifier = co_await file_->commit();
  if (!verifier) co_return fail(noted(std::move(verifier.error())));
  unflushed_.forget_committed(last, *verifier);
  Status status =
      unflushed_.others(last, *verifier).empty() ? Status{} : co_await write_again(last, *verifier);
  count_unflushed();
  co_return status;
}

// Nothing is written beside: what came later is not to be undone.
Task<Status> OpenVolume::write_again(std::uint64_t last, Verifier verifier) {
  const auto whole = co_await writing_.acquire(0, options_.size);
  std::uint64_t bytes = 0;
  for (const UnflushedWrites::Piece& piece : unflushed_.others(last, verifier)) {
    auto written = co_await write_piece(piece.offset, piece.bytes(), true);
    if (!written) co_return fail(noted(std::move(written.error())));
    unflushed_.forget(piece.offset, piece.size);
    bytes += piece.size;
  }
  figures_.repeated_bytes.add(bytes);
  log_info("volume {}: a server was started anew: {} bytes that were not flushed are written again",
           options_.name, bytes);
  co_return Status{};
}

}  // namespace slice::block
