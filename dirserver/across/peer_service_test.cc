// What a member of the ensemble may ask for is not always what there is.
#include "dirserver/across/peer_service.h"

#include "dirserver/testing/fixture.h"

namespace slice::dirserver::testing {
namespace {

using wire::DirectoryProcedure;
using wire::PeerStatus;

class PeerServiceTest : public DirectoryFixture {
 protected:
  // Of the root directory, but of sites that no volume has: the largest number too.
  std::vector<wire::CellName> strange() const {
    wire::CellName cell = name_of(cell_of(handles_.open(root()).value()));
    const auto& sites = tables_.get()->wire().sites[static_cast<std::size_t>(wire::Role::kDirectory)];
    const auto behind = static_cast<std::uint32_t>(sites.size());
    std::vector<wire::CellName> cells;
    for (std::uint32_t site : {behind, 0x80000000u, 0xffffffffu}) {
      cell.site = SiteId{site};
      cells.push_back(cell);
    }
    return cells;
  }
};

TEST_F(PeerServiceTest, HasNoSiteThatTheVolumeHasNot) {
  create(root(), "f");
  for (const wire::CellName& cell : strange()) {
    SCOPED_TRACE(cell.site.value);
    for (bool attributes : {false, true}) {
      auto listed =
          peer<wire::ListResult>(DirectoryProcedure::kList, wire::ListArgs{cell, 0, 4096, attributes});
      EXPECT_TRUE(listed.names.empty());
    }
    for (bool lease : {false, true}) {
      EXPECT_EQ(peer<wire::CellResult>(DirectoryProcedure::kRead, wire::CellReadArgs{cell, lease}).status,
                PeerStatus::kMisdirected);
    }
    const wire::LockArgs lock{.id = {SiteId{1}, 7, 1}, .items = {{.cell = cell, .name = {}}}};
    EXPECT_EQ(peer<wire::LockResult>(DirectoryProcedure::kLock, lock).status, PeerStatus::kMisdirected);
    EXPECT_EQ(peer<wire::OwnerResult>(DirectoryProcedure::kOwner, wire::OwnerArgs{cell.site}).status,
              PeerStatus::kStale);
  }
  EXPECT_EQ(names(root()), std::vector<std::string>{"f"});
}

}  // namespace
}  // namespace slice::dirserver::testing
