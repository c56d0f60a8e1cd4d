#include "storage/posix_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <span>
#include <system_error>
#include <vector>

namespace slice::storage::posix {
namespace {

// The blocking forms, for workers. Bytes read; fewer only at the end of the file.
Result<std::size_t> read_now(int fd, const std::string& path, std::uint64_t offset, ByteSpan into) {
  std::size_t done = 0;
  while (done < into.size()) {
    ssize_t n = ::pread(fd, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    if (n == 0) break;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error(path, "read");
    done += static_cast<std::size_t>(n);
  }
  return done;
}

Status write_now(int fd, const std::string& path, std::uint64_t offset, ByteView bytes) {
  while (!bytes.empty()) {
    ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return system_error(path, "write");
    offset += static_cast<std::size_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

Status write_pieces_now(int fd, const std::string& path, std::span<const WritePiece> pieces) {
  for (const WritePiece& piece : pieces) {
    SLICE_RETURN_IF_ERROR(write_now(fd, path, piece.offset, piece.bytes));
  }
  return {};
}

// Writes that wait for their worker.
struct Write {
  std::span<const WritePiece> pieces;
  std::size_t bytes = 0;
  OneShot<Status> done;
};
constexpr std::size_t kWriteBatch = 4 << 20;  // bytes that a worker is given at once

// Everything a File may still need after it is destroyed, because a worker or a shared sync holds it.
struct State {
  State(std::string name, int fd, bool is_new) : path(std::move(name)), file(fd), created(is_new) {}

  std::string path;
  Descriptor file;
  bool created;            // its folder was not synced since
  bool can_nowait = true;  // the file system knows RWF_NOWAIT
  Descriptor direct{-1};   // of the same file, past the page cache; opened when it is first of use
  DirectReads::OfFile reads;
  bool sync_failed = false;
  bool syncing = false;
  std::uint64_t unsynced_bytes = 0;
  std::vector<OneShot<Status>> waiters;  // of the next fsync
  bool writing = false;                  // a worker is
  std::deque<Write> writes;              // behind that one
};

Status sync_now(const State& state, int root) {
  int result = state.created ? ::fsync(state.file.fd()) : ::fdatasync(state.file.fd());
  if (result != 0) return system_error(state.path, "fsync");
  if (!state.created) return {};
  Descriptor folder(::openat(root, folder_of(state.path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.fd() < 0) return system_error(state.path, "open folder");
  if (::fsync(folder.fd()) != 0) return system_error(state.path, "fsync folder");
  return {};
}

// Runs fsyncs until nobody waits for one. Each serves those who came before it started.
Task<void> run_syncs(Io& io, int root, std::shared_ptr<State> state) {
  while (!state->waiters.empty()) {
    auto served = std::exchange(state->waiters, {});
    std::uint64_t bytes = state->unsynced_bytes;
    Status result;
    if (io.in_memory) {
      result = sync_now(*state, root);
    } else {
      result = co_await io.workers.run([&state, root] { return sync_now(*state, root); });
    }
    if (result) {
      state->created = false;
      state->unsynced_bytes -= bytes;
      io.unsynced_bytes -= bytes;
    } else {
      state->sync_failed = true;
      // Those behind it are told as well: what they wrote may have been in the failed one.
      for (auto& waiter : state->waiters) served.push_back(waiter);
      state->waiters.clear();
    }
    // A waiter that is resumed may well ask for the next sync: then that one starts its own run.
    bool last = state->waiters.empty();
    if (last) state->syncing = false;
    for (auto& waiter : served) waiter.set(result);
    if (last) co_return;
  }
}

// Runs writes until none is left, a batch at a time. One worker for a file: the system lets one write at a
// time into it, and threads that wait for one another cost more than they move.
Task<void> run_writes(Io& io, std::shared_ptr<State> state) {
  while (!state->writes.empty()) {
    std::vector<Write> batch;
    for (std::size_t bytes = 0; !state->writes.empty() && bytes < kWriteBatch; bytes += batch.back().bytes) {
      batch.push_back(std::move(state->writes.front()));
      state->writes.pop_front();
    }
    auto results = co_await io.workers.run([&state, &batch] {
      std::vector<Status> each;
      each.reserve(batch.size());
      for (const Write& write : batch) {
        each.push_back(write_pieces_now(state->file.fd(), state->path, write.pieces));
      }
      return each;
    });
    // A waiter that is resumed may well write again: then that one starts its own run.
    bool last = state->writes.empty();
    if (last) state->writing = false;
    for (std::size_t i = 0; i < batch.size(); ++i) batch[i].done.set(std::move(results[i]));
    if (last) co_return;
  }
}

class PosixFile : public File {
 public:
  PosixFile(Io& io, int root, std::string path, int fd, bool created)
      : io_(io), root_(root), state_(std::make_shared<State>(std::move(path), fd, created)) {
    struct stat found{};
    if (::fstat(fd, &found) == 0) state_->reads.number = found.st_ino;
  }
  ~PosixFile() override { io_.unsynced_bytes -= state_->unsynced_bytes; }

  Task<Result<std::size_t>> read(std::uint64_t offset, ByteSpan into) override {
    ReadPiece piece{offset, into};
    auto status = co_await read_pieces({&piece, 1});
    if (!status) co_return fail(status.error());
    co_return piece.got;
  }

  Task<Status> read_pieces(std::span<ReadPiece> pieces) override {
    std::vector<ReadPiece*> missing;
    for (ReadPiece& piece : pieces) {
      piece.direct = goes_direct(piece);
      if (!piece.direct) {
        auto cached = read_cached(piece.offset, piece.into);
        if (!cached) co_return fail(cached.error());
        piece.got = cached->bytes;
        if (cached->whole) continue;
        DirectReads::missed(state_->reads);
      }
      missing.push_back(&piece);
    }
    if (missing.empty()) co_return Status{};
    if (io_.uring == nullptr) {
      co_return co_await io_.workers.run([this, &missing] { return read_rest_now(missing); });
    }
    std::vector<Task<Status>> reads;
    reads.reserve(missing.size());
    for (ReadPiece* piece : missing) reads.push_back(piece->direct ? read_direct(*piece) : read_rest(*piece));
    for (auto& status : co_await all(std::move(reads))) {
      if (!status) co_return fail(status.error());
    }
    co_return Status{};
  }

  Task<Status> write(std::uint64_t offset, ByteView bytes) override {
    WritePiece piece{offset, bytes};
    co_return co_await write_pieces({&piece, 1});
  }

  Task<Status> write_pieces(std::span<const WritePiece> pieces) override {
    std::size_t bytes = 0;
    for (const WritePiece& piece : pieces) {
      if (piece.offset > static_cast<std::uint64_t>(INT64_MAX) - piece.bytes.size()) {
        co_return fail(Errc::kTooLarge, "{}: offset {} is over the file system's limit", state_->path,
                       piece.offset);
      }
      bytes += piece.bytes.size();
    }
    state_->unsynced_bytes += bytes;
    io_.unsynced_bytes += bytes;
    bool waits = !io_.in_memory && io_.unsynced_bytes > io_.inline_unsynced_bytes;
    if (!waits && !state_->writing) {
      co_return write_pieces_now(state_->file.fd(), state_->path, pieces);
    }
    OneShot<Status> done;
    state_->writes.push_back({pieces, bytes, done});
    if (!state_->writing) {
      state_->writing = true;
      spawn(run_writes(io_, state_));
    }
    co_return co_await done;
  }

  Task<Status> sync() override {
    auto state = state_;
    if (state->sync_failed) co_return fail(Errc::kIo, "{}: an earlier fsync failed", state->path);
    OneShot<Status> done;
    state->waiters.push_back(done);
    if (!state->syncing) {
      state->syncing = true;
      spawn(run_syncs(io_, root_, state));
    }
    co_return co_await done;
  }

  Task<Status> truncate(std::uint64_t size) override {
    co_return co_await io_.workers.run([this, size]() -> Status {
      if (::ftruncate(state_->file.fd(), static_cast<off_t>(size)) == 0) return {};
      return system_error(state_->path, "truncate");
    });
  }

  Task<Status> punch(std::uint64_t offset, std::uint64_t length) override {
    if (length == 0) co_return Status{};
    co_return co_await io_.workers.run([this, offset, length]() -> Status {
      if (::fallocate(state_->file.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      static_cast<off_t>(offset), static_cast<off_t>(length)) == 0) {
        return {};
      }
      return system_error(state_->path, "punch hole");
    });
  }

  std::uint64_t size() const override {
    struct stat found{};
    return ::fstat(state_->file.fd(), &found) == 0 ? static_cast<std::uint64_t>(found.st_size) : 0;
  }

  Result<std::uint64_t> allocated() const override {
    struct stat found{};
    if (::fstat(state_->file.fd(), &found) != 0) return system_error(state_->path, "stat");
    return static_cast<std::uint64_t>(found.st_blocks) * 512;
  }

  Result<std::vector<Range>> data_ranges(std::uint64_t offset, std::size_t limit) const override {
    std::vector<Range> ranges;
    while (ranges.size() < limit) {
      off_t from = ::lseek(state_->file.fd(), static_cast<off_t>(offset), SEEK_DATA);
      if (from < 0 && errno == ENXIO) break;  // no data behind `offset`
      off_t to = from < 0 ? from : ::lseek(state_->file.fd(), from, SEEK_HOLE);
      if (to < 0) return system_error(state_->path, "seek data");
      ranges.push_back({static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(to - from)});
      offset = static_cast<std::uint64_t>(to);
    }
    return ranges;
  }

  bool in_memory() const override { return io_.in_memory; }

  void will_read(std::uint64_t offset, std::uint64_t length) override {
    // Mostly it is there already: one byte tells, and spares waking a thread.
    std::uint8_t last = 0;
    iovec piece{&last, 1};
    auto end = static_cast<off_t>(offset + length - 1);
    if (length == 0 || io_.in_memory || ::preadv2(state_->file.fd(), &piece, 1, end, RWF_NOWAIT) >= 0) return;
    io_.workers.start([state = state_, offset, length] {
      ::posix_fadvise(state->file.fd(), static_cast<off_t>(offset), static_cast<off_t>(length),
                      POSIX_FADV_WILLNEED);
    });
  }
  void start_write_back(std::uint64_t offset, std::uint64_t length) override {
    io_.workers.start([state = state_, offset, length] {
      ::sync_file_range(state->file.fd(), static_cast<off_t>(offset), static_cast<off_t>(length),
                        SYNC_FILE_RANGE_WRITE);
    });
  }

 private:
  struct Cached {
    std::size_t bytes = 0;
    bool whole = false;  // nothing is left to read: all asked for, or the end of the file
  };
  bool goes_direct(const ReadPiece& piece) {
    if (io_.uring == nullptr || !io_.direct.wants(state_->file.fd(), state_->reads, piece.offset, piece.into))
      return false;
    if (state_->direct.fd() >= 0) return true;
    // By its number: its name may be another by now.
    state_->direct.reset(
        ::open(fmt::format("/proc/self/fd/{}", state_->file.fd()).c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
    state_->reads.refused = state_->direct.fd() < 0;
    return !state_->reads.refused;
  }
  // Into the memory that it is for. What is left of a file's last block, and what cannot be had so, is read
  // as ever.
  Task<Status> read_direct(ReadPiece& piece) {
    while (piece.got < piece.into.size() && piece.got % kDirectAlignment == 0) {
      int n = co_await io_.uring->read(state_->direct.fd(), piece.offset + piece.got,
                                       piece.into.subspan(piece.got));
      if (n == 0) co_return Status{};
      if (n < 0 && n != -EAGAIN && n != -EINTR && n != -EINVAL && n != -EOPNOTSUPP) {
        errno = -n;
        co_return system_error(state_->path, "read");
      }
      if (n < 0) {
        state_->reads.refused |= n == -EINVAL || n == -EOPNOTSUPP;
        piece.direct = false;
        break;
      }
      piece.got += static_cast<std::size_t>(n);
    }
    co_return co_await read_rest(piece);
  }
  // What the page cache did not have of a piece.
  Task<Status> read_rest(ReadPiece& piece) {
    while (piece.got < piece.into.size()) {
      int n = co_await io_.uring->read(state_->file.fd(), piece.offset + piece.got,
                                       piece.into.subspan(piece.got));
      if (n == 0) break;
      if (n == -EAGAIN || n == -EINTR) {
        ReadPiece* only[] = {&piece};
        co_return co_await io_.workers.run([this, &only] { return read_rest_now(only); });
      }
      if (n < 0) {
        errno = -n;
        co_return system_error(state_->path, "read");
      }
      piece.got += static_cast<std::size_t>(n);
    }
    co_return Status{};
  }
  // The same, for workers.
  Status read_rest_now(std::span<ReadPiece* const> pieces) const {
    for (ReadPiece* piece : pieces) {
      auto rest = read_now(state_->file.fd(), state_->path, piece->offset + piece->got,
                           piece->into.subspan(piece->got));
      if (!rest) return fail(rest.error());
      piece->got += *rest;
    }
    return {};
  }
  // What the page cache has, without waiting.
  Result<Cached> read_cached(std::uint64_t offset, ByteSpan into) {
    Cached cached;
    if (io_.in_memory) {
      auto got = read_now(state_->file.fd(), state_->path, offset, into);
      if (!got) return fail(got.error());
      return Cached{*got, true};
    }
    while (cached.bytes < into.size()) {
      if (!state_->can_nowait) return cached;
      iovec piece{into.data() + cached.bytes, into.size() - cached.bytes};
      ssize_t n =
          ::preadv2(state_->file.fd(), &piece, 1, static_cast<off_t>(offset + cached.bytes), RWF_NOWAIT);
      if (n < 0) {
        if (errno == EINTR) continue;
        if (errno == EAGAIN) return cached;
        if (errno == EOPNOTSUPP) {
          state_->can_nowait = false;
          return cached;
        }
        return system_error(state_->path, "read");
      }
      if (n == 0) break;
      cached.bytes += static_cast<std::size_t>(n);
    }
    cached.whole = true;
    return cached;
  }

  Io& io_;
  int root_;
  std::shared_ptr<State> state_;
};

}  // namespace

std::string folder_of(const std::string& path) {
  auto slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

tl::unexpected<Error> system_error(std::string_view path, std::string_view what) {
  int number = errno;
  Errc code = Errc::kIo;
  switch (number) {
    case ENOSPC:
    case EDQUOT:
      code = Errc::kNoSpace;
      break;
    case ENOENT:
      code = Errc::kNotFound;
      break;
    case EEXIST:
    case ENOTEMPTY:
      code = Errc::kExists;
      break;
    case EFBIG:
      code = Errc::kTooLarge;
      break;
    default:
      break;
  }
  return fail(code, "{}: {}: {}", path, what, std::generic_category().message(number));
}

std::unique_ptr<File> make_file(Io& io, int root, std::string path, int fd, bool created) {
  return std::make_unique<PosixFile>(io, root, std::move(path), fd, created);
}

}  // namespace slice::storage::posix
