#include "storage/end_mark.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/crc32c.h"

namespace slice::storage {
namespace {

constexpr std::string_view kMagic = "SLICEEND";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kVersionAt = 8, kCountAt = 16, kEndAt = 24, kBeginAt = 32, kManifestAt = 40,
                      kManifestBytesAt = 48, kCrcAt = kEndMarkSlot - 4;

std::optional<CountedEndMark> decode_slot(ByteView slot) {
  if (slot.size() < kEndMarkSlot || as_text(slot.first(kMagic.size())) != kMagic) return std::nullopt;
  const std::uint8_t* at = slot.data();
  if (load_be<std::uint32_t>(at + kVersionAt) != kVersion) return std::nullopt;
  if (load_be<std::uint32_t>(at + kCrcAt) != crc32c(slot.first(kCrcAt))) return std::nullopt;
  return CountedEndMark{.mark = {.end = load_be<std::uint64_t>(at + kEndAt),
                                 .begin = load_be<std::uint64_t>(at + kBeginAt),
                                 .manifest = load_be<std::uint64_t>(at + kManifestAt),
                                 .manifest_bytes = load_be<std::uint64_t>(at + kManifestBytesAt)},
                        .count = load_be<std::uint64_t>(at + kCountAt)};
}

}  // namespace

std::array<std::uint8_t, kEndMarkSlot> encode_end_mark(const EndMark& mark, std::uint64_t count) {
  std::array<std::uint8_t, kEndMarkSlot> slot{};
  std::copy(kMagic.begin(), kMagic.end(), slot.begin());
  store_be<std::uint32_t>(slot.data() + kVersionAt, kVersion);
  store_be<std::uint64_t>(slot.data() + kCountAt, count);
  store_be<std::uint64_t>(slot.data() + kEndAt, mark.end);
  store_be<std::uint64_t>(slot.data() + kBeginAt, mark.begin);
  store_be<std::uint64_t>(slot.data() + kManifestAt, mark.manifest);
  store_be<std::uint64_t>(slot.data() + kManifestBytesAt, mark.manifest_bytes);
  store_be<std::uint32_t>(slot.data() + kCrcAt, crc32c(ByteView(slot).first(kCrcAt)));
  return slot;
}

Buffer new_end_mark_file(const EndMark& mark) {
  Buffer bytes;
  bytes.append(encode_end_mark(mark, 0));
  std::memset(bytes.extend(kEndMarkSlot), 0, kEndMarkSlot);
  return bytes;
}

Result<CountedEndMark> decode_end_mark_file(ByteView bytes, const std::string& path) {
  std::optional<CountedEndMark> newest;
  if (bytes.size() == kEndMarkFile) {
    for (std::size_t at = 0; at < kEndMarkFile; at += kEndMarkSlot) {
      auto slot = decode_slot(bytes.subspan(at, kEndMarkSlot));
      if (slot && (!newest || slot->count > newest->count)) newest = slot;
    }
  }
  if (!newest) {
    return fail(Errc::kCorrupt, "{}: no mark in it is whole: how far the log must go is not known. {}", path,
                end_mark_cure(path));
  }
  return *newest;
}

std::string end_mark_cure(const std::string& path) {
  return fmt::format("Restore the data directory from a backup; or, to go on with what is left, remove {}",
                     path);
}

Task<Result<std::optional<EndMark>>> EndMarkFile::read() {
  auto file = co_await disk_.open(path_, Disk::Mode::kMustExist);
  if (!file && file.error().code == Errc::kNotFound) co_return std::optional<EndMark>();
  if (!file) co_return fail(file.error(), path_);
  Buffer bytes(std::min<std::size_t>((*file)->size(), kEndMarkFile + 1));
  auto got = co_await (*file)->read(0, bytes.span());
  if (!got) co_return fail(got.error(), path_);
  auto found = decode_end_mark_file(bytes.view().first(*got), path_);
  if (!found) co_return fail(std::move(found).error());
  file_ = std::move(*file);
  mark_ = found->mark;
  count_ = found->count;
  durable_ = false;  // the process before may have been killed between writing it and its sync
  co_return std::optional<EndMark>(mark_);
}

Task<Status> EndMarkFile::record_end(std::uint64_t end) {
  EndMark mark = mark_;
  mark.end = end;
  co_return co_await record(mark);
}

Task<Status> EndMarkFile::record_begin(std::uint64_t begin) {
  EndMark mark = mark_;
  mark.begin = begin;
  co_return co_await record(mark);
}

Task<Status> EndMarkFile::record(EndMark mark) {
  auto self = shared_from_this();
  auto lock = co_await writing_.lock();
  mark.end = std::max(mark.end, mark_.end);
  mark.begin = std::max(mark.begin, mark_.begin);
  if (file_ && mark == mark_ && durable_) co_return Status{};
  Status status = !file_          ? co_await make(mark)
                  : mark == mark_ ? co_await file_->sync()
                                  : co_await write_slot(mark);
  if (status) {
    mark_ = mark;
    durable_ = true;
  } else {
    file_.reset();  // what is in it is not known: the next one makes it anew
  }
  co_return status;
}

Task<Status> EndMarkFile::write_slot(const EndMark& mark) {
  auto slot = encode_end_mark(mark, ++count_);
  SLICE_CO_RETURN_IF_ERROR(co_await file_->write(counted_at(count_), slot));
  co_return co_await file_->sync();
}

// A file that is not whole would keep the log from being opened: it gets its name when it is.
Task<Status> EndMarkFile::make(const EndMark& mark) {
  std::string beside = path_ + ".new";
  {
    auto file = co_await disk_.open(beside, Disk::Mode::kCreate);
    if (!file) co_return fail(file.error(), beside);
    Buffer bytes = new_end_mark_file(mark);
    SLICE_CO_RETURN_IF_ERROR(co_await (*file)->truncate(0));
    SLICE_CO_RETURN_IF_ERROR(co_await (*file)->write(0, bytes.view()));
    SLICE_CO_RETURN_IF_ERROR(co_await (*file)->sync());
  }
  SLICE_CO_RETURN_IF_ERROR(co_await disk_.rename(beside, path_));
  SLICE_CO_RETURN_IF_ERROR(co_await disk_.sync_folder(""));
  auto file = co_await disk_.open(path_, Disk::Mode::kMustExist);
  if (!file) co_return fail(file.error(), path_);
  file_ = std::move(*file);
  count_ = 0;
  co_return Status{};
}

}  // namespace slice::storage
