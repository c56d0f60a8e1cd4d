#include "dirserver/lock_service.h"

#include <gtest/gtest.h>

#include "dirserver/testing/two_servers.h"
#include "service/internal_call.h"

namespace slice::dirserver {
namespace {

using namespace std::chrono_literals;
using LockStatus = nlm4::Status;
using LockCall = nlm4::Procedure;
using testing::Side;
using wire::Granting;

// A proxy, and the clients behind it.
class FakeProxy : public service::InternalProgram {
 public:
  explicit FakeProxy(Loop& loop) : InternalProgram(wire::kLocksProgram), loop_(loop) {
    on<wire::GrantArgs>(wire::LocksProcedure::kGrant, [this](const auto& args) { return grant(args); });
  }
  Task<wire::GrantResult> grant(const wire::GrantArgs& args) {
    if (args.run == 0)
      co_return wire::GrantResult{.how = here ? Granting::kHere : Granting::kNotHere, .run = run};
    nlm4::TestArgs said;
    EXPECT_TRUE(decode(args.call.view(), said));
    told.push_back({args.address, said.lock.svid, said.lock.offset, said.lock.length, said.exclusive,
                    std::string(as_text(said.lock.handle))});
    co_await loop_.sleep(10ms);
    co_return answer;
  }
  struct Told {
    IpAddress address;
    std::int32_t svid;
    std::uint64_t offset, length;
    bool exclusive;
    std::string file;
    bool operator==(const Told&) const = default;
  };
  bool here = true;
  std::uint64_t run = 77;
  wire::GrantResult answer{.how = Granting::kAnswered, .status = LockStatus::kGranted};
  std::vector<Told> told;

 private:
  Loop& loop_;
};

constexpr std::uint32_t kFirst = 0x0a4d0102, kSecond = 0x0a4d0103;  // clients' addresses

// A process on a client.
struct Process {
  IpAddress address = kFirst;
  std::int32_t svid = 1;
  std::uint32_t uid = 0;
  std::int32_t state = 3;
};

class LockServiceTest : public testing::TwoServers {
 protected:
  LockServiceTest() {
    serve("proxy1", proxy_);
    for (Side* side : {first.get(), second.get()})
      side->network.attach(endpoint("proxy1"), &proxy_dispatcher_);
    proxy_dispatcher_.add(proxy_);
    file_ = make("file");
  }

  routing::HandleBytes make(const std::string& name) {
    for (std::uint32_t xid = 5000;; ++xid) {
      const std::string tried = name + std::to_string(xid);
      auto response =
          run(send(*first, nfs3::Procedure::kCreate,
                   nfs3::CreateArgs{.where = {root(), tried}, .mode = nfs3::CreateMode::kGuarded}, xid));
      rpc::XdrReader in(response->results());
      nfs3::Status status{};
      nfs3::CreatedOk made;
      EXPECT_TRUE(nfs3::decode_result(in, status, made));
      EXPECT_EQ(status, nfs3::Status::kOk);
      routing::HandleBytes handle{};
      std::copy(made.object->begin(), made.object->end(), handle.begin());
      name_ = tried;
      if (owner(handle) == first.get()) return handle;
    }
  }
  // In a directory whose own site is the second's.
  routing::HandleBytes seconds_file() {
    for (std::uint32_t xid = 7000;; xid += 2) {
      const std::string tried = "d" + std::to_string(xid);
      auto response =
          run(send(*first, nfs3::Procedure::kMkdir, nfs3::MkdirArgs{.where = {root(), tried}}, xid));
      rpc::XdrReader in(response->results());
      nfs3::Status status{};
      nfs3::CreatedOk made;
      EXPECT_TRUE(nfs3::decode_result(in, status, made));
      const std::vector<std::uint8_t> directory(made.object->begin(), made.object->end());
      auto file = run(send(*second, nfs3::Procedure::kCreate,
                           nfs3::CreateArgs{.where = {directory, "file"}, .mode = nfs3::CreateMode::kGuarded},
                           xid + 1));
      rpc::XdrReader file_in(file->results());
      EXPECT_TRUE(nfs3::decode_result(file_in, status, made));
      if (status != nfs3::Status::kOk) continue;
      routing::HandleBytes handle{};
      std::copy(made.object->begin(), made.object->end(), handle.begin());
      if (owner(handle) == second.get()) return handle;
    }
  }
  Side* owner(const routing::HandleBytes& file) {
    const SiteId site = handles_.open(file)->directory_site;
    const bool firsts = first->tables.get()->owns(first->self.index, wire::Role::kDirectory, site);
    return firsts ? first.get() : second.get();
  }

  static nlm4::Lock lock_of(const Process& who, ByteView file, std::uint64_t offset, std::uint64_t length) {
    return {.caller = "host",
            .handle = file,
            .owner = as_bytes("oh"),
            .svid = who.svid,
            .offset = offset,
            .length = length};
  }
  template <class Args>
  Task<Result<rpc::Response>> send_lock(const Side& at, const Process& who, LockCall procedure,
                                        const Args& args, std::uint32_t xid, bool forwarded = true) {
    rpc::XdrWriter out;
    encode(out, args);
    rpc::Request request{.to = at.endpoint(),
                         .program = nlm4::kProgram,
                         .version = nlm4::kVersion,
                         .procedure = static_cast<std::uint32_t>(procedure),
                         .arguments = out.take(),
                         .timeout = 20s,
                         .credential = rpc::AuthSys{.uid = who.uid, .gid = who.uid}};
    if (forwarded) request.on_behalf = {.client = {who.address, 900}, .xid = Xid{xid}};
    return (forwarded ? network_ : client).call(std::move(request));
  }
  template <class Args>
  LockStatus ask(const Process& who, LockCall procedure, const Args& args, std::uint32_t xid = 0,
                 Side* at = nullptr) {
    auto response = run(
        send_lock(at != nullptr ? *at : *owner(file_), who, procedure, args, xid != 0 ? xid : ++next_xid_));
    EXPECT_TRUE(response) << response.error().message;
    nlm4::Result result;
    if (!response || !decode(response->results(), result)) return LockStatus::kFailed;
    EXPECT_EQ(as_text(result.cookie), "cookie");
    return result.status;
  }
  LockStatus lock(const Process& who, std::uint64_t offset = 0, std::uint64_t length = 0, bool block = false,
                  std::uint32_t xid = 0) {
    return ask(who, LockCall::kLock,
               nlm4::LockArgs{.cookie = cookie_,
                              .block = block,
                              .exclusive = true,
                              .lock = lock_of(who, file_, offset, length),
                              .state = who.state},
               xid);
  }
  LockStatus wait(const Process& who, std::uint64_t offset = 0, std::uint64_t length = 0) {
    return lock(who, offset, length, true);
  }
  LockStatus unlock(const Process& who, std::uint64_t offset = 0, std::uint64_t length = 0,
                    std::uint32_t xid = 0) {
    return ask(who, LockCall::kUnlock, nlm4::UnlockArgs{cookie_, lock_of(who, file_, offset, length)}, xid);
  }
  LockStatus cancel(const Process& who, std::uint64_t offset = 0, std::uint64_t length = 0) {
    return ask(who, LockCall::kCancel,
               nlm4::CancelArgs{cookie_, true, true, lock_of(who, file_, offset, length)});
  }
  // Process 2, which has waited for it, did not answer at first, and says then that it does not wait.
  void give_to_who_may_have_it() {
    EXPECT_EQ(lock({.svid = 1}), LockStatus::kGranted);
    EXPECT_EQ(wait({.svid = 2}), LockStatus::kBlocked);
    proxy_.answer = {.how = Granting::kNoAnswer};
    EXPECT_EQ(unlock({.svid = 1}), LockStatus::kGranted);
    loop_.advance(500ms);
    proxy_.answer = {.how = Granting::kAnswered, .status = LockStatus::kDenied};
    loop_.advance(20s);
  }
  // Whether another could have all of it.
  bool is_free() {
    const Process nobody{.address = 0x0a4d0177, .svid = 99};
    const LockStatus status = lock(nobody);
    if (status == LockStatus::kGranted) unlock(nobody);
    return status == LockStatus::kGranted;
  }
  wire::FreeLocksResult free(Side& at, IpAddress address, std::optional<std::int32_t> keep) {
    wire::FreeLocksArgs args{.address = address, .host = "host", .keep = keep, .sites = {}};
    for (std::uint32_t site = 0; site < 64; ++site) args.sites.push_back(site);
    return run(service::internal_call<wire::FreeLocksResult>(network_, at.endpoint(), wire::kLocksProgram,
                                                             wire::LocksProcedure::kFree, args))
        .value();
  }
  std::uint64_t counter(const std::string& name) { return owner(file_)->metrics.counter(name).value(); }

  FakeProxy proxy_{loop_};
  rpc::Dispatcher proxy_dispatcher_{metrics_};
  ByteView cookie_ = as_bytes("cookie");
  routing::HandleBytes file_{};
  std::string name_;
  std::uint32_t next_xid_ = 100;
};

TEST_F(LockServiceTest, TwoDoNotHaveTheSameBytes) {
  EXPECT_EQ(lock({.svid = 1}, 0, 10), LockStatus::kGranted);
  EXPECT_EQ(lock({.svid = 2}, 9, 10), LockStatus::kDenied);
  EXPECT_EQ(lock({.address = kSecond, .svid = 1}, 9, 10), LockStatus::kDenied);
  EXPECT_EQ(lock({.svid = 2}, 10, 10), LockStatus::kGranted);
  EXPECT_EQ(unlock({.svid = 1}, 0, 10), LockStatus::kGranted);
  EXPECT_EQ(lock({.address = kSecond, .svid = 1}, 0, 10), LockStatus::kGranted);
}

TEST_F(LockServiceTest, TestSaysWhoIsInTheWay) {
  const Process who{.svid = 7};
  EXPECT_EQ(lock(who, 5, 10), LockStatus::kGranted);
  const nlm4::TestArgs args{cookie_, false, lock_of({.svid = 8}, file_, 0, 0)};
  auto response = run(send_lock(*owner(file_), {.svid = 8}, LockCall::kTest, args, ++next_xid_));
  nlm4::TestResult result;
  ASSERT_TRUE(decode(response->results(), result));
  EXPECT_EQ(result.status, LockStatus::kDenied);
  EXPECT_EQ(result.holder.svid, 7);
  EXPECT_TRUE(result.holder.exclusive);
  EXPECT_EQ(as_text(result.holder.owner), "oh");
  EXPECT_EQ(result.holder.offset, 5u);
  EXPECT_EQ(result.holder.length, 10u);
}

TEST_F(LockServiceTest, NoRestartLosesAny) {
  EXPECT_EQ(lock({.svid = 1}), LockStatus::kGranted);
  EXPECT_EQ(wait({.svid = 2}), LockStatus::kBlocked);
  restart(*first);
  EXPECT_EQ(lock({.svid = 3}), LockStatus::kDenied);
  EXPECT_EQ(unlock({.svid = 1}), LockStatus::kGranted);
  loop_.advance(1s);
  ASSERT_EQ(proxy_.told.size(), 1u) << "who waited before is told";
  EXPECT_EQ(proxy_.told[0].svid, 2);
  EXPECT_FALSE(is_free());
  restart(*first);
  EXPECT_FALSE(is_free());
  loop_.advance(1s);
  EXPECT_EQ(proxy_.told.size(), 1u) << "told once";
  EXPECT_EQ(unlock({.svid = 2}), LockStatus::kGranted);
  restart(*first);
  EXPECT_TRUE(is_free());
}

TEST_F(LockServiceTest, WhoWaitsIsToldWithTheVeryHandle) {
  EXPECT_EQ(lock({.svid = 1}, 0, 10), LockStatus::kGranted);
  EXPECT_EQ(wait({.address = kSecond, .svid = 2}, 4, 2), LockStatus::kBlocked);
  EXPECT_EQ(unlock({.svid = 1}, 5, 1), LockStatus::kGranted);
  loop_.advance(1s);
  EXPECT_TRUE(proxy_.told.empty());
  EXPECT_EQ(unlock({.svid = 1}, 4, 1), LockStatus::kGranted);
  loop_.advance(1s);
  const FakeProxy::Told told{kSecond, 2, 4, 2, true, std::string(as_text(file_))};
  EXPECT_EQ(proxy_.told, std::vector{told});
  EXPECT_EQ(counter("dir_client_locks_told_total"), 1u);
  EXPECT_EQ(lock({.svid = 3}, 4, 2), LockStatus::kDenied);
}

TEST_F(LockServiceTest, ALockThatNobodyWantsIsTakenBackAndGivenOn) {
  EXPECT_EQ(lock({.svid = 1}), LockStatus::kGranted);
  EXPECT_EQ(wait({.svid = 2}), LockStatus::kBlocked);
  proxy_.answer.status = LockStatus::kDenied;
  EXPECT_EQ(unlock({.svid = 1}), LockStatus::kGranted);
  loop_.advance(1s);
  EXPECT_EQ(proxy_.told.size(), 1u);
  EXPECT_TRUE(is_free());
}

// It may have taken the lock at the first time, and its answer been lost: two may never have it.
TEST_F(LockServiceTest, ALockThatAClientMayHaveTakenIsNotTakenBack) {
  give_to_who_may_have_it();
  EXPECT_EQ(proxy_.told.size(), 2u);
  EXPECT_FALSE(is_free());
  EXPECT_EQ(unlock({.svid = 2}), LockStatus::kGranted);
  EXPECT_TRUE(is_free());
}

// But if it says later that it had given up, it has not.
TEST_F(LockServiceTest, UnlessItsCancelComesLater) {
  give_to_who_may_have_it();
  EXPECT_FALSE(is_free());
  EXPECT_EQ(cancel({.svid = 2}), LockStatus::kGranted);
  EXPECT_TRUE(is_free());
}

// The same where the server was restarted in between.
TEST_F(LockServiceTest, NorAfterARestart) {
  EXPECT_EQ(lock({.svid = 1}), LockStatus::kGranted);
  EXPECT_EQ(wait({.svid = 2}), LockStatus::kBlocked);
  proxy_.here = false;
  EXPECT_EQ(unlock({.svid = 1}), LockStatus::kGranted);
  loop_.advance(1s);
  restart(*first);
  proxy_.here = true;
  proxy_.answer.status = LockStatus::kDenied;
  loop_.advance(1s);
  EXPECT_EQ(proxy_.told.size(), 1u);
  EXPECT_FALSE(is_free());
}

TEST_F(LockServiceTest, AClientThatIsNotFoundHasGivenUp) {
  EXPECT_EQ(lock({.svid = 1}), LockStatus::kGranted);
  EXPECT_EQ(wait({.svid = 2}), LockStatus::kBlocked);
  proxy_.answer = {.how = Granting::kUnreachable};
  EXPECT_EQ(unlock({.svid = 1}), LockStatus::kGranted);
  loop_.advance(LockGrants::kFound - 5s);
  EXPECT_FALSE(is_free());
  loop_.advance(10s);
  EXPECT_TRUE(is_free());
  EXPECT_EQ(counter("dir_client_locks_unwanted_total"), 1u);
}

// A client asks again every 30 s, whether it is told or not.
TEST_F(LockServiceTest, WhoAsksAgainHasIt) {
  EXPECT_EQ(lock({.svid = 1}), LockStatus::kGranted);
  EXPECT_EQ(wait({.svid = 2}), LockStatus::kBlocked);
  EXPECT_EQ(wait({.svid = 2}), LockStatus::kBlocked);
  proxy_.answer = {.how = Granting::kUnreachable};
  EXPECT_EQ(unlock({.svid = 1}), LockStatus::kGranted);
  loop_.advance(30s);
  EXPECT_EQ(wait({.svid = 2}), LockStatus::kGranted);
  loop_.advance(LockGrants::kFound * 2);
  EXPECT_FALSE(is_free());
}

TEST_F(LockServiceTest, CancelEndsAWait) {
  EXPECT_EQ(lock({.svid = 1}), LockStatus::kGranted);
  EXPECT_EQ(wait({.svid = 2}), LockStatus::kBlocked);
  EXPECT_EQ(cancel({.svid = 3}), LockStatus::kDenied);
  EXPECT_EQ(cancel({.svid = 2}), LockStatus::kGranted);
  EXPECT_EQ(unlock({.svid = 1}), LockStatus::kGranted);
  loop_.advance(1s);
  EXPECT_TRUE(proxy_.told.empty());
  EXPECT_TRUE(is_free());
}

TEST_F(LockServiceTest, WhoWouldWaitForItselfIsToldSo) {
  EXPECT_EQ(lock({.svid = 1}, 0, 1), LockStatus::kGranted);
  EXPECT_EQ(lock({.svid = 2}, 1, 1), LockStatus::kGranted);
  EXPECT_EQ(lock({.svid = 3}, 2, 1), LockStatus::kGranted);
  EXPECT_EQ(wait({.svid = 1}, 1, 1), LockStatus::kBlocked);
  EXPECT_EQ(wait({.svid = 2}, 2, 1), LockStatus::kBlocked);
  EXPECT_EQ(wait({.svid = 3}, 0, 1), LockStatus::kDeadlock);
  EXPECT_EQ(unlock({.svid = 3}, 2, 1), LockStatus::kGranted);
  EXPECT_EQ(wait({.svid = 3}, 0, 1), LockStatus::kBlocked);
}

// The files' sites may be of different servers.
TEST_F(LockServiceTest, AlsoAcrossServers) {
  const routing::HandleBytes here = file_;
  routing::HandleBytes there = seconds_file();
  EXPECT_EQ(lock({.svid = 1}), LockStatus::kGranted);
  file_ = there;
  EXPECT_EQ(lock({.svid = 2}), LockStatus::kGranted);
  EXPECT_EQ(wait({.svid = 1}), LockStatus::kBlocked);
  file_ = here;
  EXPECT_EQ(wait({.svid = 2}), LockStatus::kDeadlock);
  EXPECT_EQ(wait({.svid = 3}), LockStatus::kBlocked);
  stop_server(*second);
  second->network.attach(second->endpoint(), nullptr);
  first->network.attach(second->endpoint(), nullptr);
  EXPECT_EQ(wait({.svid = 2}), LockStatus::kBlocked) << "nobody waits for a dead server";
  start_server(*second);
}

// Late copies, by another proxy or from a queue, neither lock again what is free nor free what is locked
// again.
TEST_F(LockServiceTest, LateCopiesChangeNothing) {
  EXPECT_EQ(lock({}, 0, 0, false, 1), LockStatus::kGranted);
  EXPECT_EQ(unlock({}, 0, 0, 2), LockStatus::kGranted);
  EXPECT_EQ(lock({}, 0, 0, false, 1), LockStatus::kGranted);
  EXPECT_TRUE(is_free());
  restart(*first);
  EXPECT_EQ(lock({}, 0, 0, false, 1), LockStatus::kGranted);
  EXPECT_TRUE(is_free());
  EXPECT_EQ(lock({}, 0, 0, false, 3), LockStatus::kGranted);
  EXPECT_EQ(unlock({}, 0, 0, 2), LockStatus::kGranted);
  EXPECT_FALSE(is_free());
}

TEST_F(LockServiceTest, ARestartedClientHasNone) {
  EXPECT_EQ(lock({.svid = 1}, 0, 1), LockStatus::kGranted);
  EXPECT_EQ(lock({.svid = 2, .state = 5}, 1, 1), LockStatus::kGranted);
  EXPECT_EQ(lock({.address = kSecond}, 2, 1), LockStatus::kGranted);
  EXPECT_EQ(wait({.address = kSecond, .svid = 9}, 0, 1), LockStatus::kBlocked);
  auto at_first = free(*first, kFirst, 5), at_second = free(*second, kFirst, 5);
  EXPECT_EQ(at_first.freed.size() + at_second.freed.size(), 64u);
  loop_.advance(1s);
  ASSERT_EQ(proxy_.told.size(), 1u);
  EXPECT_EQ(proxy_.told[0].svid, 9);
  EXPECT_EQ(lock({.svid = 4}, 0, 1), LockStatus::kDenied);
  EXPECT_EQ(lock({.svid = 4}, 1, 1), LockStatus::kDenied) << "that it has taken since";
  EXPECT_EQ(lock({.svid = 4}, 2, 1), LockStatus::kDenied) << "another client's";
  restart(*first);
  free(*first, kFirst, std::nullopt);
  free(*first, kSecond, std::nullopt);
  EXPECT_TRUE(is_free());
}

TEST_F(LockServiceTest, LocksGoWithTheirFile) {
  EXPECT_EQ(lock({.svid = 1}), LockStatus::kGranted);
  EXPECT_EQ(TwoServers::status_of(
                run(send(*first, nfs3::Procedure::kRemove, nfs3::RemoveArgs{root(), name_}, 9000))),
            nfs3::Status::kOk);
  EXPECT_EQ(lock({.svid = 2}), LockStatus::kStaleHandle);
  EXPECT_EQ(unlock({.svid = 1}), LockStatus::kGranted);
  std::size_t left = 0;
  for (std::uint32_t site = 0; site < 64; ++site) {
    const KeyRange range = range_of(SiteId{site}, CellKind::kClientLocks);
    for (auto at = first->store->iterate(range.begin, range.end); at->valid(); at->next()) ++left;
  }
  EXPECT_EQ(left, 0u);
}

TEST_F(LockServiceTest, WhatIsNotForThisServerIsPassedOn) {
  EXPECT_EQ(lock({.svid = 1}), LockStatus::kGranted);
  const nlm4::LockArgs args{.cookie = cookie_, .exclusive = true, .lock = lock_of({.svid = 2}, file_, 0, 0)};
  EXPECT_EQ(ask({.svid = 2}, LockCall::kLock, args, 0, second.get()), LockStatus::kDenied);
}

TEST_F(LockServiceTest, RefusesWhatItShould) {
  const Process who;
  auto outcome = [&](const nlm4::LockArgs& args) { return ask(who, LockCall::kLock, args); };
  nlm4::LockArgs args{.cookie = cookie_, .exclusive = true, .lock = lock_of(who, file_, 2, UINT64_MAX)};
  EXPECT_EQ(outcome(args), LockStatus::kTooBig);
  const routing::HandleBytes directory = root();
  args.lock = lock_of(who, directory, 0, 0);
  EXPECT_EQ(outcome(args), LockStatus::kFailed) << "a directory";
  args.lock = lock_of(who, as_bytes("no handle"), 0, 0);
  EXPECT_EQ(outcome(args), LockStatus::kStaleHandle);
  auto forged = file_;
  forged[40] ^= 1;
  args.lock = lock_of(who, forged, 0, 0);
  EXPECT_EQ(outcome(args), LockStatus::kStaleHandle);
  EXPECT_EQ(lock({.address = 0x0b000001}), LockStatus::kDeniedNoLocks) << "no export names it";
  auto set_mode = [&](std::uint32_t mode, std::uint32_t xid) {
    nfs3::SetAttributes set;
    set.mode = mode;
    const nfs3::SetattrArgs wanted{.object = file_, .attributes = set};
    EXPECT_EQ(status_of(run(send(*first, nfs3::Procedure::kSetattr, wanted, xid))), nfs3::Status::kOk);
  };
  set_mode(0644, 9001);
  EXPECT_EQ(lock({.uid = 1000}), LockStatus::kGranted) << "who may read it";
  set_mode(0600, 9002);
  EXPECT_EQ(unlock({.uid = 1000}), LockStatus::kGranted);
  EXPECT_EQ(lock({.uid = 1000}), LockStatus::kDeniedNoLocks);
  // A client that calls a server by itself.
  args.lock = lock_of(who, file_, 0, 0);
  EXPECT_FALSE(run(send_lock(*first, who, LockCall::kLock, args, 1, false)));
  EXPECT_TRUE(is_free());
}

TEST_F(LockServiceTest, SharesAreKept) {
  auto share = [&](const Process& who, LockCall procedure, std::uint32_t mode, std::uint32_t access) {
    nlm4::ShareArgs args{.cookie = cookie_, .caller = "host", .handle = file_, .owner = as_bytes("oh")};
    args.mode = mode;
    args.access = access;
    auto response = run(send_lock(*owner(file_), who, procedure, args, ++next_xid_));
    nlm4::ShareResult result;
    EXPECT_TRUE(response && decode(response->results(), result));
    return result.status;
  };
  const Process one, other{.address = kSecond};
  EXPECT_EQ(share(one, LockCall::kShare, 2, 1), LockStatus::kGranted);
  EXPECT_EQ(share(other, LockCall::kShare, 0, 2), LockStatus::kDenied);
  restart(*first);
  EXPECT_EQ(share(other, LockCall::kShare, 0, 2), LockStatus::kDenied);
  EXPECT_EQ(share(one, LockCall::kUnshare, 0, 0), LockStatus::kGranted);
  EXPECT_EQ(share(other, LockCall::kShare, 0, 2), LockStatus::kGranted);
}

}  // namespace
}  // namespace slice::dirserver
