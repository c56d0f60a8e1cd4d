#include "storage/logged_store.h"

#include <algorithm>
#include <filesystem>
#include <list>
#include <utility>
#include <vector>

#include "common/crc32c.h"
#include "common/log.h"
#include "common/trace.h"
#include "storage/checkpoint_format.h"
#include "storage/durable_file.h"
#include "storage/log.h"
#include "storage/posix_disk.h"

namespace slice::storage {
namespace {

// Behind every key that anybody else uses; in it the position that the copy has.
const std::string kPositionKey(16, '\xff');
constexpr std::size_t kMaxRecord = 16 << 20;          // bytes of one batch
constexpr std::size_t kCopyBytes = 1 << 20;           // of a table at once
constexpr std::size_t kMaxCheckpoint = 64 << 20;      // bytes of the list of tables
constexpr Duration kRetry = std::chrono::seconds(5);  // of a checkpoint that failed

struct Record {
  std::uint64_t sequence = 0;
  checkpoint_format::Batch batch;
};

// One file from a disk to another; how long it is and its CRC32C.
struct Copied {
  std::uint64_t size = 0;
  std::uint32_t crc = 0;
};
Task<Result<Copied>> copy_file(Disk& from, std::string path, Disk& to, std::string to_path) {
  auto source = co_await from.open(path, Disk::Mode::kMustExist);
  if (!source) co_return fail(source.error(), path);
  auto target = co_await to.open(to_path, Disk::Mode::kCreate);
  if (!target) co_return fail(target.error(), to_path);
  SLICE_CO_RETURN_IF_ERROR(co_await (*target)->truncate(0));
  Copied copied;
  Buffer piece(kCopyBytes);
  while (copied.size < (*source)->size()) {
    auto got = co_await (*source)->read(copied.size, piece.span());
    if (!got) co_return fail(got.error(), path);
    if (*got == 0) co_return fail(Errc::kCorrupt, "{}: cut short", path);
    const ByteView bytes = piece.view().first(*got);
    copied.crc = crc32c(bytes, copied.crc);
    SLICE_CO_RETURN_IF_ERROR(co_await (*target)->write(copied.size, bytes));
    copied.size += *got;
  }
  SLICE_CO_RETURN_IF_ERROR(co_await (*target)->sync());
  co_return copied;
}

std::string checkpoint_file(const std::string& name) {
  return name + ".checkpoint";
}
std::string stored_file(const std::string& name, const std::string& file) {
  return name + ".tables/" + file;
}
// What look_ahead() has fetched; a file has its name when it is whole.
std::string ahead_folder(const std::string& name) {
  return name + ".ahead";
}

Task<Result<checkpoint_format::Checkpoint>> read_checkpoint(Disk& disk, std::string name) {
  auto contents = co_await read_file(disk, checkpoint_file(name), kMaxCheckpoint);
  if (!contents && contents.error().code == Errc::kNotFound) co_return checkpoint_format::Checkpoint{};
  if (!contents) co_return fail(std::move(contents).error());
  auto decoded = checkpoint_format::decode_checkpoint(contents->view());
  if (!decoded) co_return fail(Errc::kCorrupt, "{}: it does not decode", checkpoint_file(name));
  co_return std::move(*decoded);
}

// One table of a checkpoint; kCorrupt where it is not that.
Task<Status> fetch_table(Disk& from, std::string name, const checkpoint_format::TableFile& file, Disk& to,
                         std::string to_path) {
  const std::string stored = stored_file(name, file.stored);
  auto copied = co_await copy_file(from, stored, to, std::move(to_path));
  if (!copied) co_return fail(std::move(copied).error());
  if (copied->size != file.size || copied->crc != file.crc)
    co_return fail(Errc::kCorrupt, "{}: its bytes are not those of the checkpoint", stored);
  co_return Status{};
}

bool has_file(const std::vector<checkpoint_format::TableFile>& files, const std::string& stored) {
  return std::any_of(files.begin(), files.end(),
                     [&stored](const auto& file) { return file.stored == stored; });
}

}  // namespace

class LoggedStore::Impl : public std::enable_shared_from_this<LoggedStore::Impl> {
 public:
  Impl(Loop& loop, Disk& disk, Metrics& metrics, Options options)
      : loop_(loop),
        disk_(disk),
        metrics_(metrics),
        options_(std::move(options)),
        run_(options_.random() | 1),
        checkpointing_(loop),
        checkpoints_(metrics.counter("kv_checkpoints_total",
                                     "checkpoints of the key-value store, which let its log be cut")),
        checkpoint_bytes_(metrics.counter("kv_checkpoint_bytes_total",
                                          "bytes of tables stored for checkpoints of the key-value store")),
        rebuilt_(metrics.counter("kv_copies_rebuilt_total",
                                 "starts at which the copy of the key-value store was made from nothing, or "
                                 "from the last checkpoint")) {
    options_.tables.without_log = true;
  }

  Task<Status> recover();
  Result<LogPosition> apply(const WriteBatch& batch);
  Task<Status> durable(LogPosition position);
  Task<Status> checkpoint();
  // Nothing is begun any more.
  void close() {
    closed_ = true;
    loop_.cancel(retry_);
    for (const OneShot<Status>& waiter : std::list(waiters_)) {
      waiter.set(fail(Errc::kUnavailable, "kv store: closed"));
    }
    tables_.reset();
  }

  RocksStore& tables() { return *tables_; }
  Log& log() { return *log_; }

 private:
  std::string stored(const std::string& file) const { return stored_file(options_.name, file); }
  std::string lineage_file() const { return folder_ + ".lineage"; }

  Task<Result<std::vector<Record>>> read_log();
  Task<Result<bool>> open_copy(const std::vector<Record>& records);
  Task<Status> rebuild_copy();
  Task<Status> fetch_tables();
  Task<Result<bool>> take_ahead(const checkpoint_format::TableFile& file);
  Status open_tables();
  Result<checkpoint_format::Position> position() const;
  bool fits(const checkpoint_format::Position& position, const std::vector<Record>& records) const;
  Status replay(const checkpoint_format::Position& from, const std::vector<Record>& records);

  void checkpoint_soon();
  Task<Status> make_checkpoint();
  Task<Result<checkpoint_format::TableFile>> store_table(std::uint64_t number, std::string name);
  Task<Status> forget_others();

  Loop& loop_;
  Disk& disk_;
  Metrics& metrics_;
  Options options_;
  const std::uint64_t run_;
  std::unique_ptr<PosixDisk> local_;  // the folder in which the copy's is
  std::string folder_;                // of the copy, in there
  std::unique_ptr<RocksStore> tables_;
  std::unique_ptr<Log> log_;
  checkpoint_format::Checkpoint checkpoint_;  // the last; of number 0: none yet
  std::uint64_t lineage_ = 0;                 // of the copy
  std::uint64_t applied_ = 0;
  std::list<OneShot<Status>> waiters_;  // in durable()
  Status intact_;                       // the error after which nothing more is taken
  AsyncMutex checkpointing_;
  bool wanted_ = false;  // a checkpoint is under way, or will be tried again
  bool closed_ = false;
  TimerId retry_ = TimerId::kNone;
  Counter &checkpoints_, &checkpoint_bytes_, &rebuilt_;
};

// ---- the start ----

Task<Status> LoggedStore::Impl::recover() {
  const std::filesystem::path path(options_.tables.folder);
  folder_ = path.filename().string();
  auto local = PosixDisk::open(loop_, path.parent_path().string());
  if (!local) co_return fail(std::move(local).error());
  local_ = std::move(*local);

  auto checkpoint = co_await read_checkpoint(disk_, options_.name);
  if (!checkpoint) co_return fail(std::move(checkpoint).error());
  checkpoint_ = std::move(*checkpoint);
  auto records = co_await read_log();
  if (!records) co_return fail(std::move(records).error());
  auto opened = co_await open_copy(*records);
  if (!opened) co_return fail(std::move(opened).error());
  if (!*opened) SLICE_CO_RETURN_IF_ERROR(co_await rebuild_copy());
  std::error_code ignored;
  std::filesystem::remove_all(path.parent_path() / ahead_folder(options_.name), ignored);
  auto from = position();
  if (!from) co_return fail(std::move(from).error());
  SLICE_CO_RETURN_IF_ERROR(replay(*from, *records));
  applied_ = log_->last().value;
  if (log_->bytes() > options_.log_bytes) checkpoint_soon();
  co_return Status{};
}

// All of it: what lies behind the checkpoint is needed, and what lies before it is at most a segment.
Task<Result<std::vector<Record>>> LoggedStore::Impl::read_log() {
  std::vector<Record> records;
  auto log =
      co_await Log::open(loop_, disk_, metrics_, {.folder = options_.name + ".log", .max_record = kMaxRecord},
                         [&records](LogSequence sequence, ByteView bytes) -> Status {
                           auto batch = checkpoint_format::decode_batch(bytes);
                           if (!batch) return fail(Errc::kCorrupt, "a batch that does not decode");
                           records.push_back({sequence.value, std::move(*batch)});
                           return {};
                         });
  if (!log) co_return fail(std::move(log).error());
  log_ = std::move(*log);
  const std::uint64_t first = records.empty() ? log_->last().value + 1 : records.front().sequence;
  if (first > checkpoint_.position.sequence + 1 || log_->last().value < checkpoint_.position.sequence) {
    co_return fail(
        Errc::kCorrupt,
        "key-value store {}: its checkpoint goes up to record {}, and its log has records {} to {}",
        options_.name, checkpoint_.position.sequence, first, log_->last().value);
  }
  co_return records;
}

Status LoggedStore::Impl::open_tables() {
  auto opened = RocksStore::open(loop_, metrics_, options_.tables);
  if (!opened) return fail(std::move(opened).error());
  tables_ = std::move(*opened);
  return {};
}

Result<checkpoint_format::Position> LoggedStore::Impl::position() const {
  auto stored = tables_->get(kPositionKey);
  if (!stored) return fail(std::move(stored).error());
  if (!*stored) return checkpoint_format::Position{};
  auto decoded = checkpoint_format::decode_position(**stored);
  if (!decoded) return fail(Errc::kCorrupt, "the copy's position does not decode");
  return *decoded;
}

// Whether a copy that goes up to there is one of this store: a copy of another run, of another host, may have
// records that never became durable.
bool LoggedStore::Impl::fits(const checkpoint_format::Position& position,
                             const std::vector<Record>& records) const {
  if (position == checkpoint_.position) return true;
  if (position.sequence <= checkpoint_.position.sequence) return false;
  return std::any_of(records.begin(), records.end(), [&position](const Record& record) {
    return record.sequence == position.sequence && record.batch.run == position.run;
  });
}

// False where there is no copy that can be used.
Task<Result<bool>> LoggedStore::Impl::open_copy(const std::vector<Record>& records) {
  auto lineage = co_await read_file(*local_, lineage_file());
  if (!lineage || lineage->size() != sizeof lineage_) co_return false;
  lineage_ = load_be<std::uint64_t>(lineage->data());
  if (Status opened = open_tables(); !opened) {
    log_warning("key-value store {}: the copy cannot be used: {}", options_.name, opened.error().message);
    co_return false;
  }
  auto has = position();
  if (has && fits(*has, records)) co_return true;
  log_info("key-value store {}: the copy here goes up to record {}, which the log does not follow",
           options_.name, has ? has->sequence : 0);
  tables_.reset();
  co_return false;
}

// A copy has its lineage when it is whole, and never before.
Task<Status> LoggedStore::Impl::rebuild_copy() {
  if (Status gone = co_await local_->remove(lineage_file()); !gone && gone.error().code != Errc::kNotFound) {
    co_return gone;
  }
  SLICE_CO_RETURN_IF_ERROR(co_await local_->sync_folder(""));
  std::error_code ignored;
  std::filesystem::remove_all(options_.tables.folder, ignored);
  SLICE_CO_RETURN_IF_ERROR(co_await fetch_tables());
  SLICE_CO_RETURN_IF_ERROR(open_tables());
  auto has = position();
  if (!has) co_return fail(std::move(has).error());
  if (has->sequence < checkpoint_.position.sequence) {
    co_return fail(Errc::kCorrupt, "{}: its tables go up to record {} alone, in place of {}",
                   checkpoint_file(options_.name), has->sequence, checkpoint_.position.sequence);
  }
  lineage_ = options_.random();
  Buffer lineage(sizeof lineage_);
  store_be(lineage.data(), lineage_);
  co_return co_await replace_file(*local_, lineage_file(), std::move(lineage));
}

Task<Status> LoggedStore::Impl::fetch_tables() {
  if (checkpoint_.files.empty()) co_return Status{};
  rebuilt_.add();
  std::uint64_t bytes = 0, all = 0, ahead = 0;
  for (const checkpoint_format::TableFile& file : checkpoint_.files) all += file.size;
  log_info("key-value store {}: {} tables of {} bytes are fetched", options_.name, checkpoint_.files.size(),
           all);
  MonoTime said = loop_.now();
  for (const checkpoint_format::TableFile& file : checkpoint_.files) {
    auto taken = co_await take_ahead(file);
    if (!taken) co_return fail(std::move(taken).error());
    if (*taken) {
      ahead += file.size;
    } else {
      SLICE_CO_RETURN_IF_ERROR(
          co_await fetch_table(disk_, options_.name, file, *local_, folder_ + "/" + file.name));
    }
    bytes += file.size;
    if (loop_.now() - said < std::chrono::seconds(1)) continue;
    said = loop_.now();
    log_info("key-value store {}: {} % of {} bytes fetched", options_.name, bytes * 100 / all, all);
  }
  if (ahead > 0) log_info("key-value store {}: {} bytes of them were here ahead", options_.name, ahead);
  co_return co_await local_->sync_folder(folder_);
}

// False: it is not there, or not as long as it should be.
Task<Result<bool>> LoggedStore::Impl::take_ahead(const checkpoint_format::TableFile& file) {
  const std::string path = ahead_folder(options_.name) + "/" + file.stored;
  auto there = co_await local_->open(path, Disk::Mode::kMustExist);
  if (!there || (*there)->size() != file.size) co_return false;
  // Whoever looked ahead may have removed it since.
  const Status moved = co_await local_->rename(path, folder_ + "/" + file.name);
  co_return moved.has_value();
}

Status LoggedStore::Impl::replay(const checkpoint_format::Position& from,
                                 const std::vector<Record>& records) {
  for (const Record& record : records) {
    if (record.sequence <= from.sequence) continue;
    auto applied = tables_->apply_with(
        record.batch.changes, kPositionKey,
        checkpoint_format::encode(checkpoint_format::Position{record.sequence, record.batch.run}));
    if (!applied) return fail(std::move(applied).error());
  }
  return {};
}

// ---- changes ----

Result<LogPosition> LoggedStore::Impl::apply(const WriteBatch& batch) {
  if (!intact_) return fail(intact_.error());
  if (closed_) return fail(Errc::kUnavailable, "kv store: closed");
  if (batch.empty()) return LogPosition{applied_};
  const Buffer record = checkpoint_format::encode_batch(run_, batch);
  SLICE_RETURN_IF_ERROR(tables_->check_space(record.size()));
  auto sequence = log_->append(record.view());
  if (!sequence) return fail(std::move(sequence).error());
  auto applied = tables_->apply_with(
      batch, kPositionKey, checkpoint_format::encode(checkpoint_format::Position{sequence->value, run_}));
  if (!applied) {
    // The log has it, and the copy has not.
    intact_ = fail(Errc::kIo, "kv store: {}; no change is taken until a restart", applied.error().message);
    return fail(intact_.error());
  }
  applied_ = sequence->value;
  if (log_->bytes() > options_.log_bytes) checkpoint_soon();
  return LogPosition{applied_};
}

// Who waits when the store is closed is told so: the log, which may wait for a disk far away, tells nobody.
Task<Status> LoggedStore::Impl::durable(LogPosition position) {
  if (!intact_) co_return intact_;
  if (position.value <= log_->durable().value) co_return Status{};
  if (closed_) co_return fail(Errc::kUnavailable, "kv store: closed");
  const auto waiter = waiters_.insert(waiters_.end(), OneShot<Status>());
  OneShot<Status> done = *waiter;
  spawn([](std::shared_ptr<Impl> self, std::uint64_t sequence, auto at) -> Task<void> {
    Status synced = co_await self->log_->sync({sequence});
    const OneShot<Status> ended = std::move(*at);
    self->waiters_.erase(at);
    ended.set(synced);
  }(shared_from_this(), position.value, waiter));
  TraceScope step(co_await current_trace(), TraceStep::Kind::kSync, options_.name);
  co_return co_await done;
}

// ---- checkpoints ----

void LoggedStore::Impl::checkpoint_soon() {
  if (closed_ || std::exchange(wanted_, true)) return;
  spawn([](std::shared_ptr<Impl> self) -> Task<void> {
    Status made = co_await self->checkpoint();
    if (made || self->closed_) {
      self->wanted_ = false;
      co_return;
    }
    log_warning("key-value store {}: no checkpoint, so that its log grows: {}", self->options_.name,
                made.error().message);
    self->retry_ = self->loop_.after(kRetry, [weak = self->weak_from_this()] {
      auto again = weak.lock();
      if (!again) return;
      again->wanted_ = false;
      again->checkpoint_soon();
    });
  }(shared_from_this()));
}

Task<Status> LoggedStore::Impl::checkpoint() {
  auto lock = co_await checkpointing_.lock();
  if (closed_) co_return fail(Errc::kUnavailable, "kv store: closed");
  co_return co_await make_checkpoint();
}

// The tables are linked into a folder of their own, which RocksDB never changes, and stored from there; what
// an earlier checkpoint of this copy has stored is there already. When the list of them is durable the log
// up to what they have is not needed any more.
Task<Status> LoggedStore::Impl::make_checkpoint() {
  const std::string linked = folder_ + ".frozen";
  const std::string linked_path = options_.tables.folder + ".frozen";
  std::error_code ignored;
  std::filesystem::remove_all(linked_path, ignored);
  auto at = position();
  if (!at) co_return fail(std::move(at).error());
  checkpoint_format::Checkpoint next{
      .position = *at, .number = checkpoint_.number + 1, .lineage = lineage_, .files = {}};
  // What the copy has is in the log, durably, before anything says that it is.
  SLICE_CO_RETURN_IF_ERROR(co_await log_->sync({applied_}));
  SLICE_CO_RETURN_IF_ERROR(co_await tables_->checkpoint(linked_path));
  auto names = co_await local_->list(linked);
  if (!names) co_return fail(std::move(names).error());
  std::sort(names->begin(), names->end());
  for (const std::string& name : *names) {
    if (closed_) co_return fail(Errc::kUnavailable, "kv store: closed");
    auto file = co_await store_table(next.number, name);
    if (!file) co_return fail(std::move(file).error());
    next.files.push_back(std::move(*file));
  }
  // It may have records that came meanwhile.
  SLICE_CO_RETURN_IF_ERROR(co_await log_->sync(log_->last()));
  SLICE_CO_RETURN_IF_ERROR(co_await disk_.sync_folder(options_.name + ".tables"));
  SLICE_CO_RETURN_IF_ERROR(
      co_await replace_file(disk_, checkpoint_file(options_.name), checkpoint_format::encode(next)));
  checkpoint_ = std::move(next);
  checkpoints_.add();
  std::filesystem::remove_all(linked_path, ignored);
  SLICE_CO_RETURN_IF_ERROR(co_await log_->trim({checkpoint_.position.sequence + 1}));
  co_return co_await forget_others();
}

// One file of the frozen folder. Tables never change, so one that this copy has stored before is there.
Task<Result<checkpoint_format::TableFile>> LoggedStore::Impl::store_table(std::uint64_t number,
                                                                          std::string name) {
  if (checkpoint_.lineage == lineage_ && name.ends_with(".sst")) {
    auto before =
        std::find_if(checkpoint_.files.begin(), checkpoint_.files.end(),
                     [&name](const checkpoint_format::TableFile& file) { return file.name == name; });
    if (before != checkpoint_.files.end()) co_return *before;
  }
  // Never a name that an earlier checkpoint, or one that was not ended, may have.
  checkpoint_format::TableFile file{.name = name,
                                    .stored = fmt::format("{:016x}-{:016x}-{}", number, run_, name)};
  auto copied = co_await copy_file(*local_, folder_ + ".frozen/" + name, disk_, stored(file.stored));
  if (!copied) co_return fail(std::move(copied).error());
  file.size = copied->size;
  file.crc = copied->crc;
  checkpoint_bytes_.add(file.size);
  co_return file;
}

// What no checkpoint needs any more, or what one that was never ended has left.
Task<Status> LoggedStore::Impl::forget_others() {
  auto names = co_await disk_.list(options_.name + ".tables");
  if (!names) co_return fail(std::move(names).error());
  for (const std::string& name : *names) {
    if (!has_file(checkpoint_.files, name)) SLICE_CO_RETURN_IF_ERROR(co_await disk_.remove(stored(name)));
  }
  co_return Status{};
}

// ---- before it is opened ----

Task<Result<std::uint64_t>> LoggedStore::look_ahead(Disk& from, Disk& local, std::string name,
                                                    std::uint64_t reserve) {
  const std::string folder = ahead_folder(name), part = folder + "/part";
  auto checkpoint = co_await read_checkpoint(from, name);
  if (!checkpoint) co_return fail(std::move(checkpoint).error());
  auto names = co_await local.list(folder);
  if (!names) co_return fail(std::move(names).error());
  for (const std::string& each : *names) {
    if (!has_file(checkpoint->files, each))
      SLICE_CO_RETURN_IF_ERROR(co_await local.remove(fmt::format("{}/{}", folder, each)));
  }
  std::uint64_t fetched = 0;
  for (const checkpoint_format::TableFile& file : checkpoint->files) {
    if (std::find(names->begin(), names->end(), file.stored) != names->end()) continue;
    auto space = local.space();
    if (!space) co_return fail(std::move(space).error());
    if (space->free_bytes < reserve + file.size)
      co_return fail(Errc::kNoSpace, "no room here for the tables of {}", name);
    SLICE_CO_RETURN_IF_ERROR(co_await fetch_table(from, name, file, local, part));
    SLICE_CO_RETURN_IF_ERROR(co_await local.rename(part, fmt::format("{}/{}", folder, file.stored)));
    fetched += file.size;
  }
  if (fetched > 0) SLICE_CO_RETURN_IF_ERROR(co_await local.sync_folder(folder));
  co_return fetched;
}

// ---- LoggedStore ----

Task<Result<std::unique_ptr<LoggedStore>>> LoggedStore::open(Loop& loop, Disk& disk, Metrics& metrics,
                                                             Options options) {
  auto impl = std::make_shared<Impl>(loop, disk, metrics, std::move(options));
  if (Status opened = co_await impl->recover(); !opened) co_return fail(std::move(opened).error());
  co_return std::unique_ptr<LoggedStore>(new LoggedStore(std::move(impl)));
}

LoggedStore::LoggedStore(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
LoggedStore::~LoggedStore() {
  impl_->close();
}

Result<std::optional<std::string>> LoggedStore::get(std::string_view key) const {
  return impl_->tables().get(key);
}
std::unique_ptr<KvIterator> LoggedStore::iterate(std::string_view begin, std::string_view end) const {
  return impl_->tables().iterate(begin, end);
}
std::unique_ptr<KvReader> LoggedStore::snapshot() const {
  return impl_->tables().snapshot();
}
std::uint64_t LoggedStore::bytes_between(std::string_view begin, std::string_view end) const {
  return impl_->tables().bytes_between(begin, end);
}
Result<LogPosition> LoggedStore::apply(const WriteBatch& batch) {
  return impl_->apply(batch);
}
Task<Status> LoggedStore::durable(LogPosition position) {
  return impl_->durable(position);
}
LogPosition LoggedStore::durable_position() const {
  return LogPosition{impl_->log().durable().value};
}
void LoggedStore::set_min_free(std::uint64_t bytes) {
  impl_->tables().set_min_free(bytes);
}
Task<Status> LoggedStore::checkpoint() {
  return impl_->checkpoint();
}

}  // namespace slice::storage
