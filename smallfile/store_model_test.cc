// The store against a model that knows, for every byte, what a crash may leave: every acknowledged stable
// byte, and of unstable ones the old or the new. Random runs, and one run that loses power at each of its
// points.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "smallfile/testing/store_harness.h"

namespace slice::smallfile {
namespace {

using Crash = StoreHarness::Crash;

// What one file may be.
struct Model {
  std::string now;
  std::string durable;
  std::vector<std::string> maybe;  // states since, that a crash may have let through, byte by byte
  // Of what a crash may leave. A hole at the end that an unstable write made, and a truncate cut, is not kept
  // by a COMMIT: it reads as zeros either way.
  std::size_t least_end = 0;
  std::uint32_t epoch = 0;
  bool removed = false, maybe_removed = false;

  static void put(std::string& image, std::uint64_t offset, std::string_view data) {
    if (image.size() < offset + data.size()) image.resize(offset + data.size(), '\0');
    image.replace(offset, data.size(), data);
  }
  void write(std::uint64_t offset, std::string_view data, bool acknowledged_stable) {
    put(now, offset, data);
    if (!acknowledged_stable) {
      maybe.push_back(now);
      return;
    }
    put(durable, offset, data);
    for (auto& image : maybe) put(image, offset, data);
    least_end = std::max(least_end, static_cast<std::size_t>(offset + data.size()));
  }
  void truncate(std::size_t size, bool acknowledged) {
    now.resize(std::min(now.size(), size));
    least_end = std::min(least_end, size);
    if (!acknowledged) {
      maybe.push_back(now);
      return;
    }
    durable.resize(std::min(durable.size(), size));
    for (auto& image : maybe) image.resize(std::min(image.size(), size));
  }
  void settle(const std::string& content) {
    now = durable = content;
    maybe.clear();
    least_end = content.size();
  }
  static char at(const std::string& image, std::size_t i) { return i < image.size() ? image[i] : '\0'; }
  // Whether a restarted server may answer this content.
  ::testing::AssertionResult allows(const std::string& content) const {
    std::size_t longest = std::max(durable.size(), content.size());
    for (const auto& image : maybe) longest = std::max(longest, image.size());
    if (content.size() < least_end) {
      return ::testing::AssertionFailure() << "ends at " << content.size() << ", acknowledged " << least_end;
    }
    for (std::size_t i = 0; i < longest; ++i) {
      char got = at(content, i);
      bool fits = got == at(durable, i);
      for (const auto& image : maybe) fits = fits || got == at(image, i);
      if (!fits) return ::testing::AssertionFailure() << "byte " << i << " of " << content.size();
    }
    return ::testing::AssertionSuccess();
  }
};

class StoreModel : public StoreHarness {
 public:
  // Operations tell the model only what they were answered; nothing is told while the power is off.
  void do_write(std::uint64_t id, std::uint64_t offset, const std::string& data, bool stable) {
    auto written = write(id, offset, data, stable);
    files[id].write(offset, data, written && stable && !off);
  }
  void do_commit(std::uint64_t id) {
    auto committed = run(store->commit({id}));
    Model& model = files[id];
    if (committed && !off) {
      model.durable = model.now;
      model.maybe.clear();
      model.least_end = model.now.find_last_not_of('\0') + 1;
    }
  }
  void do_truncate(std::uint64_t id, std::uint64_t size) {
    Model& model = files[id];
    Status status = run(store->truncate({id}, size, Epoch{++model.epoch}));
    model.truncate(size, status && !off);
  }
  void do_remove(std::uint64_t id) {
    Status status = run(store->remove({id}));
    (status && !off ? files[id].removed : files[id].maybe_removed) = true;
  }
  void do_save() { (void)run(store->save()); }

  void check_reads() {
    for (auto& [id, model] : files) {
      if (model.removed || model.maybe_removed) continue;
      auto got = content(id);
      ASSERT_TRUE(got) << got.error().message;
      ASSERT_EQ(*got == model.now, true) << "file " << id;
    }
  }
  // After a restart: what is there is allowed, and is what counts from now on.
  void check_restarted() {
    for (auto it = files.begin(); it != files.end();) {
      auto& [id, model] = *it;
      auto got = content(id);
      bool gone = !got || (model.maybe_removed && got->empty());
      if (model.removed || (model.maybe_removed && gone)) {
        ASSERT_TRUE(!got ? got.error().code == Errc::kStale : got->empty()) << "removed file " << id;
        it = files.erase(it);
        continue;
      }
      ASSERT_TRUE(got) << "file " << id << ": " << got.error().message;
      ASSERT_TRUE(model.allows(*got)) << "file " << id;
      model.settle(*got);
      model.epoch = std::max(model.epoch, store->look({id})->epoch.value);
      model.maybe_removed = false;
      ++it;
    }
  }
  // With everything saved, every zone holds its files' extents, no two in one place, and free room, no more.
  void check_zones() {
    Status saved = run(store->save());
    ASSERT_TRUE(saved) << saved.error().message;
    std::map<SiteId, std::map<std::uint64_t, std::uint64_t>> used;
    for (auto& [id, model] : files) {
      auto stat = store->stat({id});
      if (!stat) continue;
      for (const auto& extent : stat->extents) {
        used[options.site_of({id})].emplace(extent.place, extent.length);
      }
    }
    for (std::uint32_t site = 0; site < options.sites; ++site) {
      const ZoneAllocator* zone = store->checkpointer().zone({site});
      std::uint64_t behind = 0, rooms = 0;
      for (auto [place, length] : used[{site}]) {
        ASSERT_GE(place, behind) << "extents overlap in zone " << site;
        behind = place + room_for(static_cast<std::uint32_t>(length));
      }
      if (zone == nullptr) continue;
      ASSERT_LE(behind, zone->end());
      rooms = zone->end() - zone->free_bytes();
      std::uint64_t least = 0;
      for (auto [place, length] : used[{site}]) least += room_for(static_cast<std::uint32_t>(length));
      ASSERT_GE(rooms, least);
      // A block cut by a truncate while it was not in memory keeps its room: at most a block each.
      ASSERT_LE(rooms, least + used[{site}].size() * kBlockSize) << "room leaked in zone " << site;
    }
  }

  std::map<std::uint64_t, Model> files;
  bool off = false;  // power was lost during what is running now
};

std::string random_text(std::mt19937_64& random, std::size_t length) {
  std::string text(length, 0);
  for (char& c : text) c = static_cast<char>('A' + random() % 50);
  return text;
}

class StoreModelTest : public ::testing::TestWithParam<unsigned> {};

TEST_P(StoreModelTest, RandomOperationsAndCrashes) {
  std::mt19937_64 random(GetParam());
  StoreModel model;
  model.options.cache_bytes = 192 << 10;  // less than the files take: blocks come and go
  model.options.segment_bytes = 32 << 10;
  model.options.journal_bytes = 96 << 10;
  model.must_open();
  std::uint64_t next_id = 1;
  int crashes = 0;
  for (int step = 0; step < 1500 && !::testing::Test::HasFatalFailure(); ++step) {
    if (random() % 4 == 0) model.disk.set_delay(Duration{0}, std::chrono::milliseconds(random() % 3));
    // Sometimes the power fails in the middle of what comes next.
    bool will_crash = random() % 12 == 0;
    auto how = static_cast<Crash>(random() % 3);
    std::uint64_t seed = random(), at = model.disk.operations() + 1 + random() % 20;
    if (will_crash) {
      model.disk.set_fault(
          [&model, how, seed, at](const storage::MemoryDisk::Access&) -> std::optional<Error> {
            if (!model.off && model.disk.operations() >= at) {
              model.off = true;
              model.power_off(how, seed);
            }
            return std::nullopt;
          });
    }
    for (int burst = will_crash ? 12 : 1; burst > 0 && !model.off; --burst) {
      std::uint64_t id = model.files.size() < 6 ? next_id++ : 0;
      if (id == 0) {
        auto it = model.files.begin();
        std::advance(it, random() % model.files.size());
        id = it->first;
      }
      if (model.files[id].removed || model.files[id].maybe_removed) continue;
      std::uint64_t offset = random() % 3 == 0 ? random() % 5 * kBlockSize : random() % 50000;
      std::size_t length = random() % 3 == 0 ? 1 + random() % 200 : 1 + random() % 12000;
      switch (random() % 16) {
        case 0:
          model.do_remove(id);
          break;
        case 1:
        case 2:
          model.do_truncate(id, random() % 40000);
          break;
        case 3:
        case 4:
        case 5:
          model.do_commit(id);
          break;
        case 6:
          model.do_save();
          break;
        default:
          model.do_write(id, offset, random_text(random, length), random() % 3 == 0);
      }
      if (model.files[id].maybe.size() > 20) model.do_commit(id);
    }
    if (!will_crash) {
      if (step % 7 == 0) model.check_reads();
      if (std::erase_if(model.files, [](auto& entry) { return entry.second.removed; }) > 0) continue;
      continue;
    }
    if (!model.off) model.power_off(how, seed);
    ++crashes;
    model.settle();
    model.off = false;
    model.disk.set_delay(Duration{0}, Duration{0});
    Status opened = model.open();
    ASSERT_TRUE(opened) << opened.error().message;
    model.check_restarted();
    if (random() % 3 == 0) model.check_zones();
    model.check_reads();
  }
  EXPECT_GT(crashes, 50);
}

INSTANTIATE_TEST_SUITE_P(Seeds, StoreModelTest, ::testing::Range(1u, 17u));

// One run with all that the store does; `lose_power_at` counts its points: operations of the disk, steps of
// the key-value store.
struct PointRun {
  std::set<std::string> points;
  std::uint64_t count = 0;
  bool crashed = false;
};

std::string point_name(const storage::MemoryDisk::Access& access) {
  using Operation = storage::MemoryDisk::Operation;
  static const std::map<Operation, std::string> kNames = {
      {Operation::kOpen, "open"},     {Operation::kRead, "read"},
      {Operation::kWrite, "write"},   {Operation::kSync, "sync"},
      {Operation::kTruncate, "cut"},  {Operation::kPunch, "punch"},
      {Operation::kRemove, "remove"}, {Operation::kRename, "rename"},
      {Operation::kList, "list"},     {Operation::kSyncFolder, "sync folder"}};
  std::string_view path = access.path;
  return kNames.at(access.operation) + " " + std::string(path.substr(0, path.find('/')));
}

PointRun run_points(std::uint64_t lose_power_at, Crash how) {
  PointRun result;
  StoreModel model;
  model.options.segment_bytes = 16 << 10;
  model.must_open();
  auto at_point = [&](std::string_view name) {
    if (model.off) return;
    result.points.emplace(name);
    if (++result.count != lose_power_at) return;
    model.off = result.crashed = true;
    model.power_off(how, lose_power_at);
  };
  model.at_point = at_point;
  model.disk.set_fault([&](const storage::MemoryDisk::Access& access) -> std::optional<Error> {
    at_point(point_name(access));
    return std::nullopt;
  });
  std::mt19937_64 random(7);
  auto text = [&](std::size_t length) { return random_text(random, length); };
  const std::vector<std::function<void()>> steps = {
      [&] { model.do_write(1, 0, text(8300), true); },
      [&] { model.do_write(2, 100, text(20000), false); },
      [&] { model.do_commit(2); },
      [&] { model.do_write(5, 0, text(3000), true); },
      [&] { model.do_save(); },
      [&] { model.do_write(1, 4000, text(5000), true); },
      [&] { model.do_write(2, 0, text(50), false); },
      [&] { model.do_truncate(2, 9000); },
      [&] { model.do_remove(5); },
      [&] { model.do_save(); },
      [&] { model.do_write(9, 0, text(9000), true); },
      [&] { model.do_write(2, 9500, text(10), true); },
      [&] { model.do_truncate(9, 0); },
      [&] { model.do_save(); },
      [&] { model.do_remove(9); },
      [&] { model.do_remove(1); },
      [&] { model.do_save(); },
  };
  for (const auto& step : steps) {
    if (model.off) break;
    step();
  }
  model.settle();
  model.off = false;
  Status opened = model.open();
  EXPECT_TRUE(opened) << "power lost at point " << lose_power_at << ": " << opened.error().message;
  if (!opened) return result;
  model.check_restarted();
  model.check_zones();
  model.restart(Crash::kDropUnsynced);
  model.check_reads();
  EXPECT_FALSE(::testing::Test::HasFailure()) << "power lost at point " << lose_power_at;
  return result;
}

TEST(StoreCrashPoints, LosingPowerAtEachPointLosesNothingAcknowledged) {
  PointRun whole = run_points(0, Crash::kProcess);
  EXPECT_GT(whole.count, 40u);
  for (const char* name :
       {"write journal", "sync journal", "sync folder journal", "rename journal", "open zones", "write zones",
        "sync zones", "cut zones", "before records are applied", "after records are applied",
        "after records are durable"}) {
    EXPECT_TRUE(whole.points.contains(name)) << name;
  }
  for (std::uint64_t point = 1; point <= whole.count && !::testing::Test::HasFailure(); ++point) {
    for (Crash how : {Crash::kProcess, Crash::kDropUnsynced, Crash::kSeeded}) {
      EXPECT_TRUE(run_points(point, how).crashed) << point;
    }
  }
}

}  // namespace
}  // namespace slice::smallfile
