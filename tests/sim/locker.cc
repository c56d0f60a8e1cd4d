#include "tests/sim/locker.h"

#include <utility>

namespace slice::sim {
namespace {

using LockStatus = nlm4::Status;
using LockProcedure = nlm4::Procedure;
using namespace std::chrono_literals;

constexpr std::uint32_t kFirstLocker = 0x0a4d01c0;  // 10.77.1.192
constexpr std::uint16_t kManagerPort = 700, kLockerPort = 701;
constexpr std::uint32_t kLockersSender = 0xffffffff;  // no server
constexpr Duration kTry = 3s, kTryPause = 50ms, kPoll = 400ms;
constexpr std::uint64_t kBytes = 8;  // of each file that are locked, in pieces
constexpr int kMostTries = 400;

}  // namespace

std::string HeldLocks::taken(const Lock& lock) {
  for (const Lock& each : held_) {
    const bool apart = each.file != lock.file || each.last < lock.first || lock.last < each.first;
    if (each.locker == lock.locker || apart || (!each.exclusive && !lock.exclusive)) continue;
    return fmt::format("lockers {} and {} both have bytes of file {}: {}-{}{} and {}-{}{}", each.locker,
                       lock.locker, lock.file, each.first, each.last, each.exclusive ? " exclusively" : "",
                       lock.first, lock.last, lock.exclusive ? " exclusively" : "");
  }
  held_.push_back(lock);
  return "";
}

Locker::Locker(SimEnsemble& ensemble, HeldLocks& held, unsigned number)
    : ensemble_(ensemble),
      held_(held),
      locker_(number),
      random_(ensemble.random().fork("locker")),
      loop_(ensemble.loop()),
      calls_(loop_, ensemble.network(),
             {.self = {kFirstLocker + number, kLockerPort},
              .member = true,
              .sender = kLockersSender,
              .first_xid = static_cast<std::uint32_t>(random_.next())}),
      manager_(loop_, ensemble.network(), {.self = {kFirstLocker + number, kManagerPort}}) {
  dispatcher_.add(*this);
  manager_.serve(dispatcher_);
  // What was refused is remembered in memory alone: a copy that comes after a server's death is carried out
  // (docs/testing.md).
  ensemble.network().set_stream({kFirstLocker + number, kLockerPort});
}

Task<rpc::Outcome> Locker::handle(const rpc::Call& call, rpc::XdrWriter& results) {
  nlm4::TestArgs args;
  if (static_cast<LockProcedure>(call.procedure) != LockProcedure::kGranted)
    co_return rpc::Outcome::kNoProcedure;
  if (!decode(call.arguments, args)) co_return rpc::Outcome::kGarbage;
  const bool mine = waits_for_ && args.lock.offset == waits_for_->first &&
                    args.lock.length == waits_for_->last - waits_for_->first + 1 &&
                    as_text(args.lock.handle) == as_text((*files_)[waits_for_->file]);
  if (mine && !granted_) have(*waits_for_);
  // As kernels: as long as its process has not gone on, it says so again.
  granted_ = granted_ || mine;
  ensemble_.trace().note("locker {} is told of {}+{}: {}", locker_, args.lock.offset, args.lock.length,
                         mine ? "granted" : "denied");
  encode(results, nlm4::Result{args.cookie, mine ? LockStatus::kGranted : LockStatus::kDenied});
  co_return rpc::Outcome::kReply;
}

nlm4::Lock Locker::lock_of(const HeldLocks::Lock& lock) const {
  return {.caller = "client",
          .handle = (*files_)[lock.file],
          .owner = as_bytes("owner"),
          .svid = static_cast<std::int32_t>(locker_),
          .offset = lock.first,
          .length = lock.last - lock.first + 1};
}

template <class Args>
Task<LockStatus> Locker::ask(LockProcedure procedure, const Args& args, std::size_t file) {
  rpc::XdrWriter out;
  encode(out, args);
  const Buffer arguments = out.take();
  const SiteId site = ensemble_.handles().open((*files_)[file])->directory_site;
  const Xid xid{++xid_};
  for (int tries = 0; tries < kMostTries; ++tries) {
    const std::uint32_t owner = ensemble_.tables().server_of(wire::Role::kDirectory, site).server;
    rpc::Request request{.to = ensemble_.endpoint_of(owner),
                         .program = nlm4::kProgram,
                         .version = nlm4::kVersion,
                         .procedure = static_cast<std::uint32_t>(procedure),
                         .arguments = arguments.clone(),
                         .timeout = kTry,
                         .credential = rpc::AuthSys{.machine_name = "client", .uid = 0, .gid = 0}};
    request.on_behalf = {.client = {kFirstLocker + locker_, kManagerPort}, .xid = xid};
    auto response = co_await calls_.call(std::move(request));
    nlm4::Result result;
    if (response && decode(response->results(), result)) {
      ensemble_.trace().note("locker {}: NLM {} of {}+{} of file {} is answered {}", locker_,
                             static_cast<unsigned>(procedure), args.lock.offset, args.lock.length, file,
                             static_cast<unsigned>(result.status));
      ++answers_[fmt::format("NLM {} {}", static_cast<unsigned>(procedure),
                             static_cast<unsigned>(result.status))];
      co_return result.status;
    }
    co_await loop_.sleep(kTryPause);
  }
  failure_ =
      fmt::format("locker {} gets no answer to procedure {}", locker_, static_cast<unsigned>(procedure));
  co_return LockStatus::kFailed;
}

void Locker::have(const HeldLocks::Lock& lock) {
  ensemble_.trace().note("locker {} has {}-{} of file {}", locker_, lock.first, lock.last, lock.file);
  if (std::string why = held_.taken(lock); !why.empty() && failure_.empty()) failure_ = why;
}

Task<LockStatus> Locker::lock(const HeldLocks::Lock& wanted, bool block) {
  const LockStatus status = co_await ask(LockProcedure::kLock,
                                         nlm4::LockArgs{.cookie = as_bytes("1"),
                                                        .block = block,
                                                        .exclusive = wanted.exclusive,
                                                        .lock = lock_of(wanted),
                                                        .state = 3},
                                         wanted.file);
  // It may have been told by then.
  if (status == LockStatus::kGranted && !granted_) have(wanted);
  co_return status;
}

Task<bool> Locker::wait(const HeldLocks::Lock& wanted) {
  const MonoTime until = loop_.now() + random_.between(100ms, 6s);
  while (!granted_ && loop_.now() < until && failure_.empty()) {
    const MonoTime asks = loop_.now() + random_.between(kPoll, 4 * kPoll);
    while (!granted_ && loop_.now() < std::min(until, asks)) co_await loop_.sleep(5ms);
    if (granted_ || loop_.now() >= until) break;
    const LockStatus status = co_await lock(wanted, true);
    if (status == LockStatus::kGranted || granted_) co_return true;
    if (status != LockStatus::kBlocked) co_return false;
  }
  if (granted_) co_return true;
  // From here on it says that it does not wait.
  waits_for_.reset();
  co_await ask(
      LockProcedure::kCancel,
      nlm4::CancelArgs{
          .cookie = as_bytes("1"), .block = true, .exclusive = wanted.exclusive, .lock = lock_of(wanted)},
      wanted.file);
  co_return false;
}

Task<void> Locker::give_back(const HeldLocks::Lock& lock) {
  ensemble_.trace().note("locker {} gives {}-{} of file {} back", locker_, lock.first, lock.last, lock.file);
  held_.given_back(locker_);
  co_await ask(LockProcedure::kUnlock, nlm4::UnlockArgs{as_bytes("1"), lock_of(lock)}, lock.file);
}

Task<void> Locker::step() {
  HeldLocks::Lock wanted{.locker = locker_, .file = random_.below(files_->size())};
  wanted.first = random_.below(kBytes);
  wanted.last = wanted.first + random_.below(kBytes - wanted.first);
  wanted.exclusive = random_.chance(0.7);
  const bool block = random_.chance(0.6);
  granted_ = false;
  if (block) waits_for_ = wanted;
  LockStatus status = co_await lock(wanted, block);
  bool has = status == LockStatus::kGranted || granted_;
  if (!has && status == LockStatus::kBlocked) has = co_await wait(wanted);
  waits_for_.reset();
  if (has) {
    co_await loop_.sleep(random_.between(Duration(0), 30ms));
    co_await give_back(wanted);
  }
  granted_ = false;
  co_await loop_.sleep(random_.between(Duration(0), 20ms));
}

Task<bool> Locker::can_have(std::size_t file) {
  const HeldLocks::Lock all{
      .locker = locker_, .file = file, .first = 0, .last = kBytes - 1, .exclusive = true};
  if (co_await lock(all, false) != LockStatus::kGranted) co_return false;
  co_await give_back(all);
  co_return true;
}

Task<std::string> Locker::who_has(std::size_t file) {
  const HeldLocks::Lock all{
      .locker = locker_, .file = file, .first = 0, .last = kBytes - 1, .exclusive = true};
  const SiteId site = ensemble_.handles().open((*files_)[file])->directory_site;
  rpc::XdrWriter out;
  encode(out, nlm4::TestArgs{as_bytes("1"), true, lock_of(all)});
  rpc::Request request{
      .to = ensemble_.endpoint_of(ensemble_.tables().server_of(wire::Role::kDirectory, site).server),
      .program = nlm4::kProgram,
      .version = nlm4::kVersion,
      .procedure = static_cast<std::uint32_t>(LockProcedure::kTest),
      .arguments = out.take(),
      .timeout = kTry,
      .credential = rpc::AuthSys{.machine_name = "client", .uid = 0, .gid = 0}};
  request.on_behalf = {.client = {kFirstLocker + locker_, kManagerPort}, .xid = Xid{++xid_}};
  auto response = co_await calls_.call(std::move(request));
  nlm4::TestResult result;
  if (!response || !decode(response->results(), result) || result.status != LockStatus::kDenied)
    co_return "nobody says whose";
  co_return fmt::format("locker {}'s {}+{}", result.holder.svid, result.holder.offset, result.holder.length);
}

}  // namespace slice::sim
