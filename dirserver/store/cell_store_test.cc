#include "dirserver/store/cell_store.h"

#include <gtest/gtest.h>

#include "common/manual_loop.h"
#include "storage/memory_store.h"

namespace slice::dirserver {
namespace {

// A server whose directory's attributes are another's (name hashing): only names and a part are here.
class PartTest : public ::testing::Test {
 protected:
  static constexpr CellRef kDirectory{SiteId{3}, FileId{0x300000000}, 1};
  static NamePlace place(std::string_view name) { return {SiteId{5}, kDirectory, Position{77}, name}; }
  storage::LogPosition link(std::string_view name) {
    Transaction transaction(cells_);
    Target target{.cell = {SiteId{5}, FileId{9}, 1}, .type = nfs3::FileType::kRegular};
    EXPECT_TRUE(transaction.link(place(name), target, {1, 0}));
    return transaction.commit().value();
  }
  storage::LogPosition unlink(std::string_view name) {
    Transaction transaction(cells_);
    EXPECT_TRUE(transaction.unlink(place(name), {2, 0}));
    return transaction.commit().value();
  }
  void make_durable(storage::LogPosition position) {
    spawn([](CellStore& cells, storage::LogPosition to) -> Task<void> {
      EXPECT_TRUE(co_await cells.durable(to));
    }(cells_, position));
    loop_.advance(std::chrono::seconds(1));
    ASSERT_GE(store_.durable_position(), position);
  }
  ManualLoop loop_;
  Metrics metrics_;
  storage::MemoryMedium medium_;
  storage::MemoryStore store_{loop_, medium_};
  Stays stays_{loop_};
  CellStore cells_{store_, metrics_, 1 << 20, [](SiteId site) { return site == SiteId{5}; }, stays_};
};

TEST_F(PartTest, ANameIsNotShownBeforeItIsDurable) {
  auto linked = link("a");
  Transaction there(cells_);
  ASSERT_NE(there.find(place("a")).value(), nullptr);
  EXPECT_EQ(there.shown(), linked);
  make_durable(linked);
  Transaction later(cells_);
  ASSERT_NE(later.find(place("a")).value(), nullptr);
  EXPECT_EQ(later.shown(), storage::LogPosition{});
}

TEST_F(PartTest, NorThatANameIsGone) {
  make_durable(link("a"));
  auto unlinked = unlink("a");
  Transaction gone(cells_);
  EXPECT_EQ(gone.find(place("a")).value(), nullptr);
  EXPECT_EQ(gone.shown(), unlinked);
}

TEST_F(PartTest, NorHowManyNamesAPartHas) {
  auto linked = link("a");
  Transaction count(cells_);
  EXPECT_EQ(count.part(SiteId{5}, kDirectory).value().entries, 1u);
  EXPECT_EQ(count.shown(), linked);
}

}  // namespace
}  // namespace slice::dirserver
