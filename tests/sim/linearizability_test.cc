// What the checker takes, and above all what it refuses.
#include "tests/sim/linearizability.h"

#include <gtest/gtest.h>

namespace slice::sim {

using NfsStatus = nfs3::Status;

namespace {

using nfs3::CreateMode;
using nfs3::FileType;

constexpr ObjectId kRoot = 1;

class LinearizabilityTest : public ::testing::Test {
 protected:
  // Between instants `start` and `end`; 0: unanswered.
  Operation& add(std::uint64_t start, std::uint64_t end, Operation operation) {
    operation.start = start;
    operation.end = end;
    operation.answered = end != 0;
    history_.push_back(std::move(operation));
    return history_.back();
  }
  void create(std::uint64_t start, std::uint64_t end, const char* name, ObjectId made,
              NfsStatus status = NfsStatus::kOk, CreateMode how = CreateMode::kGuarded) {
    add(start, end,
        {.kind = Kind::kCreate, .object = kRoot, .name = name, .how = how, .status = status, .result = made});
  }
  void mkdir(std::uint64_t start, std::uint64_t end, const char* name, ObjectId made) {
    add(start, end, {.kind = Kind::kMkdir, .object = kRoot, .name = name, .result = made});
  }
  void lookup(std::uint64_t start, std::uint64_t end, const char* name, ObjectId found) {
    add(start, end,
        {.kind = Kind::kLookup,
         .object = kRoot,
         .name = name,
         .status = found == kNoObject ? NfsStatus::kNoEnt : NfsStatus::kOk,
         .result = found});
  }
  void remove(std::uint64_t start, std::uint64_t end, const char* name, NfsStatus status = NfsStatus::kOk) {
    add(start, end, {.kind = Kind::kRemove, .object = kRoot, .name = name, .status = status});
  }
  void rename(std::uint64_t start, std::uint64_t end, const char* name, const char* to,
              NfsStatus status = NfsStatus::kOk) {
    add(start, end,
        {.kind = Kind::kRename, .object = kRoot, .name = name, .to = kRoot, .to_name = to, .status = status});
  }
  Verdict verdict() const { return linearize({Model::with_root(kRoot, 0755)}, history_); }
  bool explained() const { return !verdict().finals.empty(); }

  std::vector<Operation> history_;
};

TEST_F(LinearizabilityTest, OneAfterTheOther) {
  create(1, 2, "a", 10);
  lookup(3, 4, "a", 10);
  remove(5, 6, "a");
  lookup(7, 8, "a", kNoObject);
  EXPECT_TRUE(explained());
}

TEST_F(LinearizabilityTest, WhatWasAnsweredIsThere) {
  create(1, 2, "a", 10);
  lookup(3, 4, "a", kNoObject);
  EXPECT_FALSE(explained());
}

TEST_F(LinearizabilityTest, DuringACreateEitherIsRight) {
  create(1, 10, "a", 10);
  lookup(2, 3, "a", kNoObject);
  lookup(4, 5, "a", 10);
  EXPECT_TRUE(explained());
}

TEST_F(LinearizabilityTest, WhatWasSeenStays) {
  create(1, 10, "a", 10);
  lookup(2, 3, "a", 10);
  lookup(4, 5, "a", kNoObject);
  EXPECT_FALSE(explained());
}

TEST_F(LinearizabilityTest, ACallCarriedOutTwiceIsNoticed) {
  create(1, 10, "a", kNoObject, NfsStatus::kExist);
  EXPECT_FALSE(explained());
}

TEST_F(LinearizabilityTest, ARemovalCarriedOutTwiceIsNoticed) {
  create(1, 2, "a", 10);
  remove(3, 4, "a", NfsStatus::kNoEnt);
  EXPECT_FALSE(explained());
}

TEST_F(LinearizabilityTest, OneOfTwoGuardedCreatesFails) {
  create(1, 10, "a", 10);
  create(2, 9, "a", 11);
  EXPECT_FALSE(explained());
}

TEST_F(LinearizabilityTest, AnAnswerNamesAnotherFile) {
  create(1, 2, "a", 10);
  lookup(3, 4, "a", 11);
  EXPECT_FALSE(explained());
}

TEST_F(LinearizabilityTest, FileIdsAreNotReused) {
  create(1, 2, "a", 10);
  create(3, 4, "b", 10);
  EXPECT_FALSE(explained());
}

TEST_F(LinearizabilityTest, ARenamedFileIsNeverUnderNeitherName) {
  create(1, 2, "a", 10);
  rename(3, 20, "a", "b");
  lookup(4, 5, "b", kNoObject);
  lookup(6, 7, "a", kNoObject);
  lookup(8, 9, "b", kNoObject);
  EXPECT_FALSE(explained());
}

TEST_F(LinearizabilityTest, ARenamedFileIsNeverUnderBothNames) {
  create(1, 2, "a", 10);
  rename(3, 20, "a", "b");
  lookup(4, 5, "b", 10);
  lookup(6, 7, "a", 10);
  EXPECT_FALSE(explained());
}

TEST_F(LinearizabilityTest, ARenameMayComeLate) {
  create(1, 2, "a", 10);
  rename(3, 20, "a", "b");
  lookup(4, 5, "a", 10);
  lookup(6, 7, "b", 10);
  EXPECT_TRUE(explained());
}

TEST_F(LinearizabilityTest, ReplacingLeavesNoGap) {
  create(1, 2, "a", 10);
  create(3, 4, "b", 11);
  rename(5, 20, "a", "b");
  lookup(6, 7, "b", kNoObject);
  EXPECT_FALSE(explained());
}

TEST_F(LinearizabilityTest, RmdirAgainstCreateLetsOneWin) {
  mkdir(1, 2, "d", 10);
  add(3, 20, {.kind = Kind::kRmdir, .object = kRoot, .name = "d"});
  add(4, 19, {.kind = Kind::kCreate, .object = 10, .name = "x", .result = 11});
  EXPECT_FALSE(explained());
  history_.back().status = NfsStatus::kStale;
  history_.back().result = kNoObject;
  EXPECT_TRUE(explained());
}

TEST_F(LinearizabilityTest, RmdirOfAFullDirectory) {
  mkdir(1, 2, "d", 10);
  add(3, 4, {.kind = Kind::kCreate, .object = 10, .name = "x", .result = 11});
  add(5, 6, {.kind = Kind::kRmdir, .object = kRoot, .name = "d"});
  EXPECT_FALSE(explained());
  history_.back().status = NfsStatus::kNotEmpty;
  EXPECT_TRUE(explained());
}

TEST_F(LinearizabilityTest, ADirectoryMovesNotBelowItself) {
  mkdir(1, 2, "d", 10);
  add(3, 4, {.kind = Kind::kRename, .object = kRoot, .name = "d", .to = 10, .to_name = "e"});
  EXPECT_FALSE(explained());
  history_.back().status = NfsStatus::kInval;
  EXPECT_TRUE(explained());
}

TEST_F(LinearizabilityTest, LinksAreCounted) {
  create(1, 2, "a", 10);
  add(3, 4, {.kind = Kind::kLink, .object = 10, .to = kRoot, .to_name = "b"});
  remove(5, 6, "a");
  Operation& look = add(7, 8, {.kind = Kind::kGetattr, .object = 10, .result = 10, .seen = Seen{.nlink = 1}});
  EXPECT_TRUE(explained());
  look.seen->nlink = 2;
  EXPECT_FALSE(explained());
}

TEST_F(LinearizabilityTest, LinksOfDirectoriesCountWhereTheyMust) {
  mkdir(1, 2, "d", 10);
  add(3, 4, {.kind = Kind::kMkdir, .object = 10, .name = "e", .result = 11});
  Operation& look = add(5, 6,
                        {.kind = Kind::kGetattr,
                         .object = 10,
                         .result = 10,
                         .seen = Seen{.type = FileType::kDirectory, .mode = 0, .nlink = 2}});
  EXPECT_TRUE(explained());
  look.exact = true;
  EXPECT_FALSE(explained());
  look.seen->nlink = 3;
  EXPECT_TRUE(explained());
}

TEST_F(LinearizabilityTest, UnansweredMayHaveHappenedOrNot) {
  create(1, 0, "a", kNoObject);
  EXPECT_EQ(verdict().finals.size(), 2u);
  lookup(3, 4, "a", kNoObject);
  lookup(5, 6, "a", 10);
  lookup(7, 8, "a", 10);
  EXPECT_EQ(verdict().finals.size(), 1u);
  lookup(9, 10, "a", 11);
  EXPECT_FALSE(explained());
}

TEST_F(LinearizabilityTest, UnansweredDoesNotGoAway) {
  create(1, 0, "a", kNoObject);
  lookup(3, 4, "a", 10);
  lookup(5, 6, "a", kNoObject);
  EXPECT_FALSE(explained());
}

TEST_F(LinearizabilityTest, ARenameBetweenNamesOfOneFileMayBeReal) {
  create(1, 2, "a", 10);
  add(3, 4, {.kind = Kind::kLink, .object = 10, .to = kRoot, .to_name = "b"});
  // Both names are of one file until "b" is another: then the rename replaces it.
  rename(5, 20, "a", "b");
  remove(6, 7, "b");
  create(8, 9, "b", 11);
  lookup(10, 11, "a", 10);
  lookup(21, 22, "b", 10);
  EXPECT_TRUE(explained());
}

TEST_F(LinearizabilityTest, AListingShowsEachNameAsItWas) {
  create(1, 2, "a", 10);
  remove(3, 20, "a");
  add(4, 19, {.kind = Kind::kListedName, .object = kRoot, .name = "a", .result = 10});
  EXPECT_TRUE(explained());
  add(21, 22, {.kind = Kind::kListedName, .object = kRoot, .name = "a", .result = 10});
  EXPECT_FALSE(explained());
}

TEST_F(LinearizabilityTest, ExclusiveCreateKnowsItself) {
  create(1, 2, "a", 10, NfsStatus::kOk, CreateMode::kExclusive);
  create(3, 4, "a", 10, NfsStatus::kOk, CreateMode::kExclusive);
  EXPECT_TRUE(explained());
  create(5, 6, "a", 10, NfsStatus::kOk, CreateMode::kExclusive);
  history_.back().verifier = 5;
  EXPECT_FALSE(explained());
}

TEST_F(LinearizabilityTest, ASearchThatIsTooWideSaysSo) {
  for (unsigned i = 0; i < 12; ++i) {
    add(1 + i, 0, {.kind = Kind::kCreate, .object = kRoot, .name = "n" + std::to_string(i)});
  }
  EXPECT_TRUE(linearize({Model::with_root(kRoot, 0755)}, history_, 100).gave_up);
}

TEST_F(LinearizabilityTest, TheExplanationSaysWhatCannotFollow) {
  create(1, 2, "a", 10);
  lookup(3, 4, "a", kNoObject);
  std::string text = explain({Model::with_root(kRoot, 0755)}, history_, verdict());
  EXPECT_NE(text.find("1 of 2 operations"), std::string::npos) << text;
  EXPECT_NE(text.find("not:\n  [    3     4] client 0 LOOKUP 1/a = NFS3ERR_NOENT"), std::string::npos)
      << text;
}

}  // namespace
}  // namespace slice::sim
