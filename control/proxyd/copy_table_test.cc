#include "control/proxyd/copy_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/internal_program.h"
#include "service/testing/service_fixture.h"
#include "wire/object.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;

class Node : public service::InternalProgram {
 public:
  Node() : InternalProgram(wire::kObjectProgram) {}  // which answers NULL
};

class CopyTableTest : public service::testing::ServiceFixture {
 protected:
  CopyTableTest() : ServiceFixture("proxy1"), entries_(SLICE_MAX_SITES), copies_(context_) {
    serve("store1", nodes_[0]);
    serve("store2", nodes_[1]);
    fill_config(*tables_.get(), *memory_.tables().config);
    bind_sites(tables_.get()->wire(), memory_.tables());
    Tables tables = memory_.tables();
    tables.copies = entries_.data();
    copies_.keep(tables);
  }
  std::uint32_t number(const std::string& server) const { return config_.find(server)->index + 1; }
  std::uint32_t site_of(const std::string& server) const {
    return wire::sites_of(tables_.get()->wire(), server).front();
  }
  static std::uint64_t entry(std::uint64_t first, std::uint64_t second) {
    return first | second << SLICE_COPY_BITS;
  }
  std::uint64_t silent() { return metrics_.counter("proxy_copies_silent_servers").value(); }

  Node nodes_[2];
  MemoryTables memory_;
  std::vector<std::uint64_t> entries_;
  CopyTable copies_;
};

TEST_F(CopyTableTest, ASiteHasItsServerAndTheNextOnes) {
  const std::uint32_t one = number("store1"), two = number("store2");
  EXPECT_EQ(entries_[site_of("store1")], entry(one, two)) << "at once";
  EXPECT_EQ(entries_[site_of("store2")], entry(two, one));
  loop_.advance(10s);
  EXPECT_EQ(entries_[site_of("store1")], entry(one, two));
  const auto sites = tables_.get()->wire().sites[SLICE_CLASS_STORAGE].size();
  for (std::size_t site = 0; site < entries_.size(); ++site)
    EXPECT_EQ(entries_[site] != 0, site < sites) << site;
}

TEST_F(CopyTableTest, OneThatIsSilentIsLeftOutUntilItAnswers) {
  const std::uint32_t one = number("store1"), two = number("store2");
  loop_.advance(1s);
  silence("store1");
  loop_.advance(CopyTable::kStep + CopyTable::kPatience + 10ms);
  EXPECT_EQ(entries_[site_of("store1")], entry(0, two));
  EXPECT_EQ(entries_[site_of("store2")], entry(two, 0));
  EXPECT_EQ(silent(), 1u);
  silence("store2");
  loop_.advance(3s);
  EXPECT_EQ(entries_[site_of("store1")], 0u) << "user space waits for whom it may";
  serve("store1", nodes_[0]);
  loop_.advance(CopyTable::kStep + CopyTable::kPatience + 10ms);
  EXPECT_EQ(entries_[site_of("store1")], entry(one, 0));
  EXPECT_EQ(silent(), 1u);
  serve("store2", nodes_[1]);
  loop_.advance(CopyTable::kStep + CopyTable::kPatience + 10ms);
  EXPECT_EQ(entries_[site_of("store1")], entry(one, two));
}

TEST_F(CopyTableTest, AnEntryOfSitesThatIsChangedByHandCounts) {
  const std::uint32_t site = site_of("store1");
  memory_.tables().bind(SLICE_CLASS_STORAGE, site, number("store2"), 1);
  loop_.advance(CopyTable::kStep + 10ms);
  EXPECT_EQ(entries_[site], entry(number("store2"), number("store1")));
}

TEST_F(CopyTableTest, WhereFilesMayLieElsewhereThereIsNone) {
  wire::Tables tables = tables_.get()->wire();
  ++tables.generation.value;
  keep_layout_sites(tables);
  tables.sites[SLICE_CLASS_STORAGE][site_of("store1")] = config_.find("store2")->index;
  tables_.set(routing::RoutingTables::make(config_, tables).value());
  fill_config(*tables_.get(), *memory_.tables().config);
  loop_.advance(CopyTable::kStep + 10ms);
  for (std::uint64_t each : entries_) EXPECT_EQ(each, 0u);
}

}  // namespace
}  // namespace slice::proxy
