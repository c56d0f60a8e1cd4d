#include "control/manager/tree_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/testing/service_fixture.h"

namespace slice::manager {
namespace {

using ::testing::HasSubstr;

class TreeBookTest : public service::testing::ServiceFixture {
 protected:
  TreeBookTest() : ServiceFixture("manager1") {}
  Task<Result<std::vector<std::string>>> publish(std::function<Status(Settings&)> change) {
    Settings next = *settings_.get();
    ++next.generation.value;
    SLICE_CO_RETURN_IF_ERROR(change(next));
    settings_.set(std::move(next));
    co_return std::vector<std::string>{"dir9"};
  }
  wire::ChangeTreeResult note(const std::string& path, TreeId above = {}, TreeId tree = {}) {
    return run(book_.change({.tree = tree, .what = {.path = path, .above = above}}));
  }
  std::string forget(TreeId tree) {
    return run(book_.change({.remove = true, .tree = tree, .what = {}})).refused;
  }
  void change(const std::function<void(Settings&)>& how) {
    Settings next = *settings_.get();
    how(next);
    settings_.set(std::move(next));
  }
  const Trees& trees() { return settings_.get()->trees; }

  TreeBook book_{{.settings = settings_,
                  .change = [this](auto change) { return publish(std::move(change)); },
                  .random = [this] { return numbers_.empty() ? context_.random() : take(); }}};
  std::vector<std::uint64_t> numbers_;  // that are drawn next, the last one first

 private:
  std::uint64_t take() {
    const std::uint64_t number = numbers_.back();
    numbers_.pop_back();
    return number;
  }
};

TEST_F(TreeBookTest, EachHasANumberThatNoOtherHas) {
  numbers_ = {9, 7, 0x10000, 7};
  const auto home = note("/home");
  EXPECT_EQ(home.refused, "");
  EXPECT_EQ(home.tree, TreeId{7});
  EXPECT_EQ(home.late, std::vector<std::string>{"dir9"});
  EXPECT_EQ(note("/home").tree, TreeId{7}) << "it is noted already";
  EXPECT_EQ(note("/home/ann", TreeId{7}).tree, TreeId{9}) << "neither 0 nor one that there is";
  EXPECT_EQ(trees().at(TreeId{9}), (Tree{.path = "/home/ann", .above = TreeId{7}}));
}

// Else exports could be made for them.
TEST_F(TreeBookTest, TheNumberOfRawVolumesIsNobodys) {
  numbers_ = {7, 0xffff};
  EXPECT_EQ(note("/home").tree, TreeId{7});
  EXPECT_NE(note("/.volumes", {}, kTreeOfVolumes).refused, "");
  EXPECT_NE(note("/.volumes/mine", kTreeOfVolumes).refused, "");
  EXPECT_EQ(trees().size(), 1u);
}

TEST_F(TreeBookTest, WhatCannotBeATreeIsRefused) {
  EXPECT_THAT(note("/").refused, HasSubstr("no path"));
  EXPECT_THAT(note("/a/../b").refused, HasSubstr("no path"));
  EXPECT_THAT(note("/" + std::string(kMaxExportPath, 'x')).refused, HasSubstr("no path"));
  EXPECT_THAT(note("/a/b", TreeId{5}).refused, HasSubstr("tree 5, which this manager does not know"));
  change([](Settings& settings) {
    for (std::uint16_t i = 1; i <= kMaxTrees; ++i) settings.trees[TreeId{i}] = {fmt::format("/{}", i), {}};
  });
  EXPECT_THAT(note("/one-more").refused, HasSubstr("4096 trees"));
}

// Of a manager that has lost its settings, or of a directory above it that was renamed.
TEST_F(TreeBookTest, ADirectoryThatHasANumberKeepsIt) {
  EXPECT_EQ(note("/home", {}, TreeId{77}).tree, TreeId{77});
  EXPECT_EQ(note("/people", {}, TreeId{77}).refused, "");
  EXPECT_EQ(trees().size(), 1u);
  EXPECT_EQ(trees().at(TreeId{77}).path, "/people");
  EXPECT_THAT(note("/people", {}, TreeId{78}).refused, HasSubstr("noted as that of tree 77"));
  change([](Settings& settings) { settings.exports.push_back({.path = "/people", .clients = {}}); });
  EXPECT_THAT(note("/persons", {}, TreeId{77}).refused, HasSubstr("an [[export]] names"));
}

TEST_F(TreeBookTest, WhatIsForgottenTakesItsQuotaAlong) {
  const TreeId home = note("/home").tree, ann = note("/home/ann", home).tree;
  change([&](Settings& settings) {
    settings.quotas[{QuotaKind::kTree, ann.value}] = {.space = {0, 5, 0}, .files = {}};
    settings.quotas[{QuotaKind::kUser, ann.value}] = {.space = {0, 5, 0}, .files = {}};
    settings.exports.push_back({.path = "/home", .clients = {}});
  });
  EXPECT_THAT(forget(TreeId{1}), HasSubstr("no tree 1"));
  EXPECT_THAT(forget(home), HasSubstr("an [[export]] names /home"));
  change([](Settings& settings) { settings.exports.clear(); });
  EXPECT_THAT(forget(home), HasSubstr("/home/ann is in it"));
  EXPECT_EQ(forget(ann), "");
  EXPECT_EQ(settings_.get()->quotas.size(), 1u);
  EXPECT_EQ(forget(home), "");
  EXPECT_TRUE(trees().empty());
}

}  // namespace
}  // namespace slice::manager
