#include "rpc/epoll_loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

namespace slice::rpc {
namespace {

using namespace std::chrono_literals;

TEST(EpollLoop, TimersPostsAndForeignThreads) {
  EpollLoop loop;
  std::string seen;
  loop.after(20ms, [&] { seen += 't'; });
  TimerId never = loop.after(10ms, [&] { seen += 'x'; });
  loop.cancel(never);
  loop.post([&] { seen += 'p'; });
  loop.post_from_any_thread([&] { seen += 'f'; });
  EXPECT_TRUE(loop.run_until([&] { return seen.find('t') != std::string::npos; }, 5s));
  EXPECT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen.back(), 't');
  loop.post([&] { loop.stop(); });
  loop.run();
}

TEST(EpollLoop, TimersFarAwayComeTogether) {
  EpollLoop loop;
  const MonoTime step{(loop.now().time_since_epoch() / 50ms + 4) * 50ms};
  std::vector<MonoTime> came;
  for (Duration behind : {49ms, 20ms, 1ms}) {
    loop.at(step + behind, [&] { came.push_back(loop.now()); });
  }
  ASSERT_TRUE(loop.run_until([&] { return came.size() == 3; }, 10s));
  EXPECT_GE(came[0], step + 50ms);
  EXPECT_EQ(came[0], came[1]);
  EXPECT_EQ(came[0], came[2]);
}

TEST(EpollLoop, TimersNearByComeInTheirOrderAndNotBefore) {
  EpollLoop loop;
  const MonoTime start = loop.now();
  std::string order;
  loop.at(start + 9ms, [&] {
    EXPECT_GE(loop.now(), start + 9ms);
    order += "c";
  });
  loop.at(start + 3ms, [&] {
    EXPECT_GE(loop.now(), start + 3ms);
    order += "a";
  });
  loop.at(start + 6ms, [&] { order += "b"; });
  loop.cancel(loop.at(start + 4ms, [&] { order += "x"; }));
  ASSERT_TRUE(loop.run_until([&] { return order.size() == 3; }, 10s));
  EXPECT_EQ(order, "abc");
}

TEST(EpollLoop, ARoundEndsWithWhatIsWantedAlone) {
  EpollLoop loop;
  int rounds = 0;
  std::vector<std::string> ended;  // by round
  auto note = [&](const char* who) { ended.back() += who; };
  Loop::RoundEnd second = loop.at_round_end([&] { note("second"); });
  Loop::RoundEnd first = loop.at_round_end([&] {
    note("first ");
    second.want();
  });
  Loop::RoundEnd again;
  again = loop.at_round_end([&] {
    note("again");
    if (rounds < 4) again.want();
  });
  [[maybe_unused]] Loop::RoundEnd never = loop.at_round_end([&] { note("never"); });
  std::function<void()> round = [&] {
    ended.emplace_back();
    ++rounds;
    if (rounds == 1) {
      first.want();
      first.want();
    }
    if (rounds == 3) again.want();
    if (rounds < 6) loop.post(round);
  };
  loop.post(round);
  ASSERT_TRUE(loop.run_until([&] { return rounds == 6; }, 10s));
  EXPECT_EQ(ended, (std::vector<std::string>{"first second", "", "again", "again", "", ""}));
}

constexpr int kSeldomTicks = 200;

// Processor time of ticks 2 ms apart, which no looking comes to; the least of three times.
Duration cost_of_seldom_ticks(EpollLoop& loop) {
  const auto used = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return Duration(time.tv_sec * 1'000'000'000 + time.tv_nsec);
  };
  Duration least = Duration::max();
  for (int round = 0; round < 3; ++round) {
    int left = kSeldomTicks;
    std::function<void()> seldom = [&] {
      if (--left > 0) loop.after(2ms, seldom);
    };
    loop.post(seldom);
    const Duration before = used();
    EXPECT_TRUE(loop.run_until([&] { return left == 0; }, 60s));
    least = std::min(least, used() - before);
  }
  return least;
}

// What comes while it looks is served, timers come when they are due, and a sleep that nothing ends early is
// none for a processor: looking that finds nothing is given up.
TEST(EpollLoop, LooksBeforeItSleepsAsLongAsThatPays) {
  EpollLoop loop;
  loop.spin(200us);
  int left = 300;
  std::function<void()> soon = [&] {
    if (--left > 0) loop.after(50us, soon);
  };
  loop.post(soon);
  ASSERT_TRUE(loop.run_until([&] { return left == 0; }, 10s));
  bool late = false;
  loop.after(300us, [&] { late = true; });
  ASSERT_TRUE(loop.run_until([&] { return late; }, 5s));

  // Beside one that never looks, whose ticks cost what they do on this machine now.
  EpollLoop sleeper;
  const Duration slept = cost_of_seldom_ticks(sleeper);
  EXPECT_LT(cost_of_seldom_ticks(loop), slept + kSeldomTicks * 100us) << "it looks for 200 us each time";
}

}  // namespace
}  // namespace slice::rpc
