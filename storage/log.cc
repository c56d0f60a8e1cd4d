#include "storage/log.h"

#include <algorithm>
#include <cassert>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "common/log.h"
#include "common/trace.h"
#include "storage/end_mark.h"
#include "storage/log_format.h"
#include "storage/mix.h"

namespace slice::storage {
namespace {

namespace format = log_format;

// Memory for records that wait to be written. Reached only when the disk refuses to take them.
constexpr std::size_t kMaxPending = 64 << 20;  // bytes
// Records that nobody waits for are written once so many bytes of them have gathered.
constexpr std::size_t kWriteAnyway = 4 << 20;
constexpr Duration kMarkDelay = std::chrono::seconds(1);  // from a record to the mark that tells of it

struct Segment {
  std::uint64_t first_sequence = 0;
  std::uint64_t bytes = 0;
};

// Spreads a clock reading over all bits of a salt.
std::uint32_t salt_from(std::int64_t wall_ns) {
  return static_cast<std::uint32_t>(mixed(static_cast<std::uint64_t>(wall_ns) + 0x9e3779b97f4a7c15));
}

class LogImpl final : public Log {
 public:
  LogImpl(Loop& loop, Disk& disk, Metrics& metrics, Options options)
      : loop_(loop),
        disk_(disk),
        options_(std::move(options)),
        trimming_(loop),
        mark_(std::make_shared<EndMarkFile>(loop, disk, options_.folder + ".end")),
        records_written_(
            metrics.counter("log_records_total", "records written to the log", {{"log", options_.folder}})),
        bytes_written_(metrics.counter("log_written_bytes_total", "bytes written to the log",
                                       {{"log", options_.folder}})),
        syncs_(metrics.counter("log_syncs_total",
                               "syncs of the log; records per sync is the group commit's gain",
                               {{"log", options_.folder}})),
        torn_tails_(metrics.counter("log_torn_tails_total",
                                    "torn ends of the log that were cut off at a start",
                                    {{"log", options_.folder}})),
        torn_bytes_(metrics.counter("log_torn_bytes_total", "bytes of the torn ends that were cut off",
                                    {{"log", options_.folder}})),
        recycled_(metrics.counter("log_segments_recycled_total",
                                  "segments of the log that were written over earlier ones",
                                  {{"log", options_.folder}})) {}

  ~LogImpl() override { loop_.cancel(mark_timer_); }

  Task<Status> recover(Replay replay);

  Result<LogSequence> append(ByteView record) override;
  Task<Status> sync(LogSequence sequence) override;
  Task<Status> trim(LogSequence sequence) override;
  Task<Status> record_end() override;
  LogSequence last() const override { return {last_}; }
  LogSequence durable() const override { return {durable_}; }
  std::uint64_t bytes() const override;
  bool failed() const override { return !intact_; }

 private:
  struct Waiter {
    std::uint64_t sequence;
    OneShot<Status> done;
  };

  std::string path(std::uint64_t first) const {
    return fmt::format("{}/{}", options_.folder, format::segment_name(first));
  }
  // Beside the log's folder, in which every file is a segment.
  std::string spare_folder() const { return options_.folder + ".spare"; }

  Task<Result<std::vector<std::uint64_t>>> find_segments();
  Task<Status> find_spares();
  Task<Result<bool>> recover_segment(std::uint64_t first, bool newest, const Replay& replay);
  // Replays whole records; where they end.
  Result<std::size_t> replay_records(std::uint64_t first, ByteView bytes, const Replay& replay);
  Task<Status> cut_tail(std::uint64_t first, ByteView bytes, std::size_t end, bool recycled);
  Task<Status> start_segment();
  Task<Status> end_segment();
  Task<Status> retire(std::uint64_t first);
  Status check_end() const;
  void mark_later();

  void flush_soon();
  Task<void> flush();
  Task<Status> write_batch(Buffer& batch);
  void settle(const Status& status, std::uint64_t up_to);

  Loop& loop_;
  Disk& disk_;
  Options options_;

  std::deque<Segment> segments_;  // oldest first; the last is the active one
  std::vector<std::string> spares_;
  std::unique_ptr<File> active_;
  std::uint32_t salt_ = 0;  // of the active segment

  std::uint64_t last_ = 0;
  std::uint64_t durable_ = 0;
  Buffer pending_;  // records (last of the batch under way, last_]
  std::deque<Waiter> waiters_;
  bool flushing_ = false;
  Status intact_;  // the error after which nothing more is accepted
  AsyncMutex trimming_;
  std::shared_ptr<EndMarkFile> mark_;
  std::optional<EndMark> marked_;  // what the mark said at the start
  TimerId mark_timer_ = TimerId::kNone;

  Counter &records_written_, &bytes_written_, &syncs_, &torn_tails_, &torn_bytes_, &recycled_;
};

// ---- recovery ----

Task<Status> LogImpl::recover(Replay replay) {
  auto marked = co_await mark_->read();
  if (!marked) co_return fail(std::move(marked).error());
  marked_ = *marked;
  auto found = co_await find_segments();
  if (!found) co_return fail(std::move(found).error());
  if (!found->empty() && marked_ && found->front() > marked_->begin + 1) {
    co_return fail(Errc::kCorrupt, "log {}: it begins at record {}, but those from {} on are needed. {}",
                   options_.folder, found->front(), marked_->begin + 1, end_mark_cure(mark_->path()));
  }
  for (std::size_t i = 0; i < found->size(); ++i) {
    std::uint64_t first = (*found)[i];
    bool newest = i + 1 == found->size();
    if (!segments_.empty() && first != last_ + 1) {
      co_return fail(Errc::kCorrupt, "{}: begins at record {}, but the segment before it ends at {}",
                     path(first), first, last_);
    }
    if (segments_.empty()) last_ = first - 1;
    auto kept = co_await recover_segment(first, newest, replay);
    if (!kept) co_return fail(std::move(kept).error());
  }
  SLICE_CO_RETURN_IF_ERROR(check_end());
  durable_ = last_;
  SLICE_CO_RETURN_IF_ERROR(co_await find_spares());
  if (active_ == nullptr) SLICE_CO_RETURN_IF_ERROR(co_await start_segment());
  SLICE_CO_RETURN_IF_ERROR(co_await mark_->record_begin(segments_.front().first_sequence - 1));
  co_return co_await mark_->record_end(durable_);
}

// Called when the last segment was read, before anything is changed on disk.
Status LogImpl::check_end() const {
  if (!marked_ || last_ >= marked_->end) return {};
  return fail(Errc::kCorrupt, "log {}: it ends at record {}, but records up to {} were durable. {}",
              options_.folder, last_, marked_->end, end_mark_cure(mark_->path()));
}

Task<Result<std::vector<std::uint64_t>>> LogImpl::find_segments() {
  auto names = co_await disk_.list(options_.folder);
  if (!names) co_return fail(names.error(), options_.folder);
  std::vector<std::uint64_t> found;
  for (const std::string& name : *names) {
    auto first = format::parse_segment_name(name);
    if (!first || *first == 0) {
      co_return fail(Errc::kCorrupt, "{}/{}: not the name of a log segment", options_.folder, name);
    }
    found.push_back(*first);
  }
  std::sort(found.begin(), found.end());
  co_return found;
}

Task<Status> LogImpl::find_spares() {
  auto names = co_await disk_.list(spare_folder());
  if (!names) co_return fail(names.error(), spare_folder());
  for (const std::string& name : *names) spares_.push_back(fmt::format("{}/{}", spare_folder(), name));
  while (spares_.size() > options_.spares) {
    SLICE_CO_RETURN_IF_ERROR(co_await disk_.remove(spares_.back()));
    spares_.pop_back();
  }
  co_return Status{};
}

// False where the segment was only half begun, and has been removed.
Task<Result<bool>> LogImpl::recover_segment(std::uint64_t first, bool newest, const Replay& replay) {
  auto file = co_await disk_.open(path(first), Disk::Mode::kMustExist);
  if (!file) co_return fail(file.error(), path(first));
  Buffer bytes((*file)->size());
  auto got = co_await (*file)->read(0, bytes.span());
  if (!got) co_return fail(got.error(), path(first));
  bytes.resize(*got);

  auto header = format::decode_segment_header(bytes.view());
  if (!header || header->first_sequence != first) {
    // A header is durable before the first record follows it, so only an empty segment may have a torn one.
    if (!newest || bytes.size() > format::kSegmentHeaderSize) {
      co_return fail(Errc::kCorrupt, "{}: offset 0: bad segment header", path(first));
    }
    SLICE_CO_RETURN_IF_ERROR(check_end());
    torn_tails_.add();
    torn_bytes_.add(bytes.size());
    file->reset();
    SLICE_CO_RETURN_IF_ERROR(co_await disk_.remove(path(first)));
    co_return false;
  }
  salt_ = header->salt;
  auto end = replay_records(first, bytes.view(), replay);
  if (!end) co_return fail(std::move(end).error());
  if (*end != bytes.size() && !newest) {
    co_return fail(Errc::kCorrupt, "{}: offset {}: bad record {} in a finished segment", path(first), *end,
                   last_ + 1);
  }
  segments_.push_back({first, *end});
  if (newest) {
    active_ = std::move(*file);
    SLICE_CO_RETURN_IF_ERROR(co_await cut_tail(first, bytes.view(), *end, header->recycled));
  }
  co_return true;
}

Result<std::size_t> LogImpl::replay_records(std::uint64_t first, ByteView bytes, const Replay& replay) {
  std::size_t at = format::kSegmentHeaderSize;
  while (at < bytes.size()) {
    auto record = format::decode_record(bytes.subspan(at), salt_);
    if (!record || record->sequence != last_ + 1) break;
    if (Status status = replay({record->sequence}, record->payload); !status) {
      return fail(status.error(), fmt::format("{}: offset {}: record {}", path(first), at, record->sequence));
    }
    ++last_;
    at += record->size();
  }
  return at;
}

// Leaves the active segment ending at `end`, durably: what was replayed counts as durable from now on. Behind
// it may be bytes of the segment that this one is written over, whose salt was another.
Task<Status> LogImpl::cut_tail(std::uint64_t first, ByteView bytes, std::size_t end, bool recycled) {
  if (end < bytes.size()) {
    if (format::proves_durable(bytes.subspan(end), last_ + 1, salt_)) {
      co_return fail(Errc::kCorrupt, "{}: offset {}: bad record {}, which later records follow", path(first),
                     end, last_ + 1);
    }
    SLICE_CO_RETURN_IF_ERROR(check_end());
    if (const std::size_t torn = format::torn_bytes(bytes.subspan(end), last_ + 1, recycled); torn > 0) {
      torn_tails_.add();
      torn_bytes_.add(torn);
    }
    SLICE_CO_RETURN_IF_ERROR(co_await active_->truncate(end));
  }
  SLICE_CO_RETURN_IF_ERROR(co_await active_->sync());
  co_return co_await disk_.sync_folder(options_.folder);
}

// ---- appending ----

Result<LogSequence> LogImpl::append(ByteView record) {
  if (!intact_) return fail(intact_.error());
  if (record.size() > options_.max_record) {
    return fail(Errc::kTooLarge, "log {}: a record of {} bytes; the limit is {}", options_.folder,
                record.size(), options_.max_record);
  }
  if (pending_.size() + record.size() > kMaxPending) {
    return fail(Errc::kNoSpace, "log {}: {} bytes wait for the disk", options_.folder, pending_.size());
  }
  format::append_record(pending_, ++last_, record);
  if (pending_.size() > kWriteAnyway) flush_soon();
  return LogSequence{last_};
}

Task<Status> LogImpl::sync(LogSequence sequence) {
  assert(sequence.value <= last_);
  if (sequence.value <= durable_) co_return Status{};
  if (!intact_) co_return intact_;
  Waiter waiter{sequence.value, {}};
  waiters_.push_back(waiter);
  flush_soon();
  TraceScope step(co_await current_trace(), TraceStep::Kind::kSync, options_.folder);
  co_return co_await waiter.done;
}

// One flush runs at a time; whoever asks meanwhile is served by its next batch. Starting through the loop
// lets all requests of one round share the first.
void LogImpl::flush_soon() {
  if (std::exchange(flushing_, true)) return;
  loop_.post([this] { spawn(flush()); });
}

Task<void> LogImpl::flush() {
  Buffer batch;
  while (!pending_.empty() && intact_) {
    std::uint64_t up_to = last_;
    std::swap(batch, pending_);
    pending_.clear();
    Status status = co_await write_batch(batch);
    if (!status && status.error().code == Errc::kNoSpace) {
      // The records keep their order and their numbers: a later sync tries again where this one began.
      batch.append(pending_.view());
      std::swap(batch, pending_);
      settle(status, last_);
      break;
    }
    if (!status) {
      intact_ = fail(status.error(), fmt::format("log {} is closed for writing", options_.folder));
      settle(intact_, last_);
      break;
    }
    durable_ = up_to;
    settle(status, up_to);
    mark_later();
  }
  flushing_ = false;
  if (!waiters_.empty()) flush_soon();
}

Task<Status> LogImpl::write_batch(Buffer& batch) {
  if (segments_.back().bytes >= options_.segment_bytes) SLICE_CO_RETURN_IF_ERROR(co_await start_segment());
  std::uint64_t records = 0;
  for (std::size_t at = 0; at < batch.size(); ++records) {
    at += format::seal(batch.span().subspan(at), durable_, salt_);
  }
  SLICE_CO_RETURN_IF_ERROR(co_await active_->write(segments_.back().bytes, batch.view()));
  SLICE_CO_RETURN_IF_ERROR(co_await active_->sync());
  segments_.back().bytes += batch.size();
  records_written_.add(records);
  bytes_written_.add(batch.size());
  syncs_.add();
  co_return Status{};
}

// Called with every record up to durable_ on disk. The header is durable before a record may follow it, and
// before the segment has its name.
Task<Status> LogImpl::start_segment() {
  if (active_ != nullptr) SLICE_CO_RETURN_IF_ERROR(co_await end_segment());
  std::uint64_t first = durable_ + 1;
  const bool recycled = !spares_.empty();
  const std::string made = recycled ? spares_.back() : path(first);
  auto file = co_await disk_.open(made, Disk::Mode::kCreate);
  if (!file) co_return fail(file.error(), made);
  format::SegmentHeader header{
      .first_sequence = first, .salt = salt_from(loop_.wall().ns), .recycled = recycled};
  Buffer bytes(format::kSegmentHeaderSize);
  format::encode(header, bytes.span());
  SLICE_CO_RETURN_IF_ERROR(co_await (*file)->write(0, bytes.view()));
  SLICE_CO_RETURN_IF_ERROR(co_await (*file)->sync());
  if (recycled) {
    std::erase(spares_, made);
    SLICE_CO_RETURN_IF_ERROR(co_await disk_.rename(made, path(first)));
    recycled_.add();
  }
  SLICE_CO_RETURN_IF_ERROR(co_await disk_.sync_folder(options_.folder));
  active_ = std::move(*file);
  salt_ = header.salt;
  segments_.push_back({first, bytes.size()});
  co_return Status{};
}

// A finished segment ends with its last record: what is behind it, of the one that it was written over, goes.
Task<Status> LogImpl::end_segment() {
  if (active_->size() == segments_.back().bytes) co_return Status{};
  SLICE_CO_RETURN_IF_ERROR(co_await active_->truncate(segments_.back().bytes));
  co_return co_await active_->sync();
}

// Tells those who wait for records up to `up_to`. Through the loop: they may append again, or close the log.
void LogImpl::settle(const Status& status, std::uint64_t up_to) {
  std::vector<Waiter> ready;
  std::deque<Waiter> later;
  for (Waiter& waiter : waiters_) {
    if (waiter.sequence <= up_to) {
      ready.push_back(std::move(waiter));
    } else {
      later.push_back(std::move(waiter));
    }
  }
  waiters_ = std::move(later);
  if (ready.empty()) return;
  loop_.post([status, ready = std::move(ready)] {
    for (const Waiter& waiter : ready) waiter.done.set(status);
  });
}

// ---- the end mark ----

void LogImpl::mark_later() {
  if (mark_timer_ != TimerId::kNone) return;
  mark_timer_ = loop_.after(kMarkDelay, [this] {
    mark_timer_ = TimerId::kNone;
    spawn([](std::shared_ptr<EndMarkFile> mark, std::uint64_t end) -> Task<void> {
      if (Status status = co_await mark->record_end(end); !status) {
        log_warning("log: how far it goes is not recorded: {}", status.error().message);
      }
    }(mark_, durable_));
  });
}

Task<Status> LogImpl::record_end() {
  loop_.cancel(std::exchange(mark_timer_, TimerId::kNone));
  return mark_->record_end(durable_);
}

// ---- trimming ----

// Oldest first, each removal durable before the next, so that what a crash leaves is without gaps.
Task<Status> LogImpl::trim(LogSequence sequence) {
  auto lock = co_await trimming_.lock();
  auto kept = segments_.begin();
  while (std::next(kept) != segments_.end() && std::next(kept)->first_sequence <= sequence.value) ++kept;
  SLICE_CO_RETURN_IF_ERROR(co_await mark_->record_begin(kept->first_sequence - 1));
  while (segments_.size() > 1 && segments_[1].first_sequence <= sequence.value) {
    SLICE_CO_RETURN_IF_ERROR(co_await retire(segments_.front().first_sequence));
    segments_.pop_front();
  }
  co_return Status{};
}

// A spare is written over only after it has durably left the log.
Task<Status> LogImpl::retire(std::uint64_t first) {
  const bool keep = spares_.size() < options_.spares;
  const std::string spare = fmt::format("{}/{}", spare_folder(), format::segment_name(first));
  Status gone = keep ? co_await disk_.rename(path(first), spare) : co_await disk_.remove(path(first));
  const bool there = gone.has_value();
  if (!there && gone.error().code != Errc::kNotFound) co_return gone;
  SLICE_CO_RETURN_IF_ERROR(co_await disk_.sync_folder(options_.folder));
  if (keep && there) spares_.push_back(spare);
  co_return Status{};
}

std::uint64_t LogImpl::bytes() const {
  std::uint64_t sum = 0;
  for (const Segment& segment : segments_) sum += segment.bytes;
  return sum;
}

}  // namespace

Task<Result<std::unique_ptr<Log>>> Log::open(Loop& loop, Disk& disk, Metrics& metrics, Options options,
                                             Replay replay) {
  auto log = std::make_unique<LogImpl>(loop, disk, metrics, std::move(options));
  SLICE_CO_RETURN_IF_ERROR(co_await log->recover(std::move(replay)));
  co_return std::unique_ptr<Log>(std::move(log));
}

}  // namespace slice::storage
