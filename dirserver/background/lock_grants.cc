#include "dirserver/background/lock_grants.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "service/internal_call.h"

namespace slice::dirserver {
namespace {

using namespace std::chrono_literals;
using wire::Granting;

constexpr Duration kProxyPatience = 5s;  // longer than a proxy tries
// By then a proxy that does not answer has died, or has no lease of the virtual address and tells nobody
// anything.
constexpr Duration kOver = 15s;
constexpr Duration kRefused = 200ms;        // a proxy that is not there
constexpr Duration kNobodyPause = 300ms;    // until the address is somewhere again
constexpr Duration kUnreachablePause = 2s;  // until a client's rpcbind is asked again
// After a client that does not answer: at first, and later, as the kernel's server has it.
constexpr Duration kAgainSoon = 1s, kAgain = 10s;
constexpr Duration kGrace = 5s;  // of a client that was restarted itself
constexpr Duration kStorePause = 1s;

}  // namespace

LockGrants::LockGrants(service::ServiceContext& context, CellStore& cells)
    : context_(context),
      cells_(cells),
      cookie_(context.random()),
      granted_(context.metrics.counter("dir_client_locks_granted_total",
                                       "locks that were given to clients which waited for them")),
      told_(context.metrics.counter(
          "dir_client_locks_told_total",
          "clients that waited for a lock, were told that they have it, and took it")),
      unwanted_(context.metrics.counter(
          "dir_client_locks_unwanted_total",
          "locks taken back from clients that had waited: they do not want them any more, or are not found")),
      unanswered_(context.metrics.counter("dir_client_locks_unanswered_total",
                                          "times that a client did not answer when it was told of a lock")) {}

Result<storage::LogPosition> LockGrants::commit(const CellRef& file, ClientLocks locks,
                                                Transaction& transaction) {
  const std::size_t untold = locks.untold().size();
  locks.grant();
  const std::size_t given = locks.untold().size() - untold;
  transaction.put_locks(file, std::move(locks));
  auto position = transaction.commit();
  if (!position) return position;
  granted_.add(given);
  if (given > 0 || !doubtful_.empty()) tell_untold(file, false);
  return position;
}

Status LockGrants::recover(SiteId site) {
  came_[site] = context_.loop.now();
  SLICE_RETURN_IF_ERROR(cells_.locks().load(cells_.store(), site));
  for (FileId file : cells_.locks().files(site)) tell_untold({site, file, 0}, true);
  return {};
}

// `maybe_sent`: an earlier run of this server may have told them already.
void LockGrants::tell_untold(const CellRef& file, bool maybe_sent) {
  std::erase_if(doubtful_, [this](const Telling& each) { return due(each) == nullptr; });
  const ClientLocks* locks = cells_.locks().find(file.fileid);
  if (locks == nullptr) return;
  const Stay stay = cells_.stays().of(file.site);
  std::vector<Telling> fresh;
  for (const AwaitedLock& each : locks->untold()) {
    Telling one{{file.site, file.fileid, 0}, each.lock.owner, each.lock.range, stay};
    if (!doubtful_.contains(one) && telling_.insert(one).second) fresh.push_back(std::move(one));
  }
  for (Telling& one : fresh) spawn(tell(*this, std::move(one), maybe_sent));
}

const AwaitedLock* LockGrants::due(const Telling& telling) const {
  if (stopping_ || cells_.stays().of(telling.file.site) != telling.stay) return nullptr;
  const ClientLocks* locks = cells_.locks().find(telling.file.fileid);
  if (locks == nullptr) return nullptr;
  auto found = std::find_if(locks->untold().begin(), locks->untold().end(), [&](const AwaitedLock& each) {
    return each.is_for(telling.owner, telling.range);
  });
  return found == locks->untold().end() ? nullptr : &*found;
}

// A client that answers "denied" gave up before, if it was asked for the first time. Else an answer of before
// may be lost, with which it took the lock: it keeps that then, since two may never have it, until it gives
// it back, or says by CANCEL that it had given up.
Task<void> LockGrants::tell(LockGrants& self, Telling telling, bool maybe_sent) {
  const MonoTime began = self.context_.loop.now();
  Duration again = kAgainSoon;
  // Whoever changed the locks answers first.
  co_await self.context_.loop.sleep({});
  while (const AwaitedLock* wanted = self.due(telling)) {
    const storage::LogPosition given = self.cells_.pending(telling.file.fileid);
    if (!co_await self.cells_.durable(given)) break;
    if ((wanted = self.due(telling)) == nullptr) break;
    const wire::GrantResult result = co_await self.tell_client(*wanted);
    if (self.due(telling) == nullptr) break;
    const bool gone = !maybe_sent && self.context_.loop.now() - began > kFound;
    Duration pause = kNobodyPause;
    if (result.how == Granting::kAnswered && result.status == nlm4::Status::kDeniedGracePeriod) {
      pause = kGrace;
    } else if (result.how == Granting::kAnswered && result.status != nlm4::Status::kGranted && maybe_sent) {
      self.doubtful_.insert(telling);
      break;
    } else if (result.how == Granting::kAnswered) {
      co_await self.settle(telling, result.status == nlm4::Status::kGranted);
    } else if (result.how == Granting::kNoAnswer) {
      self.unanswered_.add();
      maybe_sent = true;
      pause = again;
      again = std::min(again * 2, kAgain);
    } else if (gone) {
      co_await self.settle(telling, false);
    } else if (result.how == Granting::kUnreachable) {
      pause = kUnreachablePause;
    }
    if (self.due(telling) != nullptr) co_await self.context_.loop.sleep(pause);
  }
  self.telling_.erase(telling);
}

// All proxies at once: one of them has the virtual address, and a dead one keeps nobody waiting.
Task<LockGrants::Holder> LockGrants::find_holder() {
  struct Asked {
    std::size_t left = 0;
    OneShot<Holder> found;
  };
  auto asked = std::make_shared<Asked>();
  const auto proxies = context_.tables.get()->servers(wire::Role::kProxy);
  if (proxies.empty()) co_return Holder{};
  asked->left = proxies.size();
  for (const wire::ServerEntry* proxy : proxies) {
    spawn([](rpc::Channel& channel, rpc::Endpoint at, std::shared_ptr<Asked> all) -> Task<void> {
      auto result = co_await service::internal_call<wire::GrantResult>(
          channel, at, wire::kLocksProgram, wire::LocksProcedure::kGrant, wire::GrantArgs{}, kProxyPatience,
          kRefused);
      --all->left;
      const bool here = result && result->how == Granting::kHere;
      if (here || all->left == 0) all->found.set(here ? Holder{at, result->run} : Holder{});
    }(context_.channel, proxy->endpoint, asked));
  }
  co_return co_await asked->found;
}

Task<wire::GrantResult> LockGrants::tell_client(const AwaitedLock& wanted) {
  std::uint8_t cookie[8];
  store_be(cookie, ++cookie_);
  const HeldLock& lock = wanted.lock;
  rpc::XdrWriter call;
  encode(call, nlm4::TestArgs{.cookie = cookie,
                              .exclusive = lock.exclusive,
                              .lock = {.caller = lock.owner.host.name,
                                       .handle = as_bytes(wanted.file),
                                       .owner = as_bytes(lock.owner.handle),
                                       .svid = lock.owner.process,
                                       .offset = lock.range.first,
                                       .length = lock.range.length()}});
  wire::GrantArgs args{.run = 0, .address = lock.owner.host.address, .call = call.take()};
  const Holder holder = co_await find_holder();
  if (holder.run == 0) co_return wire::GrantResult{};
  args.run = holder.run;
  co_return co_await ask_holder(holder.proxy, std::move(args));
}

Task<wire::GrantResult> LockGrants::ask_holder(rpc::Endpoint proxy, wire::GrantArgs args) {
  const MonoTime began = context_.loop.now();
  while (true) {
    auto result = co_await service::internal_call<wire::GrantResult>(
        context_.channel, proxy, wire::kLocksProgram, wire::LocksProcedure::kGrant, args, kProxyPatience,
        kRefused);
    if (result) co_return *result;
    // It may tell the client, or have told it and died. One that is refused connections is dead.
    const bool dead = result.error().code == Errc::kUnavailable;
    const Holder now = co_await find_holder();
    const bool another = now.run != 0 && (now.proxy != proxy || now.run != args.run);
    if (dead || another || context_.loop.now() - began > kOver)
      co_return wire::GrantResult{.how = Granting::kNoAnswer};
  }
}

bool LockGrants::quiet(SiteId site, FileId file, const Locker& owner, const ByteRange& range,
                       bool after_start) const {
  const auto came = came_.find(site);
  const bool known = came == came_.end() || context_.loop.now() - came->second > kProxyPatience;
  if (after_start && !known) return false;
  return std::none_of(telling_.begin(), telling_.end(), [&](const Telling& each) {
    return each.file.fileid == file && each.owner == owner && each.range.overlaps(range) &&
           due(each) == nullptr;
  });
}

Task<void> LockGrants::settle(const Telling& telling, bool wanted) {
  while (due(telling) != nullptr) {
    if (!co_await cells_.stays().until_open(telling.file.site, telling.stay) || due(telling) == nullptr)
      break;
    ClientLocks locks = *cells_.locks().find(telling.file.fileid);
    if (wanted) {
      locks.told(telling.owner, telling.range);
    } else {
      locks.take_back(telling.owner, telling.range);
    }
    Transaction transaction(cells_);
    if (auto position = commit(telling.file, std::move(locks), transaction)) {
      (wanted ? told_ : unwanted_).add();
      break;
    } else if (log_.allow()) {
      log_warning("a lock of file {:#x} cannot be written: {}", telling.file.fileid.value,
                  position.error().message);
    }
    co_await context_.loop.sleep(kStorePause);
  }
}

}  // namespace slice::dirserver
