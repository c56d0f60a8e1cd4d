#include "routing/copies.h"

#include <gtest/gtest.h>

#include "bpf/shared/file_handle.h"
#include "wire/listed_site.h"

namespace slice::routing {
namespace {

using wire::StripeRange;
using Set = std::vector<StripeRange>;

TEST(StripeSetTest, AddedRangesAreMergedAndInOrder) {
  Set set;
  add(set, {10, 20});
  add(set, {30, 40});
  add(set, {0, 5});
  EXPECT_EQ(set, (Set{{0, 5}, {10, 20}, {30, 40}}));
  add(set, {5, 10});
  EXPECT_EQ(set, (Set{{0, 20}, {30, 40}}));
  add(set, {15, 35});
  EXPECT_EQ(set, (Set{{0, 40}}));
  add(set, {50, wire::kAllStripes});
  add(set, {7, 8});
  EXPECT_EQ(set, (Set{{0, 40}, {50, wire::kAllStripes}}));
}

TEST(StripeSetTest, WithoutAnotherSet) {
  const Set set{{0, 10}, {20, 30}, {40, 50}};
  EXPECT_EQ(without(set, {}), set);
  EXPECT_EQ(without(set, set), Set{});
  EXPECT_EQ(without(set, {{5, 22}, {25, 26}, {49, 60}}), (Set{{0, 5}, {22, 25}, {26, 30}, {40, 49}}));
  EXPECT_EQ(without({{0, 100}}, set), (Set{{10, 20}, {30, 40}, {50, 100}}));
}

TEST(StripeSetTest, ContainsWhatWasAdded) {
  Set set{{0, 5}, {10, 20}};
  for (std::uint64_t stripe = 0; stripe < 25; ++stripe) {
    EXPECT_EQ(contains(set, stripe), stripe < 5 || (stripe >= 10 && stripe < 20)) << stripe;
  }
  EXPECT_FALSE(contains({}, 0));
}

TEST(StripeSetTest, TooManyRangesTakeInWhatIsBetweenTheNearest) {
  Set set;
  for (std::uint64_t i = 0; i < wire::kMaxStripeRanges; ++i) add(set, {i * 100, i * 100 + 10});
  add(set, {55, 57});  // 45 behind the first, 43 before the second
  EXPECT_EQ(set.size(), wire::kMaxStripeRanges);
  EXPECT_EQ(set[1], (StripeRange{55, 110}));
  for (std::uint64_t i = 0; i < wire::kMaxStripeRanges; ++i) EXPECT_TRUE(contains(set, i * 100));
}

class CopiesTest : public ::testing::Test {
 protected:
  CopiesTest() {
    for (std::uint32_t i = 0; i < 4; ++i) {
      config_.servers.push_back({.name = "store" + std::to_string(i),
                                 .role = ServerRole::kStorage,
                                 .index = i,
                                 .address = i + 1,
                                 .data = {}});
    }
    config_.site_counts = {1, 1, 8, 1};
    for (auto role : {ServerRole::kDirectory, ServerRole::kSmallFile, ServerRole::kCoordinator}) {
      auto index = static_cast<std::uint32_t>(config_.servers.size());
      config_.servers.push_back({.name = "s" + std::to_string(index),
                                 .role = role,
                                 .index = index,
                                 .address = index + 1,
                                 .data = {}});
    }
    tables_ = RoutingTables::make(config_, RoutingTables::initial(config_)).value();
    handle_.fileid = FileId{77};
    handle_.flags = SLICE_HANDLE_MIRRORED;
  }
  std::uint32_t first(std::uint64_t stripe) const {
    return tables_->server_of(wire::Role::kStorage, tables_->storage_site(FileId{77}, stripe << 16, 16))
        .server;
  }

  EnsembleConfig config_;
  std::shared_ptr<const RoutingTables> tables_;
  FileHandle handle_;
};

TEST_F(CopiesTest, AreOnDistinctServers) {
  for (std::uint32_t site = 0; site < 8; ++site) {
    EXPECT_EQ(tables_->copies_of(SiteId{site}, 3),
              (std::vector<std::uint32_t>{site % 4, (site + 1) % 4, (site + 2) % 4}));
    EXPECT_EQ(tables_->copies_of(SiteId{site}, 9).size(), 4u) << "there are no more";
  }
  wire::Tables moved = RoutingTables::initial(config_);
  moved.sites[2] = {0, 0, 0, 2, 2, 0, 1, 1};
  auto tables = RoutingTables::make(config_, moved).value();
  EXPECT_EQ(tables->copies_of(SiteId{0}, 2), (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(tables->copies_of(SiteId{6}, 3), (std::vector<std::uint32_t>{1, 0, 2}));
}

TEST_F(CopiesTest, ABlockMapSaysWhereAStripeIsAndAMoveWhoGetsItsWrites) {
  using Servers = std::vector<std::uint32_t>;
  handle_.flags = SLICE_HANDLE_BLOCK_MAPPED;
  wire::FileLayout layout;
  EXPECT_EQ(copies_of_stripe(*tables_, layout, handle_, 5).all, Servers{first(5)}) << "not placed yet";
  layout.piece.sites.assign(wire::kStripesOfPiece, 2);
  layout.moving = wire::Moving{.stripe = 5, .site = 3};
  StripeCopies copies = copies_of_stripe(*tables_, layout, handle_, 5);
  EXPECT_EQ(copies.whole, Servers{2});
  EXPECT_EQ(copies.written, (Servers{2, 3}));
  EXPECT_EQ(copies_of_stripe(*tables_, layout, handle_, 6).written, Servers{2});
  layout.moving->switched = true;
  copies = copies_of_stripe(*tables_, layout, handle_, 5);
  EXPECT_EQ(copies.whole, Servers{3});
  EXPECT_EQ(copies.written, (Servers{3, 2}));
  handle_.flags |= SLICE_HANDLE_MIRRORED;
  copies = copies_of_stripe(*tables_, layout, handle_, 5);
  EXPECT_EQ(copies.whole, (Servers{3, 0}));
  EXPECT_EQ(copies.written, (Servers{3, 0, 2})) << "who has a copy at both sites is named once";
  handle_.flags = SLICE_HANDLE_MIRRORED;
  EXPECT_EQ(copies_of_stripe(*tables_, wire::FileLayout{.piece = layout.piece}, handle_, 5).all.front(), 2u)
      << "what was moved has a map, of whatever file";
  EXPECT_EQ(copies_of_stripe(*tables_, wire::FileLayout{}, handle_, 5).all.front(), first(5));
}

// Sites s have s % 4 and the ones behind it.
TEST_F(CopiesTest, SitesOfServersThatAreDrainedOrRemovedAreLeft) {
  using Servers = std::vector<std::uint32_t>;
  EXPECT_FALSE(tables_->some_are_left());
  wire::Tables drained = RoutingTables::initial(config_);
  drained.servers[1].drained = true;
  auto tables = RoutingTables::make(config_, drained).value();
  EXPECT_TRUE(tables->some_are_left());
  EXPECT_TRUE(tables->is_left(SiteId{0}, 2));
  EXPECT_TRUE(tables->is_left(SiteId{1}, 2));
  EXPECT_FALSE(tables->is_left(SiteId{0}, 1));
  EXPECT_FALSE(tables->is_left(SiteId{2}, 2));
  EXPECT_EQ(tables->copies_of(SiteId{0}, 2), (Servers{0, 1})) << "what is there is there yet";

  wire::Tables without = RoutingTables::initial(config_);
  wire::keep_layout_sites(without);
  for (std::uint32_t& owner : without.sites[2]) owner = owner == 1 ? 2 : owner;
  without.servers[1] = {
      .server = 1, .role = wire::Role::kRemoved, .endpoint = {}, .name = without.servers[1].name};
  tables = RoutingTables::make(config_, without).value();
  EXPECT_TRUE(tables->is_left(SiteId{0}, 2)) << "by older tables it was there";
  EXPECT_FALSE(tables->is_left(SiteId{2}, 2));
  EXPECT_EQ(tables->copies_of(SiteId{0}, 2), (Servers{0, 2}));
  EXPECT_EQ(tables->copies_of(SiteId{1}, 1), Servers{2});
  EXPECT_EQ(tables->servers(wire::Role::kStorage).size(), 3u);
  EXPECT_EQ(storage_servers(*tables, handle_), (Servers{0, 2, 3}));
  // No other class has sites at a server that was removed.
  without.sites[2][1] = 1;
  EXPECT_FALSE(RoutingTables::make(config_, without));
}

TEST_F(CopiesTest, AListedSiteIsAtTheServersThatItLists) {
  using Servers = std::vector<std::uint32_t>;
  const SiteId site{wire::listed_site({3, 1, 2})};
  EXPECT_EQ(tables_->copies_of(site, 2), (Servers{3, 1}));
  EXPECT_EQ(tables_->copies_of(site, 3), (Servers{3, 1, 2}));
  EXPECT_EQ(tables_->copies_of(SiteId{wire::listed_site({900})}, 1), Servers{900})
      << "also one of tables to come";
  wire::Tables drained = RoutingTables::initial(config_);
  drained.servers[1].drained = true;
  auto tables = RoutingTables::make(config_, drained).value();
  EXPECT_TRUE(tables->is_left(site, 2));
  EXPECT_FALSE(tables->is_left(site, 1));
}

// It has no site at all, and may have stripes.
TEST_F(CopiesTest, AServerThatCameLaterMayHaveStripes) {
  using Servers = std::vector<std::uint32_t>;
  wire::Tables more = RoutingTables::initial(config_);
  const auto added = static_cast<std::uint32_t>(more.servers.size());
  more.servers.push_back({.server = added, .role = wire::Role::kStorage, .endpoint = {1, 2}, .name = "more"});
  auto tables = RoutingTables::make(config_, more).value();
  EXPECT_FALSE(tables->some_came_later()) << "it was never there";
  EXPECT_TRUE(tables->mirrored_go_by_hash());
  EXPECT_EQ(storage_servers(*tables, handle_), (Servers{0, 1, 2, 3}));
  more.servers.back().started = true;
  tables = RoutingTables::make(config_, more).value();
  EXPECT_TRUE(tables->some_came_later());
  EXPECT_FALSE(tables->mirrored_go_by_hash());
  EXPECT_EQ(storage_servers(*tables, handle_), (Servers{0, 1, 2, 3, added}));
  EXPECT_EQ(tables->servers(wire::Role::kStorage).back()->server, added);
  more.servers.back().drained = true;
  tables = RoutingTables::make(config_, more).value();
  EXPECT_TRUE(tables->some_are_left() && !tables->some_came_later());
  EXPECT_EQ(storage_servers(*tables, handle_), (Servers{0, 1, 2, 3, added})) << "until it is removed";
}

TEST_F(CopiesTest, APieceIsSpelledOutForThoseWithoutTables) {
  handle_.flags = SLICE_HANDLE_BLOCK_MAPPED;
  EXPECT_TRUE(spelled_out(*tables_, handle_, {.number = 1, .sites = {}}).sites.empty()) << "no places yet";
  handle_.flags = SLICE_HANDLE_MIRRORED;
  const wire::MapPiece by_hash = spelled_out(*tables_, handle_, {.number = 1, .sites = {}});
  wire::MapPiece mixed = by_hash;
  mixed.sites[3] = 2;
  const wire::MapPiece listed = spelled_out(*tables_, handle_, mixed);
  EXPECT_EQ(listed.sites[3], wire::listed_site({2, 3}));
  for (std::uint64_t i = 0; i < wire::kStripesOfPiece; ++i) {
    const std::uint64_t stripe = wire::kStripesOfPiece + i;
    const std::uint32_t owner = first(stripe);
    EXPECT_EQ(by_hash.sites[i], wire::listed_site({owner, (owner + 1) % 4}));
    if (i != 3) EXPECT_EQ(listed.sites[i], by_hash.sites[i]);
  }
  handle_.flags = 0;
  EXPECT_TRUE(spelled_out(*tables_, handle_, {.number = 1, .sites = {}}).sites.empty()) << "no layout";
}

TEST_F(CopiesTest, WhoMissesAStripeIsNotReadAndWhoJoinsIsWritten) {
  std::uint32_t a = first(5), b = (a + 1) % 4;
  wire::FileLayout layout;
  EXPECT_EQ(copies_of_stripe(*tables_, layout, handle_, 5).whole, (std::vector<std::uint32_t>{a, b}));
  layout.missing.push_back({.server = a, .joining = false, .stripes = {{5, 6}}});
  StripeCopies copies = copies_of_stripe(*tables_, layout, handle_, 5);
  EXPECT_EQ(copies.all, (std::vector<std::uint32_t>{a, b}));
  EXPECT_EQ(copies.whole, (std::vector<std::uint32_t>{b}));
  EXPECT_EQ(copies.written, (std::vector<std::uint32_t>{b}));
  layout.missing[0].joining = true;
  copies = copies_of_stripe(*tables_, layout, handle_, 5);
  EXPECT_EQ(copies.whole, (std::vector<std::uint32_t>{b}));
  EXPECT_EQ(copies.written, (std::vector<std::uint32_t>{a, b}));
  handle_.flags = 0;
  EXPECT_FALSE(mirrored(handle_));
}

// Until the next note a writer whose stamp is of the last one need not send again.
TEST_F(CopiesTest, OneThatOrdersInsteadOfAnotherDoesSinceThatMissedTheStripe) {
  std::uint32_t a = first(5);
  wire::FileLayout layout{.others_order_since = 3};
  auto since = [&](std::uint64_t stripe) {
    StripeCopies copies{.all = {a, a + 1}, .whole = {a + 1}, .written = {}};
    return ordered_since(layout, copies, stripe);
  };
  layout.missing.push_back({.server = a, .stripes = {{0, 200}}});
  EXPECT_EQ(since(0), 3u) << "from before its coordinator's start";
  for (std::uint64_t i = 0; i < 2 * wire::kMaxMissedSince; ++i) {
    note_missed_since(layout.missing[0], {i, i + 1}, 10 + i);
    EXPECT_EQ(since(i), 10 + i);
    EXPECT_EQ(since(i - i % 10), 10 + i - i % 10);
    EXPECT_GE(since(0), 10u);
  }
  EXPECT_EQ(layout.missing[0].since.size(), wire::kMaxMissedSince);
  EXPECT_EQ(since(0), 10 + wire::kMaxMissedSince) << "the oldest notes are one";
}

// A reader may still be answered by it, as not everybody has been told.
TEST_F(CopiesTest, NobodyOrdersWhileNotAllKnowThatAnotherCopyMissesTheStripe) {
  const std::uint32_t a = first(5);
  wire::FileLayout layout{.others_order_since = 3};
  const StripeCopies copies{.all = {a, a + 1}, .whole = {a}, .written = {a}};
  layout.missing.push_back({.server = a + 1, .stripes = {{5, 6}}});
  note_missed_since(layout.missing[0], {5, 6}, wire::kNotYet);
  EXPECT_EQ(ordered_since(layout, copies, 5), wire::kNotYet);
  layout.missing[0].since[0].version = 12;
  EXPECT_EQ(ordered_since(layout, copies, 5), 3u) << "it has ordered all the while";
}

}  // namespace
}  // namespace slice::routing
