// TLS under sessions, between rpc::Server and rpc::SocketChannel over loopback, and streams by themselves.
#include "rpc/tls.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "common/testing/temporary_folder.h"
#include "rpc/client.h"
#include "rpc/server.h"
#include "rpc/server_internal.h"
#include "rpc/testing/certificates.h"
#include "rpc/testing/test_programs.h"

namespace slice::rpc {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr std::uint32_t kLoopback = 0x7f000001;

class TlsTest : public ::testing::Test {
 protected:
  TlsTest() {
    dispatcher.add(echo);
    options.keys = &server_keys;
    files = authority.issue("server");
  }
  void serve(bool tls = true) {
    if (tls) ASSERT_TRUE(server_keys.use_tls(files));
    server = std::make_unique<Server>(loop, dispatcher, metrics, options);
    at = server->listen({kLoopback, 0}).value();
  }
  std::unique_ptr<SocketChannel> client(const std::optional<TlsConfig>& its_files) {
    client_keys.push_back(std::make_unique<KeyRing>(kTestKey));
    if (its_files) {
      Status used = client_keys.back()->use_tls(*its_files);
      EXPECT_TRUE(used) << used.error().message;
    }
    return std::make_unique<SocketChannel>(loop, SocketChannel::Options{.keys = client_keys.back().get()});
  }
  Result<Response> call(Channel& by, Buffer arguments = {}, Duration timeout = 1s) {
    Request request{.to = at,
                    .program = EchoProgram::kNumber,
                    .version = 2,
                    .procedure = 1,
                    .arguments = std::move(arguments),
                    .timeout = timeout};
    std::optional<Result<Response>> out;
    spawn(call_into(by, std::move(request), out));
    EXPECT_TRUE(loop.run_until([&] { return out.has_value(); }, 20s));
    return std::move(*out);
  }
  std::uint64_t refused() { return metrics.counter("rpc_sessions_refused_total").value(); }

  const TemporaryFolder temporary;
  const std::string& folder = temporary.path();
  testing::Authority authority{folder};
  TlsConfig files;
  EpollLoop loop;
  Metrics metrics;
  EchoProgram echo;
  KeyRing server_keys{kTestKey};
  std::vector<std::unique_ptr<KeyRing>> client_keys;
  Dispatcher dispatcher{metrics};
  Server::Options options;
  std::unique_ptr<Server> server;
  Endpoint at;
};

TEST_F(TlsTest, MembersCallEachOther) {
  serve();
  auto channel = client(authority.issue("client"));
  ASSERT_TRUE(call(*channel));
  EXPECT_EQ(metrics.counter("rpc_sessions_total").value(), 1u);
  for (std::size_t size : {0u, 4u, 16'000u, 16'384u, 70'000u, 1'000'000u}) {
    Buffer bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes.data()[i] = static_cast<std::uint8_t>(i * 7 >> 3);
    auto answer = call(*channel, bytes.clone(), 10s);
    ASSERT_TRUE(answer) << size << " " << answer.error().message;
    EXPECT_TRUE(std::ranges::equal(answer->results(), bytes.view())) << size;
  }
  EXPECT_EQ(channel->connects(), 2u) << "one for short calls, one for data";
  EXPECT_EQ(refused(), 0u);
}

TEST_F(TlsTest, ManyLongCallsAtOnce) {
  serve();
  auto channel = client(authority.issue("client"));
  std::vector<std::optional<Result<Response>>> answers(40);
  for (auto& each : answers) {
    spawn(call_into(*channel,
                    {.to = at,
                     .program = EchoProgram::kNumber,
                     .version = 2,
                     .procedure = 1,
                     .arguments = Buffer(900'000),
                     .timeout = 20s},
                    each));
  }
  ASSERT_TRUE(loop.run_until(
      [&] { return std::ranges::all_of(answers, [](const auto& each) { return each.has_value(); }); }, 30s));
  for (auto& each : answers) EXPECT_TRUE(*each && (*each)->results().size() == 900'000);
}

TEST_F(TlsTest, ASessionOutsideOfTlsIsRefused) {
  serve();
  EXPECT_FALSE(call(*client(std::nullopt)));
  EXPECT_GT(refused(), 0u);
  EXPECT_EQ(echo.calls, 0u);
}

TEST_F(TlsTest, ClientsFromOutsideNeedNone) {
  serve();
  SocketChannel outside(loop, {});
  EXPECT_TRUE(call(outside));
}

TEST_F(TlsTest, AServerWithoutItTakesNone) {
  serve(false);
  EXPECT_FALSE(call(*client(authority.issue("client"))));
  EXPECT_EQ(echo.calls, 0u);
}

TEST_F(TlsTest, WhomTheServerDoesNotTrust) {
  serve();
  testing::Authority other(folder, "other");
  TlsConfig stranger = other.issue("stranger");
  stranger.authority = authority.path(".crt");  // it trusts the server
  stranger.revoked = authority.path(".crl");
  EXPECT_FALSE(call(*client(stranger))) << "signed by somebody else";
  EXPECT_GE(refused(), 1u);
  EXPECT_FALSE(call(*client(authority.issue("elsewhere", "IP:10.77.0.9")))) << "for another address";
  EXPECT_FALSE(call(*client(authority.issue("nowhere", "DNS:localhost")))) << "for none";
  EXPECT_FALSE(call(*client(authority.issue("old", "IP:127.0.0.1", -30)))) << "expired";
  EXPECT_GE(refused(), 4u) << "each of them";
  EXPECT_EQ(echo.calls, 0u);
}

TEST_F(TlsTest, WhichServerAClientDoesNotTrust) {
  files = authority.issue("server", "IP:10.77.0.9");
  serve();
  EXPECT_FALSE(call(*client(authority.issue("client"))));
  EXPECT_EQ(echo.calls, 0u);
}

TEST_F(TlsTest, ARevokedCertificateCountsNoMore) {
  serve();
  TlsConfig mine = authority.issue("client");
  auto channel = client(mine);
  ASSERT_TRUE(call(*channel));
  authority.revoke();
  EXPECT_TRUE(call(*channel)) << "nobody has read that";
  ASSERT_TRUE(server_keys.tls()->reload());
  EXPECT_EQ(server->end_sessions_of_other_keys(), 1u);
  EXPECT_FALSE(call(*channel));
  const std::uint64_t calls = echo.calls;
  EXPECT_FALSE(call(*client(mine)));
  EXPECT_EQ(echo.calls, calls);
  EXPECT_TRUE(call(*client(authority.issue("again"))));
}

TEST_F(TlsTest, AClientLeavesAServerThatIsRevoked) {
  serve();
  authority.revoke();
  TlsConfig mine = authority.issue("client");
  mine.revoked.clear();  // hears of it later
  auto channel = client(mine);
  ASSERT_TRUE(call(*channel));
  std::filesystem::copy_file(authority.path(".crl"), folder + "/late.crl");
  mine.revoked = folder + "/late.crl";
  auto strict = client(mine);
  EXPECT_FALSE(call(*strict));
}

TEST_F(TlsTest, FilesThatCannotBeUsedAreNamed) {
  auto why = [](const TlsConfig& of) {
    auto tls = Tls::load(of);
    return tls ? "" : tls.error().message;
  };
  EXPECT_EQ(why(files), "");
  TlsConfig bad = files;
  bad.certificate = folder + "/none";
  EXPECT_THAT(why(bad), HasSubstr("/none"));
  bad = files;
  bad.key = authority.issue("other").key;
  EXPECT_THAT(why(bad), HasSubstr("is not the key of the certificate"));
  ::chmod(bad.key.c_str(), 0640);
  EXPECT_THAT(why(bad), HasSubstr("chmod 600"));
  bad = files;
  bad.revoked = files.certificate;
  EXPECT_THAT(why(bad), HasSubstr("no list of revoked"));
  bad = files;
  bad.authority = files.key;
  EXPECT_THAT(why(bad), HasSubstr(files.key));
}

TEST_F(TlsTest, WhatCannotBeReadAgainChangesNothing) {
  serve();
  auto channel = client(authority.issue("client"));
  ASSERT_TRUE(call(*channel));
  std::filesystem::resize_file(files.certificate, 10);
  EXPECT_FALSE(server_keys.tls()->reload());
  EXPECT_EQ(server->end_sessions_of_other_keys(), 0u);
  EXPECT_TRUE(call(*channel));
  EXPECT_TRUE(call(*client(authority.issue("more"))));
}

TEST_F(TlsTest, SaysUntilWhenItsCertificateCounts) {
  const auto now = static_cast<std::uint64_t>(::time(nullptr));
  auto tls = Tls::load(authority.issue("soon", "IP:127.0.0.1", 3600)).value();
  EXPECT_NEAR(static_cast<double>(tls->ends()), static_cast<double>(now + 3600), 5);
  (void)authority.issue("soon", "IP:127.0.0.1", 7200);
  ASSERT_TRUE(tls->reload());
  EXPECT_NEAR(static_cast<double>(tls->ends()), static_cast<double>(now + 7200), 5);
  TlsConfig none{.certificate = "", .key = "", .authority = authority.path(".crt"), .revoked = ""};
  EXPECT_EQ(Tls::load(none, Tls::Peers::kClients).value()->ends(), 0u);
}

// A peer that says half of something and no more holds nobody up, wherever that is; nor does nonsense.
TEST_F(TlsTest, HandshakesThatBreakOffAnywhere) {
  auto client_tls = Tls::load(authority.issue("client")).value();
  auto server_tls = Tls::load(files).value();
  for (std::size_t cut = 0; cut < 900; cut += 7) {
    int one[2], two[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, one), 0);
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, two), 0);
    auto client_end = client_tls->to_server(one[0], kLoopback);
    auto server_end = server_tls->to_client(two[0], kLoopback);
    client_end->write({});
    std::uint8_t bytes[8192];
    const ssize_t n = ::read(one[1], bytes, sizeof bytes);
    ASSERT_GT(n, 100);
    if (cut >= static_cast<std::size_t>(n)) bytes[cut % static_cast<std::size_t>(n)] ^= 0x55;
    ASSERT_GT(::write(two[1], bytes, std::min(cut + 1, static_cast<std::size_t>(n))), 0);
    std::uint8_t into[64];
    iovec vector{into, sizeof into};
    EXPECT_EQ(server_end->read({&vector, 1}), -1);
    EXPECT_FALSE(server_end->established());
    ::shutdown(two[1], SHUT_WR);
    EXPECT_EQ(server_end->read({&vector, 1}), -1);
    EXPECT_EQ(errno, EPROTO);
    EXPECT_FALSE(server_end->failure().empty());
    for (int fd : {one[0], one[1], two[0], two[1]}) ::close(fd);
  }
}

TEST_F(TlsTest, OlderVersionsAreRefused) {
  serve();
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
  SSL_CTX_set_max_proto_version(context.get(), TLS1_2_VERSION);
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), &SSL_free);
  int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const SocketAddress address(at);
  ASSERT_EQ(::connect(fd, address.get(), address.length()), 0);
  SSL_set_fd(ssl.get(), fd);
  ::fcntl(fd, F_SETFL, O_NONBLOCK);
  int result = 0;
  ASSERT_TRUE(loop.run_until(
      [&] {
        result = SSL_connect(ssl.get());
        return SSL_get_error(ssl.get(), result) != SSL_ERROR_WANT_READ;
      },
      5s));
  EXPECT_NE(result, 1);
  ASSERT_TRUE(loop.run_until([&] { return refused() == 1; }, 5s));
  ::close(fd);
}

}  // namespace
}  // namespace slice::rpc
