// What clients lock files by: NLM, NSM, and calls of clients.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/programs/client_calls.h"
#include "proxy/programs/grant_program.h"
#include "proxy/programs/lock_program.h"
#include "proxy/programs/status_program.h"
#include "rpc/epoll_loop.h"
#include "service/testing/service_fixture.h"
#include "wire/portmap2.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;
using LockStatus = nlm4::Status;

constexpr rpc::Endpoint kClient{0x0a4d0102, 700};

// A directory server, which notes what it is asked.
class FakeLocks : public rpc::Program {
 public:
  std::uint32_t number() const override { return nlm4::kProgram; }
  std::uint32_t version() const override { return nlm4::kVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override {
    asked.push_back({call.procedure, call.client, call.xid, call.relays, call.credential.uid});
    encode(results, nlm4::Result{as_bytes("cookie"), LockStatus::kBlocked});
    co_return rpc::Outcome::kReply;
  }
  struct Asked {
    std::uint32_t procedure;
    rpc::Endpoint client;
    Xid xid;
    unsigned relays;
    std::uint32_t uid;
    bool operator==(const Asked&) const = default;
  };
  std::vector<Asked> asked;
};

class FakeFree : public service::InternalProgram {
 public:
  FakeFree() : InternalProgram(wire::kLocksProgram) {
    on<wire::FreeLocksArgs>(wire::LocksProcedure::kFree, [this](const wire::FreeLocksArgs& args) {
      asked.push_back(args);
      wire::FreeLocksResult result;
      for (std::uint32_t site : args.sites) {
        if (site % every == 0 || asked.size() > 1) result.freed.push_back(site);
      }
      return result;
    });
  }
  std::vector<wire::FreeLocksArgs> asked;
  std::uint32_t every = 1;  // of the sites, at first
};

class LockProgramTest : public service::testing::ServiceFixture {
 protected:
  LockProgramTest() : ServiceFixture("proxy1") {
    serve("dir1", server_);
    serve("dir1", free_);
  }
  struct Answer {
    rpc::Outcome outcome;
    Buffer results;
  };
  Answer ask(rpc::Program& program, std::uint32_t procedure, ByteView arguments,
             rpc::Endpoint client = kClient, bool datagram = false) {
    rpc::Call call;
    call.xid = Xid{77};
    call.procedure = procedure;
    call.client = client;
    call.arguments = arguments;
    call.has_auth_sys = true;
    call.credential.uid = 1000;
    call.datagram = datagram;
    rpc::XdrWriter results;
    const rpc::Outcome outcome = run(program.handle(call, results));
    return {outcome, results.take()};
  }
  template <class Args>
  Answer ask(nlm4::Procedure procedure, const Args& args, bool datagram = false) {
    rpc::XdrWriter arguments;
    encode(arguments, args);
    return ask(locks_, static_cast<std::uint32_t>(procedure), arguments.view(), kClient, datagram);
  }
  LockStatus status_of(const Answer& answer) {
    EXPECT_EQ(answer.outcome, rpc::Outcome::kReply);
    nlm4::Result result;
    EXPECT_TRUE(decode(answer.results.view(), result));
    EXPECT_EQ(as_text(result.cookie), "cookie");
    return result.status;
  }
  Answer notify(rpc::Endpoint client, std::string_view name, std::int32_t state) {
    rpc::XdrWriter arguments;
    encode(arguments, nsm1::NotifyArgs{name, state});
    return ask(status_, static_cast<std::uint32_t>(nsm1::Procedure::kNotify), arguments.view(), client);
  }

  routing::HandleBytes handle_ = handles_.mint(routing::root_handle(config_.volume));
  nlm4::Lock lock_{.caller = "client", .handle = handle_, .owner = as_bytes("owner")};
  ByteView cookie_ = as_bytes("cookie");
  FakeLocks server_;
  FakeFree free_;
  LockProgram locks_{context_};
  StatusProgram status_{context_};
};

TEST_F(LockProgramTest, CallsGoToTheServerOfTheFileAsTheClientsOwn) {
  using enum nlm4::Procedure;
  const nlm4::LockArgs wanted{.cookie = cookie_, .block = true, .exclusive = true, .lock = lock_};
  EXPECT_EQ(status_of(ask(kLock, wanted)), LockStatus::kBlocked);
  const FakeLocks::Asked asked{2, kClient, Xid{77}, 0, 1000};
  EXPECT_EQ(server_.asked, std::vector{asked});
  ask(kNmLock, wanted);
  ask(kTest, nlm4::TestArgs{cookie_, true, lock_});
  ask(kCancel, nlm4::CancelArgs{cookie_, true, true, lock_});
  ask(kUnlock, nlm4::UnlockArgs{cookie_, lock_});
  const nlm4::ShareArgs share{
      .cookie = cookie_, .caller = "client", .handle = handle_, .owner = as_bytes("owner")};
  ask(kShare, share);
  ask(kUnshare, share);
  EXPECT_EQ(server_.asked.size(), 7u);
}

TEST_F(LockProgramTest, WhatIsForNoServerIsAnsweredHere) {
  using enum nlm4::Procedure;
  nlm4::Lock strange = lock_;
  strange.handle = as_bytes("handle");
  EXPECT_EQ(status_of(ask(kUnlock, nlm4::UnlockArgs{cookie_, strange})), LockStatus::kStaleHandle);
  EXPECT_EQ(status_of(ask(kGranted, nlm4::TestArgs{cookie_, true, lock_})), LockStatus::kDenied);
  for (std::uint32_t procedure = 6; procedure <= 15; ++procedure)
    EXPECT_EQ(ask(locks_, procedure, {}).outcome, rpc::Outcome::kNoProcedure) << procedure;
  EXPECT_EQ(ask(locks_, 24, {}).outcome, rpc::Outcome::kNoProcedure);
  for (std::uint32_t procedure : {1, 2, 3, 4, 5, 20, 21, 22, 23})
    EXPECT_EQ(ask(locks_, procedure, as_bytes("\xff\xff\xff\xff")).outcome, rpc::Outcome::kGarbage)
        << procedure;
  EXPECT_TRUE(server_.asked.empty());
}

// As everybody was refused before there were locks.
TEST_F(LockProgramTest, AServerOfAVersionWithoutLocksRefusesThem) {
  silence("dir1");
  serve("dir1", free_);
  EXPECT_EQ(status_of(ask(nlm4::Procedure::kUnlock, nlm4::UnlockArgs{cookie_, lock_})),
            LockStatus::kDeniedNoLocks);
}

// Over TCP a client does not send again soon what a dead server did not answer.
TEST_F(LockProgramTest, AServerThatIsAwayIsWaitedFor) {
  silence("dir1");
  const nlm4::UnlockArgs args{cookie_, lock_};
  EXPECT_EQ(ask(nlm4::Procedure::kUnlock, args, true).outcome, rpc::Outcome::kDrop);
  loop_.after(20s, [this] { serve("dir1", server_); });
  EXPECT_EQ(status_of(ask(nlm4::Procedure::kUnlock, args)), LockStatus::kBlocked);
}

TEST_F(LockProgramTest, ARestartedClientLosesItsLocksEverywhere) {
  free_.every = 2;
  EXPECT_EQ(notify(kClient, "client", 5).outcome, rpc::Outcome::kReply);
  ASSERT_EQ(free_.asked.size(), 2u) << "those that were not freed at first, again";
  EXPECT_EQ(free_.asked[0].sites.size(), 64u);
  EXPECT_EQ(free_.asked[1].sites.size(), 32u);
  EXPECT_EQ(free_.asked[0].address, kClient.address);
  EXPECT_EQ(free_.asked[0].host, "client");
  EXPECT_EQ(free_.asked[0].keep, 5);
  rpc::XdrWriter all;
  encode(all, nlm4::FreeAllArgs{"client", 3});
  EXPECT_EQ(ask(locks_, 23, all.view()).outcome, rpc::Outcome::kReply);
  EXPECT_EQ(free_.asked.back().keep, std::nullopt);
}

TEST_F(LockProgramTest, NobodyElseFreesThem) {
  config_.exports[0].secure = true;
  settings_.set(settings_of(config_));
  EXPECT_EQ(notify({0x0b000001, 700}, "client", 5).outcome, rpc::Outcome::kDrop) << "no export names it";
  EXPECT_EQ(notify({kClient.address, 4000}, "client", 5).outcome, rpc::Outcome::kDrop) << "a user's program";
  EXPECT_TRUE(free_.asked.empty());
  for (std::uint32_t procedure : {1, 2, 3, 4, 5, 7})
    EXPECT_EQ(ask(status_, procedure, {}).outcome, rpc::Outcome::kNoProcedure) << procedure;
  EXPECT_EQ(ask(status_, 6, as_bytes("\xff\xff\xff\xff")).outcome, rpc::Outcome::kGarbage);
}

// It sends again until it is answered.
TEST_F(LockProgramTest, AClientWhoseLocksAreNotFreeIsNotAnswered) {
  silence("dir1");
  EXPECT_EQ(notify(kClient, "client", 5).outcome, rpc::Outcome::kDrop);
}

class GrantTest : public service::testing::ServiceFixture {
 protected:
  GrantTest() : ServiceFixture("dir1") {
    serve("proxy1", grants_);
    grants_.serve([this](rpc::Endpoint to, ClientCalls::Procedure what, Buffer arguments,
                         std::vector<Duration>) { return client(to, what, std::move(arguments)); });
  }
  Task<ClientCalls::Answer> client(rpc::Endpoint to, ClientCalls::Procedure what, Buffer arguments) {
    called.push_back(to);
    co_await loop_.sleep(10ms);
    rpc::XdrWriter out;
    if (what.program == portmap2::kProgram) {
      portmap2::encode_port(out, port);
    } else {
      nlm4::TestArgs said;
      EXPECT_TRUE(decode(arguments.view(), said));
      if (!answers || to.port != listens) co_return ClientCalls::Answer{std::nullopt, 1};
      encode(out, nlm4::Result{said.cookie, status});
    }
    co_return ClientCalls::Answer{out.take(), sent};
  }
  wire::GrantResult grant(std::uint64_t run_number, std::string_view cookie = "1") {
    rpc::XdrWriter call;
    encode(call,
           nlm4::TestArgs{.cookie = as_bytes(cookie), .exclusive = true, .lock = {.caller = "c", .svid = 3}});
    return run(service::internal_call<wire::GrantResult>(
                   network_, endpoint("proxy1"), wire::kLocksProgram, wire::LocksProcedure::kGrant,
                   wire::GrantArgs{.run = run_number, .address = kClient.address, .call = call.take()}))
        .value();
  }

  bool holds_ = true, answers = true;
  LockStatus status = LockStatus::kGranted;
  std::size_t sent = 1;
  std::uint32_t port = 4045, listens = 4045;  // as rpcbind says, and as it is
  std::vector<rpc::Endpoint> called;
  GrantProgram grants_{loop_, metrics_, 9, [this] { return holds_; }};
};

TEST_F(GrantTest, TheHolderTellsTheClientWhereItsLockManagerIs) {
  EXPECT_EQ(grant(0).how, wire::Granting::kHere);
  EXPECT_EQ(grant(0).run, 9u);
  const wire::GrantResult result = grant(9);
  EXPECT_EQ(result.how, wire::Granting::kAnswered);
  EXPECT_EQ(result.status, LockStatus::kGranted);
  EXPECT_EQ(called, (std::vector<rpc::Endpoint>{{kClient.address, 111}, {kClient.address, 4045}}));
  grant(9, "2");
  EXPECT_EQ(called.size(), 3u) << "its port is known for a while";
  holds_ = false;
  EXPECT_EQ(grant(0).how, wire::Granting::kNotHere);
}

// The client would say of a copy that it does not wait any more.
TEST_F(GrantTest, ACopyIsNotSentToTheClient) {
  grant(9);
  const auto before = called.size();
  EXPECT_EQ(grant(9).how, wire::Granting::kAnswered);
  EXPECT_EQ(called.size(), before);
}

TEST_F(GrantTest, WhatTheRunBeforeMayHaveToldIsNotKnown) {
  EXPECT_EQ(grant(8).how, wire::Granting::kNoAnswer);
  EXPECT_TRUE(called.empty());
}

// A client that was started again has its lock manager elsewhere.
TEST_F(GrantTest, AsksAgainWhereTheClientsLockManagerIs) {
  grant(9, "1");
  listens = port = 5000;
  EXPECT_EQ(grant(9, "2").how, wire::Granting::kAnswered);
  EXPECT_EQ(called.back().port, 5000);
}

// Of a copy it says that it does not wait, also where it has taken the lock.
TEST_F(GrantTest, OnlyAFirstDeniedSaysThatTheClientDoesNotWait) {
  status = LockStatus::kDenied;
  EXPECT_EQ(grant(9, "1").how, wire::Granting::kAnswered);
  sent = 2;
  EXPECT_EQ(grant(9, "2").how, wire::Granting::kNoAnswer);
  sent = 1;
  listens = port = 5000;
  EXPECT_EQ(grant(9, "3").how, wire::Granting::kNoAnswer) << "it was sent to the port of before, too";
  EXPECT_EQ(grant(9, "4").how, wire::Granting::kAnswered);
}

TEST_F(GrantTest, SaysWhetherTheClientMayHaveHeard) {
  port = 0;
  EXPECT_EQ(grant(9, "1").how, wire::Granting::kUnreachable);
  port = 4045;
  answers = false;
  EXPECT_EQ(grant(9, "2").how, wire::Granting::kNoAnswer);
}

// Over real sockets.
TEST(ClientCallsTest, TakesTheAnswerOfWhomItAskedAlone) {
  rpc::EpollLoop loop;
  const std::uint32_t host = 0x7f000001;
  auto calls = ClientCalls::open(loop, {host}, [] { return 5; });
  if (!calls) GTEST_SKIP() << "needs a reserved port: " << calls.error().message;
  struct Peer {
    int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    Peer() {
      at.sin_family = AF_INET;
      at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      socklen_t size = sizeof at;
      EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
      EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size), 0);
    }
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;
    ~Peer() { ::close(fd); }
  } asked, other;
  std::optional<ClientCalls::Answer> ended;
  const auto begin = [&] {
    ended.reset();
    spawn([](ClientCalls& of, rpc::Endpoint to, std::optional<ClientCalls::Answer>& into) -> Task<void> {
      rpc::XdrWriter arguments;
      arguments.u32(7);
      into = co_await of.call(to, {1, 2, 3}, arguments.take(), {20ms, 100ms});
    }(**calls, {host, ntohs(asked.at.sin_port)}, ended));
  };
  begin();
  int heard = 0;
  sockaddr_in from{};
  loop.watch_readable(asked.fd, [&] {
    std::uint8_t bytes[512];
    socklen_t size = sizeof from;
    const ssize_t got =
        ::recvfrom(asked.fd, bytes, sizeof bytes, 0, reinterpret_cast<sockaddr*>(&from), &size);
    const auto call = rpc::decode_call(ByteView(bytes).first(static_cast<std::size_t>(got))).value();
    EXPECT_EQ(call.program, 1u);
    EXPECT_LT(ntohs(from.sin_port), 1024);
    rpc::XdrWriter reply;
    rpc::encode_success(reply, call.xid);
    reply.u32(++heard);
    // Another one says something first; and the answer to the first try is lost.
    ::sendto(other.fd, reply.view().data(), reply.size(), 0, reinterpret_cast<sockaddr*>(&from), size);
    if (heard > 1)
      ::sendto(asked.fd, reply.view().data(), reply.size(), 0, reinterpret_cast<sockaddr*>(&from), size);
  });
  EXPECT_TRUE(loop.run_until([&] { return ended.has_value(); }, 2s));
  ASSERT_TRUE(ended->results);
  EXPECT_EQ(rpc::XdrReader(ended->results->view()).u32(), 2u);
  EXPECT_EQ(ended->sent, 2u);
  loop.unwatch_readable(asked.fd);
  begin();
  EXPECT_TRUE(loop.run_until([&] { return ended.has_value(); }, 2s));
  EXPECT_FALSE(ended->results) << "nobody answers";
}

}  // namespace
}  // namespace slice::proxy
