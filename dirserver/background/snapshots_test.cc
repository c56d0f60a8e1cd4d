#include "dirserver/background/snapshots.h"

#include "dirserver/testing/fixture.h"
#include "wire/nfs_status.h"

namespace slice::dirserver::testing {
namespace {

using namespace std::chrono_literals;
using wire::SnapshotStep;

class SnapshotsTest : public DirectoryFixture {
 protected:
  NfsStatus step(SnapshotStep step, std::uint64_t number = 7) {
    auto result = run(service::internal_call<wire::SnapshotResult>(
        network_, endpoint("dir1"), wire::kScanProgram, wire::ScanProcedure::kSnapshot,
        wire::SnapshotArgs{step, number}));
    if (!result) return NfsStatus::kServerFault;
    if (step == SnapshotStep::kTake) sites_ = result->sites;
    return result->status;
  }
  NfsStatus take(std::uint64_t number) {
    for (SnapshotStep each : {SnapshotStep::kHold, SnapshotStep::kFreeze, SnapshotStep::kTake}) {
      if (NfsStatus status = step(each, number); status != NfsStatus::kOk) return status;
    }
    return step(SnapshotStep::kRelease, number);
  }
  wire::ScanResult scan(std::uint64_t snapshot, SiteId site = kRootSite) {
    return run(service::internal_call<wire::ScanResult>(
                   network_, endpoint("dir1"), wire::kScanProgram, wire::ScanProcedure::kScan,
                   wire::ScanArgs{.site = site,
                                  .keys = {attribute_key(kRootSite, kRootId)},
                                  .begin = {},
                                  .end = {},
                                  .snapshot = snapshot}))
        .value();
  }
  std::uint64_t entries(std::uint64_t snapshot) {
    return decode_attribute_cell(kRootSite, scan(snapshot).values.at(0).value)->entries;
  }

  std::vector<std::uint32_t> sites_;
};

TEST_F(SnapshotsTest, KeepsWhatThereIs) {
  ASSERT_EQ(create(root(), "before").status, NfsStatus::kOk);
  ASSERT_EQ(take(7), NfsStatus::kOk);
  EXPECT_EQ(sites_.size(), config_.site_counts[0]);
  ASSERT_EQ(create(root(), "after").status, NfsStatus::kOk);
  EXPECT_EQ(entries(7), 1u);
  EXPECT_EQ(entries(0), 2u);
  EXPECT_EQ(step(SnapshotStep::kDrop), NfsStatus::kOk);
  EXPECT_EQ(scan(7).status, NfsStatus::kNoEnt);
}

TEST_F(SnapshotsTest, ClientsWaitUntilItIsReleased) {
  ASSERT_EQ(step(SnapshotStep::kHold), NfsStatus::kOk);
  EXPECT_EQ(step(SnapshotStep::kHold, 8), NfsStatus::kJukebox) << "one at a time";
  ASSERT_EQ(step(SnapshotStep::kFreeze), NfsStatus::kOk);
  ASSERT_EQ(step(SnapshotStep::kTake), NfsStatus::kOk);
  const MonoTime begun = loop_.now();
  std::optional<Result<wire::SnapshotResult>> released;
  loop_.after(500ms, [&] {
    spawn(
        [](Task<Result<wire::SnapshotResult>> asked,
           std::optional<Result<wire::SnapshotResult>>& into) -> Task<void> {
          into = co_await std::move(asked);
        }(service::internal_call<wire::SnapshotResult>(network_, endpoint("dir1"), wire::kScanProgram,
                                                              wire::ScanProcedure::kSnapshot,
                                                              wire::SnapshotArgs{SnapshotStep::kRelease, 7}),
                                                              released));
  });
  EXPECT_EQ(create(root(), "held").status, NfsStatus::kOk);
  EXPECT_GE(loop_.now() - begun, 500ms);
  EXPECT_LT(loop_.now() - begun, 1s);
  EXPECT_EQ(entries(7), 0u);
}

TEST_F(SnapshotsTest, WhoAskedMayDie) {
  ASSERT_EQ(step(SnapshotStep::kHold), NfsStatus::kOk);
  ASSERT_EQ(step(SnapshotStep::kFreeze), NfsStatus::kOk);
  const MonoTime begun = loop_.now();
  EXPECT_EQ(create(root(), "later").status, NfsStatus::kOk);
  EXPECT_GE(loop_.now() - begun, 1900ms);
  EXPECT_EQ(step(SnapshotStep::kTake), NfsStatus::kJukebox);
  EXPECT_EQ(take(9), NfsStatus::kOk);
}

TEST_F(SnapshotsTest, StepsAreTakenInOrder) {
  EXPECT_EQ(step(SnapshotStep::kFreeze), NfsStatus::kJukebox);
  ASSERT_EQ(step(SnapshotStep::kHold), NfsStatus::kOk);
  EXPECT_EQ(step(SnapshotStep::kTake), NfsStatus::kJukebox) << "something may change yet";
  EXPECT_EQ(step(SnapshotStep::kRelease), NfsStatus::kOk);
  EXPECT_EQ(step(SnapshotStep::kHold, 0), NfsStatus::kJukebox);
}

TEST_F(SnapshotsTest, ThoseThatNobodyReadsGo) {
  ASSERT_EQ(take(7), NfsStatus::kOk);
  loop_.advance(40s);
  EXPECT_EQ(scan(7).status, NfsStatus::kOk);
  loop_.advance(40s);
  EXPECT_EQ(scan(7).status, NfsStatus::kOk) << "it was read 40 s ago";
  loop_.advance(61s);
  EXPECT_EQ(scan(7).status, NfsStatus::kNoEnt);
}

TEST_F(SnapshotsTest, ThereAreNotTooMany) {
  for (std::uint64_t number = 1; number <= Snapshots::kMost; ++number)
    ASSERT_EQ(take(number), NfsStatus::kOk);
  EXPECT_EQ(take(99), NfsStatus::kJukebox);
  EXPECT_EQ(step(SnapshotStep::kRelease, 99), NfsStatus::kOk);
  EXPECT_EQ(step(SnapshotStep::kDrop, 1), NfsStatus::kOk);
  EXPECT_EQ(take(99), NfsStatus::kOk);
}

}  // namespace
}  // namespace slice::dirserver::testing
