#include "cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace slice::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

// A program with some of everything.
struct Toy {
  Toy() {
    program.fallthrough();
    program.require_subcommand();
    program.add_option("--config", config, "a file").capture_default();
    program.add_option("--timeout", timeout, "seconds").in_range(0.1, 600.0);
    copy = program.add_subcommand("copy", "copies");
    copy.add_option("from", from, "which").required();
    copy.add_option("--to", to, "where to").delimiter(',');
    copy.add_option("--how", how, "fast or safe").one_of_any_case({"fast", "safe"});
    copy.add_option("--port", port, "of it");
    copy.add_flag("--force", force, "in any case");
    other = program.add_subcommand("other", "somebody else's");
    other.pass_on();
  }
  std::optional<int> parse(std::vector<std::string> words) { return program.parse(std::move(words)); }

  Program program{"a toy"};
  Command copy, other;
  std::string config = "/etc/toy", from, how;
  double timeout = 1;
  std::uint16_t port = 0;
  std::vector<std::string> to;
  bool force = false;
};

TEST(CommandLine, TakesWhatItIsGiven) {
  Toy toy;
  EXPECT_EQ(toy.parse({"copy", "here", "--to", "a,b", "--how", "SAFE", "--port", "2049", "--timeout", "2.5",
                       "--force"}),
            std::nullopt);
  EXPECT_TRUE(toy.copy.parsed());
  EXPECT_FALSE(toy.other.parsed());
  EXPECT_EQ(toy.from, "here");
  EXPECT_THAT(toy.to, ElementsAre("a", "b"));
  EXPECT_EQ(toy.how, "safe");
  EXPECT_EQ(toy.port, 2049);
  EXPECT_EQ(toy.timeout, 2.5);
  EXPECT_TRUE(toy.force);
  EXPECT_EQ(toy.config, "/etc/toy");
  EXPECT_EQ(toy.copy.count("--to"), 2U);
  EXPECT_EQ(toy.copy.count("--port"), 1U);
}

TEST(CommandLine, RefusesWhatIsWrong) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {},
           {"copy"},
           {"copy", "here", "there"},
           {"copy", "here", "--timeout", "0"},
           {"copy", "here", "--timeout", "soon"},
           {"copy", "here", "--how", "well"},
           {"copy", "here", "--port", "65536"},
           {"copy", "here", "--wherever"},
       }) {
    EXPECT_THAT(Toy().parse(words), Optional(kBadUsage)) << words.size();
  }
}

TEST(CommandLine, SaysWhichCommandMayHaveBeenMeant) {
  ::testing::internal::CaptureStderr();
  const char* words[] = {"/usr/bin/toy", "--timeout", "2", "cpy"};
  EXPECT_THAT(Toy().program.parse(4, words), Optional(kBadUsage));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("toy: there is no command 'cpy'; did you mean 'copy'?"));
}

TEST(CommandLine, HelpEndsTheProcess) {
  for (const char* word : {"--help", "--version"}) {
    ::testing::internal::CaptureStdout();
    EXPECT_THAT(Toy().parse({word}), Optional(0)) << word;
    EXPECT_NE(::testing::internal::GetCapturedStdout(), "");
  }
}

TEST(CommandLine, PassesOnWhatIsSomebodyElses) {
  Toy toy;
  EXPECT_EQ(toy.parse({"other", "--help", "--timeout", "x"}), std::nullopt);
  EXPECT_THAT(toy.other.remaining(), ElementsAre("--help", "--timeout", "x"));
  EXPECT_EQ(toy.timeout, 1);
}

}  // namespace
}  // namespace slice::cli
