// Crashes: a random model test, and every single disk operation of a scenario as a crash point.
#include <gtest/gtest.h>

#include <array>
#include <bitset>
#include <map>
#include <random>

#include "storagenode/testing/store_harness.h"
#include "storagenode/zeros.h"

namespace slice::storagenode {
namespace {

constexpr std::size_t kArea = 40'000;
// Where things happen: from 0 on, over the end of a segment, in the middle of a far one, at the very end.
constexpr std::array<std::uint64_t, 4> kAreas{0, kSegment - kArea / 2, 7 * kSegment + 12345,
                                              kMaxObjectSize - kArea};

// What may be read of one object: each byte has its present value and those it may have after a power loss.
class Model {
 public:
  using Values = std::bitset<256>;
  struct Byte {
    std::uint8_t now = 0;
    Values possible{1};
  };

  void write(std::size_t area, std::size_t at, ByteView bytes, bool surely) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      Byte& byte = areas_[area][at + i];
      byte.possible.set(bytes[i]);
      if (surely) byte.now = bytes[i];
    }
  }
  void commit() {
    for (auto& area : areas_) {
      for (auto& byte : area) byte.possible = Values{}.set(byte.now);
    }
  }
  void settle(std::size_t area, std::size_t at, std::size_t n) {
    for (std::size_t i = at; i < at + n; ++i) areas_[area][i].possible = Values{}.set(areas_[area][i].now);
  }
  void truncate(std::uint64_t size, bool surely) {
    for (std::size_t area = 0; area < kAreas.size(); ++area) {
      for (std::size_t at = 0; at < kArea; ++at) {
        if (kAreas[area] + at < size) continue;
        Byte& byte = areas_[area][at];
        byte.possible.set(0);
        if (surely) byte = {};
      }
    }
  }
  // After a crash: what was read becomes what is; it may still be lost by the next one.
  ::testing::AssertionResult adopt(std::size_t area, std::string_view read) {
    for (std::size_t at = 0; at < kArea; ++at) {
      auto value = static_cast<std::uint8_t>(at < read.size() ? read[at] : 0);
      Byte& byte = areas_[area][at];
      if (!byte.possible[value]) {
        return ::testing::AssertionFailure() << "area " << area << " byte " << at << " is " << int{value};
      }
      byte.now = value;
    }
    return ::testing::AssertionSuccess();
  }
  ::testing::AssertionResult equals(std::size_t area, std::string_view read) const {
    for (std::size_t at = 0; at < kArea; ++at) {
      auto value = static_cast<std::uint8_t>(at < read.size() ? read[at] : 0);
      if (areas_[area][at].now != value) {
        return ::testing::AssertionFailure() << "area " << area << " byte " << at << " is " << int{value}
                                             << ", expected " << int{areas_[area][at].now};
      }
    }
    return ::testing::AssertionSuccess();
  }

 private:
  std::array<std::array<Byte, kArea>, kAreas.size()> areas_{};
};

struct Pending {  // a truncate or remove that was not answered: it will be asked again
  std::uint64_t object = 0;
  bool remove = false;
  std::uint64_t size = 0;
  Epoch epoch;
};

class CrashDriver {
 public:
  explicit CrashDriver(std::uint64_t seed) : random_(seed) { EXPECT_TRUE(harness.open()); }

  StoreHarness harness{{.max_open_segments = 4, .reserve_bytes = 0, .clean_period = std::chrono::seconds(1)}};

  void step() {
    std::uint64_t object = 1 + random_() % 3;
    switch (random_() % 12) {
      case 0:
      case 1:
        return commit(object);
      case 2:
        return truncate(object);
      case 3:
        return random_() % 3 == 0 ? remove(object) : check(object);
      case 4:
        return check(object);
      case 5:
        return harness.loop.advance(std::chrono::milliseconds(random_() % 3000));
      default:
        return write(object);
    }
  }

  // From now on operation number `after` of the disk crashes the machine.
  void arm(std::uint64_t after, MemoryDisk::Crash how, std::uint64_t seed) {
    harness.disk.set_fault(
        [this, after, how, seed, n = std::uint64_t{0}](const MemoryDisk::Access& access) mutable {
          if (n++ != after) return std::optional<Error>();
          crashed = true;
          where = fmt::format("operation {} on {}", static_cast<int>(access.operation), access.path);
          harness.disk.crash(how, seed);
          return std::optional<Error>();
        });
  }
  void restart(MemoryDisk::Crash how, std::uint64_t seed) {
    harness.disk.set_fault(nullptr);
    harness.crash(how, seed);
    crashed = false;
    auto opened = harness.open();
    ASSERT_TRUE(opened) << opened.error().message;
    if (pending) redo(*std::exchange(pending, std::nullopt));
    for (std::uint64_t object = 1; object <= 3; ++object) {
      for (std::size_t area = 0; area < kAreas.size(); ++area) {
        auto read = harness.read(name(object), kAreas[area], kArea);
        ASSERT_TRUE(read) << read.error().message;
        ASSERT_TRUE(models_[object].adopt(area, *read)) << "object " << object << " crashed at " << where;
      }
    }
  }

  bool crashed = false;
  std::string where;
  std::optional<Pending> pending;

  void write(std::uint64_t object) {
    std::size_t area = random_() % kAreas.size();
    std::size_t at = random_() % kArea;
    std::size_t n = std::min(kArea - at, std::size_t{1} + random_() % (random_() % 2 == 0 ? 300 : 20000));
    if (random_() % 3 == 0) {  // whole blocks
      at -= (kAreas[area] + at) % kBlock < at ? (kAreas[area] + at) % kBlock : 0;
      n = std::min(kArea - at, kBlock * (1 + random_() % 4));
    }
    const bool sync = random_() % 4 == 0, hole = random_() % 4 == 0;
    const Buffer bytes = pattern(n, random_());
    const ByteView written = hole ? zeros(n) : bytes.view();
    auto status = harness.run(harness.store->write(name(object), kAreas[area] + at, written,
                                                   {.epoch = epochs_[object], .sync = sync, .hole = hole}));
    ASSERT_TRUE(status || crashed) << status.error().message;
    models_[object].write(area, at, written, status.has_value());
    if (status && sync) committed_range(object, area, at, n);
  }

  void commit(std::uint64_t object) {
    auto committed = harness.run(harness.store->commit(name(object)));
    ASSERT_TRUE(committed || crashed) << committed.error().message;
    if (committed) models_[object].commit();
  }

  void truncate(std::uint64_t object) {
    std::uint64_t size = kAreas[random_() % kAreas.size()] + random_() % kArea;
    if (random_() % 4 == 0) size = 0;
    Pending wanted{object, false, size, Epoch{++epochs_[object].value}};
    auto status = harness.run(harness.store->truncate(name(object), size, wanted.epoch));
    ASSERT_TRUE(status || crashed) << status.error().message;
    models_[object].truncate(size, status.has_value());
    if (!status) pending = wanted;
  }

  void remove(std::uint64_t object) {
    auto status = harness.run(harness.store->remove(name(object)));
    ASSERT_TRUE(status || crashed) << status.error().message;
    models_[object].truncate(0, status.has_value());
    if (!status) {
      pending = Pending{object, true, 0, {}};
    } else {
      epochs_[object] = Epoch{1};
    }
  }

  void check(std::uint64_t object) {
    for (std::size_t area = 0; area < kAreas.size(); ++area) {
      auto read = harness.read(name(object), kAreas[area], kArea);
      ASSERT_TRUE(read || crashed) << read.error().message;
      if (read) ASSERT_TRUE(models_[object].equals(area, *read)) << "object " << object;
    }
  }

 private:
  // Zones may come back after they were removed, files may not.
  static ObjectName name(std::uint64_t object) { return {VolumeId{1}, FileId{object}, ObjectKind::kZone}; }
  void redo(const Pending& wanted) {
    auto status = wanted.remove
                      ? harness.run(harness.store->remove(name(wanted.object)))
                      : harness.run(harness.store->truncate(name(wanted.object), wanted.size, wanted.epoch));
    ASSERT_TRUE(status) << status.error().message;
    // Had it been done before the crash, and bytes written since? No: nothing is written behind it.
    models_[wanted.object].truncate(wanted.size, true);
    if (wanted.remove) epochs_[wanted.object] = Epoch{1};
  }
  void committed_range(std::uint64_t object, std::size_t area, std::size_t at, std::size_t n) {
    // A sync write makes the files of the object durable that it touched, and surely its own bytes.
    models_[object].settle(area, at, n);
  }

  std::mt19937_64 random_;
  std::map<std::uint64_t, Model> models_;
  std::map<std::uint64_t, Epoch> epochs_{{1, Epoch{1}}, {2, Epoch{1}}, {3, Epoch{1}}};
};

MemoryDisk::Crash kind(std::uint64_t n) {
  constexpr std::array kKinds{MemoryDisk::Crash::kProcess, MemoryDisk::Crash::kDropUnsynced,
                              MemoryDisk::Crash::kSeeded, MemoryDisk::Crash::kSeeded};
  return kKinds[n % kKinds.size()];
}

class RandomCrashes : public testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomCrashes, NothingAcknowledgedIsLostAndNothingIsCalledCorrupt) {
  std::mt19937_64 random(GetParam() + 1000);
  CrashDriver driver(GetParam());
  for (int life = 0; life < 12 && !testing::Test::HasFatalFailure(); ++life) {
    auto how = kind(random());
    std::uint64_t seed = random();
    bool inside = random() % 2 == 0;
    if (inside) driver.arm(random() % 400, how, seed);
    for (int i = 0; i < 60 && !driver.crashed; ++i) {
      driver.step();
      if (testing::Test::HasFatalFailure()) return;
    }
    // A crash between two operations, or the second one after that of the hook.
    driver.restart(driver.crashed ? MemoryDisk::Crash::kProcess : how, seed);
  }
  EXPECT_EQ(driver.harness.count("store_checksum_errors_total"), 0u);
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomCrashes, testing::Range<std::uint64_t>(0, 24));

// One life of an object: made, written, committed, overwritten in part, cut within a block, grown again, over
// a segment's end, removed.
void life(CrashDriver& driver) {
  for (auto act : {0, 0, 1, 0, 2, 0, 1, 2, 0, 3, 0, 1}) {
    if (driver.crashed) return;
    switch (act) {
      case 0:
        driver.write(1);
        break;
      case 1:
        driver.commit(1);
        break;
      case 2:
        driver.truncate(1);
        break;
      default:
        driver.remove(1);
        break;
    }
    if (testing::Test::HasFatalFailure()) return;
    if (!driver.crashed) driver.harness.loop.advance(std::chrono::milliseconds(700));
  }
}

TEST(CrashPoints, EveryOperationOfTheDiskOnce) {
  constexpr std::uint64_t kSeed = 79;
  std::uint64_t points = 0;
  {
    CrashDriver whole(kSeed);
    std::uint64_t before = whole.harness.disk.operations();
    life(whole);
    points = whole.harness.disk.operations() - before;
  }
  ASSERT_GT(points, 60u);
  for (std::uint64_t point = 0; point < points; ++point) {
    for (std::uint64_t how = 0; how < 4; ++how) {
      SCOPED_TRACE(fmt::format("crash point {} kind {}", point, how));
      CrashDriver driver(kSeed);
      driver.arm(point, kind(how), point * 4 + how);
      life(driver);
      if (testing::Test::HasFatalFailure()) return;
      driver.restart(MemoryDisk::Crash::kProcess, 0);
      if (testing::Test::HasFatalFailure()) return;
      EXPECT_EQ(driver.harness.count("store_checksum_errors_total"), 0u) << driver.where;
      // And it goes on from there.
      driver.write(1);
      driver.check(1);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace slice::storagenode
