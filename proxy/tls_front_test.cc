// Clients that ask for TLS over their connections (RFC 9289), with an OpenSSL client over loopback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/testing/temporary_folder.h"
#include "proxy/testing/toy_ensemble.h"
#include "rpc/message.h"
#include "rpc/testing/certificates.h"

namespace slice::proxy::testing {
namespace {

using namespace std::chrono_literals;
using rpc::Tls;
using wire::Role;

constexpr std::uint32_t kLoopback = 0x7f000001;
constexpr std::size_t kLong = 1 << 20;

class TlsFrontTest : public ::testing::Test {
 protected:
  static std::unique_ptr<Tls> load(const TlsConfig& files) {
    auto tls = Tls::load(files, Tls::Peers::kClients);
    EXPECT_TRUE(tls) << tls.error().message;
    return std::move(*tls);
  }
  void serve(ToyOptions options = {.threshold = kLong, .stripe_shift = 20}, bool with_tls = true) {
    if (with_tls) options.tls = service.get();
    ensemble.emplace(options);
    client = ensemble->connect();
  }
  Buffer wish(nfs3::Procedure procedure = nfs3::Procedure::kNull, std::size_t body = 0) const {
    const std::vector<std::uint8_t> credential(body, 1);
    rpc::XdrWriter out;
    rpc::encode_call(out, {.xid = Xid{77},
                           .program = nfs3::kProgram,
                           .version = nfs3::kVersion,
                           .procedure = static_cast<std::uint32_t>(procedure),
                           .credential_flavor = rpc::kAuthTls,
                           .credential = credential});
    if (procedure != nfs3::Procedure::kNull)
      nfs3::encode_arguments(out, nfs3::HandleView(ensemble->handle(7)));
    return out.take();
  }
  // What the answer's verifier says.
  std::string answer_to_wish() {
    const Buffer reply = ensemble->ask(*client, wish());
    rpc::XdrReader in(reply.view());
    EXPECT_EQ(in.u32(), 77u);
    EXPECT_EQ(in.u32(), 1u);
    EXPECT_EQ(in.u32(), 0u) << "accepted";
    EXPECT_EQ(in.u32(), rpc::kAuthNone);
    std::string verifier(in.text(400));
    EXPECT_EQ(in.u32(), 0u) << "success";
    return verifier;
  }
  void begin_tls(const Tls& as) {
    ASSERT_EQ(answer_to_wish(), "STARTTLS");
    client->replies.clear();
    client->begin_tls(as, kLoopback);
  }
  nfs3::Status status_of_write(const std::vector<std::uint8_t>& data) {
    const Buffer reply = ensemble->ask(*client, ensemble->write_call(Xid{5}, 7, 0, data));
    auto header = rpc::decode_reply(reply.view());
    if (!header || header->results.size() < 4) return nfs3::Status::kServerFault;
    return static_cast<nfs3::Status>(load_be<std::uint32_t>(header->results.data()));
  }
  // That has the beginning of file 7.
  ToyServer& server_of_file() {
    const SiteId site = ensemble->tables->small_file_site(FileId{7});
    const std::uint32_t index = ensemble->tables->server_of(Role::kSmallFile, site).server;
    return *ensemble->servers.at(index);
  }
  bool ends() {
    return ensemble->run_until([&] { return client->closed; }, 10s);
  }
  rpc::AuthStat denial() {
    auto header = rpc::decode_reply(client->replies.back().view());
    EXPECT_TRUE(header);
    EXPECT_FALSE(header->accepted);
    return header->auth_stat;
  }
  std::uint64_t counted(const std::string& name) { return ensemble->metrics.counter(name).value(); }

  const TemporaryFolder temporary;
  const std::string& folder = temporary.path();
  rpc::testing::Authority authority{folder};
  std::unique_ptr<Tls> service = load(authority.issue("service"));
  TlsConfig without_certificate{
      .certificate = "", .key = "", .authority = authority.path(".crt"), .revoked = ""};
  std::unique_ptr<Tls> anonymous = load(without_certificate);
  std::optional<ToyEnsemble> ensemble;
  std::unique_ptr<WireClient> client;
};

TEST_F(TlsFrontTest, CallsGoOnThroughIt) {
  serve();
  begin_tls(*anonymous);
  const auto data = pattern(kLong, 5);
  EXPECT_EQ(status_of_write(data), nfs3::Status::kOk);
  EXPECT_EQ(server_of_file().security.transport, TransportSecurity::kTls);
  const Buffer reply = ensemble->ask(*client, ensemble->read_call(Xid{6}, 7, 0, kLong));
  rpc::XdrReader in(rpc::decode_reply(reply.view())->results);
  nfs3::Status status{};
  nfs3::ReadOk ok;
  ASSERT_TRUE(nfs3::decode_result(in, status, ok));
  EXPECT_TRUE(std::ranges::equal(ok.data, data));
  EXPECT_EQ(counted("proxy_tls_connections_total{certificate=\"no\"}"), 1u);
}

TEST_F(TlsFrontTest, ServersAreToldOfTheClientsCertificate) {
  serve();
  auto own = load(authority.issue("client", "IP:10.1.2.3"));
  begin_tls(*own);
  EXPECT_EQ(status_of_write(pattern(100, 1)), nfs3::Status::kOk);
  EXPECT_EQ(server_of_file().security.transport, TransportSecurity::kMutualTls)
      << "whatever address it is for";
  EXPECT_EQ(counted("proxy_tls_connections_total{certificate=\"yes\"}"), 1u);
}

TEST_F(TlsFrontTest, ACertificateOfAnotherAuthorityEndsIt) {
  serve();
  rpc::testing::Authority other(folder, "other");
  TlsConfig files = other.issue("stranger");
  files.authority = authority.path(".crt");
  files.revoked = "";
  auto own = load(files);
  begin_tls(*own);
  client->send_record(ensemble->write_call(Xid{5}, 7, 0, pattern(100, 1)).view());
  EXPECT_TRUE(ends());
  EXPECT_EQ(counted("proxy_tls_failures_total"), 1u);
}

TEST_F(TlsFrontTest, ARevokedCertificateCountsNoMore) {
  serve();
  auto own = load(authority.issue("client"));
  begin_tls(*own);
  EXPECT_EQ(status_of_write(pattern(100, 1)), nfs3::Status::kOk);
  authority.revoke();
  ASSERT_TRUE(service->reload());
  client->send_record(ensemble->write_call(Xid{6}, 7, 0, pattern(100, 1)).view());
  EXPECT_TRUE(ends());
  client = ensemble->connect();
  begin_tls(*anonymous);
  EXPECT_EQ(status_of_write(pattern(100, 1)), nfs3::Status::kOk) << "who shows none is as good as before";
}

TEST_F(TlsFrontTest, WithoutACertificateOfItsOwnItSaysSo) {
  serve({}, false);
  EXPECT_EQ(answer_to_wish(), "");
  EXPECT_EQ(status_of_write(pattern(100, 1)), nfs3::Status::kOk) << "the connection goes on in clear";
}

// Somebody between could put calls of his own before the client's first encrypted ones.
TEST_F(TlsFrontTest, WhatFollowsTheWishInClearEndsIt) {
  serve();
  rpc::XdrWriter both;
  for (const Buffer& message : {wish(), ensemble->write_call(Xid{5}, 7, 0, pattern(100, 1))}) {
    both.u32(rpc::kLastFragment | static_cast<std::uint32_t>(message.size()));
    both.fixed(message.view());
  }
  client->send(both.view());
  EXPECT_TRUE(ends());
  EXPECT_EQ(server_of_file().calls, 0u);

  client = ensemble->connect();
  ASSERT_EQ(answer_to_wish(), "STARTTLS");
  client->send_record(ensemble->write_call(Xid{5}, 7, 0, pattern(100, 1)).view());
  EXPECT_TRUE(ends()) << "where a handshake is to come";
  EXPECT_EQ(server_of_file().calls, 0u);
  EXPECT_EQ(counted("proxy_tls_failures_total"), 1u);
}

TEST_F(TlsFrontTest, AWishIsANullCallWithNothingInItsCredential) {
  serve();
  (void)ensemble->ask(*client, wish(nfs3::Procedure::kGetattr));
  EXPECT_EQ(denial(), rpc::AuthStat::kBadCredential);
  (void)ensemble->ask(*client, wish(nfs3::Procedure::kNull, 8));
  EXPECT_EQ(denial(), rpc::AuthStat::kBadCredential);
  begin_tls(*anonymous);
  (void)ensemble->ask(*client, wish());
  EXPECT_EQ(denial(), rpc::AuthStat::kBadCredential) << "within TLS";
  EXPECT_EQ(status_of_write(pattern(100, 1)), nfs3::Status::kOk);
}

TEST_F(TlsFrontTest, AWishBesideCallsUnderWayIsNotGranted) {
  serve();
  ToyServer& server = server_of_file();
  server.hold = true;
  client->send_record(ensemble->write_call(Xid{5}, 7, 0, pattern(100, 1)).view());
  ASSERT_TRUE(ensemble->run_until([&] { return server.held() == 1; }));
  EXPECT_EQ(answer_to_wish(), "");
}

// Its long WRITEs are refused by their heads; all else is servers' to refuse.
TEST_F(TlsFrontTest, AnExportThatWantsItTakesNoLongRecordInClear) {
  serve();
  EnsembleConfig wanted = ensemble->config;
  wanted.exports[0].transports = TransportSecurities::none();
  wanted.exports[0].transports.add(TransportSecurity::kTls);
  ensemble->settings->set(settings_of(wanted));
  EXPECT_EQ(status_of_write(pattern(kLong, 5)), nfs3::Status::kAcces);
  EXPECT_EQ(counted("access_refused_total{why=\"transport\"}"), 1u);
  begin_tls(*anonymous);
  EXPECT_EQ(status_of_write(pattern(kLong, 5)), nfs3::Status::kOk);
}

// More than may be under way comes at once: the socket is empty then, and the rest lies within TLS.
TEST_F(TlsFrontTest, WhatLiesWithinIsTakenWhenThereIsRoom) {
  ToyOptions options;
  options.limits.connection_calls = 2;
  serve(options);
  begin_tls(*anonymous);
  constexpr std::uint32_t kCalls = 200;
  ensemble->sizes[7] = 300;
  rpc::XdrWriter all;
  for (std::uint32_t xid = 1; xid <= kCalls; ++xid) {
    const Buffer message = ensemble->write_call(Xid{xid}, 7, 0, pattern(300, xid));
    all.u32(rpc::kLastFragment | static_cast<std::uint32_t>(message.size()));
    all.fixed(message.view());
  }
  client->send(all.view());
  EXPECT_TRUE(ensemble->run_until([&] { return client->replies.size() == kCalls; }, 20s))
      << client->replies.size();
}

TEST_F(TlsFrontTest, WhoSaysNothingOfTheHandshakeIsEnded) {
  ToyOptions options;
  options.limits.patience = 200ms;
  options.limits.tick = 50ms;
  serve(options);
  ASSERT_EQ(answer_to_wish(), "STARTTLS");
  EXPECT_TRUE(ends());
}

}  // namespace
}  // namespace slice::proxy::testing
