#include "storage/traced_disk.h"

#include <utility>

#include "common/trace.h"

namespace slice::storage {
namespace {

using Kind = TraceStep::Kind;

// What `task` takes is a step of the operation that awaits this.
template <class T>
Task<T> as_step(Kind kind, const std::string& path, Task<T> task) {
  TraceScope step(co_await current_trace(), kind, path);
  co_return co_await task;
}

// Hands its operations on as they are where nobody watches: no coroutine more.
class TracedFile : public File {
 public:
  TracedFile(std::unique_ptr<File> file, std::string path, const std::function<bool()>& on)
      : file_(std::move(file)), path_(std::move(path)), on_(on) {}

  Task<Result<std::size_t>> read(std::uint64_t offset, ByteSpan into) override {
    return traced(Kind::kRead, file_->read(offset, into));
  }
  Task<Status> write(std::uint64_t offset, ByteView bytes) override {
    return traced(Kind::kWrite, file_->write(offset, bytes));
  }
  Task<Status> read_pieces(std::span<ReadPiece> pieces) override {
    return traced(Kind::kRead, file_->read_pieces(pieces));
  }
  Task<Status> write_pieces(std::span<const WritePiece> pieces) override {
    return traced(Kind::kWrite, file_->write_pieces(pieces));
  }
  Task<Status> sync() override { return traced(Kind::kSync, file_->sync()); }
  Task<Status> truncate(std::uint64_t size) override { return traced(Kind::kWrite, file_->truncate(size)); }
  Task<Status> punch(std::uint64_t offset, std::uint64_t length) override {
    return traced(Kind::kWrite, file_->punch(offset, length));
  }
  std::uint64_t size() const override { return file_->size(); }
  Result<std::uint64_t> allocated() const override { return file_->allocated(); }
  Result<std::vector<Range>> data_ranges(std::uint64_t offset, std::size_t limit) const override {
    return file_->data_ranges(offset, limit);
  }
  void will_read(std::uint64_t offset, std::uint64_t length) override { file_->will_read(offset, length); }
  bool in_memory() const override { return file_->in_memory(); }
  void start_write_back(std::uint64_t offset, std::uint64_t length) override {
    file_->start_write_back(offset, length);
  }

 private:
  template <class T>
  Task<T> traced(Kind kind, Task<T> task) {
    return on_() ? as_step(kind, path_, std::move(task)) : std::move(task);
  }

  const std::unique_ptr<File> file_;
  const std::string path_;
  const std::function<bool()>& on_;
};

}  // namespace

TracedDisk::TracedDisk(std::unique_ptr<Disk> disk, std::function<bool()> on)
    : disk_(std::move(disk)), on_(std::move(on)) {}
TracedDisk::~TracedDisk() = default;

Task<Result<std::unique_ptr<File>>> TracedDisk::open(std::string path, Mode mode) {
  auto file = co_await disk_->open(path, mode);
  if (!file) co_return fail(std::move(file).error());
  co_return std::make_unique<TracedFile>(std::move(*file), std::move(path), on_);
}

}  // namespace slice::storage
