#include "service/backing/backed_disk.h"

#include <algorithm>
#include <set>
#include <utility>

namespace slice::service {
namespace {

using wire::BackingOp;

constexpr std::size_t kPiece = wire::kBackingPiece;  // bytes of one change
constexpr std::uint64_t kSpaceMargin = 4ull << 20;   // for what is under way, and for names

class BackedFile final : public storage::File {
 public:
  BackedFile(BackingSet& set, std::shared_ptr<SetFile> file) : set_(set), file_(std::move(file)) {}

  Task<Result<std::size_t>> read(std::uint64_t offset, ByteSpan into) override {
    if (offset >= file_->size) co_return std::size_t{0};
    into = into.first(std::min<std::uint64_t>(into.size(), file_->size - offset));
    std::size_t done = 0;
    while (done < into.size()) {
      auto got =
          co_await set_.read(file_, offset + done, into.subspan(done, std::min(kPiece, into.size() - done)));
      if (!got) co_return fail(std::move(got).error());
      if (*got == 0) break;  // it was truncated meanwhile
      done += *got;
    }
    co_return done;
  }

  Task<Status> write(std::uint64_t offset, ByteView bytes) override {
    if (set_.space().free_bytes < bytes.size() + kSpaceMargin) {
      co_return fail(Errc::kNoSpace, "backing set: a member has no room for {} bytes of {}", bytes.size(),
                     file_->path);
    }
    for (std::size_t done = 0; done < bytes.size();) {
      SLICE_CO_RETURN_IF_ERROR(co_await set_.room());
      const ByteView piece = bytes.subspan(done, std::min(kPiece, bytes.size() - done));
      set_.add(file_, BackingOp::kWrite, offset + done, 0, piece);
      done += piece.size();
    }
    co_return set_.intact();
  }

  Task<Status> sync() override {
    co_return co_await set_.carried_out(set_.add(file_, BackingOp::kSync, 0, 0, {}));
  }

  Task<Status> truncate(std::uint64_t size) override {
    SLICE_CO_RETURN_IF_ERROR(co_await set_.room());
    set_.add(file_, BackingOp::kTruncate, 0, size, {});
    co_return set_.intact();
  }

  Task<Status> punch(std::uint64_t offset, std::uint64_t length) override {
    SLICE_CO_RETURN_IF_ERROR(co_await set_.room());
    set_.add(file_, BackingOp::kPunch, offset, length, {});
    co_return set_.intact();
  }

  std::uint64_t size() const override { return file_->size; }
  Result<std::uint64_t> allocated() const override { return std::min(file_->allocated, file_->size); }
  Result<std::vector<storage::Range>> data_ranges(std::uint64_t offset, std::size_t limit) const override {
    if (offset >= file_->size || limit == 0) return std::vector<storage::Range>();
    return std::vector<storage::Range>{{offset, file_->size - offset}};
  }

 private:
  BackingSet& set_;
  std::shared_ptr<SetFile> file_;
};

Status no_file(const std::string& path) {
  return fail(Errc::kNotFound, "{}: there is none in the backing set", path);
}

}  // namespace

Task<Result<std::unique_ptr<storage::File>>> BackedDisk::open(std::string path, Mode mode) {
  SLICE_CO_RETURN_IF_ERROR(set_.intact());
  auto found = set_.files().find(path);
  std::shared_ptr<SetFile> file = found == set_.files().end() ? nullptr : found->second;
  if (!file) {
    if (mode == Mode::kMustExist) co_return fail(no_file(path).error());
    if (!wire::is_backing_path(path))
      co_return fail(Errc::kInvalid, "'{}' is no path of a backing set", path);
    SLICE_CO_RETURN_IF_ERROR(co_await set_.room());
    file = set_.create(path);
  }
  co_return std::make_unique<BackedFile>(set_, std::move(file));
}

// Folders are there as long as a file is in them.
Task<Status> BackedDisk::remove(std::string path) {
  auto found = set_.files().find(path);
  if (found == set_.files().end()) {
    auto below = set_.files().lower_bound(path + "/");
    if (below != set_.files().end() && below->first.starts_with(path + "/")) {
      co_return fail(Errc::kExists, "{}: the folder is not empty", path);
    }
    co_return no_file(path);
  }
  SLICE_CO_RETURN_IF_ERROR(co_await set_.room());
  const std::shared_ptr<SetFile> file = found->second;
  set_.add(file, BackingOp::kRemove, 0, 0, {});
  co_return set_.intact();
}

Task<Status> BackedDisk::rename(std::string from, std::string to) {
  SLICE_CO_RETURN_IF_ERROR(co_await set_.room());
  auto found = set_.files().find(from);
  if (found == set_.files().end()) co_return no_file(from);
  if (!wire::is_backing_path(to)) co_return fail(Errc::kInvalid, "'{}' is no path of a backing set", to);
  const std::shared_ptr<SetFile> file = found->second;
  set_.rename(file, to);
  co_return set_.intact();
}

// All but the set's own file.
Task<Result<std::vector<std::string>>> BackedDisk::list(std::string folder) {
  SLICE_CO_RETURN_IF_ERROR(set_.intact());
  const std::string prefix = folder.empty() ? "" : folder + "/";
  std::set<std::string> names;
  for (auto at = set_.files().lower_bound(prefix); at != set_.files().end() && at->first.starts_with(prefix);
       ++at) {
    if (at->first == wire::kBackingMembersFile || at->first == wire::kBackingMembersNew) continue;
    names.insert(at->first.substr(prefix.size(), at->first.find('/', prefix.size()) - prefix.size()));
  }
  co_return std::vector<std::string>(names.begin(), names.end());
}

Task<Status> BackedDisk::sync_folder(std::string folder) {
  co_return co_await set_.carried_out(set_.sync_folder(folder));
}

Result<storage::Space> BackedDisk::space() const {
  if (!set_.is_open()) return fail(Errc::kUnavailable, "the backing set is not open");
  return set_.space();
}

}  // namespace slice::service
