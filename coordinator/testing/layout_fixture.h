// LayoutFixture: a coordinator between storage nodes that keep sessions with it and answer everything, and
// files with a layout on them.
#ifndef SLICE_COORDINATOR_TESTING_LAYOUT_FIXTURE_H
#define SLICE_COORDINATOR_TESTING_LAYOUT_FIXTURE_H

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bpf/shared/file_handle.h"
#include "coordinator/testing/coordinator_fixture.h"

namespace slice::coordinator::testing {

class LayoutFixture : public CoordinatorFixture {
 protected:
  static constexpr std::uint64_t kUnit = 1 << 16;

  explicit LayoutFixture(EnsembleConfig config = service::testing::sample_config())
      : CoordinatorFixture(std::move(config)) {
    keep_sessions();
  }
  routing::FileHandle handle(std::uint8_t flags) {
    authority_.flags = flags;
    routing::FileHandle made = file();
    made.flags = flags;
    made.stripe_shift = 16;
    return made;
  }
  void keep_sessions() {
    for (const std::string& name : nodes_) {
      auto& number = sessions_[name];
      number = ask<wire::SessionResult>(wire::CoordinatorProcedure::kSession,
                                        wire::SessionArgs{index(name), number, 1 << 30})
                   .session;
    }
  }
  void pass_seconds(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      loop_.advance(std::chrono::seconds(1));
      keep_sessions();
    }
  }
  wire::FileLayout layout(const routing::FileHandle& of, std::uint64_t stripe, bool place) {
    routing::HandleBytes bytes = handles_.mint(of);
    auto result =
        ask<wire::LayoutResult>(wire::CoordinatorProcedure::kLayout, wire::LayoutArgs{bytes, stripe, place});
    EXPECT_EQ(result.status, nfs3::Status::kOk);
    return result.layout;
  }
  // How many of the first stripes may be on the node.
  std::size_t on(const std::string& node, const routing::FileHandle& of,
                 std::uint64_t stripes = wire::kStripesOfPiece) {
    const wire::FileLayout now = layout(of, 0, false);
    std::size_t count = 0;
    for (std::uint64_t stripe = 0; stripe < stripes; ++stripe) {
      auto copies = routing::copies_of_stripe(*tables_.get(), now, of, stripe).all;
      count += routing::has(copies, index(node)) ? 1 : 0;
    }
    return count;
  }
  template <class Change>
  void change_tables(const Change& change) {
    wire::Tables tables = tables_.get()->wire();
    change(tables);
    ++tables.generation.value;
    tables_.set(routing::RoutingTables::make(config_, tables).value());
  }

  std::vector<std::string> nodes_{"store1", "store2"};
  std::map<std::string, std::uint64_t> sessions_;
};

}  // namespace slice::coordinator::testing

#endif  // SLICE_COORDINATOR_TESTING_LAYOUT_FIXTURE_H
