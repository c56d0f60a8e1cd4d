#include "tests/spec-like/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/spec-like/plot.h"

namespace slice::load {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Report sample(std::string system, double achieved_of_offered, std::uint64_t latency_ns) {
  Report report{.system = std::move(system),
                .server = "10.77.0.1:2049",
                .mix = "specsfs",
                .transport = "tcp",
                .seed = 3,
                .processes = 2,
                .clients = 4,
                .warm_up = 1,
                .points = {}};
  for (double offered : {100.0, 200.0}) {
    Point point{.offered = offered, .seconds = 10, .files = 50, .tally = {}};
    auto& operation = point.tally.of(nfs3::Procedure::kGetattr);
    operation.completed = static_cast<std::uint64_t>(offered * 10 * achieved_of_offered);
    operation.latency.add(latency_ns, 1000);
    point.tally.bytes_read = 123;
    point.tally.texts = {"WRONG \xff"};
    report.points.push_back(std::move(point));
  }
  return report;
}

TEST(Report, JsonBringsEverythingBack) {
  Report report = sample("one", 1, 2'000'000);
  report.points[1].tally.violations = 4;
  auto back = report_from(to_json_text(report), "a.json");
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->system, "one");
  EXPECT_EQ(back->clients, 4u);
  ASSERT_EQ(back->points.size(), 2u);
  EXPECT_DOUBLE_EQ(back->points[0].offered, 100);
  EXPECT_DOUBLE_EQ(back->points[0].achieved(), 100);
  EXPECT_EQ(back->points[0].tally.latency().quantile(0.99), report.points[0].tally.latency().quantile(0.99));
  EXPECT_EQ(back->points[1].tally.bytes_read, 123u);
  EXPECT_EQ(back->violations(), 4u);
}

TEST(Report, WhatIsNoneIsRefused) {
  const std::string text = to_json_text(sample("one", 1, 2'000'000));
  EXPECT_FALSE(report_from("", "a"));
  EXPECT_FALSE(report_from("[]", "a"));
  EXPECT_FALSE(report_from("{\"format\":\"other\"}", "a"));
  std::string other = text;
  other.replace(other.find("GETATTR"), 7, "GETTATR");
  auto back = report_from(other, "a.json");
  ASSERT_FALSE(back);
  EXPECT_THAT(back.error().message, HasSubstr("GETTATR"));
  for (std::size_t cut = 1; cut < text.size(); cut += 97) EXPECT_FALSE(report_from(text.substr(0, cut), "a"));
  EXPECT_FALSE(read_report("/nonexistent/report.json"));
}

TEST(Report, TextNamesWhatWentWrong) {
  Report report = sample("one", 1, 2'000'000);
  EXPECT_THAT(to_text(report), Not(HasSubstr("VIOLATIONS")));
  EXPECT_THAT(to_text(report), HasSubstr("GETATTR"));
  report.points[0].tally.violations = 3;
  report.points[0].tally.not_sent = 17;
  EXPECT_THAT(to_text(report), HasSubstr("3 VIOLATIONS"));
  EXPECT_THAT(to_text(report), HasSubstr("17 operations were due and not begun"));
}

TEST(Compare, ShowsRatiosOfLoadsThatBothHave) {
  const Report a = sample("one", 1, 2'000'000);
  Report b = sample("two", 0.5, 6'000'000);
  b.points[1].offered = 300;
  const std::string text = compare(a, b);
  EXPECT_THAT(text, HasSubstr("0.50"));
  EXPECT_THAT(text, HasSubstr("3.00"));
  EXPECT_THAT(text, HasSubstr("most achieved: A 200.0, B 100.0"));
  EXPECT_THAT(text, Not(HasSubstr("300.0 ")));
  EXPECT_THAT(text, Not(HasSubstr("mixes differ")));
  b.mix = "untar";
  EXPECT_THAT(compare(a, b), HasSubstr("mixes differ"));
}

TEST(Plot, ScriptHasALineForEachReportAndQuotesNames) {
  Report odd = sample("a \"system\"\n`touch x`", 1, 2'000'000);
  const std::string script = plot_script({sample("one", 1, 2'000'000), odd}, "out.svg");
  EXPECT_THAT(script, HasSubstr("$R0 using 1:2"));
  EXPECT_THAT(script, HasSubstr("$R1 using 2:4"));
  EXPECT_THAT(script, HasSubstr("200 200 2"));
  EXPECT_THAT(script, HasSubstr("a \\\"system\\\""));
  EXPECT_THAT(script, Not(HasSubstr("`")));
}

TEST(Plot, RefusesOtherPictures) {
  EXPECT_FALSE(plot({sample("one", 1, 1)}, "out.gif"));
  EXPECT_FALSE(plot({}, "out.svg"));
}

}  // namespace
}  // namespace slice::load
