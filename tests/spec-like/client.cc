#include "tests/spec-like/client.h"

#include <algorithm>
#include <cmath>

namespace slice::load {

using nfs3::Procedure;

namespace {

constexpr Duration kContendedPause = std::chrono::milliseconds(1);
constexpr int kContendedTries = 10'000;
// A timer that is further away comes late by as much as 50 ms (rpc/epoll_loop.h); one from then on comes in
// time.
constexpr Duration kExact = std::chrono::milliseconds(90);

bool has(const Transaction& what, Step step) {
  return std::find(what.steps.begin(), what.steps.end(), step) != what.steps.end();
}
bool changes(Step step) {
  return step == Step::kSetattr || step == Step::kWrite || step == Step::kAppend || step == Step::kCommit ||
         step == Step::kCreate || step == Step::kRemove || step == Step::kRename;
}
bool is_listing(Step step) {
  return step == Step::kReaddir || step == Step::kReaddirplus;
}

MonoTime wake_before(MonoTime due, MonoTime now) {
  return due - now > kExact ? due - kExact : due;
}

}  // namespace

MonoTime precise_now() {
  return MonoTime(std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

Procedure procedure_of(Step step) {
  switch (step) {
    case Step::kLookup:
    case Step::kMissing:
      return Procedure::kLookup;
    case Step::kAccess:
      return Procedure::kAccess;
    case Step::kGetattr:
      return Procedure::kGetattr;
    case Step::kSetattr:
      return Procedure::kSetattr;
    case Step::kRead:
      return Procedure::kRead;
    case Step::kWrite:
    case Step::kAppend:
      return Procedure::kWrite;
    case Step::kCommit:
      return Procedure::kCommit;
    case Step::kCreate:
      return Procedure::kCreate;
    case Step::kRemove:
      return Procedure::kRemove;
    case Step::kRename:
      return Procedure::kRename;
    case Step::kReadlink:
      return Procedure::kReadlink;
    case Step::kReaddir:
      return Procedure::kReaddir;
    case Step::kReaddirplus:
      return Procedure::kReaddirplus;
    case Step::kFsstat:
      return Procedure::kFsstat;
  }
  return Procedure::kNull;
}

Pacer::Pacer(std::uint64_t seed, double per_second, MonoTime begin)
    : random_(seed), mean_ns_(1e9 / per_second), due_(begin) {
  next();
}

void Pacer::next() {
  const double chance = (static_cast<double>(random_.next() >> 11) + 0.5) * 0x1p-53;  // within (0, 1)
  due_ += Duration(static_cast<std::int64_t>(-std::log(chance) * mean_ns_));
}

Client::Client(rpc::EpollLoop& loop, const Mix& mix, Options options)
    : loop_(loop),
      mix_(mix),
      options_(std::move(options)),
      nfs_(loop, options_.target),
      files_(options_.seed, mix.working_set),
      operations_(nfs_, files_, mix),
      transactions_(transactions_of(mix)),
      sizes_(sizes_of(mix)) {}

void Client::pace() {
  const MonoTime now = precise_now();
  full_ = false;
  while (!over_ && pacer_->due() < phase_.end && pacer_->due() <= now) {
    if (in_flight_ >= options_.outstanding) {
      full_ = true;
      return;
    }
    const MonoTime due = pacer_->due();
    pacer_->next();
    begin_transaction(due);
  }
  if (!over_ && pacer_->due() < phase_.end) loop_.at(wake_before(pacer_->due(), now), [this] { pace(); });
}

void Client::begin_transaction(MonoTime due) {
  ++in_flight_;
  spawn(transaction(mix_.transactions[transactions_.draw(files_.random())], due));
}

Task<void> Client::transaction(const Transaction& what, MonoTime due) {
  Subject subject = co_await choose(what);
  for (Step each : what.steps) {
    const std::uint64_t number = subject.file == nullptr ? 0 : subject.file->number;
    const bool done = co_await step(each, subject);
    // A removed file's place may be another file's already.
    if (each == Step::kRemove && subject.file->number != number) subject.file = nullptr;
    const MonoTime ended = precise_now();
    if (!done) break;
    record(procedure_of(each), due, ended);
    due = ended;
  }
  release(subject);
  --in_flight_;
  if (full_) pace();
  if (over_ && in_flight_ == 0) idle_->set(true);
}

void Client::record(Procedure procedure, MonoTime due, MonoTime ended) {
  Tally::Operation& operation = operations_.tally().of(procedure);
  if (due >= phase_.measure_from && due < phase_.end) {
    operation.latency.add(static_cast<std::uint64_t>((ended - due).count()));
  }
  if (ended >= phase_.measure_from && ended < phase_.end) ++operation.completed;
}

Task<Client::Subject> Client::choose(const Transaction& what) {
  Subject subject;
  subject.directory = files_.pick_directory();
  const Step first = what.steps.front();
  if (first == Step::kReadlink) subject.link = files_.pick_link();
  const bool alone = what.steps.size() == 1;
  if (is_listing(first) || first == Step::kFsstat || first == Step::kReadlink ||
      (alone && first == Step::kMissing) ||
      (alone && first == Step::kLookup && files_.random().chance(mix_.missing))) {
    co_return subject;
  }
  const bool exclusive = std::any_of(what.steps.begin(), what.steps.end(), changes);
  if (has(what, Step::kCreate)) {
    subject.file = &files_.new_file(subject.directory, draw_size(), true);
    co_return subject;
  }
  for (int tries = 0; tries < kContendedTries; ++tries) {
    subject.file = choose_file(what, exclusive);
    if (subject.file != nullptr) break;
    if (tries == 0) ++operations_.tally().contended;
    if (has(what, Step::kRemove) || has(what, Step::kRename)) {
      if (!co_await make_temporary()) break;
    } else {
      co_await loop_.sleep(kContendedPause);
    }
  }
  if (subject.file != nullptr) subject.directory = subject.file->directory;
  co_return subject;
}

File* Client::choose_file(const Transaction& what, bool exclusive) {
  if (has(what, Step::kRemove) || has(what, Step::kRename)) return files_.pick_temporary();
  if (what.steps.size() == 1 && what.steps[0] == Step::kCommit) {
    if (File* dirty = files_.pick_dirty()) return dirty;
  }
  return files_.pick(exclusive);
}

void Client::release(const Subject& subject) {
  if (subject.file != nullptr) files_.release(*subject.file);
}

// A file that was not there yet has no handle: what comes before its CREATE is asked of its directory.
Task<bool> Client::step(Step what, Subject& subject) {
  Directory& directory = files_.directories()[subject.directory];
  File* file = subject.file;
  const bool there = file != nullptr && file->handle.size > 0;
  switch (what) {
    case Step::kReadlink:
      co_return subject.link != nullptr&& co_await operations_.readlink(*subject.link);
    case Step::kReaddir:
      co_return co_await operations_.list(directory, false);
    case Step::kReaddirplus:
      co_return co_await operations_.list(directory, true);
    case Step::kFsstat:
      co_return co_await operations_.fsstat();
    case Step::kMissing:
      co_return co_await operations_.lookup_missing(
          subject.directory, file != nullptr && !there ? file->name() : files_.missing_name());
    case Step::kCreate:
      co_return file != nullptr&& co_await operations_.create(*file);
    case Step::kAccess:
      co_return there ? co_await operations_.access(*file) : co_await operations_.access(directory);
    case Step::kLookup:
      co_return co_await lookup_step(subject);
    default:
      break;
  }
  if (!there) co_return false;
  switch (what) {
    case Step::kGetattr:
      co_return co_await operations_.getattr(*file);
    case Step::kSetattr:
      co_return co_await operations_.setattr(*file);
    case Step::kRead:
      co_return co_await operations_.read(*file);
    case Step::kWrite:
      co_return files_.random().chance(mix_.append) ? co_await operations_.append(*file)
                                                    : co_await operations_.write(*file);
    case Step::kAppend:
      co_return co_await operations_.append(*file);
    case Step::kCommit:
      co_return co_await operations_.commit(*file);
    case Step::kRemove:
      co_return co_await operations_.remove(*file);
    case Step::kRename:
      co_return co_await operations_.rename(*file);
    default:
      co_return false;
  }
}

Task<bool> Client::lookup_step(Subject& subject) {
  if (subject.file != nullptr && subject.file->handle.size > 0)
    co_return co_await operations_.lookup(*subject.file);
  co_return co_await operations_.lookup_missing(subject.directory, files_.missing_name());
}

Task<void> Client::run(Phase phase) {
  phase_ = phase;
  over_ = false;
  idle_.emplace();
  pacer_.emplace(sim::mix(options_.seed + ++runs_),
                 phase.operations_per_second / mix_.steps_per_transaction(), phase.begin);
  pace();
  Tally& tally = operations_.tally();
  co_await loop_.sleep(phase.measure_from - precise_now());
  const std::uint64_t read = tally.bytes_read, written = tally.bytes_written;
  co_await loop_.sleep(phase.end - precise_now());
  tally.bytes_read -= read;
  tally.bytes_written -= written;
  const std::uint64_t read_then = tally.bytes_read, written_then = tally.bytes_written;
  over_ = true;
  count_not_sent();
  if (in_flight_ > 0) co_await *idle_;
  tally.bytes_read = read_then;
  tally.bytes_written = written_then;
}

// What was due and never began would have taken at least until now: leaving it out would flatter the server.
void Client::count_not_sent() {
  for (; pacer_->due() < phase_.end; pacer_->next()) {
    if (pacer_->due() < phase_.measure_from) continue;
    const Transaction& what = mix_.transactions[transactions_.draw(files_.random())];
    ++operations_.tally().not_sent;
    operations_.tally()
        .of(procedure_of(what.steps.front()))
        .latency.add(static_cast<std::uint64_t>((phase_.end - pacer_->due()).count()));
  }
}

Tally Client::take_tally() {
  Tally taken = std::exchange(operations_.tally(), Tally{});
  taken.resent = nfs_.counters().resent - resent_before_;
  taken.told_to_wait = nfs_.told_to_wait() - told_to_wait_before_;
  resent_before_ = nfs_.counters().resent;
  told_to_wait_before_ = nfs_.told_to_wait();
  return taken;
}

}  // namespace slice::load
