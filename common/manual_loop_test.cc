#include "common/manual_loop.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "common/task.h"

namespace slice {
namespace {

using namespace std::chrono_literals;

TEST(ManualLoop, RunsPostedActionsInOrderAndThoseTheyPost) {
  ManualLoop loop;
  std::string seen;
  loop.post([&] {
    seen += 'a';
    loop.post([&] { seen += 'c'; });
  });
  loop.post([&] { seen += 'b'; });
  EXPECT_EQ(seen, "");
  loop.run_ready();
  EXPECT_EQ(seen, "abc");
  EXPECT_TRUE(loop.idle());
}

TEST(ManualLoop, TimersRunAtTheirOwnTime) {
  ManualLoop loop;
  std::vector<Duration> seen;
  MonoTime start = loop.now();
  WallTime wall = loop.wall();
  loop.after(5s, [&] { seen.push_back(loop.now() - start); });
  loop.after(2s, [&] {
    seen.push_back(loop.now() - start);
    loop.after(1s, [&] { seen.push_back(loop.now() - start); });
  });
  TimerId cancelled = loop.after(4s, [&] { seen.push_back(99h); });
  loop.cancel(cancelled);
  loop.advance(4s);
  EXPECT_EQ(seen, (std::vector<Duration>{2s, 3s}));
  EXPECT_EQ(loop.now() - start, 4s);
  EXPECT_EQ(loop.wall().ns - wall.ns, 4'000'000'000);
  loop.advance(1s);
  EXPECT_EQ(seen.back(), 5s);
  loop.cancel(cancelled);
}

TEST(ManualLoop, RunUntilJumpsAndGivesUp) {
  ManualLoop loop;
  bool done = false;
  loop.after(30min, [&] { done = true; });
  EXPECT_FALSE(loop.run_until([&] { return done; }, 10min));
  EXPECT_TRUE(loop.run_until([&] { return done; }));
  EXPECT_FALSE(loop.run_until([] { return false; }));
}

Task<void> sleeper(Loop& loop, std::string& seen, char name, Duration delay) {
  co_await loop.sleep(delay);
  seen += name;
}
Task<int> number_after(Loop& loop, int number, Duration delay) {
  co_await loop.sleep(delay);
  co_return number;
}
Task<void> gather(Loop& loop, std::vector<int>& out) {
  std::vector<Task<int>> tasks;
  tasks.push_back(number_after(loop, 1, 3s));
  tasks.push_back(number_after(loop, 2, 1s));
  out = co_await all(std::move(tasks));
  std::vector<int> none = co_await all(std::vector<Task<int>>{});
  if (!none.empty()) out.clear();
}

TEST(Task, SleepersWakeByTime) {
  ManualLoop loop;
  std::string seen;
  spawn(sleeper(loop, seen, 'b', 2s));
  spawn(sleeper(loop, seen, 'a', 1s));
  loop.advance(3s);
  EXPECT_EQ(seen, "ab");
}

TEST(Task, AllKeepsTheOrderOfItsTasks) {
  ManualLoop loop;
  std::vector<int> out;
  spawn(gather(loop, out));
  EXPECT_TRUE(loop.run_until([&] { return !out.empty(); }, 3s));
  EXPECT_EQ(out, (std::vector<int>{1, 2}));
}

Task<void> hold(Loop& loop, AsyncMutex& mutex, std::string& seen, char name) {
  auto lock = co_await mutex.lock();
  seen += name;
  co_await loop.sleep(1s);
  seen += static_cast<char>(name - 'a' + 'A');
}

TEST(Task, AsyncMutexIsFirstComeFirstServed) {
  ManualLoop loop;
  AsyncMutex mutex(loop);
  std::string seen;
  for (char name : {'a', 'b', 'c'}) spawn(hold(loop, mutex, seen, name));
  loop.advance(4s);
  EXPECT_EQ(seen, "aAbBcC");
  EXPECT_TRUE(mutex.idle());
}

TEST(ManualLoop, ServesDescriptorsThatCanBeRead) {
  ManualLoop loop;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::string seen;
  loop.watch_readable(ends[0], [&] {
    char byte = 0;
    ASSERT_EQ(::read(ends[0], &byte, 1), 1);
    seen += byte;
  });
  loop.run_ready();
  EXPECT_EQ(seen, "");
  ASSERT_EQ(::write(ends[1], "ab", 2), 2);
  loop.run_ready();
  EXPECT_EQ(seen, "ab");
  loop.unwatch_readable(ends[0]);
  ASSERT_EQ(::write(ends[1], "c", 1), 1);
  loop.run_ready();
  EXPECT_EQ(seen, "ab");
  ::close(ends[0]);
  ::close(ends[1]);
}

Task<void> wait_for(OneShot<int> value, int& out) {
  out = co_await value;
}

TEST(Task, OneShotTakesTheFirstValueOnly) {
  OneShot<int> value;
  int out = 0;
  spawn(wait_for(value, out));
  EXPECT_TRUE(value.set(7));
  EXPECT_FALSE(value.set(8));
  EXPECT_EQ(out, 7);
}

}  // namespace
}  // namespace slice
