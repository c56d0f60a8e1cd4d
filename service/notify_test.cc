#include "service/notify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "service/testing/notify_listener.h"

namespace slice::service {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string socket_path() {
  return ::testing::TempDir() + "slice_notify_" + std::to_string(::getpid());
}

class NotifyTest : public ::testing::Test {
 protected:
  NotifyTest() { forget(); }
  ~NotifyTest() override { forget(); }

  static void forget() {
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) ::unsetenv(name);
  }
  // From an environment with these; what it logs.
  static std::string logged(const std::string& listener, const char* microseconds, const std::string& pid,
                            Duration expected) {
    ::setenv("NOTIFY_SOCKET", listener.c_str(), 1);
    ::setenv("WATCHDOG_USEC", microseconds, 1);
    ::setenv("WATCHDOG_PID", pid.c_str(), 1);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(Notify::from_environment().watchdog(), expected) << microseconds << " " << pid;
    return ::testing::internal::GetCapturedStderr();
  }
};

TEST_F(NotifyTest, TellsTheListenerOfAPath) {
  testing::NotifyListener listener(socket_path());
  ASSERT_TRUE(listener.bound());
  auto notify = Notify::to(socket_path(), 10s);
  ASSERT_TRUE(notify);
  EXPECT_EQ(notify->watchdog(), 10s);
  notify->status("waiting: for the manager");
  notify->status("waiting: for the manager");
  EXPECT_THAT(listener.heard(), ElementsAre("STATUS=waiting: for the manager")) << "once";
  notify->ready();
  notify->ready();
  EXPECT_THAT(listener.heard(), ElementsAre("READY=1\nWATCHDOG_USEC=0")) << "the watchdog does not look yet";
  notify->alive();
  notify->alive();
  EXPECT_THAT(listener.heard(), ElementsAre("WATCHDOG_USEC=10000000", "WATCHDOG=1", "WATCHDOG=1"));
  notify->stopping();
  EXPECT_THAT(listener.heard(), ElementsAre("STOPPING=1"));
}

TEST_F(NotifyTest, TellsTheListenerOfAnAbstractName) {
  const std::string name = "@slice_notify_" + std::to_string(::getpid());
  testing::NotifyListener listener(name);
  ASSERT_TRUE(listener.bound());
  auto notify = Notify::to(name, 0s);
  ASSERT_TRUE(notify);
  EXPECT_EQ(notify->watchdog(), Duration::max());
  notify->ready();
  notify->alive();
  EXPECT_THAT(listener.heard(), ElementsAre("READY=1")) << "no watchdog looks";
}

TEST_F(NotifyTest, AStatusIsOneLineOfBoundedLength) {
  testing::NotifyListener listener(socket_path());
  auto notify = Notify::to(socket_path(), 0s);
  ASSERT_TRUE(notify);
  notify->status("serving\nREADY=1\r\x7f");
  notify->status(std::string(5000, 'x'));
  const auto heard = listener.heard();
  EXPECT_THAT(heard, ElementsAre("STATUS=serving READY=1  ", "STATUS=" + std::string(kMaxNotifyStatus, 'x')));
}

TEST_F(NotifyTest, DoesNothingWithoutTheVariable) {
  ::setenv("WATCHDOG_USEC", "1000000", 1);
  Notify notify = Notify::from_environment();
  EXPECT_FALSE(notify.has_listener());
  EXPECT_EQ(notify.watchdog(), Duration::max());
  notify.status("x");
  notify.ready();
  notify.alive();
  notify.stopping();
}

TEST_F(NotifyTest, GoesByTheEnvironment) {
  testing::NotifyListener listener(socket_path());
  const std::string own = std::to_string(::getpid());
  EXPECT_THAT(logged(socket_path(), "30000000", own, 30s), IsEmpty());
  EXPECT_THAT(logged(socket_path(), "30000000", "", 30s), IsEmpty());
  EXPECT_THAT(logged(socket_path(), "", own, Duration::max()), IsEmpty());
  EXPECT_THAT(logged(socket_path(), "30000000", "1", Duration::max()), IsEmpty()) << "another process's";
  Notify::from_environment().ready();
  EXPECT_THAT(listener.heard(), ElementsAre("READY=1"));
}

TEST_F(NotifyTest, SaysWhatItCannotUse) {
  testing::NotifyListener listener(socket_path());
  for (const char* time : {"0", "-1", "1s", "99999999999999999999", "18446744073709551615"}) {
    EXPECT_THAT(logged(socket_path(), time, "", Duration::max()),
                HasSubstr(std::string("WATCHDOG_USEC='") + time + "'"));
  }
  EXPECT_THAT(logged(socket_path(), "1000", "me", Duration::max()), HasSubstr("WATCHDOG_PID='me'"));
  for (const std::string& name : {std::string("relative"), std::string("@"), std::string("/"),
                                  std::string("vsock:2:1"), "/" + std::string(108, 'x')}) {
    EXPECT_THAT(logged(name, "", "", Duration::max()), HasSubstr("NOTIFY_SOCKET: ")) << name;
    EXPECT_FALSE(Notify::to(name, 0s)) << name;
  }
}

TEST_F(NotifyTest, SaysOnceThatNobodyListens) {
  auto notify = Notify::to(socket_path(), 1s);
  ASSERT_TRUE(notify);
  ::testing::internal::CaptureStderr();
  notify->ready();
  notify->alive();
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("does not take 'READY=1': No such file"));
  EXPECT_EQ(said.find("WATCHDOG"), std::string::npos) << said;
}

}  // namespace
}  // namespace slice::service
