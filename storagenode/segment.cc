#include "storagenode/segment.h"

#include <algorithm>
#include <array>
#include <vector>

#include "common/log.h"

namespace slice::storagenode {
namespace {

constexpr std::uint64_t kWriteBackStep = 8 << 20;  // written bytes after which they are sent to the disk

std::uint64_t blocks_of(std::uint64_t bytes) {
  return (bytes + kBlock - 1) / kBlock;
}

LogLimiter& corruption_log() {
  static LogLimiter limiter(20);
  return limiter;
}

}  // namespace

StoreFigures::StoreFigures(Metrics& metrics)
    : checksum_errors(metrics.counter(
          "store_checksum_errors_total",
          "blocks whose checksum was wrong: answered NFS3ERR_IO and logged with object and offset")),
      io_errors(metrics.counter("store_io_errors_total", "errors of the disk")),
      torn_blocks(metrics.counter("store_torn_blocks_total",
                                  "blocks that a crash left torn; never acknowledged as stable")),
      sync_failures(metrics.counter("store_sync_failures_total", "failed syncs of segments")),
      no_space(metrics.counter("store_no_space_total", "writes answered NFS3ERR_NOSPC")),
      read_bytes(metrics.counter("store_read_bytes_total", "bytes read from segments")),
      direct_read_bytes(metrics.counter("store_direct_read_bytes_total",
                                        "bytes read from segments that came past the page cache")),
      written_bytes(metrics.counter("store_written_bytes_total", "bytes written to segments")),
      scrubbed_bytes(
          metrics.counter("store_scrubbed_bytes_total", "bytes read and verified in the background")),
      scrub_passes(metrics.counter("store_scrub_passes_total",
                                   "whole passes of reading and verifying over everything")),
      open_segments(metrics.gauge("store_open_segments", "segment files open")),
      marked_granules(
          metrics.gauge("store_marked_granules",
                        "ranges marked as being written, which a start after a crash has to look at")) {}

Segment::Segment(SegmentName name, std::unique_ptr<storage::File> file, StoreFigures& figures)
    : name_(name), file_(std::move(file)), figures_(figures), seed_(segment_seed(name)) {
  header_.name = name;
  std::uint64_t size = file_->size();
  end_ = size > kDataStart ? std::min(size - kDataStart, kSegment) : 0;
}

Task<Status> Segment::load_header() {
  std::array<std::uint8_t, 2 * kHeaderSlot> slots{};
  auto got = co_await file_->read(0, slots);
  if (!got) co_return fail(got.error());
  auto [header, damaged, equal] = decode_header(ByteView(slots).first(*got));
  if (!header || header->name != name_) {
    co_return fail(Errc::kCorrupt, "object {} segment {}: its file has {}", to_string(name_.object),
                   name_.index, header ? "another segment's header" : "no valid header");
  }
  header_ = *header;
  header_is_damaged_ = damaged;
  header_is_whole_ = equal;
  co_return Status{};
}

Task<Status> Segment::write_header(Epoch epoch, bool has_more) {
  SegmentHeader next = header_;
  next.epoch = epoch;
  next.has_more = has_more;
  next.twice = true;
  std::array<std::uint8_t, 2 * kHeaderSlot> slots{};
  for (int copy = 0; copy < 2; ++copy) {
    ++next.sequence;
    auto slot = encode_header(next);
    std::copy(slot.begin(), slot.end(), slots.data() + header_slot_offset(next.sequence));
  }
  ++written_;
  SLICE_CO_RETURN_IF_ERROR(co_await file_->write(0, slots));
  header_ = next;
  header_is_whole_ = true;
  co_return Status{};
}

tl::unexpected<Error> Segment::mismatch(std::uint64_t block, std::uint32_t stored, std::uint32_t computed) {
  figures_.checksum_errors.add();
  std::uint64_t offset = name_.index * kSegment + block * kBlock;
  if (corruption_log().allow()) {
    log_error("corrupted block object={} offset={} length={} stored={:08x} computed={:08x}",
              to_string(name_.object), offset, kBlock, stored, computed);
  }
  return fail(Errc::kCorrupt, "object {}: block at offset {} does not fit its checksum",
              to_string(name_.object), offset);
}

Status Segment::refuse_broken() const {
  if (!broken_) return {};
  return fail(Errc::kIo, "object {}: an earlier error of its disk is not repaired", to_string(name_.object));
}

// The bytes of whole blocks as they are on disk, zeros behind the end.
Task<Status> Segment::read_raw(std::uint64_t first, ByteSpan into) {
  auto got = co_await file_->read(kDataStart + first * kBlock, into);
  if (!got) {
    figures_.io_errors.add();
    co_return fail(got.error());
  }
  std::memset(into.data() + *got, 0, into.size() - *got);
  co_return Status{};
}

Task<Result<Buffer>> Segment::read_sums(std::uint64_t first, std::size_t count) {
  Buffer sums(count * 4);
  auto got = co_await file_->read(kSumsStart + first * 4, sums.span());
  if (!got) {
    figures_.io_errors.add();
    co_return fail(got.error());
  }
  std::memset(sums.data() + *got, 0, sums.size() - *got);
  co_return sums;
}

Task<Status> Segment::write_sums(std::uint64_t first, const std::uint32_t* sums, std::size_t count) {
  Buffer bytes(count * 4);
  for (std::size_t i = 0; i < count; ++i) store_be(bytes.data() + i * 4, sums[i]);
  co_return co_await file_->write(kSumsStart + first * 4, bytes.view());
}

Task<Status> Segment::read_blocks(std::uint64_t first, ByteSpan into) {
  std::size_t count = into.size() / kBlock;
  Buffer stored(count * 4);
  std::array<storage::ReadPiece, 2> pieces{
      {{kDataStart + first * kBlock, into}, {kSumsStart + first * 4, stored.span()}}};
  if (auto status = co_await file_->read_pieces(pieces); !status) {
    figures_.io_errors.add();
    co_return status;
  }
  if (pieces[0].direct) figures_.direct_read_bytes.add(pieces[0].got);
  for (const auto& piece : pieces)
    std::memset(piece.into.data() + piece.got, 0, piece.into.size() - piece.got);
  std::array<std::uint32_t, 64> computed;
  for (std::size_t done = 0; done < count;) {
    std::size_t n = std::min(count - done, computed.size());
    compute_sums(into.subspan(done * kBlock, n * kBlock), seed_, first + done, computed.data());
    for (std::size_t i = 0; i < n; ++i) {
      auto sum = load_be<std::uint32_t>(stored.data() + (done + i) * 4);
      if (sum != computed[i]) co_return mismatch(first + done + i, sum, computed[i]);
    }
    done += n;
  }
  co_return Status{};
}

Task<Result<std::size_t>> Segment::read(std::uint64_t offset, ByteSpan into) {
  if (auto refused = refuse_broken(); !refused) co_return fail(refused.error());
  if (offset >= end_) co_return std::size_t{0};
  std::size_t n = std::min<std::uint64_t>(into.size(), end_ - offset);
  std::size_t done = 0;
  while (done < n) {
    std::uint64_t at = offset + done, block = at / kBlock;
    std::size_t whole = at % kBlock == 0 ? (n - done) / kBlock * kBlock : 0;
    if (whole > 0) {
      auto status = co_await read_blocks(block, into.subspan(done, whole));
      if (!status) co_return fail(status.error());
      done += whole;
      continue;
    }
    std::array<std::uint8_t, kBlock> scratch;
    auto status = co_await read_blocks(block, scratch);
    if (!status) co_return fail(status.error());
    std::size_t here = std::min<std::size_t>(n - done, kBlock - at % kBlock);
    std::memcpy(into.data() + done, scratch.data() + at % kBlock, here);
    done += here;
  }
  figures_.read_bytes.add(n);
  co_return n;
}

// The checksum of a block that `bytes` at `offset` cover in part, with what it has in the rest.
Task<Result<std::uint32_t>> Segment::composed_sum(std::uint64_t block, std::uint64_t offset, ByteView bytes) {
  std::array<std::uint8_t, kBlock> scratch{};
  std::uint64_t start = block * kBlock;
  std::uint64_t from = std::max(offset, start), to = std::min(offset + bytes.size(), start + kBlock);
  bool keeps = (from > start && start < end_) || to < std::min(end_, start + kBlock);
  if (keeps) {
    auto status = co_await read_blocks(block, scratch);
    if (!status) co_return fail(status.error());
  }
  std::memcpy(scratch.data() + (from - start), bytes.data() + (from - offset), to - from);
  std::uint32_t sum = 0;
  compute_sums(scratch, seed_, block, &sum);
  co_return sum;
}

Task<Status> Segment::write(std::uint64_t offset, ByteView bytes) {
  SLICE_CO_RETURN_IF_ERROR(refuse_broken());
  if (bytes.empty()) co_return Status{};
  std::uint64_t first = offset / kBlock, last = (offset + bytes.size() - 1) / kBlock;
  Buffer sums((last - first + 1) * 4);
  for (std::uint64_t block = first; block <= last;) {
    std::uint64_t start = block * kBlock;
    std::uint64_t whole = start < offset ? 0 : (offset + bytes.size() - start) / kBlock;
    std::array<std::uint32_t, 64> computed;
    if (whole == 0) {
      auto sum = co_await composed_sum(block, offset, bytes);
      if (!sum) co_return fail(sum.error());
      computed[0] = *sum;
      whole = 1;
    } else {
      whole = std::min<std::uint64_t>(whole, computed.size());
      compute_sums(bytes.subspan(start - offset, whole * kBlock), seed_, block, computed.data());
    }
    for (std::size_t i = 0; i < whole; ++i) {
      store_be(sums.data() + (block - first + i) * 4, computed[i]);
    }
    block += whole;
  }
  co_return co_await write_both(offset, bytes, first, sums);
}

// Checksums first: where they find no space nothing has changed yet, and once they are there, making them fit
// again after a failed write of data needs none.
Task<Status> Segment::write_both(std::uint64_t offset, ByteView bytes, std::uint64_t first,
                                 const Buffer& sums) {
  ++written_;
  std::array<storage::WritePiece, 2> pieces{
      {{kSumsStart + first * 4, sums.view()}, {kDataStart + offset, bytes}}};
  Status status = co_await file_->write_pieces(pieces);
  if (!status) {
    auto& figure = status.error().code == Errc::kNoSpace ? figures_.no_space : figures_.io_errors;
    figure.add();
    if (auto repaired = co_await repair_blocks(first, first + sums.size() / 4 - 1); !repaired) {
      log_error("cannot make checksums fit after a failed write object={} offset={}: {}",
                to_string(name_.object), name_.index * kSegment + offset, repaired.error().message);
      broken_ = true;
    }
    co_return status;
  }
  end_ = std::max(end_, offset + bytes.size());
  figures_.written_bytes.add(bytes.size());
  write_back_bytes_ += bytes.size();
  write_back_from_ = std::min(write_back_from_, offset);
  if (write_back_bytes_ >= kWriteBackStep) {
    file_->start_write_back(kDataStart + write_back_from_, end_ - write_back_from_);
    write_back_from_ = end_;
    write_back_bytes_ = 0;
  }
  co_return Status{};
}

Task<Status> Segment::truncate(std::uint64_t size) {
  SLICE_CO_RETURN_IF_ERROR(refuse_broken());
  if (size >= end_) co_return Status{};
  std::uint64_t block = size / kBlock, old_blocks = blocks_of(end_);
  std::optional<std::uint32_t> partial;
  if (size % kBlock != 0) {
    std::array<std::uint8_t, kBlock> scratch;
    auto read = co_await read_blocks(block, scratch);
    // A corrupted block stays one: its checksum is left alone.
    if (!read && read.error().code != Errc::kCorrupt) co_return read;
    if (read) {
      std::memset(scratch.data() + size % kBlock, 0, kBlock - size % kBlock);
      partial.emplace();
      compute_sums(scratch, seed_, block, &*partial);
    }
    ++block;
  }
  ++written_;
  SLICE_CO_RETURN_IF_ERROR(co_await file_->truncate(kDataStart + size));
  end_ = size;
  if (partial) SLICE_CO_RETURN_IF_ERROR(co_await write_sums(block - 1, &*partial, 1));
  if (block < old_blocks) {
    SLICE_CO_RETURN_IF_ERROR(co_await file_->punch(kSumsStart + block * 4, (old_blocks - block) * 4));
  }
  co_return Status{};
}

Task<Status> Segment::discard(std::uint64_t offset, std::uint64_t length) {
  SLICE_CO_RETURN_IF_ERROR(refuse_broken());
  if (offset >= end_) co_return Status{};
  length = std::min(length, end_ - offset);
  ++written_;
  // Of a block that the file ends in a part alone would stay where it is.
  SLICE_CO_RETURN_IF_ERROR(co_await file_->punch(kDataStart + offset, blocks_of(length) * kBlock));
  co_return co_await file_->punch(kSumsStart + offset / kBlock * 4, blocks_of(length) * 4);
}

std::uint64_t Segment::stored() const {
  auto allocated = file_->allocated();
  if (!allocated) return end_;
  if (*allocated <= kSumsStart) return 0;
  // Each 4 KiB of checksums stand for 1024 blocks.
  constexpr std::uint64_t kSumsReach = kBlock / 4 * kBlock;
  const std::uint64_t both = *allocated - kSumsStart;
  const std::uint64_t sums = (both + kSumsReach + kBlock - 1) / (kSumsReach + kBlock) * kBlock;
  return both > sums ? both - sums : 0;
}

Task<Status> Segment::sync() {
  std::uint64_t covers = written_;
  ++syncing_;
  Status status = co_await file_->sync();
  --syncing_;
  if (status) {
    synced_ = std::max(synced_, covers);
  } else {
    sync_failed_ = true;
  }
  co_return status;
}

Result<bool> Segment::has_no_data(std::uint64_t first, std::size_t count) const {
  auto ranges = file_->data_ranges(kDataStart + first * kBlock, 1);
  if (!ranges) return fail(ranges.error());
  return ranges->empty() || ranges->front().offset >= kDataStart + (first + count) * kBlock;
}

Task<Result<bool>> Segment::is_hole(std::uint64_t first, std::size_t count) {
  auto empty = has_no_data(first, count);
  if (!empty || !*empty) co_return empty;
  auto sums = co_await read_sums(first, count);
  if (!sums) co_return fail(sums.error());
  co_return std::all_of(sums->data(), sums->data() + sums->size(), [](auto byte) { return byte == 0; });
}

Task<Status> Segment::repair_blocks(std::uint64_t first, std::uint64_t last) {
  std::uint64_t size = file_->size();
  end_ = size > kDataStart ? std::min(size - kDataStart, kSegment) : 0;
  for (std::size_t count = 0; first <= last; first += count) {
    count = std::min<std::uint64_t>(last - first + 1, kBlocksPerGranule);
    auto stored = co_await read_sums(first, count);
    if (!stored) co_return fail(stored.error());
    auto hole = has_no_data(first, count);
    if (!hole) co_return fail(hole.error());
    std::vector<std::uint32_t> sums(count);  // a hole's are 0
    if (!*hole) {
      Buffer data(count * kBlock);
      SLICE_CO_RETURN_IF_ERROR(co_await read_raw(first, data.span()));
      compute_sums(data.view(), seed_, first, sums.data());
    }
    std::uint64_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
      wrong += sums[i] != load_be<std::uint32_t>(stored->data() + i * 4) ? 1 : 0;
    }
    if (wrong > 0) {
      figures_.torn_blocks.add(wrong);
      ++written_;
      if (first * kBlock < end_) {
        SLICE_CO_RETURN_IF_ERROR(co_await write_sums(first, sums.data(), count));
      } else {
        SLICE_CO_RETURN_IF_ERROR(co_await file_->punch(kSumsStart + first * 4, count * 4));
      }
    }
  }
  co_return Status{};
}

Task<Status> Segment::rewrite_data(std::uint64_t offset, std::uint64_t end) {
  auto ranges = file_->data_ranges(kDataStart + offset, kBlocksPerGranule);
  if (!ranges) co_return fail(ranges.error());
  for (const auto& range : *ranges) {
    if (range.offset >= kDataStart + end) break;
    std::uint64_t to = std::min(range.offset + range.length, kDataStart + end);
    Buffer data(to - range.offset);
    auto got = co_await file_->read(range.offset, data.span());
    if (!got) co_return fail(got.error());
    ++written_;
    SLICE_CO_RETURN_IF_ERROR(co_await file_->write(range.offset, data.view().first(*got)));
  }
  co_return Status{};
}

Task<Status> Segment::repair(const Granules& granules, bool rewrite) {
  for (std::size_t i = 0; i < granules.size(); ++i) {
    if (!granules[i]) continue;
    std::uint64_t first = i * kBlocksPerGranule;
    if (rewrite && i * kGranule < end_) {
      SLICE_CO_RETURN_IF_ERROR(co_await rewrite_data(i * kGranule, std::min(end_, (i + 1) * kGranule)));
    }
    SLICE_CO_RETURN_IF_ERROR(co_await repair_blocks(first, first + kBlocksPerGranule - 1));
    if (rewrite) {
      auto sums = co_await read_sums(first, kBlocksPerGranule);
      if (!sums) co_return fail(sums.error());
      ++written_;
      SLICE_CO_RETURN_IF_ERROR(co_await file_->write(kSumsStart + first * 4, sums->view()));
    }
  }
  co_return Status{};
}

Task<Result<std::uint64_t>> Segment::scrub(std::size_t granule) {
  std::uint64_t from = granule * kGranule;
  if (from >= end_ || broken_) co_return std::uint64_t{0};
  std::size_t count = std::min(kBlocksPerGranule, blocks_of(end_ - from));
  auto hole = co_await is_hole(granule * kBlocksPerGranule, count);
  if (!hole) co_return fail(hole.error());
  if (*hole) co_return std::uint64_t{0};
  Buffer data(count * kBlock);
  auto status = co_await read_blocks(granule * kBlocksPerGranule, data.span());
  if (!status) co_return fail(status.error());
  co_return data.size();
}

void Segment::reopen(std::unique_ptr<storage::File> file) {
  file_ = std::move(file);
  sync_failed_ = false;
}

}  // namespace slice::storagenode
