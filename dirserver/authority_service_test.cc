#include "bpf/shared/file_handle.h"
#include "dirserver/testing/fixture.h"
#include "service/internal_call.h"

namespace slice::dirserver::testing {
namespace {

using nfs3::Time;

class AuthorityTest : public DirectoryFixture {
 protected:
  // POLICY: puts the fields in force and tells what is.
  wire::PolicyResult set(const Handle& of, std::uint32_t fields, wire::FilePolicy policy = {},
                         bool fewer_copies = false) {
    auto result = run(service::internal_call<wire::PolicyResult>(
        network_, endpoint("dir1"), wire::kAuthorityProgram, wire::AuthorityProcedure::kPolicy,
        wire::PolicyArgs{of, fields, policy, fewer_copies}));
    EXPECT_TRUE(result.has_value());
    return *result;
  }
};

Time at(const nfs3::Attributes& attributes, std::int32_t seconds) {
  return {attributes.ctime.seconds + static_cast<std::uint32_t>(seconds), 0};
}

TEST_F(AuthorityTest, FetchTellsAttributesAndTheEpoch) {
  Made file = create(root(), "f", {}, 0640);
  wire::FetchResult result = fetch(file.handle);
  EXPECT_EQ(result.status, NfsStatus::kOk);
  EXPECT_EQ(result.attributes.mode, 0640u);
  EXPECT_EQ(result.attributes.rdev_major, 0u);
  EXPECT_FALSE(result.striped);
  truncate(file.handle, 0);
  EXPECT_EQ(fetch(file.handle).attributes.rdev_major, 1u);
  remove(root(), "f");
  EXPECT_EQ(fetch(file.handle).status, NfsStatus::kStale);
  Handle forged = root();
  forged[0] ^= 1;
  EXPECT_EQ(fetch(forged).status, NfsStatus::kBadHandle);
}

TEST_F(AuthorityTest, StripedIsNotedDurably) {
  Made file = create(root(), "f");
  EXPECT_TRUE(fetch(file.handle, true).striped);
  restart();
  EXPECT_TRUE(fetch(file.handle).striped);
}

TEST_F(AuthorityTest, ClientsMayNotCallIt) {
  rpc::XdrWriter record;
  rpc::encode_call(record, {.xid = Xid{1},
                            .program = wire::kAuthorityProgram,
                            .version = wire::kInternalVersion,
                            .procedure = 1,
                            .credential = {},
                            .verifier = {},
                            .arguments = {}});
  auto pending = send_record(record.take());
  loop_.advance(std::chrono::seconds(1));
  ASSERT_TRUE(pending->reply.has_value());
  auto header = rpc::decode_reply(pending->reply->view());
  ASSERT_TRUE(header.has_value());
  EXPECT_FALSE(header->accepted);
}

TEST_F(AuthorityTest, MergeMovesSizeAndTimesForwardOnly) {
  Made file = create(root(), "f");
  wire::FetchResult result = merge(file.handle, 100, 0, at(file.attributes, 5));
  EXPECT_EQ(result.attributes.size, 100u);
  EXPECT_EQ(result.attributes.mtime, at(file.attributes, 5));
  EXPECT_EQ(result.attributes.ctime, at(file.attributes, 5));
  result = merge(file.handle, 50, 0, at(file.attributes, 3));
  EXPECT_EQ(result.attributes.size, 100u);
  EXPECT_EQ(result.attributes.mtime, at(file.attributes, 5));
  restart();
  EXPECT_EQ(attributes(file.handle).size, 100u);  // durable when answered
}

TEST_F(AuthorityTest, OneCallTellsOfManyFilesEachAnsweredForItself) {
  std::vector<Made> made;
  std::vector<wire::FileMerge> merges;
  for (std::uint64_t i = 0; i < 5; ++i) made.push_back(create(root(), "f" + std::to_string(i)));
  remove(root(), "f2");
  for (std::uint64_t i = 0; i < 5; ++i) {
    merges.push_back({made[i].handle, Epoch{0}, 100 + i, at(made[i].attributes, 5), {}});
  }
  wire::MergeResult result = merge(merges);
  EXPECT_EQ(result.status, NfsStatus::kOk);
  ASSERT_EQ(result.files.size(), 5u);
  EXPECT_EQ(result.files[2].status, NfsStatus::kStale);
  restart();
  for (std::uint64_t i : {0, 1, 3, 4}) {
    EXPECT_EQ(result.files[i].attributes.size, 100 + i);
    EXPECT_EQ(attributes(made[i].handle).size, 100 + i);
  }
}

TEST_F(AuthorityTest, ASizeThatNoFileHasIsNotBelieved) {
  Made file = create(root(), "f");
  constexpr std::uint64_t kLargest = (std::uint64_t{1} << 63) - 1;
  EXPECT_EQ(merge(file.handle, kLargest + 1, 0, at(file.attributes, 5)).status, NfsStatus::kFbig);
  EXPECT_EQ(fetch(file.handle).attributes.size, 0u);
  EXPECT_EQ(fetch(file.handle).attributes.mtime, file.attributes.mtime);
  EXPECT_EQ(merge(file.handle, kLargest, 0).attributes.size, kLargest);
}

TEST_F(AuthorityTest, AReportOfAnOlderEpochCannotUndoATruncation) {
  Made file = create(root(), "f");
  merge(file.handle, 5000, 0);
  ASSERT_EQ(truncate(file.handle, 10), NfsStatus::kOk);
  EXPECT_EQ(merge(file.handle, 5000, 0).attributes.size, 10u);
  EXPECT_EQ(merge(file.handle, 600, 1).attributes.size, 600u);
}

class UsedTest : public AuthorityTest {
 protected:
  std::uint64_t tell(std::uint32_t teller, std::uint32_t epoch, std::uint64_t size, std::uint64_t stored) {
    wire::FileMerge merged{.handle = file.handle, .epoch = Epoch{epoch}, .size = size};
    merged.stored = stored;
    return merge({merged}, teller).files.at(0).attributes.used;
  }
  Made file = create(root(), "f");
};

TEST_F(UsedTest, IsWhatAllServersStore) {
  EXPECT_EQ(file.attributes.used, 0u);
  EXPECT_EQ(tell(5, 0, 64 << 20, 8192), 8192u);
  EXPECT_EQ(tell(7, 0, 1 << 20, 4096), 12288u);
  EXPECT_EQ(tell(5, 0, 1 << 20, 16384), 20480u);
  restart();
  EXPECT_EQ(attributes(file.handle).used, 20480u);
  EXPECT_EQ(tell(7, 0, 0, 128 << 20), 64u << 20) << "copies count as far as a file without holes takes";
}

// Whose site has moved since: a file is whole at one of them.
TEST_F(UsedTest, BelowTheThresholdIsWhatOneServerHasToldLast) {
  FakeDataServer strange(loop_, wire::kObjectProgram);
  const std::uint32_t small1 = config_.find("small1")->index, store1 = config_.find("store1")->index;
  const std::uint32_t small2 = add_server("small2", wire::Role::kSmallFile, strange);
  EXPECT_EQ(tell(small1, 0, 64 << 20, 8192), 8192u);
  EXPECT_EQ(tell(store1, 0, 64 << 20, 1 << 20), 8192u + (1u << 20));
  EXPECT_EQ(tell(small2, 0, 64 << 20, 12288), 12288u + (1u << 20));
  EXPECT_EQ(tell(small1, 0, 64 << 20, 0), 1u << 20) << "it has come back, and is empty";
  restart();
  EXPECT_EQ(attributes(file.handle).used, 1u << 20);
  silence("small2");
}

TEST_F(UsedTest, OfAFileWithASizeIsNeverZero) {
  ASSERT_EQ(truncate(file.handle, 64 << 20), NfsStatus::kOk);
  EXPECT_EQ(attributes(file.handle).used, 512u);
  EXPECT_EQ(tell(5, 1, 100, 4096), 4096u);
  EXPECT_EQ(tell(5, 1, 100, 0), 512u);
  ASSERT_EQ(truncate(file.handle, 0), NfsStatus::kOk);
  EXPECT_EQ(attributes(file.handle).used, 0u);
}

TEST_F(UsedTest, GoesDownWithTheSizeAndStaysDown) {
  tell(5, 0, 1 << 20, 768 << 10);
  tell(7, 0, 1 << 20, 256 << 10);
  ASSERT_EQ(truncate(file.handle, 512 << 10), NfsStatus::kOk);
  EXPECT_EQ(attributes(file.handle).used, 512u << 10);
  ASSERT_EQ(truncate(file.handle, 64 << 20), NfsStatus::kOk);
  EXPECT_EQ(attributes(file.handle).used, 512u << 10);
  EXPECT_EQ(tell(7, 0, 0, 9 << 20), 512u << 10) << "from before it was cut";
  EXPECT_EQ(tell(7, 2, 0, 1 << 20), (1u << 20) + (384u << 10));
}

TEST_F(AuthorityTest, ALateReportDoesNotUndoSetTimes) {
  Made file = create(root(), "f");
  loop_.advance(std::chrono::seconds(10));
  nfs3::SetAttributes set;
  set.set_mtime = nfs3::SetAttributes::TimeHow::kClientTime;
  set.mtime = {1000, 0};
  ASSERT_EQ(setattr(file.handle, set), NfsStatus::kOk);
  // The write was before, its report comes after: as in cp -p.
  EXPECT_EQ(merge(file.handle, 10, 0, at(file.attributes, 5)).attributes.mtime, (Time{1000, 0}));
  EXPECT_EQ(attributes(file.handle).size, 10u);
  EXPECT_EQ(merge(file.handle, 10, 0, at(file.attributes, 15)).attributes.mtime, at(file.attributes, 15));
}

TEST_F(AuthorityTest, AWriteTakesTheSetIdBitsButALateReportOfOneDoesNot) {
  Made file = create(root(), "f", {}, 04755);
  EXPECT_EQ(merge(file.handle, 1, 0, at(file.attributes, 1)).attributes.mode, 0755u);
  loop_.advance(std::chrono::seconds(10));
  nfs3::SetAttributes set;
  set.mode = 04755;
  ASSERT_EQ(setattr(file.handle, set), NfsStatus::kOk);
  EXPECT_EQ(merge(file.handle, 1, 0, at(file.attributes, 5)).attributes.mode, 04755u);
}

TEST_F(AuthorityTest, AtimeMovesAsRelatimeHasIt) {
  Made file = create(root(), "f");
  Time first = at(file.attributes, 10), second = at(file.attributes, 20),
       next_day = at(file.attributes, 90000);
  EXPECT_EQ(merge(file.handle, 0, 0, {}, first).attributes.atime, first);
  EXPECT_EQ(merge(file.handle, 0, 0, {}, second).attributes.atime, first);
  EXPECT_EQ(merge(file.handle, 0, 0, {}, next_day).attributes.atime, next_day);
}

TEST_F(AuthorityTest, FetchesWaitForATruncationAndMergesDoNotTellItsEpoch) {
  Made file = create(root(), "f");
  merge(file.handle, 5000, 0);
  small_.takes = std::chrono::seconds(3);
  nfs3::SetAttributes set;
  set.size = 10;
  auto truncation = send(Procedure::kSetattr, nfs3::SetattrArgs{.object = file.handle, .attributes = set});
  loop_.advance(std::chrono::seconds(1));
  wire::FetchResult merged = merge(file.handle, 6000, 0);
  EXPECT_EQ(merged.attributes.rdev_major, 0u);
  EXPECT_EQ(merged.attributes.size, 10u);
  EXPECT_FALSE(truncation->ended);
  EXPECT_EQ(fetch(file.handle).attributes.rdev_major, 1u);
  EXPECT_TRUE(truncation->ended);
}

TEST_F(AuthorityTest, ADirectorysPolicyIsThatOfNewFilesAndDirectories) {
  Handle directory = mkdir(root(), "d").handle;
  Handle old = create(directory, "old").handle;
  wire::FilePolicy wanted{.stripe_shift = 20, .copies = 2};
  EXPECT_EQ(set(directory, wire::kPolicyAll, wanted).policy, wanted);
  Handle below = mkdir(directory, "below").handle;
  restart();
  EXPECT_EQ(set(below, 0).policy, wanted) << "it is inherited, and durable";
  EXPECT_EQ(set(root(), 0).policy, wire::FilePolicy{});
  for (const Handle& in : {directory, below}) {
    auto made = handles_.open(create(in, "new").handle);
    EXPECT_EQ(made->stripe_shift, 20u);
    EXPECT_EQ(made->flags, SLICE_HANDLE_MIRRORED);
  }
  EXPECT_EQ(handles_.open(old)->flags, 0u);
  EXPECT_EQ(handles_.open(lookup(directory, "old").handle)->stripe_shift, 16u);
  EXPECT_EQ(set(old, wire::kPolicyAll, wanted).status, NfsStatus::kNotDir);
  EXPECT_EQ(set(directory, wire::kPolicyStripeUnit, {.stripe_shift = 12}).status, NfsStatus::kInval);
  EXPECT_EQ(set(directory, wire::kPolicyCopies, {.copies = 3}).status, NfsStatus::kInval)
      << "there are two storage nodes";
  // Nobody else has bytes of a mirrored file that no storage node knows.
  small_.asked.clear();
  EXPECT_EQ(remove(directory, "new"), NfsStatus::kOk);
  loop_.advance(std::chrono::seconds(5));
  EXPECT_TRUE(small_.asked.empty());
}

TEST_F(AuthorityTest, APolicyIsMergedFieldByField) {
  Handle directory = mkdir(root(), "d").handle;
  constexpr std::uint32_t kFreeSpace = 1 + static_cast<std::uint32_t>(slice::Placement::kFreeSpace);
  set(directory, wire::kPolicyCopies, {.copies = 2});
  wire::PolicyResult result = set(directory, wire::kPolicyPlacement, {.placement = kFreeSpace});
  EXPECT_EQ(result.policy, (wire::FilePolicy{.copies = 2, .placement = kFreeSpace}));
  result = set(directory, wire::kPolicyStripeUnit, {.stripe_shift = 20, .copies = 99});
  EXPECT_EQ(result.status, NfsStatus::kOk) << "what is not named does not count";
  restart();
  EXPECT_EQ(set(directory, 0).policy,
            (wire::FilePolicy{.stripe_shift = 20, .copies = 2, .placement = kFreeSpace}));
  EXPECT_EQ(set(directory, wire::kPolicyStripeUnit | wire::kPolicyPlacement).policy,
            (wire::FilePolicy{.copies = 2}));
}

TEST_F(AuthorityTest, FewerCopiesAreWantedOrRefused) {
  Handle directory = mkdir(root(), "d").handle;
  set(directory, wire::kPolicyCopies, {.copies = 2});
  for (std::uint32_t copies : {0, 1}) {
    wire::PolicyResult refused =
        set(directory, wire::kPolicyCopies | wire::kPolicyStripeUnit, {.stripe_shift = 20, .copies = copies});
    EXPECT_EQ(refused.status, NfsStatus::kPerm);
    EXPECT_EQ(refused.policy, (wire::FilePolicy{.copies = 2})) << "nothing is changed";
  }
  EXPECT_EQ(set(directory, wire::kPolicyCopies, {.copies = 2}).status, NfsStatus::kOk);
  EXPECT_EQ(set(directory, wire::kPolicyCopies, {.copies = 1}, true).policy, (wire::FilePolicy{.copies = 1}));
  EXPECT_EQ(set(directory, wire::kPolicyCopies, {}).status, NfsStatus::kOk) << "the volume has one as well";
  EXPECT_EQ(set(directory, wire::kPolicyCopies, {.copies = 2}).status, NfsStatus::kOk);
}

}  // namespace
}  // namespace slice::dirserver::testing
