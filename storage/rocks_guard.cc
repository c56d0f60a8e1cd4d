#include "storage/rocks_guard.h"

#include <fcntl.h>
#include <rocksdb/listener.h>
#include <rocksdb/wal_filter.h>
#include <rocksdb/write_batch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "common/bytes.h"
#include "common/crc32c.h"
#include "common/log.h"
#include "common/whole_file.h"
#include "storage/posix_file.h"

namespace slice::storage {
namespace {

using posix::Descriptor;
using posix::system_error;

// How far the manifest goes.
struct Manifest {
  std::uint64_t number = 0, bytes = 0;
  auto operator<=>(const Manifest&) const = default;
};

constexpr std::size_t kMostOfFile = 4096;  // of those read here, which have no 100 bytes

Status sync_path(const std::string& path, int flags) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags));
  if (file.fd() < 0) return system_error(path, "open");
  if (::fsync(file.fd()) != 0) return system_error(path, "fsync");
  return {};
}

// The file that CURRENT names, as it is now; with `durable`, so much of it is on disk when this ends.
Result<Manifest> manifest_of(const std::string& folder, bool durable) {
  auto current = read_whole_file(folder + "/CURRENT", kMostOfFile);
  if (!current) return fail(current.error(), folder + "/CURRENT");
  std::string& name = current->bytes;
  name.erase(std::find(name.begin(), name.end(), '\n'), name.end());
  unsigned long long number = 0;
  if (std::sscanf(name.c_str(), "MANIFEST-%llu", &number) != 1) {  // NOLINT(cert-err34-c): its own number
    return fail(Errc::kCorrupt, "{}/CURRENT: it names no manifest", folder);
  }
  struct stat found{};
  std::string path = folder + "/" + name;
  if (::stat(path.c_str(), &found) != 0) return system_error(path, "stat");
  if (durable) {
    SLICE_RETURN_IF_ERROR(sync_path(path, 0));
    SLICE_RETURN_IF_ERROR(sync_path(folder, O_DIRECTORY));
  }
  return Manifest{number, static_cast<std::uint64_t>(found.st_size)};
}

// RocksDB's format of manifests: blocks of 32 KiB, records of a header (checksum, length, kind;
// little-endian) and a payload, which are split at the end of a block.
constexpr std::size_t kManifestBlock = 32768, kManifestHeader = 7;

std::uint32_t manifest_checksum(ByteView kind_and_payload) {
  std::uint32_t crc = crc32c(kind_and_payload);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

// Where the first record begins that is not whole; nothing where all are.
std::optional<std::size_t> damage_in(ByteView manifest) {
  for (std::size_t at = 0; at < manifest.size();) {
    std::size_t left = std::min(kManifestBlock - at % kManifestBlock, manifest.size() - at);
    if (kManifestBlock - at % kManifestBlock < kManifestHeader) {
      at += left;
      continue;
    }
    if (left < kManifestHeader) return at;
    const std::uint8_t* head = manifest.data() + at;
    std::uint32_t stored = head[0] | head[1] << 8 | head[2] << 16 | std::uint32_t{head[3]} << 24;
    std::size_t length = head[4] | std::size_t{head[5]} << 8;
    if (length > left - kManifestHeader) return at;
    if (stored != manifest_checksum(manifest.subspan(at + kManifestHeader - 1, length + 1))) return at;
    at += kManifestHeader + length;
  }
  return std::nullopt;
}

std::string manifest_path(const std::string& folder, std::uint64_t number) {
  return fmt::format("{}/MANIFEST-{:06}", folder, number);
}

// What was durable of it must be whole: RocksDB takes a record whose length was changed for the end of the
// file, and goes on without the tables that come behind.
Status check_manifest(const std::string& folder, const Manifest& durable) {
  std::string path = manifest_path(folder, durable.number);
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd() < 0) return system_error(path, "open");
  Buffer bytes(durable.bytes);
  for (std::size_t done = 0; done < bytes.size();) {
    ssize_t got = ::pread(file.fd(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return system_error(path, "read");
    done += static_cast<std::size_t>(got);
  }
  auto damage = damage_in(bytes.view());
  if (!damage) return {};
  return fail(Errc::kCorrupt, "{}: the record at {} is damaged. Restore the data directory from a backup",
              path, *damage);
}

class Guard final : public RocksGuard, public rocksdb::WalFilter {
 public:
  explicit Guard(std::string folder) : folder_(std::move(folder)), path_(folder_ + ".end") {}

  Status read();

  // RocksGuard
  void watch(rocksdb::Options& options) override;
  Status check(const rocksdb::Status& opened, const rocksdb::DB* db) const override;
  Status record_start(rocksdb::DB& db) override;
  Status record_end(std::uint64_t end) override;
  bool log_begun() override { return log_begun_.exchange(false); }

  // WalFilter: the oldest log that is not in tables, then every record of the logs, in order, while the
  // store is opened.
  const char* Name() const override { return "slice"; }
  void ColumnFamilyLogNumberMap(const std::map<uint32_t, uint64_t>& oldest,
                                const std::map<std::string, uint32_t>& names) override;
  WalProcessingOption LogRecordFound(unsigned long long log, const std::string& file,
                                     const rocksdb::WriteBatch& batch, rocksdb::WriteBatch* new_batch,
                                     bool* changed) override;

 private:
  class Listener;
  WalProcessingOption behind_gap(bool same_log, std::uint64_t first, const std::string& file);
  Status record(EndMark mark, bool with_manifest);
  Status write(const EndMark& mark);
  Status make(const EndMark& mark);
  void begin_log() { log_begun_ = true; }
  void catalogued();

  const std::string folder_, path_;

  // Of the opening.
  std::optional<EndMark> marked_;
  std::uint64_t needed_ = 0;    // the oldest log that is not in tables
  std::uint64_t next_ = 0;      // the change that must come now; 0: none came yet
  unsigned long long log_ = 0;  // where the last one was
  std::string hole_;            // what is missing

  std::atomic<bool> log_begun_ = false;
  std::mutex mutex_;  // of what follows
  EndMark mark_;
  std::uint64_t count_ = 0;
  std::unique_ptr<Descriptor> file_;
};

class Guard::Listener : public rocksdb::EventListener {
 public:
  explicit Listener(Guard& guard) : guard_(guard) {}
  void OnMemTableSealed(const rocksdb::MemTableInfo&) override { guard_.begin_log(); }
  void OnFlushCompleted(rocksdb::DB*, const rocksdb::FlushJobInfo&) override { guard_.catalogued(); }
  void OnCompactionCompleted(rocksdb::DB*, const rocksdb::CompactionJobInfo&) override {
    guard_.catalogued();
  }

 private:
  Guard& guard_;
};

// ---- the opening ----

Status Guard::read() {
  auto file = read_whole_file(path_, kMostOfFile);
  if (!file && file.error().code == Errc::kNotFound) return {};
  if (!file) return fail(file.error(), path_);
  auto found = decode_end_mark_file(as_bytes(file->bytes), path_);
  if (!found) return fail(std::move(found).error());
  marked_ = mark_ = found->mark;
  count_ = found->count;
  auto manifest = manifest_of(folder_, false);
  if (!manifest && manifest.error().code != Errc::kNotFound) return fail(std::move(manifest).error());
  Manifest was{marked_->manifest, marked_->manifest_bytes};
  if (manifest && *manifest >= was) {
    return manifest->number == was.number ? check_manifest(folder_, was) : Status{};
  }
  return fail(Errc::kCorrupt, "{}: its manifest was cut or lost: {} bytes of MANIFEST-{:06} were durable. {}",
              folder_, was.bytes, was.number, end_mark_cure(path_));
}

void Guard::watch(rocksdb::Options& options) {
  options.wal_filter = this;
  options.listeners.push_back(std::make_shared<Listener>(*this));
}

void Guard::ColumnFamilyLogNumberMap(const std::map<uint32_t, uint64_t>& oldest,
                                     const std::map<std::string, uint32_t>&) {
  if (!marked_) return;
  // Until its first flush a store does not say which log it began with: the mark does.
  needed_ = marked_->begin;
  for (const auto& [family, log] : oldest) needed_ = std::max(needed_, log);
}

Guard::WalProcessingOption Guard::LogRecordFound(unsigned long long log, const std::string& file,
                                                 const rocksdb::WriteBatch& batch, rocksdb::WriteBatch*,
                                                 bool*) {
  if (!marked_ || log < needed_) return WalProcessingOption::kContinueProcessing;
  std::uint64_t first = 0;  // RocksDB's number of the batch's first change, little-endian
  for (int i = 7; i >= 0; --i) first = first << 8 | static_cast<std::uint8_t>(batch.Data().at(i));
  bool follows = next_ == 0 ? log == needed_ : first == next_;
  if (!follows) return behind_gap(log == log_, first, file);
  next_ = first + static_cast<std::uint64_t>(batch.Count());
  log_ = log;
  return WalProcessingOption::kContinueProcessing;
}

// The end of a log may be missing where the mark does not say that it was durable: then what is in the next
// one was never durable either. A log is begun only when the one before it has something.
Guard::WalProcessingOption Guard::behind_gap(bool same_log, std::uint64_t first, const std::string& file) {
  std::string before = fmt::format("{}/{:06}.log", folder_, needed_);
  if (next_ == 0 && ::access(before.c_str(), F_OK) != 0) {
    hole_ = fmt::format("{} is missing", before);
  } else if (same_log || marked_->end >= first - 1) {
    hole_ = fmt::format("what is before change {} in {} is missing", first, file);
  } else {
    log_warning("kv store: what was never durable is dropped log={} from={}", file, first);
    return WalProcessingOption::kStopReplay;
  }
  return WalProcessingOption::kCorruptedRecord;
}

Status Guard::check(const rocksdb::Status& opened, const rocksdb::DB* db) const {
  if (!hole_.empty()) {
    return fail(Errc::kCorrupt, "{}: its log has a hole: {}. {}", folder_, hole_, end_mark_cure(path_));
  }
  if (!opened.ok() || !marked_) return {};
  std::uint64_t end = db->GetLatestSequenceNumber();
  if (end >= marked_->end) return {};
  return fail(Errc::kCorrupt,
              "{}: it ends at change {}, but changes up to {} were durable: its log was cut or lost. {}",
              folder_, end, marked_->end, end_mark_cure(path_));
}

// ---- recording ----

Status Guard::record_start(rocksdb::DB& db) {
  std::unique_ptr<rocksdb::LogFile> log;
  if (rocksdb::Status status = db.GetCurrentWalFile(&log); !status.ok()) {
    return fail(Errc::kIo, "{}: {}", folder_, status.ToString());
  }
  std::lock_guard lock(mutex_);
  log_begun_ = false;
  return record({.end = db.GetLatestSequenceNumber(), .begin = log->LogNumber()}, true);
}

Status Guard::record_end(std::uint64_t end) {
  std::lock_guard lock(mutex_);
  if (end <= mark_.end) return {};
  EndMark mark = mark_;
  mark.end = end;
  return record(mark, false);
}

// The manifest has grown, by the table of a flush, or those of a compaction.
void Guard::catalogued() {
  std::lock_guard lock(mutex_);
  if (Status status = record(mark_, true); !status) {
    log_warning("kv store: how far it goes is not recorded: {}", status.error().message);
  }
}

Status Guard::record(EndMark mark, bool with_manifest) {
  if (with_manifest) {
    auto manifest = manifest_of(folder_, true);
    if (!manifest) return fail(std::move(manifest).error());
    mark.manifest = manifest->number;
    mark.manifest_bytes = manifest->bytes;
  }
  SLICE_RETURN_IF_ERROR(file_ ? write(mark) : make(mark));
  mark_ = mark;
  return {};
}

Status Guard::write(const EndMark& mark) {
  auto slot = encode_end_mark(mark, ++count_);
  auto at = static_cast<off_t>(counted_at(count_));
  if (::pwrite(file_->fd(), slot.data(), slot.size(), at) == static_cast<ssize_t>(slot.size()) &&
      ::fdatasync(file_->fd()) == 0) {
    return {};
  }
  auto error = system_error(path_, "write");
  file_.reset();  // what is in it is not known: the next one makes it anew
  return error;
}

Status Guard::make(const EndMark& mark) {
  std::string beside = path_ + ".new";
  auto file =
      std::make_unique<Descriptor>(::open(beside.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (file->fd() < 0) return system_error(beside, "create");
  Buffer bytes = new_end_mark_file(mark);
  if (::pwrite(file->fd(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()) ||
      ::fsync(file->fd()) != 0) {
    return system_error(beside, "write");
  }
  if (::rename(beside.c_str(), path_.c_str()) != 0) return system_error(beside, "rename");
  SLICE_RETURN_IF_ERROR(sync_path(posix::folder_of(path_), O_DIRECTORY));
  file_ = std::move(file);
  count_ = 0;
  return {};
}

}  // namespace

Result<std::unique_ptr<RocksGuard>> RocksGuard::open(std::string folder) {
  auto guard = std::make_unique<Guard>(std::move(folder));
  SLICE_RETURN_IF_ERROR(guard->read());
  return std::unique_ptr<RocksGuard>(std::move(guard));
}

}  // namespace slice::storage
