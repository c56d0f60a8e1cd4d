#include "service/authority_client.h"

#include <tsl/robin_map.h>

#include <algorithm>
#include <deque>
#include <list>
#include <vector>

#include "common/log.h"
#include "service/internal_call.h"

namespace slice::service {
namespace {

constexpr Duration kCallTimeout = std::chrono::seconds(5);
constexpr Duration kFlushTimeout = std::chrono::seconds(4);
constexpr std::size_t kMaxLazyMerges = 128;  // files, under way at once
constexpr Duration kGather =
    std::chrono::milliseconds(100);  // so much earlier than due, to be told with others

// What the authority has not been told of a file yet.
struct Untold {
  bool any = false;
  Epoch epoch;
  std::uint64_t end = 0;
  nfs3::Time mtime;
  std::vector<OneShot<Status>> waiters;  // of report()

  void add(Epoch its_epoch, std::uint64_t its_end, nfs3::Time its_mtime) {
    if (!any || its_epoch > epoch) {
      epoch = its_epoch;
      end = its_end;
    } else if (its_epoch == epoch) {
      end = std::max(end, its_end);
    }
    mtime = any ? std::max(mtime, its_mtime) : its_mtime;
    any = true;
  }
};

// Askers that share one FETCH.
struct Fetch {
  bool with_striped = false;
  std::uint64_t forgotten = 0;  // Entry::forgotten when it was asked
  Untold meanwhile;             // told since, perhaps after the authority had answered
  std::vector<OneShot<Result<KnownFile>>> waiters;
};

struct Entry {
  explicit Entry(const routing::FileHandle& its_handle) : handle(its_handle) {}
  bool used = false;  // since the last look for one to evict
  bool has = false;   // `known` was fetched, and not forgotten since
  MonoTime fetched_at;
  KnownFile known;
  routing::FileHandle handle;
  std::uint64_t forgotten = 0;  // how often: an answer to a question from before is not kept

  bool fetching = false;
  Fetch current, next;
  bool merging = false;
  Untold telling;                      // on its way, with `merging`
  std::uint64_t forgotten_before = 0;  // Entry::forgotten when that left
  bool queued = false;                 // stands in the queue of lazy merges
  Untold untold;

  bool busy() const { return fetching || merging || queued || untold.any; }
};

Error unavailable(const Error& cause, std::string_view what) {
  return {Errc::kUnavailable, fmt::format("{}: {}", what, cause.message)};
}

// What the authority's status means to its caller; kOk is none of these.
Error error_of(nfs3::Status status) {
  switch (status) {
    case nfs3::Status::kStale:
    case nfs3::Status::kNoEnt:
    case nfs3::Status::kBadHandle:
      return {Errc::kStale, "the authority knows no such file"};
    case nfs3::Status::kNoSpc:
      return {Errc::kNoSpace, "the authority's disk is full"};
    case nfs3::Status::kIo:
      return {Errc::kIo, "the authority failed to read or write its store"};
    default:
      return {Errc::kUnavailable, fmt::format("the authority answered {}", nfs3::status_name(status))};
  }
}

// `known` moved forward by what this server did itself.
void fold(KnownFile& known, const Untold& untold) {
  if (!untold.any) return;
  nfs3::Attributes& attributes = known.attributes;
  if (untold.epoch == known.epoch && untold.end > attributes.size) {
    attributes.used += untold.end - attributes.size;  // as proxies do (bpf/shared/attributes.h)
    attributes.size = untold.end;
  }
  attributes.mtime = std::max(attributes.mtime, untold.mtime);
  attributes.ctime = std::max(attributes.ctime, untold.mtime);
}

}  // namespace

class AuthorityClient::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(ServiceContext& context, Stored stored, std::size_t most)
      : context_(context),
        stored_(std::move(stored)),
        most_(std::max<std::size_t>(most, 1)),
        fetches_(context.metrics.counter(
            "authority_fetches_total",
            "attributes asked of a directory server; of a directory server, answered")),
        hits_(context.metrics.counter("authority_cache_hits_total",
                                      "permission checks that the attributes kept here sufficed for")),
        merges_(context.metrics.counter(
            "authority_merges_total",
            "files whose size and mtime were reported to a directory server; of a directory server, taken")),
        failures_(context.metrics.counter("authority_failures_total",
                                          "questions and reports that failed; reports are sent again")),
        cached_(context.metrics.gauge("authority_cached_files", "files whose attributes are kept")),
        over_quota_(context.metrics.counter("quota_refused_writes_total",
                                            "writes that a quota left no room for, NFS3ERR_DQUOT")),
        rooms_(context, [this](const routing::FileHandle& file, wire::RoomArgs args) {
          return ask<wire::RoomResult>(shared_from_this(), file, wire::AuthorityProcedure::kRoom, args);
        }) {}

  // Calls under way may go on, without asking what is stored.
  void end() { stored_ = {}; }

  // What is cached, where it is new enough.
  const KnownFile* fresh(const routing::FileHandle& handle) { return fresh(entry_of(handle), false); }
  const KnownFile* fresh(const Entry& entry, bool with_striped) {
    bool known_enough = entry.has && (!with_striped || entry.known.striped);
    if (!known_enough || context_.loop.now() - entry.fetched_at > kMaxAge) return nullptr;
    hits_.add();
    return &entry.known;
  }

  Task<Result<KnownFile>> fetch(routing::FileHandle handle, Freshness freshness, bool with_striped) {
    Entry& entry = entry_of(handle);
    if (freshness == Freshness::kCached) {
      if (const KnownFile* known = fresh(entry, with_striped)) co_return *known;
    }
    OneShot<Result<KnownFile>> answer;
    // A question under way may have been answered already: who wants to know how things are now asks anew.
    bool joins = entry.fetching && freshness == Freshness::kCached &&
                 entry.current.forgotten == entry.forgotten && (!with_striped || entry.current.with_striped);
    Fetch& fetch = joins ? entry.current : entry.next;
    fetch.with_striped = fetch.with_striped || with_striped;
    fetch.waiters.push_back(answer);
    if (!entry.fetching) spawn(run_fetches(shared_from_this(), handle.fileid));
    co_return co_await answer;
  }

  const KnownFile* peek(FileId file) const {
    auto found = by_file_.find(file);
    return found != by_file_.end() && found->second->has ? &found->second->known : nullptr;
  }

  void note(const routing::FileHandle& handle, Epoch epoch, std::uint64_t end, nfs3::Time mtime) {
    Entry& entry = entry_of(handle);
    entry.untold.add(epoch, end, mtime);
    if (entry.has) fold(entry.known, entry.untold);
    queue(entry);
  }

  void note_cut(FileId file, std::uint64_t size, Epoch epoch) {
    Entry* entry = find(file);
    if (entry == nullptr || size == 0) return;
    entry->untold.add(epoch, 0, {});
    queue(*entry);
  }

  Task<Status> report(routing::FileHandle handle, Epoch epoch, std::uint64_t end, nfs3::Time mtime) {
    Entry& entry = entry_of(handle);
    entry.untold.add(epoch, end, mtime);
    if (entry.has) fold(entry.known, entry.untold);
    OneShot<Status> answer;
    entry.untold.waiters.push_back(answer);
    if (!entry.merging) spawn(tell(shared_from_this(), {&entry}));
    co_return co_await answer;
  }

  void forget(FileId file) {
    auto found = by_file_.find(file);
    if (found == by_file_.end()) return;
    forget(*found->second);
  }
  void forget_those(const std::function<bool(FileId)>& which) {
    for (Entry& entry : entries_) {
      if (which(entry.handle.fileid)) forget(entry);
    }
  }

  QuotaRooms& rooms() { return rooms_; }
  MonoTime now() const { return context_.loop.now(); }
  Task<void> sleep(Duration duration) { co_await context_.loop.sleep(duration); }
  void refuse_for_quota() { over_quota_.add(); }

  Task<void> flush() {
    MonoTime deadline = context_.loop.now() + kFlushTimeout;
    std::vector<FileId> files;
    for (const Entry& entry : entries_) {
      if (entry.untold.any || entry.merging) files.push_back(entry.handle.fileid);
    }
    for (FileId file : files) {
      Entry* entry = find(file);
      if (entry != nullptr && entry->untold.any && !entry->merging) spawn(tell(shared_from_this(), {entry}));
    }
    auto told = [this](FileId file) {
      const Entry* entry = find(file);
      return entry == nullptr || (!entry->untold.any && !entry->merging);
    };
    while (!std::all_of(files.begin(), files.end(), told) && context_.loop.now() < deadline) {
      co_await context_.loop.sleep(std::chrono::milliseconds(10));
    }
  }

 private:
  static void forget(Entry& entry) {
    entry.has = false;
    ++entry.forgotten;
  }
  Entry* find(FileId file) {
    auto found = by_file_.find(file);
    return found == by_file_.end() ? nullptr : &*found->second;
  }

  // The file's entry, made where there is none.
  Entry& entry_of(const routing::FileHandle& handle) {
    auto found = by_file_.find(handle.fileid);
    if (found != by_file_.end()) {
      found->second->used = true;
      return *found->second;
    }
    entries_.emplace_front(handle);
    by_file_[handle.fileid] = entries_.begin();
    evict();
    cached_.set(entries_.size());
    return entries_.front();
  }

  // The oldest that was not used since it was looked at last. Entries with something under way or untold
  // stay, so the bound may be exceeded by those.
  void evict() {
    std::size_t tries = 8;
    while (entries_.size() > most_ && tries-- > 0) {
      auto oldest = std::prev(entries_.end());
      if (oldest == entries_.begin()) return;
      if (std::exchange(oldest->used, false) || oldest->busy()) {
        entries_.splice(std::next(entries_.begin()), entries_, oldest);
        continue;
      }
      by_file_.erase(oldest->handle.fileid);
      entries_.erase(oldest);
    }
  }

  rpc::Endpoint authority_of(const routing::FileHandle& handle) const {
    return context_.tables.get()->server_of(wire::Role::kDirectory, handle.directory_site).endpoint;
  }

  // Asks the file's directory server. One that does not own the file's site answers kJukebox: then the tables
  // here may be old, and the manager's say whom to ask.
  template <class R, class Args>
  static Task<Result<R>> ask(std::shared_ptr<Impl> self, routing::FileHandle file,
                             wire::AuthorityProcedure procedure, Args args) {
    const ServiceContext& context = self->context_;
    rpc::Endpoint asked = self->authority_of(file);
    auto result = co_await internal_call<R>(context.channel, asked, wire::kAuthorityProgram, procedure, args,
                                            kCallTimeout);
    if (!result || result->status != nfs3::Status::kJukebox || !context.refresh_tables) co_return result;
    co_await context.refresh_tables();
    rpc::Endpoint owner = self->authority_of(file);
    if (owner == asked) co_return result;
    co_return co_await internal_call<R>(context.channel, owner, wire::kAuthorityProgram, procedure, args,
                                        kCallTimeout);
  }

  // An answer of the authority, moved forward by what it had not been told when it gave it.
  static KnownFile known_by(const Entry& entry, const wire::FetchResult& result) {
    KnownFile known{.attributes = result.attributes,
                    .epoch = Epoch{result.attributes.rdev_major},
                    .striped = result.striped,
                    .access = result.access,
                    .solid = solid_bytes(result.attributes)};
    // Sizes only grow under one epoch: an answer that says less was overtaken by another.
    if (entry.has && entry.known.epoch == known.epoch) {
      known.attributes.size = std::max(known.attributes.size, entry.known.attributes.size);
    }
    fold(known, entry.current.meanwhile);
    fold(known, entry.telling);
    fold(known, entry.untold);
    return known;
  }

  // Keeps it, unless the question was from before forget().
  void keep(Entry& entry, const KnownFile& known, std::uint64_t forgotten) {
    if (entry.forgotten != forgotten || (entry.has && known.epoch < entry.known.epoch)) return;
    entry.known = known;
    entry.has = true;
    entry.fetched_at = context_.loop.now();
  }

  // One question after another, as long as somebody asks. Entries with `fetching` are never evicted.
  static Task<void> run_fetches(std::shared_ptr<Impl> self, FileId file) {
    Entry& entry = *self->find(file);
    entry.fetching = true;
    while (!entry.next.waiters.empty()) {
      entry.current = std::exchange(entry.next, {});
      entry.current.forgotten = entry.forgotten;
      routing::HandleBytes handle = self->context_.handles.mint(entry.handle);
      self->fetches_.add();
      auto result = co_await ask<wire::FetchResult>(
          self, entry.handle, wire::AuthorityProcedure::kFetch,
          wire::FetchArgs{.handle = handle, .with_striped = entry.current.with_striped});
      Result<KnownFile> answer = fail(Errc::kUnavailable, "");
      if (!result) {
        answer = fail(unavailable(result.error(), "asking for a file's attributes"));
      } else if (result->status != nfs3::Status::kOk) {
        answer = fail(error_of(result->status));
      } else {
        answer = known_by(entry, *result);
        self->keep(entry, *answer, entry.current.forgotten);
      }
      if (!answer) {
        self->failures_.add();
        if (answer.error().code == Errc::kStale) entry.has = false;
      }
      for (const auto& waiter : std::exchange(entry.current.waiters, {})) {
        self->context_.loop.post([waiter, answer] { waiter.set(answer); });
      }
    }
    entry.fetching = false;
  }

  // Tells what is untold of these files, which one directory server has; at most wire::kMaxMerges. Entries
  // with `merging` are never evicted.
  static Task<void> tell(std::shared_ptr<Impl> self, std::vector<Entry*> entries) {
    std::vector<routing::HandleBytes> handles(entries.size());
    wire::MergeArgs args{.files = {}, .teller = self->context_.self.index};
    args.files.reserve(entries.size());
    for (std::size_t i = 0; i < entries.size(); ++i) {
      Entry& entry = *entries[i];
      entry.merging = true;
      entry.telling = std::exchange(entry.untold, {});
      self->rooms_.telling(entry.handle.fileid);
      entry.forgotten_before = entry.forgotten;
      handles[i] = self->context_.handles.mint(entry.handle);
      args.files.push_back({.handle = handles[i],
                            .epoch = entry.telling.epoch,
                            .size = entry.telling.end,
                            .mtime = entry.telling.mtime,
                            .atime = std::nullopt,
                            .stored = self->stored_ ? self->stored_(entry.handle) : std::nullopt});
    }
    self->merges_.add(entries.size());
    auto result = co_await ask<wire::MergeResult>(self, entries[0]->handle, wire::AuthorityProcedure::kMerge,
                                                  std::move(args));
    auto told = self->check(std::move(result), entries);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      Status status = told ? self->learn(*entries[i], told->files[i]) : Status(fail(told.error()));
      if (!status) self->failures_.add();
      self->end_telling(*entries[i], status);
    }
  }

  // The answer to a MERGE of all these, or why there is none.
  Result<wire::MergeResult> check(Result<wire::MergeResult> result, const std::vector<Entry*>& entries) {
    if (!result) {
      if (failure_log_.allow()) {
        log_warning(
            "directory server did not take sizes and mtimes files={} first={:#x} reason={}; trying again",
            entries.size(), entries[0]->handle.fileid.value, result.error().message);
      }
      return fail(unavailable(result.error(), "telling of a write"));
    }
    if (result->status != nfs3::Status::kOk) return fail(error_of(result->status));
    if (result->files.size() != entries.size()) {
      return fail(Errc::kUnavailable, "the authority answered for {} files instead of {}",
                  result->files.size(), entries.size());
    }
    return result;
  }

  Status learn(Entry& entry, const wire::FetchResult& file) {
    if (file.status != nfs3::Status::kOk) {
      Error error = error_of(file.status);
      if (error.code == Errc::kStale) entry.has = false;
      return fail(std::move(error));
    }
    // Nothing is learned anew from a merge: while a truncation is under way, which made this server forget
    // the file, merges are answered under the old epoch, with which untold ends would look like the file's
    // size.
    if (entry.has) keep(entry, known_by(entry, file), entry.forgotten_before);
    return {};
  }

  // What was not told stays owed, but who waits is answered.
  void end_telling(Entry& entry, const Status& status) {
    Untold telling = std::exchange(entry.telling, {});
    entry.merging = false;
    rooms_.told(entry.handle.fileid, status || status.error().code == Errc::kStale);
    answer(telling.waiters, status);
    if (status) {
      if (entry.fetching) entry.current.meanwhile.add(telling.epoch, telling.end, telling.mtime);
    } else if (status.error().code != Errc::kStale) {
      entry.untold.add(telling.epoch, telling.end, telling.mtime);
      answer(std::exchange(entry.untold.waiters, {}), status);
    }
    if (!entry.untold.waiters.empty()) {
      spawn(tell(shared_from_this(), {&entry}));
    } else if (entry.untold.any) {
      queue(entry);
    }
  }

  void answer(const std::vector<OneShot<Status>>& waiters, const Status& status) {
    for (const auto& waiter : waiters) {
      context_.loop.post([waiter, status] { waiter.set(status); });
    }
  }

  // The entry's untold changes go out within kReportDelay.
  void queue(Entry& entry) {
    if (entry.queued) return;
    entry.queued = true;
    queue_.push_back({context_.loop.now() + kReportDelay, &entry});
    arm();
  }

  void arm() {
    // With too many under way the first to end goes on with the queue.
    if (armed_ || queue_.empty() || lazy_merges_ >= kMaxLazyMerges) return;
    armed_ = true;
    context_.loop.at(queue_.front().first, [weak = weak_from_this()] {
      if (auto self = weak.lock()) {
        self->armed_ = false;
        self->tell_what_is_due();
        self->arm();
      }
    });
  }

  void tell_what_is_due() {
    const MonoTime until = context_.loop.now() + kGather;
    std::vector<std::pair<rpc::Endpoint, std::vector<Entry*>>> calls;  // of servers, of which there are few
    while (!queue_.empty() && queue_.front().first <= until && lazy_merges_ < kMaxLazyMerges) {
      Entry& entry = *queue_.front().second;
      queue_.pop_front();
      entry.queued = false;
      if (!entry.untold.any || entry.merging) continue;
      const rpc::Endpoint server = authority_of(entry.handle);
      auto call =
          std::find_if(calls.rbegin(), calls.rend(), [&](const auto& each) { return each.first == server; });
      if (call == calls.rend() || call->second.size() == wire::kMaxMerges) {
        calls.push_back({server, {}});
        call = calls.rbegin();
      }
      call->second.push_back(&entry);
      ++lazy_merges_;
    }
    for (auto& [server, entries] : calls) spawn(tell_lazily(shared_from_this(), std::move(entries)));
  }

  static Task<void> tell_lazily(std::shared_ptr<Impl> self, std::vector<Entry*> entries) {
    const std::size_t count = entries.size();
    co_await tell(self, std::move(entries));
    self->lazy_merges_ -= count;
    self->tell_what_is_due();
    self->arm();
  }

  ServiceContext& context_;
  Stored stored_;
  const std::size_t most_;
  std::list<Entry> entries_;  // the newest first, and those with a second chance
  tsl::robin_map<FileId, std::list<Entry>::iterator, MixedHash<FileId>> by_file_;
  std::deque<std::pair<MonoTime, Entry*>> queue_;  // by time: every one waits equally long
  bool armed_ = false;
  std::size_t lazy_merges_ = 0;
  LogLimiter failure_log_{2};
  Counter& fetches_;
  Counter& hits_;
  Counter& merges_;
  Counter& failures_;
  Counter& cached_;
  Counter& over_quota_;
  QuotaRooms rooms_;
};

AuthorityClient::AuthorityClient(ServiceContext& context, Stored stored, std::optional<std::size_t> most)
    : impl_(std::make_shared<Impl>(
          context, std::move(stored),
          most.value_or(std::max<std::size_t>(context.self.cache_bytes / kCacheOfAFile, kLeastFiles)))) {}
AuthorityClient::~AuthorityClient() {
  impl_->end();
}

Task<Result<KnownFile>> AuthorityClient::fetch(const routing::FileHandle& handle, Freshness freshness,
                                               bool with_striped) {
  return impl_->fetch(handle, freshness, with_striped);
}
Task<Result<KnownFile>> AuthorityClient::fetch_for_transfer(const Identity& who,
                                                            const routing::FileHandle& handle, bool write,
                                                            Freshness freshness) {
  if (freshness == Freshness::kCached) {
    const KnownFile* cached = impl_->fresh(handle);
    if (cached != nullptr && may_transfer(who, cached->permissions(), write)) co_return *cached;
    auto known = co_await fetch(handle, Freshness::kCached);
    if (!known || may_transfer(who, known->permissions(), write)) co_return known;
  }
  auto known = co_await fetch(handle, Freshness::kNow);
  if (!known || may_transfer(who, known->permissions(), write)) co_return known;
  co_return fail(Errc::kDenied, "uid {} may not {} the file", who.uid, write ? "write" : "read");
}
Task<Result<QuotaRooms::Taken>> AuthorityClient::room(const Identity& who, const routing::FileHandle& handle,
                                                      std::uint64_t offset, std::uint64_t count,
                                                      KnownFile& known, Present present) {
  const MonoTime deadline = impl_->now() + QuotaRooms::kPatience;
  for (bool asked_anew = false;;) {
    const QuotaOwners owners = who.superuser()
                                   ? QuotaOwners::of_tree(handle.tree)
                                   : QuotaOwners{known.attributes.uid, known.attributes.gid, handle.tree};
    if (!impl_->rooms().limited(owners)) co_return QuotaRooms::Taken{};
    std::uint64_t need = quota_need(known.solid, offset, count);
    // In a file with holes only who has the bytes can tell; which costs more than to have room for them.
    if (asked_anew && need > 0) need -= std::min(need, co_await present());
    if (need == 0) co_return QuotaRooms::Taken{};
    auto answer = co_await impl_->rooms().take(handle, owners, need);
    if (!answer) co_return fail(std::move(answer.error()));
    if (answer->there) co_return std::move(answer->room);
    if (asked_anew && (!answer->others || impl_->now() >= deadline)) break;
    if (asked_anew) co_await impl_->sleep(QuotaRooms::kPause);
    // What is kept may be from before others, or this server itself, told of bytes that are stored by now.
    auto now = co_await fetch_for_transfer(who, handle, true, Freshness::kNow);
    if (!now) co_return fail(std::move(now.error()));
    known = std::move(*now);
    asked_anew = true;
  }
  impl_->refuse_for_quota();
  co_return fail(Errc::kQuota, "no quota is left for the file's owner, group or tree");
}
const KnownFile* AuthorityClient::peek(FileId file) const {
  return impl_->peek(file);
}
void AuthorityClient::note(const routing::FileHandle& handle, Epoch epoch, std::uint64_t end,
                           nfs3::Time mtime) {
  impl_->note(handle, epoch, end, mtime);
}
void AuthorityClient::note_cut(FileId file, std::uint64_t size, Epoch epoch) {
  impl_->note_cut(file, size, epoch);
}
Task<Status> AuthorityClient::report(const routing::FileHandle& handle, Epoch epoch, std::uint64_t end,
                                     nfs3::Time mtime) {
  return impl_->report(handle, epoch, end, mtime);
}
void AuthorityClient::forget(FileId file) {
  impl_->forget(file);
}
void AuthorityClient::forget_those(const std::function<bool(FileId)>& which) {
  impl_->forget_those(which);
}
Task<void> AuthorityClient::flush() {
  return impl_->flush();
}

}  // namespace slice::service
