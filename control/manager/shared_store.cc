#include "control/manager/shared_store.h"

#include <algorithm>
#include <utility>

#include "common/config.h"
#include "storage/durable_file.h"

namespace slice::manager {
namespace {

// By how much earlier than its lease a term ends: what clocks of two hosts may differ in its time, and what
// lies between looking at the clock and what is done then.
Duration margin_of(Duration lease) {
  return lease / 8;
}

}  // namespace

class SharedStore::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(Seams seams, std::unique_ptr<Registry> registry)
      : seams_(std::move(seams)),
        registry_(std::move(registry)),
        lost_answers_(seams_.metrics.counter(
            "manager_state_writes_repeated_total",
            "writes of the shared state whose answer did not come, and that were made again")),
        deposed_(seams_.metrics.counter(
            "manager_state_writes_refused_total",
            "writes of the shared state that were refused, since another manager led or had changed it")),
        ended_(seams_.metrics.counter("manager_terms_lost_total",
                                      "terms as leader that ended otherwise than by a stop")) {}

  // ---- reading and writing ----

  static Task<Result<Buffer>> read(std::shared_ptr<Impl> self, std::string name) {
    if (!self->leads()) co_return fail(self->not_leading());
    const Revision term = self->entry_.since;
    auto stored = co_await self->registry_->read(name);
    if (!stored) co_return fail(std::move(stored).error());
    if (self->entry_.since != term || !self->leads()) co_return fail(self->not_leading());
    self->revisions_[name] = stored->revision;
    if (stored->revision == 0) co_return fail(Errc::kNotFound, "{}: nothing is stored", name);
    co_return storage::without_checksum(std::move(stored->contents), name);
  }

  static Task<Status> replace(std::shared_ptr<Impl> self, std::string name, Buffer contents) {
    if (contents.size() + storage::kChecksumBytes > Registry::kMaxContents)
      co_return fail(Errc::kTooLarge, "{}: {} bytes; at most {} can be shared", name, contents.size(),
                     Registry::kMaxContents - storage::kChecksumBytes);
    const Buffer stored = storage::with_checksum(std::move(contents));
    if (!self->leads()) co_return fail(self->not_leading());
    const Revision term = self->entry_.since, before = self->revisions_[name];
    for (bool again = false;; again = true) {
      if (again) {
        self->lost_answers_.add();
        co_await self->seams_.loop.sleep(kAgain);
      }
      // Whoever leads next finds it written or not; here nobody may go by either.
      if (self->entry_.since != term || !self->leads()) co_return fail(self->not_leading());
      auto result = co_await self->registry_->write(name, stored.view(), before, term);
      if (!result && refused(result.error())) {
        // One before, without an answer, may have been written all the same.
        if (again) self->end(fmt::format("it is not known whether {} was written", name));
        co_return fail(std::move(result).error());
      }
      if (!result) {
        self->note_trouble(result.error());
        continue;
      }
      co_return self->settle(name, stored, term, *result);
    }
  }

  // ---- leading ----

  bool leads() const { return entry_.since != 0 && seams_.loop.now_exactly() < until_; }
  void stand(Hooks hooks) {
    hooks_ = std::move(hooks);
    spawn(rounds(shared_from_this()));
  }
  static Task<void> resign(std::shared_ptr<Impl> self, Duration pause) {
    self->rests_until_ = self->seams_.loop.now() + pause;
    self->resigning_ = true;
    self->end("");
    self->resigning_ = false;
    co_await self->give_back();
  }
  std::string leader() const {
    const std::string& holder = leads() ? holder_ : seen_;
    const std::string name = holder.substr(0, holder.find(' '));
    return is_server_name(name) ? name : "";
  }
  std::vector<wire::StorePlace> places() const { return registry_->places(); }
  void destroy() {
    destroyed_ = true;
    hooks_ = {};
  }

 private:
  static bool refused(const Error& error) {
    return error.code == Errc::kInvalid || error.code == Errc::kTooLarge || error.code == Errc::kNoSpace ||
           error.code == Errc::kDenied;
  }
  bool rests() const { return destroyed_ || seams_.loop.now() < rests_until_; }
  static Error not_leading() { return {Errc::kStale, "this manager does not lead"}; }

  Status settle(const std::string& name, const Buffer& wanted, Revision term, const WriteResult& result) {
    const Buffer& there = result.now.contents;
    const bool ours = result.leader.since == term && there.size() == wanted.size() &&
                      std::equal(there.view().begin(), there.view().end(), wanted.view().begin());
    if (result.written || ours) {
      // Of a term that is over another one knows the revisions.
      if (entry_.since == term) revisions_[name] = result.now.revision;
      return {};
    }
    deposed_.add();
    const std::string why = result.leader.since == term ? fmt::format("somebody else has changed {}", name)
                                                        : "another manager leads";
    if (entry_.since == term) end(why);
    return fail(Errc::kStale, "{} is not written: {}", name, why);
  }

  static Task<void> rounds(std::shared_ptr<Impl> self) {
    while (!self->destroyed_) {
      const MonoTime began = self->seams_.loop.now();
      if (self->entry_.since != 0) {
        co_await stay(self);
      } else if (!self->rests()) {
        co_await try_to_lead(self);
      } else {
        co_await look(self);
      }
      if (self->destroyed_) co_return;
      const Duration interval = self->entry_.since != 0 ? self->lease_->time / 4 : kLook;
      const MonoTime next = began + interval;
      const MonoTime now = self->seams_.loop.now();
      co_await self->seams_.loop.sleep(next > now ? next - now : Duration(0));
    }
  }

  // Who leads now. Without an answer nobody is known to.
  static Task<bool> look(std::shared_ptr<Impl> self) {
    auto entry = co_await self->registry_->leader();
    if (!entry) {
      self->seen_.clear();
      self->note_trouble(entry.error());
      co_return false;
    }
    self->note_answer();
    self->seen_ = entry->holder;
    co_return true;
  }

  static Task<void> try_to_lead(std::shared_ptr<Impl> self) {
    // With the lease of a try whose answer did not come, this one may lead already.
    if (self->lease_ && !co_await keep(self)) co_return;
    if (!co_await look(self)) co_return;
    const bool own = !self->seen_.empty() && self->seen_ == self->holder_;
    if (!self->seen_.empty() && !own) {
      co_await self->give_back();
      co_return;
    }
    if (!self->lease_) {
      const MonoTime asked = self->seams_.loop.now_exactly();
      auto granted = co_await self->registry_->grant(self->seams_.lease);
      if (!granted) {
        self->note_trouble(granted.error());
        co_return;
      }
      self->lease_ = *granted;
      if (self->rests()) co_return co_await self->give_back();
      self->lasts(asked);
      self->holder_ = fmt::format("{} {:016x}", self->seams_.self, self->seams_.random());
    }
    auto entry = co_await self->registry_->stand(self->holder_, self->lease_->id);
    if (!entry) {
      self->note_trouble(entry.error());
      co_return;
    }
    self->seen_ = entry->holder;
    if (entry->holder != self->holder_ || self->rests()) co_return co_await self->give_back();
    if (!self->lease_ || self->lease_->id != entry->lease) co_return;  // given back meanwhile
    if (self->seams_.loop.now_exactly() >= self->until_) co_return;    // the answer took too long
    self->begin(*entry);
  }

  // False: there is no answer, or it is over.
  static Task<bool> keep(std::shared_ptr<Impl> self) {
    const MonoTime asked = self->seams_.loop.now_exactly();
    const std::uint64_t lease = self->lease_->id;
    Status kept = co_await self->registry_->keep(lease);
    if (!self->lease_ || self->lease_->id != lease) co_return false;
    const bool over = !kept && kept.error().code == Errc::kNotFound;
    if (kept) self->lasts(asked);
    if (over) self->lease_.reset();
    if (kept || over) {
      self->note_answer();
    } else {
      self->note_trouble(kept.error());
    }
    co_return kept.has_value();
  }

  static Task<void> stay(std::shared_ptr<Impl> self) {
    if (!self->leads()) {
      self->end("its lease was not renewed in time");
      co_await self->give_back();
      co_return;
    }
    const Revision term = self->entry_.since;
    if (co_await keep(self) || self->entry_.since != term) co_return;
    if (!self->lease_) self->end("its lease is over");
  }

  void lasts(MonoTime asked) { until_ = asked + lease_->time - margin_of(lease_->time); }

  void begin(const LeaderEntry& entry) {
    entry_ = entry;
    revisions_.clear();
    watch_end();
    if (hooks_.begun) hooks_.begun();
  }

  // The term ends when its time does, whatever is waited for.
  void watch_end() {
    seams_.loop.at(until_, [self = shared_from_this(), term = entry_.since] {
      if (self->entry_.since != term) return;
      if (self->leads()) return self->watch_end();
      self->end("its lease was not renewed in time");
      spawn(drop(self));
    });
  }
  static Task<void> drop(std::shared_ptr<Impl> self) { co_await self->give_back(); }

  void end(const std::string& why) {
    if (entry_.since == 0) return;
    entry_ = {};
    seen_.clear();
    if (!resigning_) {
      ended_.add();
      log_warning("this manager's term as leader is over: {}", why);
    }
    if (hooks_.ended) hooks_.ended();
  }

  // So that another one need not wait for its end. Without an answer it ends by itself.
  Task<void> give_back() {
    if (!lease_) co_return;
    const std::uint64_t id = std::exchange(lease_, std::nullopt)->id;
    (void)co_await registry_->revoke(id);
  }

  void note_trouble(const Error& error) {
    if (trouble_log_.allow(seams_.loop.now(), error.message))
      log_warning("the managers' registry does not answer: {}", error.message);
  }
  void note_answer() {
    if (const auto silent = trouble_log_.over(seams_.loop.now()))
      log_info("the managers' registry answers again, after {} s",
               std::chrono::duration_cast<std::chrono::seconds>(*silent).count());
  }

  const Seams seams_;
  const std::unique_ptr<Registry> registry_;
  Hooks hooks_;
  std::optional<Lease> lease_;
  std::string holder_;  // that stands with the lease
  MonoTime until_{};    // by then it does not lead any more, unless the lease is renewed
  LeaderEntry entry_;   // of its term; since 0: there is none
  std::string seen_;    // who leads, as it was seen last
  MonoTime rests_until_{};
  bool resigning_ = false, destroyed_ = false;
  std::map<std::string, Revision> revisions_;  // of what was read or written last in this term
  service::LogBackoff trouble_log_;
  Counter &lost_answers_, &deposed_, &ended_;
};

SharedStore::SharedStore(Seams seams, std::unique_ptr<Registry> registry)
    : impl_(std::make_shared<Impl>(std::move(seams), std::move(registry))) {}
SharedStore::~SharedStore() {
  impl_->destroy();
}
Task<Result<Buffer>> SharedStore::read(std::string name) {
  return Impl::read(impl_, std::move(name));
}
Task<Status> SharedStore::replace(std::string name, Buffer contents) {
  return Impl::replace(impl_, std::move(name), std::move(contents));
}
void SharedStore::stand(Hooks hooks) {
  impl_->stand(std::move(hooks));
}
bool SharedStore::leads() const {
  return impl_->leads();
}
Task<void> SharedStore::resign(Duration pause) {
  return Impl::resign(impl_, pause);
}
std::string SharedStore::leader() const {
  return impl_->leader();
}
std::vector<wire::StorePlace> SharedStore::places() const {
  return impl_->places();
}

}  // namespace slice::manager
