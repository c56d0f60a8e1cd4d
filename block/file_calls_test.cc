// Through a worker of the proxy, to servers that are toys.
#include "block/file_calls.h"

#include <gtest/gtest.h>

#include "proxy/testing/toy_ensemble.h"

namespace slice::block {
namespace {

using namespace std::chrono_literals;
using proxy::testing::pattern;
using proxy::testing::ToyEnsemble;

constexpr std::uint64_t kFile = 42, kDataBegin = 64 << 10;
constexpr std::size_t kBytes = 300 << 10;

class FileCallsTest : public ::testing::Test {
 protected:
  FileCallsTest() {
    ensemble.sizes[kFile] = kDataBegin + (1 << 20);
    calls.emplace(
        ensemble.loop,
        [this](proxy::Client& client, Buffer message) {
          return ensemble.worker->take(client, std::move(message));
        },
        ensemble.handle(kFile),
        FileCalls::Options{
            .name = {0x7f000001, 900}, .first_xid = 5, .again = 200ms, .busy_pause = 10ms, .patience = 5s});
  }
  template <class T>
  T run(Task<T> task) {
    std::optional<T> done;
    spawn(std::move(task), done);
    EXPECT_TRUE(ensemble.run_until([&] { return done.has_value(); }));
    return std::move(*done);
  }
  Result<Verifier> write(const std::vector<std::uint8_t>& data) {
    return run(calls->write(kDataBegin, data, false));
  }
  std::vector<std::uint8_t> read() {
    std::vector<std::uint8_t> into(kBytes);
    const Status status = run(calls->read(kDataBegin, into));
    EXPECT_TRUE(status) << status.error().message;
    return into;
  }
  proxy::testing::ToyServer& node() { return ensemble.server(wire::Role::kStorage); }

  ToyEnsemble ensemble{{.own = true}};
  std::optional<FileCalls> calls;
};

TEST_F(FileCallsTest, ReadsOverAllServersWhatItWrote) {
  const auto data = pattern(kBytes, 1);
  const auto verifier = write(data);
  ASSERT_TRUE(verifier) << verifier.error().message;
  EXPECT_EQ(read(), data);
  const auto committed = run(calls->commit());
  ASSERT_TRUE(committed);
  EXPECT_EQ(*committed, *verifier);
}

TEST_F(FileCallsTest, GoesOnBehindWhatAServerTook) {
  node().write_at_most = 10'000;
  const auto data = pattern(kBytes, 2);
  ASSERT_TRUE(write(data));
  EXPECT_EQ(read(), data);
}

TEST_F(FileCallsTest, AHoleIsMadeWithoutData) {
  auto data = pattern(kBytes, 8);
  ASSERT_TRUE(write(data));
  node().write_at_most = 10'000;
  constexpr std::size_t at = 1000, size = 200'000;
  ASSERT_TRUE(run(calls->make_hole(kDataBegin + at, size, false)));
  std::fill_n(data.begin() + at, size, std::uint8_t{0});
  EXPECT_EQ(read(), data);
  std::uint64_t holes = 0;
  for (const auto& server : ensemble.servers) holes += server->holes;
  EXPECT_GE(holes, size);
}

TEST_F(FileCallsTest, WhatIsThereIsAskedByAReadOfNoBytes) {
  ASSERT_TRUE(write(pattern(kBytes, 8)));
  ASSERT_TRUE(run(calls->make_hole(kDataBegin + 4096, 4096, false)));
  EXPECT_EQ(*run(calls->extent(kDataBegin + 100)), (Extent{3996, false}));
  EXPECT_EQ(*run(calls->extent(kDataBegin + 4096)), (Extent{4096, true}));
  for (const auto& server : ensemble.servers) server->knows_holes = false;
  EXPECT_EQ(*run(calls->extent(kDataBegin + 4096)), (Extent{VolumeFile::kMostBytes, false}))
      << "who cannot tell has no holes";
}

TEST_F(FileCallsTest, ServersThatKnowNoHolesGetZeros) {
  for (const auto& server : ensemble.servers) server->knows_holes = false;
  auto data = pattern(kBytes, 9);
  ASSERT_TRUE(write(data));
  ASSERT_TRUE(run(calls->make_hole(kDataBegin, kBytes / 2, true)));
  std::fill_n(data.begin(), kBytes / 2, std::uint8_t{0});
  EXPECT_EQ(read(), data);
}

TEST_F(FileCallsTest, ComesAgainWhereItIsToldTo) {
  node().fail_with = nfs3::Status::kJukebox;
  ensemble.loop.after(300ms, [this] { node().fail_with = nfs3::Status::kOk; });
  EXPECT_TRUE(write(pattern(kBytes, 3)));
}

TEST_F(FileCallsTest, SendsTheSameCallAgainWhereThereIsNoAnswer) {
  node().drops = 1;
  const auto data = pattern(kBytes, 4);
  EXPECT_TRUE(write(data));
  EXPECT_EQ(read(), data);
}

// Nobody knows what a server that is away has done: as long as it is, the call is neither given up nor piles
// up.
TEST_F(FileCallsTest, WaitsForAServerThatIsAway) {
  node().stop();
  bool came_back = false;
  ensemble.loop.after(6s, [&] {
    came_back = true;
    node().start();
  });
  const auto data = pattern(kBytes, 7);
  EXPECT_TRUE(write(data));
  EXPECT_TRUE(came_back) << "beyond its patience";
  EXPECT_EQ(read(), data);
}

TEST_F(FileCallsTest, ErrorsAreTold) {
  const std::pair<nfs3::Status, Errc> all[] = {{nfs3::Status::kStale, Errc::kStale},
                                               {nfs3::Status::kNoSpc, Errc::kNoSpace},
                                               {nfs3::Status::kDquot, Errc::kQuota},
                                               {nfs3::Status::kIo, Errc::kIo}};
  for (const auto& [status, code] : all) {
    for (const auto& server : ensemble.servers) server->fail_with = status;
    const auto written = write(pattern(kBytes, 5));
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, code) << written.error().message;
  }
}

TEST_F(FileCallsTest, AfterItsPatienceItGivesUp) {
  for (const auto& server : ensemble.servers) server->fail_with = nfs3::Status::kJukebox;
  const auto written = write(pattern(kBytes, 6));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Errc::kTimedOut);
}

TEST_F(FileCallsTest, TheFilesEndIsAnError) {
  std::vector<std::uint8_t> into(4096);
  EXPECT_FALSE(run(calls->read(kDataBegin + (1 << 20), into)));
}

}  // namespace
}  // namespace slice::block
