#include "proxy/programs/quota_program.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "service/testing/service_fixture.h"

namespace slice::proxy {
namespace {

constexpr QuotaId kAnn{QuotaKind::kUser, 1001}, kStaff{QuotaKind::kGroup, 50};
constexpr std::uint16_t kReserved = 700, kUsers = 40'000;

class QuotaProgramTest : public service::testing::ServiceFixture {
 protected:
  QuotaProgramTest() : ServiceFixture("proxy1") {
    Settings settings = *settings_.get();
    settings.exports = {
        {.clients = Network::of_v4(kNetwork, 0xffffff00), .squash = ExportConfig::Squash::kNone},
        {.clients = Network::of_v4(kSquashed, 0xffffff00), .squash = ExportConfig::Squash::kRoot}};
    settings_.set(std::move(settings));
  }
  // The status, or nothing where there is no answer.
  std::optional<rquota::Status> ask(rpc::Program& program, std::uint32_t uid, QuotaId whose,
                                    std::uint32_t network = kNetwork, std::uint16_t port = kReserved) {
    rpc::XdrWriter arguments, results;
    encode(arguments, rquota::Args{"/", whose}, program.version());
    rpc::Call call;
    call.procedure = 1;
    call.client = {network + 2, port};
    call.arguments = arguments.view();
    call.has_auth_sys = true;
    call.credential.uid = uid;
    call.credential.gid = uid;
    call.credential.groups = {50};
    if (run(program.handle(call, results)) != rpc::Outcome::kReply) return std::nullopt;
    EXPECT_TRUE(decode(results.view(), result_));
    return result_.status;
  }
  std::optional<rquota::Status> ask(std::uint32_t uid, QuotaId whose, std::uint32_t network = kNetwork,
                                    std::uint16_t port = kReserved) {
    return ask(second_, uid, whose, network, port);
  }
  QuotaProgram::Ask manager() {
    return [this](wire::QuotaUsageArgs args) -> Task<Result<wire::QuotaUsageResult>> {
      if (silent_) co_return fail(Errc::kTimedOut, "");
      wire::QuotaUsageResult result;
      if (args.whose == kAnn || args.whose == kStaff)
        result.quotas.push_back({args.whose, {.space = {0, 1 << 20, 0}, .files = {}}, {4096, 3}});
      co_return result;
    };
  }
  static constexpr std::uint32_t kNetwork = 0x0a4d0100, kSquashed = 0x0a4d6400;
  static constexpr auto kOk = rquota::Status::kOk, kNone = rquota::Status::kNoQuota,
                        kDenied = rquota::Status::kPermission;
  bool silent_ = false;
  rquota::Result result_;
  QuotaProgram first_{context_, rquota::kVersion, manager()};
  QuotaProgram second_{context_, rquota::kExtendedVersion, manager()};
};

TEST_F(QuotaProgramTest, AUserSeesTheirOwnAndThatOfTheirGroups) {
  EXPECT_EQ(ask(1001, kAnn), kOk);
  EXPECT_EQ(result_.figures.hard_blocks, 1024u);
  EXPECT_EQ(result_.figures.blocks, 4u);
  EXPECT_EQ(result_.figures.files, 3u);
  EXPECT_EQ(ask(first_, 1001, kAnn), kOk) << "version 1";
  EXPECT_EQ(ask(1001, kStaff), kOk);
  EXPECT_EQ(ask(1002, {QuotaKind::kUser, 1002}), kNone);
  EXPECT_EQ(ask(1002, kAnn), kDenied);
  EXPECT_EQ(ask(1002, {QuotaKind::kGroup, 51}), kDenied);
}

TEST_F(QuotaProgramTest, TheSuperuserSeesAllWhereTheExportHasOne) {
  EXPECT_EQ(ask(0, kAnn), kOk);
  EXPECT_EQ(ask(0, {QuotaKind::kUser, 1002}), kNone);
  EXPECT_EQ(ask(0, kAnn, kSquashed), kDenied);
  EXPECT_EQ(ask(1001, kAnn, kSquashed), kOk);
  EXPECT_EQ(ask(0, kAnn, kNetwork, kUsers), kDenied) << "any user can send that";
  EXPECT_EQ(ask(1001, kAnn, kNetwork, kUsers), kOk) << "quota(1) of a user has no reserved port";
  EXPECT_EQ(ask(1001, kAnn, 0x0a090000), kDenied) << "no export";
}

TEST_F(QuotaProgramTest, GarbageAndSilence) {
  rpc::XdrWriter results;
  rpc::Call call;
  call.client = {kNetwork + 2, kReserved};
  call.arguments = as_bytes("garbage!");
  for (std::uint32_t procedure : {1u, 2u}) {
    call.procedure = procedure;
    EXPECT_EQ(run(second_.handle(call, results)), rpc::Outcome::kGarbage);
  }
  for (std::uint32_t procedure : {3u, 4u, 99u}) {
    call.procedure = procedure;
    EXPECT_EQ(run(second_.handle(call, results)), rpc::Outcome::kNoProcedure) << "nobody sets limits so";
  }
  silent_ = true;
  EXPECT_EQ(ask(1001, kAnn), std::nullopt);
}

}  // namespace
}  // namespace slice::proxy
