#include "storage/emulated_disk.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace slice::storage {
namespace {

DiskModel::FileKey key_of(const std::string& path) {
  return std::hash<std::string>{}(path);
}

Task<void> wait_until(Loop& loop, MonoTime when) {
  if (when > loop.now()) co_await loop.sleep(when - loop.now());
}

class EmulatedFile : public File {
 public:
  EmulatedFile(Loop& loop, DiskModel& model, std::unique_ptr<File> file, DiskModel::FileKey key)
      : loop_(loop), model_(model), file_(std::move(file)), key_(key) {}

  Task<Result<std::size_t>> read(std::uint64_t offset, ByteSpan into) override {
    MonoTime end = begin_read(offset, into.size());
    auto got = co_await file_->read(offset, into);
    co_await wait_until(loop_, end);
    co_return got;
  }
  Task<Status> read_pieces(std::span<ReadPiece> pieces) override {
    MonoTime end = loop_.now();
    for (const ReadPiece& piece : pieces) end = std::max(end, begin_read(piece.offset, piece.into.size()));
    auto status = co_await file_->read_pieces(pieces);
    co_await wait_until(loop_, end);
    co_return status;
  }
  Task<Status> write(std::uint64_t offset, ByteView bytes) override {
    MonoTime end = model_.write(key_, offset, bytes.size());
    auto status = co_await file_->write(offset, bytes);
    co_await wait_until(loop_, end);
    co_return status;
  }
  Task<Status> write_pieces(std::span<const WritePiece> pieces) override {
    MonoTime end = loop_.now();
    for (const WritePiece& piece : pieces) {
      end = std::max(end, model_.write(key_, piece.offset, piece.bytes.size()));
    }
    auto status = co_await file_->write_pieces(pieces);
    co_await wait_until(loop_, end);
    co_return status;
  }
  Task<Status> sync() override {
    MonoTime end = model_.sync(key_);
    auto status = co_await file_->sync();
    co_await wait_until(loop_, end);
    co_return status;
  }
  Task<Status> truncate(std::uint64_t size) override {
    model_.forget(key_, size, UINT64_MAX);
    co_return co_await file_->truncate(size);
  }
  Task<Status> punch(std::uint64_t offset, std::uint64_t length) override {
    model_.forget(key_, offset, length);
    co_return co_await file_->punch(offset, length);
  }
  std::uint64_t size() const override { return file_->size(); }
  Result<std::uint64_t> allocated() const override { return file_->allocated(); }
  Result<std::vector<Range>> data_ranges(std::uint64_t offset, std::size_t limit) const override {
    return file_->data_ranges(offset, limit);
  }
  void will_read(std::uint64_t offset, std::uint64_t length) override {
    begin_read(offset, length);
    file_->will_read(offset, length);
  }
  void start_write_back(std::uint64_t offset, std::uint64_t length) override {
    model_.start_write_back(key_, offset, length);
    file_->start_write_back(offset, length);
  }

 private:
  // There is nothing to read behind the end.
  MonoTime begin_read(std::uint64_t offset, std::uint64_t length) {
    std::uint64_t size = file_->size();
    return model_.read(key_, offset, offset < size ? std::min(length, size - offset) : 0);
  }

  Loop& loop_;
  DiskModel& model_;
  std::unique_ptr<File> file_;
  DiskModel::FileKey key_;
};

}  // namespace

EmulatedDisk::EmulatedDisk(Loop& loop, std::unique_ptr<Disk> disk, DiskModel::Options options,
                           Metrics& metrics)
    : loop_(loop), disk_(std::move(disk)), model_(loop, options, metrics) {}
EmulatedDisk::~EmulatedDisk() = default;

Task<Result<std::unique_ptr<File>>> EmulatedDisk::open(std::string path, Mode mode) {
  auto key = key_of(path);
  auto file = co_await disk_->open(std::move(path), mode);
  if (!file) co_return fail(std::move(file).error());
  co_return std::make_unique<EmulatedFile>(loop_, model_, std::move(*file), key);
}

Task<Status> EmulatedDisk::remove(std::string path) {
  auto key = key_of(path);
  auto status = co_await disk_->remove(std::move(path));
  if (status) model_.forget(key);
  co_return status;
}

Task<Status> EmulatedDisk::rename(std::string from, std::string to) {
  auto left = key_of(from), covered = key_of(to);
  auto status = co_await disk_->rename(std::move(from), std::move(to));
  if (!status) co_return status;
  model_.forget(left);
  model_.forget(covered);
  co_return status;
}

Task<Result<std::vector<std::string>>> EmulatedDisk::list(std::string folder) {
  return disk_->list(std::move(folder));
}

Task<Status> EmulatedDisk::sync_folder(std::string folder) {
  MonoTime end = model_.sync_folder(key_of(folder));
  auto status = co_await disk_->sync_folder(std::move(folder));
  co_await wait_until(loop_, end);
  co_return status;
}

Result<Space> EmulatedDisk::space() const {
  return disk_->space();
}

}  // namespace slice::storage
