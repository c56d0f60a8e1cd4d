// Copies of a backing set that differ: which is right, and that the others are made anew from it.
#include <gtest/gtest.h>

#include "storagenode/testing/owner_fixture.h"

namespace slice::storagenode {
namespace {

using namespace std::chrono_literals;

TEST_F(OwnerTest, WhatADiskHasLostIsMadeAnewFromAnotherCopy) {
  Owner& owner = begin(here_);
  std::string text(3 << 20, 'a');
  for (std::size_t i = 0; i < text.size(); i += 100) text[i] = static_cast<char>('a' + i / 100 % 26);
  ASSERT_TRUE(write(owner, "log/1", text));
  loop_.advance(1min);
  ASSERT_GE(count("backing_scrub_passes_total"), 1u);
  EXPECT_EQ(differing(), 0u);
  damage(0, "log+1", (2 << 20) + 5);
  damage(1, "log+1", 7);
  loop_.advance(5min);
  EXPECT_EQ(count("backing_damaged_total"), 2u);
  EXPECT_EQ(differing(), 0u);
  for (std::size_t i : {0, 1}) EXPECT_TRUE(contents_on(i, "log+1") == text) << i;
  // Cut short, and longer than it is.
  const std::uint64_t passes = count("backing_scrub_passes_total");
  change_on(0, "log+1", [](storage::File& file) { return file.truncate(100); });
  change_on(1, "log+1", [&](storage::File& file) { return file.write(text.size(), as_bytes("more")); });
  loop_.advance(10min);
  ASSERT_GT(count("backing_scrub_passes_total"), passes);
  EXPECT_EQ(differing(), 0u);
  for (std::size_t i : {0, 1}) EXPECT_TRUE(contents_on(i, "log+1") == text) << i;
  EXPECT_EQ(members().size(), 2u);
  EXPECT_EQ(owner.lost, "");
}

TEST_F(OwnerTest, OfTwoCopiesThatWereNeverSeenAlikeNoneIsTakenForRight) {
  Owner& first = begin(here_);
  ASSERT_TRUE(write(first, "a", "what was written"));
  kill(first);
  damage(1, "a", 3);
  Owner& second = begin(here_);
  loop_.advance(1min);
  EXPECT_EQ(differing(), 1u);
  EXPECT_EQ(count("backing_damaged_total"), 0u);
  // What is written now is.
  ASSERT_TRUE(write(second, "a", "and once more"));
  loop_.advance(10min);
  EXPECT_EQ(differing(), 0u);
}

TEST_F(OwnerTest, EachRunReadsFromAnotherCopyThanTheOneBefore) {
  ASSERT_TRUE(write(begin(here_), "a", "what was written"));
  kill(*owners_.back());
  damage(0, "a", 0);
  std::set<std::string> seen;
  for (int i = 0; i < 2; ++i) {
    seen.insert(read(begin(here_), "a"));
    kill(*owners_.back());
  }
  EXPECT_EQ(seen, (std::set<std::string>{"what was written", "#hat was written"}));
}

TEST_F(OwnerTest, OfThreeCopiesWhatMostHaveIsRight) {
  copies_ = 3;
  Owner& first = begin(here_);
  ASSERT_TRUE(write(first, "a", "what was written"));
  kill(first);
  damage(0, "a", 3);
  begin(here_);
  loop_.advance(1min);
  EXPECT_EQ(differing(), 0u);
  EXPECT_EQ(count("backing_damaged_total"), 1u);
  EXPECT_EQ(contents_on(0, "a"), "what was written");
}

TEST_F(OwnerTest, WhatIsWrittenWhileCopiesAreComparedIsNoDamage) {
  Owner& owner = begin(here_);
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(write(owner, "log/1", fmt::format("{:06d}", i), static_cast<std::uint64_t>(i) * 1000));
    loop_.advance(50ms);
  }
  EXPECT_GE(count("backing_scrub_passes_total"), 2u);
  EXPECT_EQ(count("backing_damaged_total"), 0u);
  EXPECT_EQ(differing(), 0u);
}

}  // namespace
}  // namespace slice::storagenode
