// Users who come by Kerberos (RPCSEC_GSS, RFC 2203), whose security contexts are toys here: what the proxy
// makes of calls and replies. Kerberos itself, and clients of others, are the suite `kerberos`'
// (tests/cluster/kerberos.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <fstream>
#include <functional>
#include <random>

#include "proxy/gss/kerberos.h"
#include "proxy/testing/toy_ensemble.h"
#include "rpc/message.h"
#include "wire/codec.h"

namespace slice::proxy::testing {
namespace {

using namespace std::chrono_literals;
using rpc::GssProcedure;
using rpc::GssService;
using Service = slice::proxy::GssService;

constexpr std::uint32_t kTold = 1234;  // the user, as toy servers expect it

Buffer sum_of(ByteView bytes, std::uint64_t key) {
  Buffer out(8);
  store_be(out.data(), wire::fnv1a(bytes) ^ key);
  return out;
}

// Checksums of the two directions differ, as Kerberos' do.
class ToyContext : public SecurityContext {
 public:
  explicit ToyContext(bool client) : client_(client) {}
  bool verify(ByteView bytes, ByteView checksum) override {
    return std::ranges::equal(sum_of(bytes, client_ ? 2 : 1).view(), checksum);
  }
  std::optional<Buffer> checksum(ByteView bytes) override { return sum_of(bytes, client_ ? 1 : 2); }
  std::optional<Buffer> wrap(ByteView bytes) override {
    Buffer out(bytes);
    for (std::uint8_t& each : out.span()) each ^= 0x5a;
    out.append(checksum(bytes)->view());
    return out;
  }
  std::optional<Buffer> unwrap(ByteView token) override {
    if (token.size() < 8) return std::nullopt;
    Buffer out(token.first(token.size() - 8));
    for (std::uint8_t& each : out.span()) each ^= 0x5a;
    if (!verify(out.view(), token.subspan(token.size() - 8))) return std::nullopt;
    return out;
  }

 private:
  const bool client_;
};

// A token is a name; "mallory" has no ticket, "stranger" no account.
class ToyAcceptor : public ContextAcceptor {
 public:
  Accepted accept(ByteView token) override {
    Accepted out{.principal = std::string(as_text(token)) + "@TOY", .lifetime = lifetime};
    if (as_text(token) == "mallory") {
      out.major = 1 << 16;
      out.minor = 5;
      out.why = "no ticket";
      return out;
    }
    out.token = Buffer(as_bytes("welcome"));
    out.user = {.uid = kTold, .gid = 100, .groups = std::vector<std::uint32_t>(40, 7)};
    out.context = credulous ? credulous() : std::make_unique<ToyContext>(false);
    return out;
  }
  Duration lifetime = 1h;
  std::function<std::unique_ptr<SecurityContext>()> credulous;
};

class GssFrontTest : public ::testing::Test {
 protected:
  ~GssFrontTest() override { service->stop(); }

  struct Established {
    std::uint32_t major = 0;
    Buffer handle, token;
    std::uint32_t window = 0;
  };
  Buffer message(GssProcedure procedure, std::uint32_t sequence, GssService how, ByteView handle,
                 nfs3::Procedure called, ByteView arguments, bool signs = true) {
    rpc::XdrWriter credential;
    credential.u32(rpc::kGssVersion);
    credential.u32(static_cast<std::uint32_t>(procedure));
    credential.u32(sequence);
    credential.u32(static_cast<std::uint32_t>(how));
    credential.opaque(handle);
    rpc::CallHeader header{.xid = Xid{++xid},
                           .program = nfs3::kProgram,
                           .version = nfs3::kVersion,
                           .procedure = static_cast<std::uint32_t>(called),
                           .credential_flavor = rpc::kAuthGss,
                           .credential = credential.view()};
    rpc::XdrWriter bare;
    rpc::encode_call(bare, header);
    const Buffer sum = *peer.checksum(bare.view().first(bare.size() - 8));
    if (signs) {
      header.verifier_flavor = rpc::kAuthGss;
      header.verifier = sum.view();
    }
    header.arguments = arguments;
    rpc::XdrWriter out;
    rpc::encode_call(out, header);
    return out.take();
  }
  Established establish(std::string_view name) {
    rpc::XdrWriter token;
    token.text(name);
    const Buffer reply = ensemble.ask(*client, message(GssProcedure::kInit, 0, GssService::kNone, {},
                                                       nfs3::Procedure::kNull, token.view(), false));
    client->replies.clear();
    rpc::XdrReader in(reply.view());
    in.skip(12);
    const std::uint32_t flavor = in.u32();
    const ByteView verifier = in.opaque(400);
    EXPECT_EQ(in.u32(), 0u) << "success";
    Established out;
    out.handle = Buffer(in.opaque(64));
    out.major = in.u32();
    in.u32();
    out.window = in.u32();
    out.token = Buffer(in.opaque(100));
    EXPECT_TRUE(in.complete());
    if (out.major == 0) {
      std::uint8_t window[4];
      store_be(window, out.window);
      EXPECT_EQ(flavor, rpc::kAuthGss);
      EXPECT_TRUE(peer.verify(window, verifier));
    }
    return out;
  }
  Buffer closed(GssService how, std::uint32_t sequence, ByteView arguments) {
    rpc::XdrWriter body, out;
    body.u32(sequence);
    body.fixed(arguments);
    if (how == GssService::kNone) return Buffer(arguments);
    if (how == GssService::kIntegrity) {
      out.opaque(body.view());
      out.opaque(peer.checksum(body.view())->view());
    } else {
      out.opaque(peer.wrap(body.view())->view());
    }
    return out.take();
  }
  // The results of a call, when all about the reply is right.
  std::optional<Buffer> results(GssService how, std::uint32_t sequence, const Buffer& reply) {
    rpc::XdrReader in(reply.view());
    in.skip(12);
    const std::uint32_t flavor = in.u32();
    const ByteView verifier = in.opaque(400);
    std::uint8_t number[4];
    store_be(number, sequence);
    if (flavor != rpc::kAuthGss || !peer.verify(number, verifier) || in.u32() != 0) return std::nullopt;
    if (how == GssService::kNone) return Buffer(in.rest());
    std::optional<ByteView> body;
    Buffer plain;
    if (how == GssService::kIntegrity) {
      auto parts = rpc::decode_gss_integrity(in.rest());
      if (!parts || !peer.verify(parts->covered, parts->checksum)) return std::nullopt;
      body = rpc::gss_body(parts->covered, sequence);
    } else {
      auto token = rpc::decode_gss_privacy(in.rest());
      auto opened = token ? peer.unwrap(*token) : std::nullopt;
      if (!opened) return std::nullopt;
      plain = std::move(*opened);
      body = rpc::gss_body(plain.view(), sequence);
    }
    return body ? std::optional(Buffer(*body)) : std::nullopt;
  }
  Buffer write_arguments_of(std::uint64_t file, std::uint64_t offset, ByteView data) {
    rpc::XdrWriter out;
    nfs3::encode_arguments(
        out, nfs3::WriteArgs{ensemble.handle(file), offset, static_cast<std::uint32_t>(data.size()),
                             nfs3::Stable::kUnstable, data});
    return out.take();
  }
  Buffer read_arguments_of(std::uint64_t file, std::uint64_t offset, std::uint32_t count) {
    rpc::XdrWriter out;
    nfs3::encode_arguments(out, nfs3::ReadArgs{ensemble.handle(file), offset, count});
    return out.take();
  }
  std::optional<Buffer> call(GssService how, ByteView handle, std::uint32_t sequence,
                             nfs3::Procedure procedure, const Buffer& arguments) {
    const Buffer body = closed(how, sequence, arguments.view());
    const Buffer reply =
        ensemble.ask(*client, message(GssProcedure::kData, sequence, how, handle, procedure, body.view()));
    client->replies.clear();
    return results(how, sequence, reply);
  }
  rpc::ReplyHeader header_of(const Buffer& sent) {
    last = ensemble.ask(*client, sent);
    client->replies.clear();
    auto header = rpc::decode_reply(last.view());
    EXPECT_TRUE(header);
    return header.value_or(rpc::ReplyHeader{});
  }
  // That nothing comes in answer to this, but to what is sent behind it.
  bool is_silent(const Buffer& sent) {
    client->send_record(sent.view());
    const Buffer null = ensemble.call(Xid{4711}, nfs3::Procedure::kNull, {});
    const Buffer reply = ensemble.ask(*client, null);
    const bool only = client->replies.size() == 1 && load_be<std::uint32_t>(reply.data()) == 4711;
    client->replies.clear();
    return only;
  }
  std::uint64_t refused(const std::string& why) {
    return metrics.counter("proxy_gss_refused_total{why=\"" + why + "\"}").value();
  }

  ToyContext peer{true};
  Metrics metrics;
  ToyAcceptor* acceptor = new ToyAcceptor;
  std::unique_ptr<Service> service =
      std::make_unique<Service>(std::unique_ptr<ContextAcceptor>(acceptor), metrics);
  ToyEnsemble ensemble{{.gss = service.get()}};
  std::unique_ptr<WireClient> client = ensemble.connect();
  std::uint32_t xid = 100;
  Buffer last;
};

class GssServices : public GssFrontTest, public ::testing::WithParamInterface<GssService> {};

TEST_P(GssServices, CarryCallsAndRepliesOfAnyLength) {
  const GssService how = GetParam();
  const Established made = establish("alice");
  ASSERT_EQ(made.major, 0u);
  EXPECT_EQ(as_text(made.token.view()), "welcome");
  std::uint32_t sequence = 0;
  for (const std::size_t size :
       {std::size_t{100}, std::size_t{70'001}, std::size_t{300'003}, std::size_t{1} << 20}) {
    const auto data = pattern(size, static_cast<std::uint32_t>(size));
    auto written =
        call(how, made.handle.view(), ++sequence, nfs3::Procedure::kWrite, write_arguments_of(7, 0, data));
    ASSERT_TRUE(written) << size;
    EXPECT_EQ(load_be<std::uint32_t>(written->data()), 0u);
    auto read = call(how, made.handle.view(), ++sequence, nfs3::Procedure::kRead,
                     read_arguments_of(7, 0, static_cast<std::uint32_t>(size)));
    ASSERT_TRUE(read) << size;
    rpc::XdrReader in(read->view());
    nfs3::Status status{};
    nfs3::ReadOk ok;
    ASSERT_TRUE(nfs3::decode_result(in, status, ok));
    EXPECT_TRUE(std::ranges::equal(ok.data, data)) << size;
  }
  for (const auto& server : ensemble.servers) {
    if (server->calls > 0) EXPECT_EQ(server->security.flavor, rpc::flavor_of(how));
  }
}

TEST_P(GssServices, WhatWasChangedOnItsWayIsNotCarriedOut) {
  const GssService how = GetParam();
  const Established made = establish("alice");
  Buffer body = closed(how, 1, write_arguments_of(7, 0, pattern(64, 1)).view());
  Buffer sent =
      message(GssProcedure::kData, 1, how, made.handle.view(), nfs3::Procedure::kWrite, body.view());
  sent.data()[sent.size() - 40] ^= 1;
  const rpc::ReplyHeader header = header_of(sent);
  EXPECT_TRUE(header.accepted);
  if (how == GssService::kNone) {
    EXPECT_EQ(header.accept_stat, rpc::AcceptStat::kSuccess) << "krb5 proves the header alone";
    return;
  }
  EXPECT_EQ(header.accept_stat, rpc::AcceptStat::kGarbageArguments);
  EXPECT_EQ(refused("body"), 1u);
  // Nor is one with another number than its header's.
  body = closed(how, 3, write_arguments_of(7, 0, pattern(64, 1)).view());
  EXPECT_EQ(header_of(message(GssProcedure::kData, 2, how, made.handle.view(), nfs3::Procedure::kWrite,
                              body.view()))
                .accept_stat,
            rpc::AcceptStat::kGarbageArguments);
  for (const auto& server : ensemble.servers) EXPECT_EQ(server->calls, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, GssServices,
                         ::testing::Values(GssService::kNone, GssService::kIntegrity, GssService::kPrivacy));

TEST_F(GssFrontTest, AUserWithoutATicketIsTold) {
  const Established made = establish("mallory");
  EXPECT_EQ(made.major, 1u << 16);
  EXPECT_EQ(made.handle.size(), 0u);
  EXPECT_EQ(refused("token"), 1u);
}

TEST_F(GssFrontTest, ACallIsTakenOnce) {
  const Established made = establish("alice");
  const auto getattr = [&](std::uint32_t sequence) {
    rpc::XdrWriter arguments;
    nfs3::encode_arguments(arguments, nfs3::HandleView(ensemble.handle(7)));
    return message(GssProcedure::kData, sequence, GssService::kNone, made.handle.view(),
                   nfs3::Procedure::kGetattr, arguments.view());
  };
  const Buffer first = getattr(500);
  EXPECT_TRUE(results(GssService::kNone, 500, ensemble.ask(*client, first)));
  client->replies.clear();
  EXPECT_TRUE(is_silent(first)) << "again";
  EXPECT_TRUE(results(GssService::kNone, 373, ensemble.ask(*client, getattr(373))))
      << "the oldest of the window";
  client->replies.clear();
  EXPECT_TRUE(is_silent(getattr(372)));
  EXPECT_TRUE(is_silent(getattr(373)));
  EXPECT_EQ(refused("sequence"), 3u);
  const rpc::ReplyHeader used_up = header_of(getattr(rpc::kGssMaxSequence + 1));
  EXPECT_FALSE(used_up.accepted);
  EXPECT_EQ(used_up.auth_stat, rpc::AuthStat::kGssContextProblem);
}

TEST_F(GssFrontTest, WhoIsNotTheUserIsRefused) {
  const Established made = establish("alice");
  rpc::XdrWriter arguments;
  nfs3::encode_arguments(arguments, nfs3::HandleView(ensemble.handle(7)));
  const auto sent = [&](ByteView handle, bool signs = true) {
    return message(GssProcedure::kData, 1, GssService::kNone, handle, nfs3::Procedure::kGetattr,
                   arguments.view(), signs);
  };
  auto denied = [&](const Buffer& bytes) {
    const rpc::ReplyHeader header = header_of(bytes);
    EXPECT_FALSE(header.accepted);
    return header.auth_stat;
  };
  EXPECT_EQ(denied(sent(made.handle.view(), false)), rpc::AuthStat::kGssCredentialProblem)
      << "without a checksum";
  Buffer changed = sent(made.handle.view());
  changed.data()[23] = static_cast<std::uint8_t>(nfs3::Procedure::kRead);
  EXPECT_EQ(denied(changed), rpc::AuthStat::kGssCredentialProblem) << "another procedure than was signed";
  const std::vector<std::uint8_t> guessed(16, 3);
  EXPECT_EQ(denied(sent(guessed)), rpc::AuthStat::kGssCredentialProblem);
  EXPECT_EQ(denied(sent({})), rpc::AuthStat::kGssCredentialProblem);
  EXPECT_EQ(denied(message(GssProcedure::kContinueInit, 1, GssService::kNone, made.handle.view(),
                           nfs3::Procedure::kNull, {})),
            rpc::AuthStat::kGssCredentialProblem);
  Buffer other_version = sent(made.handle.view());
  other_version.data()[35] = 2;
  EXPECT_EQ(denied(other_version), rpc::AuthStat::kBadCredential);
  // A long one is refused by its head, and its rest thrown away.
  const Buffer body = write_arguments_of(7, 0, pattern(500'000, 1));
  EXPECT_EQ(denied(message(GssProcedure::kData, 1, GssService::kPrivacy, guessed, nfs3::Procedure::kWrite,
                           body.view())),
            rpc::AuthStat::kGssCredentialProblem);
  EXPECT_TRUE(call(GssService::kIntegrity, made.handle.view(), 1, nfs3::Procedure::kWrite,
                   write_arguments_of(7, 0, pattern(9, 1))))
      << "and the user goes on";
}

TEST_F(GssFrontTest, AContextEnds) {
  const Established made = establish("alice");
  const Buffer destroy =
      message(GssProcedure::kDestroy, 1, GssService::kNone, made.handle.view(), nfs3::Procedure::kNull, {});
  EXPECT_TRUE(results(GssService::kNone, 1, ensemble.ask(*client, destroy)));
  client->replies.clear();
  const auto null = [&](const Established& of, std::uint32_t sequence) {
    return message(GssProcedure::kData, sequence, GssService::kNone, of.handle.view(), nfs3::Procedure::kNull,
                   {});
  };
  EXPECT_EQ(header_of(null(made, 2)).auth_stat, rpc::AuthStat::kGssCredentialProblem);
  acceptor->lifetime = 0s;
  EXPECT_EQ(header_of(null(establish("alice"), 1)).auth_stat, rpc::AuthStat::kGssCredentialProblem)
      << "with its ticket";
  EXPECT_EQ(metrics.gauge("proxy_gss_contexts", "how many").value(), 0u);
}

TEST_F(GssFrontTest, AClientThatGoesTakesItsCallsWithIt) {
  const Established made = establish("alice");
  for (const auto& server : ensemble.servers) server->hold = true;
  client->send_record(
      message(GssProcedure::kData, 1, GssService::kPrivacy, made.handle.view(), nfs3::Procedure::kWrite,
              closed(GssService::kPrivacy, 1, write_arguments_of(7, 0, pattern(70'000, 1)).view()).view())
          .view());
  const auto held = [&] {
    return ensemble.servers.size() > 0 &&
           std::ranges::any_of(ensemble.servers, [](const auto& each) { return each->held() > 0; });
  };
  ASSERT_TRUE(ensemble.run_until(held, 10s));
  client.reset();
  ASSERT_TRUE(ensemble.run_until([&] { return ensemble.worker->clients() == 0; }, 10s));
  EXPECT_EQ(ensemble.worker->legs(), 0u);
  for (const auto& server : ensemble.servers) server->release();
}

// Whatever comes, nothing is carried out that a user did not send, and nothing breaks: also where checksums
// would all be right.
class Credulous : public ToyContext {
 public:
  Credulous() : ToyContext(false) {}
  bool verify(ByteView, ByteView) override { return true; }
};
TEST_F(GssFrontTest, AnythingMayCome) {
  acceptor->credulous = [] { return std::make_unique<Credulous>(); };
  std::mt19937 random(4711);
  const auto below = [&](std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
  };
  const Established made = establish("alice");
  for (std::uint32_t i = 1; i <= 3000; ++i) {
    const auto how = static_cast<GssService>(1 + below(3));
    const auto procedure = static_cast<GssProcedure>(below(20) == 0 ? below(3) : 0);
    Buffer body = closed(
        how, i,
        below(2) == 0 ? write_arguments_of(7, 0, pattern(64, i)).view() : read_arguments_of(7, 0, 64).view());
    Buffer sent = message(procedure, i, how, made.handle.view(),
                          below(2) == 0 ? nfs3::Procedure::kWrite : nfs3::Procedure::kRead, body.view());
    const std::size_t head = sent.size() - body.size();
    for (std::size_t changes = below(4); changes > 0; --changes) {
      const std::size_t at = below(5) == 0 ? below(sent.size()) : head + below(body.size());
      sent.data()[at] = below(2) == 0 ? static_cast<std::uint8_t>(random()) : std::uint8_t{0xff};
    }
    if (below(10) == 0) sent.resize(4 + below(sent.size() - 4));
    client->send_record(sent.view());
    if (i % 50 != 0) continue;
    const Buffer null = ensemble.call(Xid{0x4e554c4c}, nfs3::Procedure::kNull, {});
    client->send_record(null.view());
    const auto answered = [&] {
      return client->closed || std::ranges::any_of(client->replies, [](const Buffer& each) {
               return load_be<std::uint32_t>(each.data()) == 0x4e554c4c;
             });
    };
    ASSERT_TRUE(ensemble.run_until(answered, 20s)) << i;
    client->replies.clear();
    if (client->closed) client = ensemble.connect();
  }
  EXPECT_GT(refused("body"), 0u);
}

TEST(GssContextsTest, OneUserTakesNoOthersContexts) {
  Metrics metrics;
  GssContexts contexts(metrics, {.all = 6, .of_user = 3});
  const auto add = [&](const std::string& name) {
    return contexts.add({.context = std::make_unique<ToyContext>(false), .principal = name, .lifetime = 1h},
                        MonoTime{});
  };
  const auto there = [&](const std::shared_ptr<GssContext>& one) {
    return contexts.find(one->handle, MonoTime{}) == one;
  };
  const auto first = add("alice"), second = add("alice"), third = add("alice");
  EXPECT_TRUE(there(first));
  add("alice");
  EXPECT_FALSE(there(second)) << "of her own the one that was not used for longest";
  EXPECT_TRUE(there(first) && there(third));
  const auto bob = add("bob"), carol = add("carol"), dave = add("dave");
  EXPECT_TRUE(there(bob) && there(carol) && there(dave));
  const auto eve = add("eve");
  EXPECT_TRUE(there(bob) && there(carol) && there(dave) && there(eve)) << "of whom has most one goes";
  EXPECT_EQ(metrics.gauge("proxy_gss_contexts", "how many").value(), 6u);
}

TEST(Accounts, AreThisHosts) {
  EXPECT_EQ(user_of_account("root").uid, 0u);
  const rpc::AuthSys daemon = user_of_account("daemon");
  EXPECT_EQ(daemon.uid, 1u);
  EXPECT_EQ(daemon.gid, 1u);
  EXPECT_EQ(user_of_account("nobody-of-that-name").uid, rpc::kNoUser);
  EXPECT_EQ(user_of_account("").uid, rpc::kNoUser);
}

TEST(Keytabs, AreLookedAtBeforeAnybodyComes) {
  const auto wrong = [](const std::string& path) {
    auto made = make_kerberos_acceptor(path);
    return made ? "" : made.error().message;
  };
  EXPECT_THAT(wrong("/nowhere/keytab"), ::testing::HasSubstr("No such file"));
  const std::string path = ::testing::TempDir() + "slice-keytab";
  std::ofstream(path) << "no keytab";
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  EXPECT_THAT(wrong(path), ::testing::HasSubstr("chmod 600"));
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  EXPECT_NE(wrong(path), "");
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace slice::proxy::testing
