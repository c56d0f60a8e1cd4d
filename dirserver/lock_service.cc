#include "dirserver/lock_service.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/log.h"
#include "dirserver/ops/operation.h"
#include "service/relay.h"

namespace slice::dirserver {

using LockProcedure = nlm4::Procedure;
using LockStatus = nlm4::Status;

// A call of a client, decoded; views are of the call.
struct LockService::Request {
  LockProcedure procedure = LockProcedure::kNull;
  ByteView cookie, file;
  routing::FileHandle handle;  // `file`, opened
  Identity who;
  bool block = false, reclaim = false;
  HeldLock lock;        // who, which bytes, how
  bool beyond = false;  // it ends beyond what a range can say
  ShareReservation share;

  bool shares() const { return procedure == LockProcedure::kShare || procedure == LockProcedure::kUnshare; }
  bool takes() const {
    return procedure == LockProcedure::kLock || procedure == LockProcedure::kNmLock ||
           procedure == LockProcedure::kShare;
  }
};

namespace {

// NFS's and NLM's procedures have the same numbers.
constexpr std::uint32_t kOfNlm = nlm4::kProgram << 8;
constexpr Duration kQuietPause = std::chrono::milliseconds(2);

std::string text_of(ByteView bytes) {
  return std::string(as_text(bytes));
}

void take_lock(const rpc::Call& call, const nlm4::Lock& lock, HeldLock& into, bool& beyond) {
  into.owner = {{call.client.address, std::string(lock.caller)}, lock.svid, text_of(lock.owner)};
  const auto range = ByteRange::of(lock.offset, lock.length);
  beyond = !range;
  into.range = range.value_or(ByteRange{lock.offset, UINT64_MAX});
}

template <class Request, class Args>
void take(const rpc::Call& call, const Args& args, Request& out) {
  out.cookie = args.cookie;
  if constexpr (requires { args.lock; }) {
    out.file = args.lock.handle;
    take_lock(call, args.lock, out.lock, out.beyond);
  } else {
    out.file = args.handle;
    out.share = {.owner = {{call.client.address, std::string(args.caller)}, 0, text_of(args.owner)},
                 .denies = args.mode & 3,
                 .access = args.access & 3};
  }
  if constexpr (requires { args.exclusive; }) out.lock.exclusive = args.exclusive;
  if constexpr (requires { args.block; }) out.block = args.block;
  if constexpr (requires { args.reclaim; }) out.reclaim = args.reclaim;
  if constexpr (requires { args.state; }) out.lock.state = args.state;
}

template <class Request>
void encode_answer(rpc::XdrWriter& out, const Request& request, LockStatus status) {
  if (request.shares()) {
    encode(out, nlm4::ShareResult{request.cookie, status, 0});
  } else if (request.procedure == LockProcedure::kTest) {
    encode(out, nlm4::TestResult{request.cookie, status, {}});
  } else {
    encode(out, nlm4::Result{request.cookie, status});
  }
}

// Who may read or write the file may lock it, as kernels have it.
bool may_lock(const Identity& who, const AttributeCell& file) {
  const nfs3::Attributes attributes = attributes_of(file, VolumeId{});
  const service::Permissions of{attributes, file.access.get()};
  return service::may_transfer(who, of, false) || service::may_transfer(who, of, true);
}

}  // namespace

LockService::LockService(Volume& volume, service::SiteGate& gate)
    : volume_(volume),
      gate_(gate),
      settings_(volume.context.settings),
      calls_(volume.context.metrics.counter("dir_lock_calls_total", "NLM calls of clients")),
      refused_(volume.context.metrics.counter(
          "dir_locks_denied_total",
          "locks and share reservations refused, since another client has the bytes")),
      deadlocks_(volume.context.metrics.counter("dir_lock_deadlocks_total",
                                                "locks refused whose wait would never come to an end")),
      full_(volume.context.metrics.counter(
          "dir_locks_full_total", "locks refused since the client, or the file, has as many as it may")),
      passed_on_(volume.context.metrics.counter("dir_lock_calls_passed_on_total",
                                                "NLM calls for sites of other servers, passed on to them")),
      freed_(volume.context.metrics.counter(
          "dir_lock_files_freed_total",
          "files whose locks of a client went since it was restarted, or said so")),
      refusals_(volume.context.metrics) {
  internal_.on<wire::WaitsArgs>(wire::LocksProcedure::kWaits,
                                [this](const auto& args) { return led_to(args); });
  internal_.on<wire::FreeLocksArgs>(wire::LocksProcedure::kFree,
                                    [this](const auto& args) { return free(args); });
}

std::optional<LockStatus> LockService::admit(const rpc::Call& call, Request& request) {
  auto handle = volume_.context.handles.open(request.file);
  if (!handle) {
    refusals_.note(rpc::Refused::kHandle, call.client, "NLM procedure {}", call.procedure);
    return LockStatus::kStaleHandle;
  }
  request.handle = *handle;
  auto who = service::identify_beside(settings_.now(), handle->tree, call);
  if (!who) {
    refusals_.note(service::refused(who.error()), call.client, "NLM procedure {} of file {:#x}",
                   call.procedure, handle->fileid.value);
    return LockStatus::kDeniedNoLocks;
  }
  request.who = std::move(*who);
  if (request.who.read_only && request.takes() && (request.lock.exclusive || (request.share.access & 2) != 0))
    return LockStatus::kReadOnly;
  if (request.beyond) return LockStatus::kTooBig;
  if (handle->type != nfs3::FileType::kRegular) return LockStatus::kFailed;
  return std::nullopt;
}

Task<rpc::Outcome> LockService::handle(const rpc::Call& call, rpc::XdrWriter& results) {
  // Clients call the virtual address: only there they are told of what they wait for.
  if (!call.forwarded) co_return rpc::Outcome::kDenied;
  calls_.add();
  Request request;
  request.procedure = static_cast<LockProcedure>(call.procedure);
  const std::optional<bool> decoded = nlm4::decode_for_file(
      call.procedure, call.arguments, [&](const auto& args) { take(call, args, request); });
  if (!decoded) co_return rpc::Outcome::kNoProcedure;
  if (!*decoded) co_return rpc::Outcome::kGarbage;
  if (auto status = admit(call, request)) {
    encode_answer(results, request, *status);
    co_return rpc::Outcome::kReply;
  }
  const SiteId site = request.handle.directory_site;
  std::optional<bool> deadlocked;
  while (true) {
    if (gate_.holds(site.value)) {
      if (!co_await gate_.released(site.value)) co_return rpc::Outcome::kDrop;
    } else if (!co_await volume_.peers.here(site)) {
      co_return co_await pass_on(call, request, results);
    } else if (gate_.holds(site.value)) {
      continue;
    } else if (!waits(request)) {
      break;
    } else if (!quiet(request, true)) {
      co_await until_quiet(request, true);
    } else if (!deadlocked) {
      deadlocked = co_await deadlock(request);
    } else {
      break;
    }
  }
  bool copy = false;
  rpc::Outcome outcome{};
  {
    service::SiteGate::Pass pass(gate_, site.value);
    if (request.procedure == LockProcedure::kTest) co_return co_await test(request, results);
    outcome = co_await run_once(call, request, deadlocked.value_or(false), results, copy);
  }
  const bool gives_back =
      request.procedure == LockProcedure::kUnlock || request.procedure == LockProcedure::kCancel;
  if (gives_back) co_await until_quiet(request, copy);
  co_return outcome;
}

Task<rpc::Outcome> LockService::pass_on(const rpc::Call& call, const Request& request,
                                        rpc::XdrWriter& results) {
  if (call.relays >= service::Relay::kMaxRelays) co_return rpc::Outcome::kDrop;
  const std::uint32_t server = volume_.peers.server_of(request.handle.directory_site);
  const wire::ServerEntry* owner = volume_.context.tables.get()->server(server);
  if (owner == nullptr || server == volume_.context.self.index) co_return rpc::Outcome::kDrop;
  passed_on_.add();
  auto reply =
      co_await volume_.context.channel.call(service::forwarded(call, owner->endpoint, number(), version()));
  // What became of it is not known, or will be: whoever sent it sends it again.
  if (!reply) co_return rpc::Outcome::kDrop;
  results.fixed(reply->results());
  co_return rpc::Outcome::kReply;
}

Task<rpc::Outcome> LockService::run_once(const rpc::Call& call, const Request& request, bool deadlocked,
                                         rpc::XdrWriter& results, bool& copy) {
  using State = DuplicateCache::Seen::State;
  CallKey key = key_of(call);
  key.procedure |= kOfNlm;
  DuplicateCache& duplicates = volume_.duplicates;
  DuplicateCache::Seen seen = duplicates.begin(key, request.handle.directory_site);
  while (seen.state == State::kInProgress && !call.datagram) {
    co_await duplicates.over(key);
    seen = duplicates.begin(key, request.handle.directory_site);
  }
  if (seen.state == State::kInProgress) co_return rpc::Outcome::kDrop;
  if (seen.state == State::kAnswered) {
    copy = true;
    results.fixed(as_bytes(seen.reply));
    co_return rpc::Outcome::kReply;
  }
  const std::size_t start = results.size();
  const std::optional<LockStatus> status = co_await run(request, key, deadlocked);
  if (status) encode_answer(results, request, *status);
  duplicates.finish(key, as_text(results.view()).substr(start));
  co_return status ? rpc::Outcome::kReply : rpc::Outcome::kDrop;
}

Task<std::optional<LockStatus>> LockService::run(const Request& request, const CallKey& key,
                                                 bool deadlocked) {
  CellStore& cells = volume_.cells;
  const CellRef ref = cell_of(request.handle);
  Transaction transaction(cells);
  auto file = transaction.load(ref);
  if (!file) co_return std::nullopt;
  const ClientLocks* before = cells.locks().find(ref.fileid);
  ClientLocks locks = before != nullptr ? *before : ClientLocks{};
  LockStatus status = LockStatus::kDeadlock;
  if (deadlocked && waits(request)) {
    deadlocks_.add();
  } else {
    status = decide(request, *file, locks);
  }
  // What changes nothing is remembered in the store as well, and as durably: a copy that came after a restart
  // would lock what its client was refused, or free what it has locked since.
  rpc::XdrWriter reply;
  encode_answer(reply, request, status);
  volume_.duplicates.record(key, as_text(reply.view()), ref.site, transaction);
  const bool changes = before != nullptr ? locks != *before : !locks.empty();
  auto committed = changes ? volume_.grants.commit(ref, std::move(locks), transaction) : transaction.commit();
  // Who gives something back does so again until there is room to note it.
  if (!committed && committed.error().code == Errc::kNoSpace && (request.takes() || !changes))
    co_return changes ? LockStatus::kDeniedNoLocks : status;
  if (!committed) co_return std::nullopt;
  co_await volume_.context.crash.reach("locks.committed");
  if (!co_await cells.durable(*committed)) co_return std::nullopt;
  co_await volume_.context.crash.reach("locks.durable");
  co_return status;
}

LockStatus LockService::decide(const Request& request, const AttributeCell* file, ClientLocks& locks) const {
  if (request.takes()) {
    if (file == nullptr) return LockStatus::kStaleHandle;
    if (!may_lock(request.who, *file)) return LockStatus::kDeniedNoLocks;
  }
  switch (request.procedure) {
    case LockProcedure::kLock:
    case LockProcedure::kNmLock:
      return lock(request, locks);
    case LockProcedure::kUnlock:
      locks.unlock(request.lock.owner, request.lock.range);
      return LockStatus::kGranted;
    case LockProcedure::kCancel:
      return locks.cancel(request.lock) ? LockStatus::kGranted : LockStatus::kDenied;
    case LockProcedure::kShare:
      if (locks.share(request.share)) return LockStatus::kGranted;
      refused_.add();
      return LockStatus::kDenied;
    case LockProcedure::kUnshare:
      locks.unshare(request.share.owner);
      return LockStatus::kGranted;
    default:
      return LockStatus::kFailed;
  }
}

LockStatus LockService::lock(const Request& request, ClientLocks& locks) const {
  const HeldLock& wanted = request.lock;
  AwaitedLock waiter{.lock = wanted, .file = text_of(request.file), .before = {}};
  if (volume_.cells.locks().full(wanted.owner.host.address) || !locks.has_room(waiter)) {
    full_.add();
    return LockStatus::kDeniedNoLocks;
  }
  if (locks.conflict(wanted) == nullptr) {
    locks.lock(wanted);
    return LockStatus::kGranted;
  }
  if (!request.block || request.reclaim) {
    refused_.add();
    return LockStatus::kDenied;
  }
  locks.wait(std::move(waiter));
  return LockStatus::kBlocked;
}

Task<rpc::Outcome> LockService::test(const Request& request, rpc::XdrWriter& results) {
  CellStore& cells = volume_.cells;
  Transaction transaction(cells);
  auto file = transaction.load(cell_of(request.handle));
  if (!file) co_return rpc::Outcome::kDrop;
  const ClientLocks* locks = cells.locks().find(request.handle.fileid);
  const HeldLock* held = locks != nullptr ? locks->conflict(request.lock) : nullptr;
  if (*file == nullptr) {
    encode_answer(results, request, LockStatus::kStaleHandle);
  } else if (!may_lock(request.who, **file)) {
    encode_answer(results, request, LockStatus::kDeniedNoLocks);
  } else if (held == nullptr) {
    encode_answer(results, request, LockStatus::kGranted);
  } else {
    encode(results, nlm4::TestResult{.cookie = request.cookie,
                                     .status = LockStatus::kDenied,
                                     .holder = {.exclusive = held->exclusive,
                                                .svid = held->owner.process,
                                                .owner = as_bytes(held->owner.handle),
                                                .offset = held->range.first,
                                                .length = held->range.length()}});
  }
  co_return co_await cells.durable(transaction.shown()) ? rpc::Outcome::kReply : rpc::Outcome::kDrop;
}

// ---- deadlocks ----

namespace {

constexpr Duration kWaitsPatience = std::chrono::seconds(1);
constexpr int kWaitsRounds = 8;  // from server to server

std::vector<wire::LockerName> names_of(const std::set<Locker>& lockers) {
  std::vector<wire::LockerName> names;
  for (const Locker& each : lockers)
    names.push_back({each.host.address, each.host.name, each.process, each.handle});
  return names;
}
std::set<Locker> lockers_of(const std::vector<wire::LockerName>& names) {
  std::set<Locker> lockers;
  for (const wire::LockerName& each : names)
    lockers.insert({{each.address, each.host}, each.process, each.handle});
  return lockers;
}

}  // namespace

wire::WaitsResult LockService::led_to(const wire::WaitsArgs& args) const {
  return {names_of(volume_.cells.locks().leads_to(lockers_of(args.who)))};
}

bool LockService::quiet(const Request& request, bool after_start) const {
  return volume_.grants.quiet(request.handle.directory_site, request.handle.fileid, request.lock.owner,
                              request.lock.range, after_start);
}

Task<void> LockService::until_quiet(const Request& request, bool after_start) {
  while (!quiet(request, after_start)) co_await volume_.context.loop.sleep(kQuietPause);
}

bool LockService::waits(const Request& request) const {
  const bool may = request.procedure == LockProcedure::kLock || request.procedure == LockProcedure::kNmLock;
  const ClientLocks* locks = volume_.cells.locks().find(request.handle.fileid);
  return may && request.block && !request.reclaim && locks != nullptr &&
         locks->conflict(request.lock) != nullptr;
}

Task<bool> LockService::deadlock(const Request& request) {
  const ClientLocks* locks = volume_.cells.locks().find(request.handle.fileid);
  if (locks == nullptr) co_return false;
  std::set<Locker> led = volume_.cells.locks().leads_to(ClientLockCells::in_the_way(*locks, request.lock));
  for (int round = 0; round < kWaitsRounds && led.size() <= ClientLockCells::kMostLed; ++round) {
    if (led.contains(request.lock.owner)) co_return true;
    const std::size_t before = led.size();
    for (SiteId other : volume_.peers.others()) {
      const wire::ServerEntry* server = volume_.context.tables.get()->server(volume_.peers.server_of(other));
      if (server == nullptr) continue;
      auto result = co_await service::internal_call<wire::WaitsResult>(
          volume_.context.channel, server->endpoint, wire::kLocksProgram, wire::LocksProcedure::kWaits,
          wire::WaitsArgs{names_of(led)}, kWaitsPatience);
      if (result) led.merge(lockers_of(result->leads_to));
    }
    led = volume_.cells.locks().leads_to(std::move(led));
    if (led.size() == before) break;
  }
  co_return led.contains(request.lock.owner);
}

// ---- FREE ----

Task<wire::FreeLocksResult> LockService::free(const wire::FreeLocksArgs& args) {
  wire::FreeLocksResult result;
  for (std::uint32_t site : args.sites) {
    if (site < volume_.placement.sites() && co_await free_site(args, SiteId{site}))
      result.freed.push_back(site);
  }
  co_return result;
}

Task<bool> LockService::free_site(const wire::FreeLocksArgs& args, SiteId site) {
  while (gate_.holds(site.value)) {
    if (!co_await gate_.released(site.value)) co_return false;
  }
  if (!co_await volume_.peers.here(site) || gate_.holds(site.value)) co_return false;
  service::SiteGate::Pass pass(gate_, site.value);
  CellStore& cells = volume_.cells;
  storage::LogPosition last;
  for (FileId file : cells.locks().files(site)) {
    const ClientLocks* now = cells.locks().find(file);
    if (now == nullptr) continue;
    ClientLocks locks = *now;
    if (!locks.free(args.address, args.host, args.keep)) continue;
    Transaction transaction(cells);
    auto committed = volume_.grants.commit({site, file, 0}, std::move(locks), transaction);
    if (!committed) co_return false;
    freed_.add();
    last = *committed;
  }
  co_return (co_await cells.durable(last)).has_value();
}

}  // namespace slice::dirserver
