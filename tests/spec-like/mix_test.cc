#include "tests/spec-like/mix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/spec-like/client.h"

namespace slice::load {
namespace {

using ::testing::HasSubstr;

Mix built_in(std::string_view name) {
  auto mix = parse_mix(built_in_mix(name), std::string(name));
  EXPECT_TRUE(mix) << mix.error().message;
  return mix ? *mix : Mix{};
}

TEST(Mix, EveryBuiltInOneIsOne) {
  for (std::string_view name : built_in_mixes()) {
    const Mix mix = built_in(name);
    EXPECT_EQ(mix.name, name);
    EXPECT_FALSE(mix.transactions.empty());
  }
}

TEST(Mix, SpecsfsDrawsTheSharesOfSpecsfs97) {
  const Mix mix = built_in("specsfs");
  const std::map<Step, double> wanted{{Step::kLookup, 27},  {Step::kRead, 18},    {Step::kWrite, 9},
                                      {Step::kGetattr, 11}, {Step::kReadlink, 7}, {Step::kReaddir, 2},
                                      {Step::kCreate, 1},   {Step::kRemove, 1},   {Step::kFsstat, 1},
                                      {Step::kSetattr, 1},  {Step::kAccess, 7},   {Step::kReaddirplus, 9},
                                      {Step::kCommit, 5}};
  std::map<Step, double> drawn;
  sim::Random random(1);
  const Chooser chooser = transactions_of(mix);
  constexpr int kDraws = 200'000;
  for (int i = 0; i < kDraws; ++i)
    drawn[mix.transactions[chooser.draw(random)].steps.at(0)] += 100.0 / kDraws;
  double sum = 0;
  for (auto [step, share] : wanted) {
    sum += share;
    EXPECT_NEAR(drawn[step], share / 0.99, 0.4) << step_name(step);  // the standard's numbers add up to 99
  }
  EXPECT_EQ(drawn.size(), wanted.size());
  EXPECT_EQ(sum, 99);
}

TEST(Mix, SpecsfsHas94PerCentOfFilesUpTo64KiB) {
  const Mix mix = built_in("specsfs");
  sim::Random random(2);
  const Chooser chooser = sizes_of(mix);
  constexpr int kDraws = 200'000;
  int small = 0;
  double bytes = 0;
  for (int i = 0; i < kDraws; ++i) {
    const std::uint64_t size = mix.sizes[chooser.draw(random)].bytes;
    if (size <= 65536) ++small;
    bytes += static_cast<double>(size);
  }
  EXPECT_NEAR(100.0 * small / kDraws, 94, 0.3);
  EXPECT_NEAR(bytes / kDraws / mix.mean_file_size(), 1, 0.02);
  EXPECT_EQ(mix.bytes_per_op, 10u << 20);
  EXPECT_DOUBLE_EQ(mix.working_set, 0.1);
}

TEST(Mix, UntarIsThePapersSevenOperations) {
  const Mix mix = built_in("untar");
  ASSERT_EQ(mix.transactions.size(), 1u);
  EXPECT_DOUBLE_EQ(mix.steps_per_transaction(), 7);
}

struct Bad {
  const char* text;
  const char* says;
};
class BadMix : public ::testing::TestWithParam<Bad> {};
TEST_P(BadMix, IsRefused) {
  auto mix = parse_mix(GetParam().text, "bad.toml");
  ASSERT_FALSE(mix);
  EXPECT_THAT(mix.error().message, HasSubstr("bad.toml"));
  EXPECT_THAT(mix.error().message, HasSubstr(GetParam().says));
}
INSTANTIATE_TEST_SUITE_P(
    All, BadMix,
    ::testing::Values(
        Bad{"name = 1", "a string is expected"}, Bad{"name = \"x\"", "neither"}, Bad{"", "lacks 'name'"},
        Bad{"name = \"x\"\n[operations]\nlookpu = 1", "'lookpu' is no operation"},
        Bad{"name = \"x\"\n[operations]\nlookup = -1", "weight of lookup"},
        Bad{"name = \"x\"\n[operations]\nlookup = \"a\"", "weight of lookup"},
        Bad{"name = \"x\"\n[operations]\nlookup = 1", "sizes"},
        Bad{"name = \"x\"\n[operations]\nlookup = 1\n[files]\nsizes = { big = 1 }", "'big' is not a size"},
        Bad{"name = \"x\"\n[operations]\nlookup = 1\n[files]\nsizes = { 1KiB = 1 }\nworking_set = 2",
            "from 0 to 1"},
        Bad{"name = \"x\"\n[operations]\nlookup = 1\n[files]\nsizes = { 1KiB = 1 }\nfiles = 2",
            "knows no key 'files'"},
        Bad{"name = \"x\"\n[operations]\nlookup = 1\n[files]\nsizes = { 1KiB = 1 }\n[io]\ntransfer = 1000",
            "multiple"},
        Bad{"name = \"x\"\n[[transaction]]\nsteps = []\n[files]\nsizes = { 1KiB = 1 }", "1 to 50 steps"},
        Bad{"name = \"x\"\n[[transaction]]\nsteps = [\"remove\", \"read\"]\n[files]\nsizes = { 1KiB = 1 }",
            "after remove"},
        Bad{"name = \"x\"\n[[transaction]]\nsteps = [\"read\", \"create\"]\n[files]\nsizes = { 1KiB = 1 }",
            "create"},
        Bad{"name = \"x\"\n[[transaction]]\nsteps = [\"readdir\", \"read\"]\n[files]\nsizes = { 1KiB = 1 }",
            "of their own"},
        Bad{"[", "table's name"}, Bad{"name = ", "bad.toml:1"}));

TEST(Pacer, KeepsTheRateAndIsTheSameForTheSameSeed) {
  const MonoTime begin{};
  Pacer pacer(5, 1000, begin), same(5, 1000, begin);
  double squares = 0;
  constexpr int kDraws = 100'000;
  MonoTime last = begin;
  for (int i = 0; i < kDraws; ++i) {
    EXPECT_EQ(pacer.due(), same.due());
    const double gap = std::chrono::duration<double>(pacer.due() - last).count();
    squares += gap * gap;
    last = pacer.due();
    pacer.next();
    same.next();
  }
  const double seconds = std::chrono::duration<double>(last - begin).count();
  EXPECT_NEAR(seconds, kDraws / 1000.0, 2);
  // Exponential gaps: the mean square is twice the square of the mean.
  EXPECT_NEAR(squares / kDraws / 1e-6, 2, 0.1);
}

}  // namespace
}  // namespace slice::load
