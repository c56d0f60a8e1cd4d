#include "common/did_you_mean.h"

#include <gtest/gtest.h>

namespace slice {
namespace {

const std::vector<std::string> kKnown{"status", "servers", "tables", "where",
                                      "move",   "metrics", "fsck",   "check"};

TEST(DidYouMean, FindsWhatIsNearest) {
  for (const char* word : {"statu", "statuss", "stauts", "ststus", "Status", "tatu"}) {
    const std::string said = did_you_mean(word, kKnown);
    EXPECT_EQ(said, std::string(word) == "tatu" ? "" : "; did you mean 'status'?") << word;
  }
  EXPECT_EQ(did_you_mean("fcsk", kKnown), "; did you mean 'fsck'?");
  EXPECT_EQ(did_you_mean("server", kKnown), "; did you mean 'servers'?");
}

TEST(DidYouMean, SaysNothingOfWordsThatAreFar) {
  for (const std::string& word : {std::string(), std::string("m"), std::string("help"), std::string("format"),
                                  std::string(100'000, 's')}) {
    EXPECT_EQ(did_you_mean(word, kKnown), "");
  }
  EXPECT_EQ(did_you_mean("status", {}), "");
}

}  // namespace
}  // namespace slice
