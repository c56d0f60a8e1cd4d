// What a storage node does after a crash about mirrored files that were being written.
#include "storagenode/doubts.h"

#include "storagenode/testing/mirrored_fixture.h"
#include "storagenode/testing/store_harness.h"

namespace slice::storagenode {
namespace {

using namespace std::chrono_literals;

// ---- what the store remembers ----

class UnsettledTest : public ::testing::Test {
 protected:
  UnsettledTest() {
    tag.fill(7);
    EXPECT_TRUE(h.open());
  }
  void write_tagged(std::uint64_t offset) {
    const Buffer bytes = pattern(8192, 1);
    EXPECT_TRUE(h.run(h.store->write(name, offset, bytes.view(), {.epoch = Epoch{1}, .tag = tag})));
  }
  void crash() {
    h.crash(MemoryDisk::Crash::kProcess, 0);
    ASSERT_TRUE(h.open());
  }
  StoreHarness h;
  const ObjectName name = file_object(5), other = file_object(6);
  Tag tag{};
};

TEST_F(UnsettledTest, WhatWasBeingWrittenComesBackUntilItIsSettled) {
  write_tagged(3 * kGranule);
  write_tagged(kSegment + 1);
  ASSERT_TRUE(h.write(other, 0, pattern(100, 2).view()));
  EXPECT_TRUE(h.store->unsettled().empty());
  for (int i = 0; i < 3; ++i) {
    crash();
    const auto left = h.store->unsettled();
    ASSERT_EQ(left.size(), 1u) << "what has no tag is nobody's to settle";
    EXPECT_EQ(left.front().object, name);
    EXPECT_EQ(left.front().tag, tag);
    std::vector<std::uint64_t> offsets;
    for (const storage::Range& range : left.front().ranges) offsets.push_back(range.offset);
    EXPECT_EQ(offsets, (std::vector<std::uint64_t>{0, 3 * kGranule, kSegment})) << "with the first header";
    h.loop.advance(60s);
  }
  h.store->settled(name);
  h.loop.advance(60s);
  crash();
  EXPECT_TRUE(h.store->unsettled().empty());
}

TEST_F(UnsettledTest, SoDoesWhatCameToNoGoodEnd) {
  write_tagged(0);
  h.store->unsettle(name);
  h.loop.advance(60s);
  crash();
  ASSERT_EQ(h.store->unsettled().size(), 1u);
  h.store->settled(name);
  h.close();
  ASSERT_TRUE(h.open());
  EXPECT_TRUE(h.store->unsettled().empty());
}

TEST_F(UnsettledTest, AfterACleanStopThereIsNothing) {
  write_tagged(0);
  h.close();
  ASSERT_TRUE(h.open());
  EXPECT_TRUE(h.store->unsettled().empty());
}

TEST_F(UnsettledTest, WhatIsRemovedIsNotLeft) {
  write_tagged(0);
  crash();
  ASSERT_TRUE(h.run(h.store->remove(name)));
  EXPECT_TRUE(h.store->unsettled().empty());
}

// ---- and what the node makes of it ----

class DoubtsTest : public MirroredFileTest {
 protected:
  // The process ends where it stands; what it had written is there.
  void crash_server() {
    network_.attach(endpoint("store1"), nullptr);
    client.attach(endpoint("store1"), nullptr);
    server->node().store.halt();
    retired.push_back(std::move(server));
    start_server();
  }
  bool noted(std::uint32_t node) const {
    return std::ranges::any_of(coordinator.noted, [&](const auto& each) {
      return each.first == node && each.second.first <= stripe && stripe < each.second.end;
    });
  }
  std::uint64_t doubtful() { return metrics_.counter("mirror_doubtful_files").value(); }
  const std::uint32_t other = config_.find("store2")->index;
};

TEST_F(DoubtsTest, ThisCopyMissesWhatWasBeingWrittenWhereAnotherIsWhole) {
  ASSERT_EQ(write_stripe("abcd").status, NfsStatus::kOk);
  crash_server();
  EXPECT_EQ(doubtful(), 1u);
  loop_.advance(2s);
  EXPECT_TRUE(noted(self_.index));
  EXPECT_FALSE(noted(other));
  EXPECT_EQ(doubtful(), 0u);
}

TEST_F(DoubtsTest, AfterACleanStopNothingIsInDoubt) {
  ASSERT_EQ(write_stripe("abcd").status, NfsStatus::kOk);
  stop_server();
  start_server();
  EXPECT_EQ(doubtful(), 0u);
  loop_.advance(2s);
  EXPECT_TRUE(coordinator.noted.empty());
}

// Nothing is answered from a copy while it is not known which one counts.
TEST_F(DoubtsTest, ThisCopyCountsWhereNoOtherIsWholeForAWhile) {
  ASSERT_EQ(write_stripe("abcd").status, NfsStatus::kOk);
  coordinator.refuses = [this](std::uint32_t node, const wire::StripeRange& stripes) {
    if (node == self_.index) return true;
    if (coordinator.layout.missing.empty())
      coordinator.layout.missing.push_back({.server = node, .stripes = {}, .since = {}});
    routing::add(coordinator.layout.missing.front().stripes, stripes);
    coordinator.layout.changed = ++coordinator.layout.version;
    recall();
    return false;
  };
  crash_server();
  silence("store2");
  const MonoTime crashed = loop_.now();
  const ReadReply reply = read(stripe << handle.stripe_shift, 4);
  EXPECT_EQ(reply.data, "abcd");
  EXPECT_GE(loop_.now() - crashed, Doubts::kPatience);
  EXPECT_LT(loop_.now() - crashed, Doubts::kPatience + 3s);
  EXPECT_TRUE(noted(other));
  EXPECT_FALSE(noted(self_.index));
  EXPECT_EQ(doubtful(), 0u);
}

TEST_F(DoubtsTest, WhatTheOthersMissAnywayNeedsNoWait) {
  ASSERT_EQ(write_stripe("abcd").status, NfsStatus::kOk);
  coordinator.refuses = [](std::uint32_t, const auto&) { return true; };
  coordinator.layout.missing = {{.server = other, .stripes = {{0, wire::kAllStripes}}, .since = {}}};
  crash_server();
  loop_.advance(2s);
  EXPECT_EQ(doubtful(), 0u);
  EXPECT_TRUE(coordinator.noted.empty());
}

// The other copy may have it: nobody writes it again.
TEST_F(DoubtsTest, AWriteThatComesToNoGoodEndIsSettled) {
  silence("store2");
  coordinator.notes = NfsStatus::kJukebox;
  const auto coord1 = static_cast<std::uint16_t>(config_.find("coord1")->index);
  rpc::Request write =
      forwarded_write(endpoint("store1"), handles_.mint(handle), stripe << handle.stripe_shift,
                      {.client = {0x0a4d0102, 900}, .xid = Xid{1}, .layout = {coord1, 10}});
  write.timeout = 10s;
  EXPECT_FALSE(run(network_.call(std::move(write))));
  EXPECT_EQ(doubtful(), 1u);
  coordinator.noted.clear();
  coordinator.notes = NfsStatus::kOk;
  loop_.advance(1s);
  EXPECT_TRUE(noted(self_.index));
  EXPECT_EQ(doubtful(), 0u);
}

// As after a crash of both, where the coordinator has the other one made whole from this one.
TEST_F(DoubtsTest, WhereThisOneCannotMissItTheOtherGetsWhatIsHere) {
  ASSERT_EQ(write_stripe("abcd").status, NfsStatus::kOk);
  coordinator.refuses = [](std::uint32_t, const auto&) { return true; };
  crash_server();
  loop_.advance(2s);
  const unsigned before = copy.forwards;
  loop_.advance(Doubts::kPatience);
  EXPECT_EQ(doubtful(), 0u);
  EXPECT_GE(before, 2u) << "it has what is here since";
  EXPECT_TRUE(coordinator.noted.empty());
}

// ---- what makes a copy whole ----

class CopyTest : public MirroredFileTest {
 protected:
  NfsStatus copy_stripe() {
    const auto bytes = handles_.mint(handle);
    const wire::CopyArgs args{bytes, coordinator.layout.version, stripe, config_.find("store2")->index};
    auto result = run(service::internal_call<wire::ObjectStatusResult>(
        network_, endpoint("store1"), wire::kObjectProgram, wire::ObjectProcedure::kCopy, args));
    return result ? result->status : NfsStatus::kServerFault;
  }
  std::uint64_t unit() const { return std::uint64_t{1} << handle.stripe_shift; }
};

TEST_F(CopyTest, WhatIsBehindTheSourcesEndIsGivenBack) {
  ASSERT_EQ(write_stripe("abcd").status, NfsStatus::kOk);
  copy.holes = 0;
  EXPECT_EQ(copy_stripe(), NfsStatus::kOk);
  EXPECT_EQ(copy.holes, unit() - 4);
  copy.knows_holes = false;
  EXPECT_EQ(copy_stripe(), NfsStatus::kOk) << "one of the last version keeps it";
}

TEST_F(CopyTest, WhereTheSourceHasNothingTheOtherGivesBackAll) {
  copy.epoch = Epoch{7};
  EXPECT_EQ(copy_stripe(), NfsStatus::kOk);
  EXPECT_EQ(copy.epochs, (std::vector<Epoch>{Epoch{0}, Epoch{7}})) << "it learns the other's epoch";
}

}  // namespace
}  // namespace slice::storagenode
