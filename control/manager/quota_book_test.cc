#include "control/manager/quota_book.h"

#include <gtest/gtest.h>

#include "service/testing/service_fixture.h"

namespace slice::manager {
namespace {

using namespace std::chrono_literals;

constexpr QuotaId kAnn{QuotaKind::kUser, 1001}, kStaff{QuotaKind::kGroup, 50};

class QuotaBookTest : public service::testing::ServiceFixture {
 protected:
  QuotaBookTest() : ServiceFixture("manager1"), wire_tables_(tables_.get()->wire()) {
    // Two directory servers; the second one's number stands in for a member.
    auto& sites = wire_tables_.sites[0];
    for (std::size_t i = 0; i < sites.size(); i += 2) sites[i] = kSecond;
    first_ = sites[1];
    restart();
  }
  void restart() {
    books_.push_back(std::make_unique<QuotaBook>(
        loop_, metrics_,
        QuotaBook::Hooks{.settings = settings_, .tables = wire_tables_, .change = [this](auto change) {
                           return publish(std::move(change));
                         }}));
  }
  Task<Result<std::vector<std::string>>> publish(std::function<Status(Settings&)> change) {
    Settings next = *settings_.get();
    ++next.generation.value;
    SLICE_CO_RETURN_IF_ERROR(change(next));
    ++published_;
    settings_.set(std::move(next));
    co_return std::vector<std::string>{};
  }
  QuotaBook& book() { return *books_.back(); }
  std::string set(QuotaId whose, std::uint32_t fields, const Quota& quota) {
    return run(book().change({.whose = whose, .fields = fields, .quota = quota})).refused;
  }
  wire::QuotaReportResult tell(std::uint32_t server, std::vector<wire::QuotaFigure> figures,
                               std::uint64_t seen = 0) {
    return book().report({.server = server, .counted = true, .figures = std::move(figures), .seen = seen});
  }
  Quota quota(QuotaId whose) { return settings_.get()->quotas.at(whose); }

  static constexpr std::uint32_t kSecond = 77;
  static constexpr auto kSpace = wire::ChangeQuotaArgs::kSpace, kFiles = wire::ChangeQuotaArgs::kFiles,
                        kGrace = wire::ChangeQuotaArgs::kGrace;
  wire::Tables wire_tables_;
  std::uint32_t first_ = 0;
  unsigned published_ = 0;
  std::vector<std::unique_ptr<QuotaBook>> books_;
};

TEST_F(QuotaBookTest, LimitsAreSetByFieldAndRemoved) {
  EXPECT_EQ(set(kAnn, kSpace, {.space = {10, 20, 99}, .files = {}}), "");
  EXPECT_EQ(set(kAnn, kFiles, {.space = {}, .files = {3, 4, 0}}), "");
  EXPECT_EQ(quota(kAnn), (Quota{.space = {10, 20, 0}, .files = {3, 4, 0}}));
  EXPECT_EQ(set(kAnn, kGrace, {.space = {}, .files = {}, .grace = 60}), "");
  EXPECT_EQ(quota(kAnn).grace, 60u);
  EXPECT_NE(set(kAnn, kSpace, {.space = {30, 20, 0}, .files = {}}), "") << "soft above hard";
  EXPECT_NE(set(kStaff, kSpace, {}), "") << "no limit at all";
  EXPECT_EQ(quota(kAnn).space.soft, 10u);
  EXPECT_EQ(run(book().change({.whose = kAnn, .remove = true, .quota = {}})).refused, "");
  EXPECT_NE(run(book().change({.whose = kAnn, .remove = true, .quota = {}})).refused, "");
  EXPECT_TRUE(settings_.get()->quotas.empty());
}

TEST_F(QuotaBookTest, SumsAreKnownWhenAllServersHaveTold) {
  set(kAnn, kSpace, {.space = {0, 100, 0}, .files = {}});
  EXPECT_EQ(tell(first_, {{kAnn, {10, 1}, 5}}).version, 0u);
  EXPECT_FALSE(book().usage({.all = true, .whose = {}}).known);
  auto told = tell(kSecond, {{kAnn, {20, 2}, 6}});
  ASSERT_NE(told.version, 0u);
  ASSERT_EQ(told.sums.size(), 1u);
  EXPECT_EQ(told.sums[0], (wire::QuotaFigure{kAnn, {30, 3}, 11}));
  auto same = book().report({.server = first_, .counted = true, .same = true, .seen = told.version});
  EXPECT_FALSE(same.again);
  EXPECT_EQ(same.version, told.version);
  EXPECT_TRUE(same.sums.empty());
  // Who counts anew goes by what it told before.
  EXPECT_EQ(book().report({.server = first_, .counted = false}).sums, told.sums);
  const auto usage = book().usage({.whose = kAnn});
  ASSERT_EQ(usage.quotas.size(), 1u);
  EXPECT_TRUE(usage.known);
  EXPECT_EQ(usage.quotas[0].usage, (QuotaUsage{30, 3}));
  EXPECT_TRUE(book().usage({.whose = kStaff}).quotas.empty());
  // A server whose sites are another's by now counts no more.
  for (std::uint32_t& server : wire_tables_.sites[0]) server = first_;
  EXPECT_EQ(tell(first_, {{kAnn, {31, 3}, 0}}).sums[0].usage, (QuotaUsage{31, 3}));
}

TEST_F(QuotaBookTest, ANewTermAsksForFiguresAgain) {
  set(kAnn, kSpace, {.space = {0, 100, 0}, .files = {}});
  tell(first_, {{kAnn, {10, 1}, 5}});
  const auto before = tell(kSecond, {});
  loop_.advance(1s);
  restart();
  auto same = book().report({.server = first_, .counted = true, .same = true, .seen = before.version});
  EXPECT_TRUE(same.again);
  EXPECT_EQ(same.version, 0u) << "the sums of before go on to count";
  tell(kSecond, {});
  EXPECT_NE(tell(first_, {{kAnn, {10, 1}, 5}}).version, before.version);
}

TEST_F(QuotaBookTest, WhoIsOverASoftLimitIsNotedAndNoMore) {
  set(kAnn, kSpace, {.space = {100, 200, 0}, .files = {}});
  tell(kSecond, {});
  tell(first_, {{kAnn, {100, 1}, 0}});
  loop_.advance(2s);
  const unsigned before = published_;
  EXPECT_EQ(quota(kAnn).space.over_since, 0u) << "as much as the limit is not over it";
  tell(first_, {{kAnn, {101, 1}, 0}});
  loop_.advance(2s);
  const std::uint64_t since = quota(kAnn).space.over_since;
  EXPECT_NE(since, 0u);
  EXPECT_EQ(published_, before + 1);
  loop_.advance(100s);
  tell(first_, {{kAnn, {150, 1}, 0}});
  loop_.advance(2s);
  EXPECT_EQ(quota(kAnn).space.over_since, since) << "it goes on since then";
  // Over the new limit as well.
  set(kAnn, kSpace, {.space = {90, 200, 0}, .files = {}});
  EXPECT_EQ(quota(kAnn).space.over_since, since);
  tell(first_, {{kAnn, {50, 1}, 0}});
  loop_.advance(2s);
  EXPECT_EQ(quota(kAnn).space.over_since, 0u);
}

TEST_F(QuotaBookTest, ThereAreAtMostSoMany) {
  Settings many = *settings_.get();
  for (std::uint32_t id = 0; id < kMaxQuotas; ++id) many.quotas[{QuotaKind::kUser, id}].files.hard = 1;
  settings_.set(std::move(many));
  EXPECT_NE(set(kStaff, kFiles, {.space = {}, .files = {0, 1, 0}}), "");
  EXPECT_EQ(set({QuotaKind::kUser, 1}, kFiles, {.space = {}, .files = {0, 2, 0}}), "");
}

}  // namespace
}  // namespace slice::manager
