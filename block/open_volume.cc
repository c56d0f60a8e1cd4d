#include "block/open_volume.h"

#include <algorithm>
#include <utility>

#include "common/log.h"

namespace slice::block {
namespace {

constexpr std::uint64_t kPiece = VolumeFile::kMostBytes;
constexpr std::uint64_t kHoleAtOnce = 16 * kPiece;
constexpr std::size_t kUnitsAsked = 64, kMostUnitsTold = 2048;

// The same, but that nothing that is in `written` is told as a hole.
std::vector<Extent> with_data(const std::vector<Extent>& extents, std::uint64_t offset,
                              const std::vector<UnflushedWrites::Piece>& written) {
  std::vector<Extent> out;
  for (const Extent& extent : extents) {
    const std::uint64_t end = offset + extent.length;
    for (const UnflushedWrites::Piece& piece : written) {
      const std::uint64_t from = std::max(offset, piece.offset);
      const std::uint64_t to = std::min(end, piece.offset + piece.size);
      if (piece.data == nullptr || from >= to) continue;
      append(out, {from - offset, extent.hole});
      append(out, {to - from, false});
      offset = to;
    }
    append(out, {end - offset, extent.hole});
    offset = end;
  }
  return out;
}

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
    : file_(std::move(file)),
      options_(std::move(options)),
      figures_(figures),
      patience_(loop, options_.patience, fmt::format("volume {}: a server does not answer", options_.name)),
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

Task<Status> OpenVolume::read(std::uint64_t offset, ByteSpan into) {
  return patience_.fill(
      into, [this, offset](ByteSpan bytes) { return read_all(offset, bytes); }, shared_from_this());
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

Task<Result<Verifier>> OpenVolume::write_piece(const Piece& piece, bool durable) {
  const std::uint64_t offset = options_.begin + piece.offset;
  if (piece.data == nullptr) return file_->make_hole(offset, static_cast<std::uint32_t>(piece.size), durable);
  return file_->write(offset, piece.bytes(), durable);
}

Task<Status> OpenVolume::write_data(std::uint64_t offset, Data data, std::size_t size, bool durable) {
  while (!durable && unflushed_.bytes() + size > options_.most_unflushed && !unflushed_.empty())
    SLICE_CO_RETURN_IF_ERROR(co_await flush_all());
  const auto held = co_await writing_.acquire(offset, size);
  std::vector<Piece> pieces;
  for (std::size_t at = 0; at < size; at += kPiece)
    pieces.push_back({.offset = offset + at,
                      .data = data,
                      .from = at,
                      .size = std::min<std::size_t>(kPiece, size - at),
                      .verifier = {}});
  std::vector<Task<Result<Verifier>>> writes;
  for (const Piece& piece : pieces) writes.push_back(write_piece(piece, durable));
  auto verifiers = co_await all(std::move(writes));
  for (auto& each : verifiers) {
    if (!each) co_return fail(noted(std::move(each.error())));
  }
  if (durable) unflushed_.forget(offset, size);
  for (std::size_t i = 0; !durable && i < pieces.size(); ++i)
    unflushed_.add(pieces[i].offset, data, pieces[i].from, pieces[i].size, *verifiers[i]);
  count_unflushed();
  co_return Status{};
}

Task<Status> OpenVolume::write(std::uint64_t offset, Buffer data, bool durable) {
  const std::size_t size = data.size();
  return patience_.within(write_data(offset, std::make_shared<const Buffer>(std::move(data)), size, durable),
                          shared_from_this());
}

Task<Status> OpenVolume::write_zeroes(std::uint64_t offset, std::uint64_t length, bool durable, Room room) {
  const bool keeps_room = room == Room::kKept;
  if (keeps_room && zeroes_ == nullptr) zeroes_ = std::make_shared<const Buffer>(zeros(kPiece));
  const std::uint64_t step = keeps_room ? kPiece : kHoleAtOnce;
  for (std::uint64_t at = 0; at < length; at += step) {
    const auto size = static_cast<std::size_t>(std::min(step, length - at));
    SLICE_CO_RETURN_IF_ERROR(co_await patience_.within(
        write_data(offset + at, keeps_room ? zeroes_ : nullptr, size, durable), shared_from_this()));
  }
  co_return Status{};
}

// In one stripe unit.
Task<Result<std::vector<Extent>>> OpenVolume::extents_within(std::uint64_t offset, std::uint64_t length) {
  std::vector<Extent> out;
  const auto before = unflushed_.within(offset, length);
  for (std::uint64_t at = 0; at < length;) {
    auto extent = co_await file_->extent(options_.begin + offset + at);
    if (!extent) co_return fail(noted(std::move(extent.error())));
    extent->length = std::min(extent->length, length - at);
    append(out, *extent);
    at += extent->length;
  }
  // A server may have lost what is kept here, before this or meanwhile.
  out = with_data(out, offset, before);
  co_return with_data(out, offset, unflushed_.within(offset, length));
}

Task<Result<std::vector<Extent>>> OpenVolume::extents(std::uint64_t offset, std::uint64_t length) {
  const std::uint64_t unit = options_.stripe_unit, end = offset + length;
  std::vector<Extent> out;
  for (std::size_t told = 0; offset < end && told < kMostUnitsTold; told += kUnitsAsked) {
    std::vector<Task<Result<std::vector<Extent>>>> units;
    while (offset < end && units.size() < kUnitsAsked) {
      const std::uint64_t to = std::min(end, (offset / unit + 1) * unit);
      units.push_back(extents_within(offset, to - offset));
      offset = to;
    }
    for (auto& each : co_await all(std::move(units))) {
      if (!each) co_return fail(std::move(each.error()));
      for (const Extent& extent : *each) append(out, extent);
    }
  }
  co_return out;
}

Task<Status> OpenVolume::flush() {
  return patience_.within(flush_all(), shared_from_this());
}

Task<Status> OpenVolume::flush_all() {
  const auto one = co_await flushing_.lock();
  if (unflushed_.empty() && nothing_of_others_) co_return Status{};
  const std::uint64_t last = unflushed_.last();
  auto verifier = co_await file_->commit();
  if (!verifier) co_return fail(noted(std::move(verifier.error())));
  nothing_of_others_ = true;
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
  for (const Piece& piece : unflushed_.others(last, verifier)) {
    auto written = co_await write_piece(piece, true);
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
