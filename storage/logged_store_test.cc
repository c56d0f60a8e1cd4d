// A store on a disk far away: what is durable comes back on any host, with a copy that fits or without one.
#include "storage/logged_store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include "common/manual_loop.h"
#include "common/testing/temporary_folder.h"
#include "storage/memory_disk.h"
#include "storage/posix_disk.h"
#include "storage/testing/real_time.h"

namespace slice::storage {
namespace {

class LoggedStoreTest : public testing::Test {
 protected:
  LoggedStoreTest() {
    for (const char* host : {"a", "b"}) std::filesystem::create_directory(folder_ + "/" + host);
  }
  ~LoggedStoreTest() override {
    store_.reset();
    loop_.advance(std::chrono::seconds(10));
  }

  // The threads of the copy need real time.
  template <class T>
  T run(Task<T> task) {
    return end_in_real_time(loop_, std::move(task));
  }

  Status open(const std::string& host = "a") {
    store_.reset();
    session_ = disk_.session();
    metrics_.emplace();
    auto opened = run(LoggedStore::open(
        loop_, *session_, *metrics_,
        {.name = "cells", .tables = {.folder = tables(host)}, .random = [this] { return random_(); }}));
    if (!opened) return fail(std::move(opened).error());
    store_ = std::move(*opened);
    return {};
  }
  std::string tables(const std::string& host) const { return folder_ + "/" + host + "/cells"; }

  Result<LogPosition> put(const std::string& key, const std::string& value) {
    WriteBatch batch;
    batch.put(key, value);
    return store_->apply(batch);
  }
  Status put_durably(const std::string& key, const std::string& value) {
    auto position = put(key, value);
    if (!position) return fail(position.error());
    return run(store_->durable(*position));
  }
  std::string get(const std::string& key) { return store_->get(key).value().value_or("nothing"); }
  std::uint64_t counter(std::string_view name) { return metrics_->counter(name).value(); }

  const TemporaryFolder temporary_;
  const std::string& folder_ = temporary_.path();
  ManualLoop loop_;
  MemoryDisk disk_{loop_};
  std::unique_ptr<Disk> session_;
  std::optional<Metrics> metrics_;
  std::mt19937_64 random_{1};
  std::unique_ptr<LoggedStore> store_;
};

TEST_F(LoggedStoreTest, WhatIsDurableIsOnEveryHost) {
  ASSERT_TRUE(open("a"));
  ASSERT_TRUE(put_durably("key", "value"));
  WriteBatch batch;
  batch.erase("key");
  batch.put("other", "second");
  ASSERT_TRUE(run(store_->durable(store_->apply(batch).value())));
  disk_.crash(MemoryDisk::Crash::kDropUnsynced);
  ASSERT_TRUE(open("b"));
  EXPECT_EQ(get("key"), "nothing");
  EXPECT_EQ(get("other"), "second");
  EXPECT_EQ(store_->durable_position().value, 2u);
}

TEST_F(LoggedStoreTest, ACopyWithWhatNeverBecameDurableIsNotUsed) {
  ASSERT_TRUE(open());
  ASSERT_TRUE(put_durably("key", "durable"));
  ASSERT_TRUE(put("key", "never durable"));
  EXPECT_EQ(get("key"), "never durable");
  store_.reset();  // the copy goes to its tables with it
  disk_.crash(MemoryDisk::Crash::kDropUnsynced);
  ASSERT_TRUE(open());
  EXPECT_EQ(get("key"), "durable");
}

TEST_F(LoggedStoreTest, ACopyOfBeforeAnotherHostHadTheStoreIsNotUsed) {
  ASSERT_TRUE(open("a"));
  ASSERT_TRUE(put_durably("key", "first"));
  ASSERT_TRUE(put("key", "only here"));
  store_.reset();
  disk_.crash(MemoryDisk::Crash::kDropUnsynced);
  ASSERT_TRUE(open("b"));
  ASSERT_TRUE(put_durably("other", "of b"));  // the second record, as `only here` was at a
  ASSERT_TRUE(open("a"));
  EXPECT_EQ(get("key"), "first");
  EXPECT_EQ(get("other"), "of b");
}

TEST_F(LoggedStoreTest, ACopyThatFitsIsGoneOnWith) {
  ASSERT_TRUE(open());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(put_durably("key" + std::to_string(i), "value"));
  ASSERT_TRUE(run(store_->checkpoint()));
  ASSERT_TRUE(put_durably("last", "one"));
  ASSERT_TRUE(open());
  EXPECT_EQ(get("key99"), "value");
  EXPECT_EQ(get("last"), "one");
  EXPECT_EQ(counter("kv_copies_rebuilt_total"), 0u);
  // What the first checkpoint stored, the second does not store again.
  ASSERT_TRUE(run(store_->checkpoint()));
  EXPECT_LT(counter("kv_checkpoint_bytes_total"), 100u << 10);
}

TEST_F(LoggedStoreTest, ACheckpointCutsTheLogAndIsFetched) {
  ASSERT_TRUE(open("a"));
  const std::string value(64 << 10, 'v');
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(put(std::to_string(i), value));
  ASSERT_TRUE(put_durably("key", "value"));
  const auto segments = [this] {
    const auto paths = disk_.paths();
    return std::count_if(paths.begin(), paths.end(),
                         [](const auto& each) { return each.starts_with("cells.log/"); });
  };
  ASSERT_TRUE(put_durably("key", "value"));
  EXPECT_GT(segments(), 1);
  ASSERT_TRUE(run(store_->checkpoint()));
  EXPECT_EQ(segments(), 1);
  ASSERT_TRUE(put_durably("behind", "it"));
  disk_.crash(MemoryDisk::Crash::kDropUnsynced);
  ASSERT_TRUE(open("b"));
  EXPECT_EQ(counter("kv_copies_rebuilt_total"), 1u);
  EXPECT_EQ(get("299"), value);
  EXPECT_EQ(get("behind"), "it");
}

TEST_F(LoggedStoreTest, WhoStandsByHasTheTablesBeforeItOpens) {
  auto b = PosixDisk::open(loop_, folder_ + "/b").value();
  const auto ahead = [&] { return run(LoggedStore::look_ahead(disk_, *b, "cells", 0)); };
  const auto files = [&] { return run(b->list("cells.ahead")).value(); };
  ASSERT_TRUE(open("a"));
  ASSERT_TRUE(put_durably("key", "value"));
  EXPECT_EQ(ahead().value(), 0u) << "there is no checkpoint";
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(put_durably(std::to_string(i), std::string(1000, 'v')));
  ASSERT_TRUE(run(store_->checkpoint()));
  EXPECT_EQ(run(LoggedStore::look_ahead(disk_, *b, "cells", ~std::uint64_t{0} / 2)).error().code,
            Errc::kNoSpace);
  const std::uint64_t first = ahead().value();
  EXPECT_GT(first, 0u);
  EXPECT_EQ(ahead().value(), 0u);
  const auto had = files();
  ASSERT_TRUE(put_durably("later", "value"));
  ASSERT_TRUE(run(store_->checkpoint()));
  const std::uint64_t second = ahead().value();
  EXPECT_GT(second, 0u);
  EXPECT_LT(second, first) << "a table that was there is not fetched again";
  EXPECT_NE(files(), had);
  // Whole again at the next look: a host that died in between may have left anything under that name.
  std::ofstream(folder_ + "/b/cells.ahead/part") << "nonsense";
  EXPECT_EQ(ahead().value(), 0u);
  store_.reset();
  for (const std::string& path : disk_.paths()) {
    if (path.ends_with(".sst")) ASSERT_TRUE(disk_.corrupt(path, 100, 1));
  }
  ASSERT_TRUE(open("b")) << "what was fetched ahead is not fetched again";
  EXPECT_EQ(get("later"), "value");
  EXPECT_EQ(get("199"), std::string(1000, 'v'));
  EXPECT_TRUE(files().empty());
}

TEST_F(LoggedStoreTest, WhatIsDamagedIsNotFetchedAhead) {
  auto b = PosixDisk::open(loop_, folder_ + "/b").value();
  ASSERT_TRUE(open("a"));
  ASSERT_TRUE(put_durably("key", "value"));
  ASSERT_TRUE(run(store_->checkpoint()));
  for (const std::string& path : disk_.paths()) {
    if (path.ends_with(".sst")) ASSERT_TRUE(disk_.corrupt(path, 100, 1));
  }
  EXPECT_EQ(run(LoggedStore::look_ahead(disk_, *b, "cells", 0)).error().code, Errc::kCorrupt);
  const auto names = run(b->list("cells.ahead")).value();
  for (const std::string& name : names) EXPECT_FALSE(name.ends_with(".sst"));
}

TEST_F(LoggedStoreTest, TablesOfNoCheckpointGo) {
  ASSERT_TRUE(open());
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(put_durably(std::to_string(i), std::string(1000, 'v')));
    ASSERT_TRUE(run(store_->checkpoint()));
  }
  const auto paths = disk_.paths();
  EXPECT_LT(std::count_if(paths.begin(), paths.end(),
                          [](const auto& each) { return each.starts_with("cells.tables/"); }),
            12);
}

TEST_F(LoggedStoreTest, ADamagedCopyIsMadeAnewAndADamagedCheckpointIsSaid) {
  ASSERT_TRUE(open());
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(put(std::to_string(i), std::string(100, 'v')));
  ASSERT_TRUE(put_durably("key", "value"));
  ASSERT_TRUE(run(store_->checkpoint()));
  store_.reset();
  std::ofstream(tables("a") + "/CURRENT") << "nonsense";
  ASSERT_TRUE(open());
  EXPECT_EQ(get("1999"), std::string(100, 'v'));
  EXPECT_EQ(counter("kv_copies_rebuilt_total"), 1u);
  store_.reset();
  std::filesystem::remove_all(tables("a"));
  for (const std::string& path : disk_.paths()) {
    if (path.ends_with(".sst")) ASSERT_TRUE(disk_.corrupt(path, 100, 1));
  }
  Status opened = open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::kCorrupt);
  EXPECT_NE(opened.error().message.find("its bytes are not those of the checkpoint"), std::string::npos);
}

TEST_F(LoggedStoreTest, AFailedSyncIsSaidAndNothingIsTakenAfterwards) {
  ASSERT_TRUE(open());
  ASSERT_TRUE(put_durably("key", "value"));
  disk_.set_fault([](const MemoryDisk::Access& access) -> std::optional<Error> {
    if (access.operation != MemoryDisk::Operation::kSync) return std::nullopt;
    return Error{Errc::kIo, "no"};
  });
  EXPECT_EQ(put_durably("key", "other").error().code, Errc::kIo);
  disk_.set_fault(nullptr);
  EXPECT_FALSE(put("key", "third"));
  ASSERT_TRUE(open());
  EXPECT_NE(get("key"), "third");
}

TEST_F(LoggedStoreTest, WaitersAreToldWhenItIsClosed) {
  ASSERT_TRUE(open());
  disk_.set_delay(std::chrono::seconds(1), std::chrono::seconds(1));
  std::optional<Status> ended;
  spawn(store_->durable(put("key", "value").value()), ended);
  store_.reset();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->error().code, Errc::kUnavailable);
  loop_.advance(std::chrono::seconds(10));
}

// The power fails at each operation on the disk in turn, and the store goes on at the other host.
TEST_F(LoggedStoreTest, NothingDurableIsLostWhereverThePowerFails) {
  std::map<std::string, std::string> durable, maybe;
  std::uint64_t crashes = 0;
  for (std::uint64_t at = 1; at < 400; at += 1 + at / 12) {
    const std::string host = at % 2 == 0 ? "a" : "b";
    Status opened = open(host);
    ASSERT_TRUE(opened) << opened.error().message;
    for (const auto& [key, value] : durable) {
      const std::string found = get(key);
      ASSERT_TRUE(found == value || (maybe.contains(key) && found == maybe[key])) << key << " at " << at;
      durable[key] = found;
    }
    for (const auto& [key, value] : maybe) {
      if (get(key) == value) durable[key] = value;
    }
    maybe.clear();
    std::uint64_t left = at;
    bool crashed = false;
    disk_.set_fault([&](const MemoryDisk::Access&) -> std::optional<Error> {
      if (crashed || --left > 0) return std::nullopt;
      crashed = true;
      disk_.crash(MemoryDisk::Crash::kSeeded, at);
      return Error{Errc::kIo, "power"};
    });
    for (int i = 0; i < 60 && !crashed; ++i) {
      const std::string key = std::to_string(i % 20), value = fmt::format("{}-{}", at, i);
      maybe[key] = value;
      if (!put_durably(key, value)) break;
      durable[key] = value;
      maybe.erase(key);
      if (i % 15 == 14 && !run(store_->checkpoint())) break;
    }
    disk_.set_fault(nullptr);
    if (crashed) ++crashes;
  }
  EXPECT_GT(crashes, 20u);
}

}  // namespace
}  // namespace slice::storage
