#include "storage/read_only_disk.h"

#include <utility>

namespace slice::storage {
namespace {

Status refused(const std::string& path) {
  return fail(Errc::kDenied, "{}: it is only to be read", path);
}

class ReadOnlyFile : public File {
 public:
  ReadOnlyFile(std::string path, std::unique_ptr<File> file)
      : path_(std::move(path)), file_(std::move(file)) {}

  Task<Result<std::size_t>> read(std::uint64_t offset, ByteSpan into) override {
    return file_->read(offset, into);
  }
  Task<Status> read_pieces(std::span<ReadPiece> pieces) override { return file_->read_pieces(pieces); }
  Task<Status> write(std::uint64_t /*offset*/, ByteView /*bytes*/) override { co_return refused(path_); }
  Task<Status> sync() override { co_return refused(path_); }
  Task<Status> truncate(std::uint64_t /*size*/) override { co_return refused(path_); }
  Task<Status> punch(std::uint64_t /*offset*/, std::uint64_t /*length*/) override {
    co_return refused(path_);
  }
  std::uint64_t size() const override { return file_->size(); }
  Result<std::uint64_t> allocated() const override { return file_->allocated(); }
  Result<std::vector<Range>> data_ranges(std::uint64_t offset, std::size_t limit) const override {
    return file_->data_ranges(offset, limit);
  }

 private:
  const std::string path_;
  const std::unique_ptr<File> file_;
};

}  // namespace

Task<Result<std::unique_ptr<File>>> ReadOnlyDisk::open(std::string path, Mode /*mode*/) {
  auto file = co_await disk_.open(path, Mode::kMustExist);
  if (!file) co_return fail(std::move(file).error());
  co_return std::make_unique<ReadOnlyFile>(std::move(path), std::move(*file));
}

Task<Status> ReadOnlyDisk::remove(std::string path) {
  co_return refused(path);
}
Task<Status> ReadOnlyDisk::rename(std::string from, std::string /*to*/) {
  co_return refused(from);
}
Task<Status> ReadOnlyDisk::sync_folder(std::string folder) {
  co_return refused(folder);
}

}  // namespace slice::storage
