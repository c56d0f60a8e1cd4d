// The program itself: what it says to words that it does not know, and its exit code; and sizes as it shows
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

#include "control/slicectl/render.h"

namespace slice::slicectl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(BytesText, IsReadable) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(5ull << 40), "5.0 TiB");
  EXPECT_EQ(bytes_text(~0ull), "16.0 EiB");
}

struct Said {
  int code = -1;
  std::string text;
};
Said slicectl(const std::string& words) {
  Said said;
  FILE* pipe = ::popen((std::string(SLICE_SLICECTL) + " " + words + " 2>&1").c_str(), "r");
  std::array<char, 4096> piece{};
  while (std::size_t got = std::fread(piece.data(), 1, piece.size(), pipe))
    said.text.append(piece.data(), got);
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) said.code = WEXITSTATUS(status);
  return said;
}

TEST(SlicectlProgram, NamesTheCommandThatIsMeant) {
  for (const char* words : {"statu", "--json statu", "statu --config /nowhere"}) {
    Said said = slicectl(words);
    EXPECT_EQ(said.code, 2) << words;
    EXPECT_EQ(said.text, "slicectl: there is no command 'statu'; did you mean 'status'?\n") << words;
  }
  EXPECT_THAT(slicectl("policy sho /").text, HasSubstr("did you mean 'show'?"));
  EXPECT_EQ(slicectl("everything").text, "slicectl: there is no command 'everything'\n");
  EXPECT_THAT(slicectl("").text, HasSubstr("subcommand is required"));
  EXPECT_THAT(slicectl("status --colour").text, HasSubstr("--colour"));
}

TEST(SlicectlProgram, RefusesADirectoryForAConfiguration) {
  for (const std::string& words :
       {"check " + ::testing::TempDir(), "--config " + ::testing::TempDir() + " status"}) {
    Said said = slicectl(words);
    EXPECT_EQ(said.code, 2) << words;
    EXPECT_THAT(said.text, HasSubstr("is not a file but a directory")) << words;
  }
}

TEST(SlicectlProgram, RefusesWhatNoServerCanBe) {
  EXPECT_THAT(slicectl("server set store1 --weight 0").text, HasSubstr("slicectl server drain"));
  EXPECT_THAT(slicectl("server set store1").text, HasSubstr("nothing to set is named"));
  EXPECT_THAT(slicectl("server set store1 --weight much").text, HasSubstr("'much' is not a size"));
  for (const char* words : {"server set store1 --port 9", "server set store1", "server remove"})
    EXPECT_EQ(slicectl(words).code, 2) << words;
}

TEST(SlicectlProgram, TellsItsVersion) {
  Said said = slicectl("--version");
  EXPECT_EQ(said.code, 0);
  EXPECT_THAT(said.text, HasSubstr("slice 0."));
}

}  // namespace
}  // namespace slice::slicectl
