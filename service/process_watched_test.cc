// How a whole process is watched: its metrics over HTTP, and what it tells the service manager.
#include <gmock/gmock.h>

#include <algorithm>

#include "rpc/bound_socket.h"
#include "service/testing/notify_listener.h"
#include "service/testing/process_fixture.h"

namespace slice::service {

using testing::Child;
using testing::comes_true;
using testing::Environment;
using testing::ProcessTest;

namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(ProcessTest, ServesMetricsOverHttpFromItsStartOn) {
  serve_metrics();
  auto storage = start_storage();
  ASSERT_TRUE(storage->says("metrics at http://127.77.3.2:")) << storage->output();
  EXPECT_THAT(get(3, "/-/healthy"), HasSubstr("HTTP/1.1 200 OK\r\n"));
  ASSERT_TRUE(storage->says("waiting for the manager")) << storage->output();
  EXPECT_THAT(get(3, "/-/ready"), HasSubstr("HTTP/1.1 503 Service Unavailable\r\n"));
  EXPECT_TRUE(comes_true([&] { return get(3, "/-/ready").find("\nwaiting: ") != std::string::npos; }, 10ms));
  EXPECT_THAT(get(3, "/metrics"), HasSubstr("\nprocess_open_fds "));
  auto manager = start_manager();
  ASSERT_TRUE(storage->says("serving as storage")) << storage->output();
  EXPECT_THAT(get(3, "/-/ready"), HasSubstr("200 OK"));
  EXPECT_THAT(get(3, "/other"), HasSubstr("404 Not Found"));
  EXPECT_THAT(get(3, "/metrics"), HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  EXPECT_THAT(get(3, "/metrics"), HasSubstr("\n# TYPE slice_fake_readings gauge\nslice_fake_readings "));
}

TEST_F(ProcessTest, ServesMetricsOfEachOfItsServers) {
  serve_metrics();
  auto both = start({"manager1", "storage1"}, {ServerRole::kManager, ServerRole::kStorage});
  ASSERT_TRUE(both->says("serving as storage")) << both->output();
  EXPECT_THAT(get(2, "/metrics"), HasSubstr("slice_server_info{name=\"manager1\"} 1\n"));
  EXPECT_THAT(get(3, "/metrics"), HasSubstr("slice_server_info{name=\"storage1\"} 1\n"));
  EXPECT_THAT(get(2, "/metrics"), HasSubstr("\nprocess_resident_memory_bytes "));
  EXPECT_THAT(get(3, "/metrics"), Not(HasSubstr("\nprocess_"))) << "the first server has them";
  tell("removed");
  ASSERT_TRUE(both->says("server 'storage1' was removed from the ensemble")) << both->output();
  EXPECT_EQ(get(3, "/metrics"), "");
  EXPECT_THAT(get(2, "/-/ready"), HasSubstr("200 OK"));
}

TEST_F(ProcessTest, EndsWhereItsMetricsCannotBeServed) {
  serve_metrics();
  const auto taken = rpc::listening_socket({0x7f4d0302, metrics_port()});
  ASSERT_TRUE(taken);
  auto storage = start_storage();
  EXPECT_EQ(storage->wait(), 1);
  EXPECT_THAT(storage->output(),
              HasSubstr(fmt::format("metrics: cannot bind 127.77.3.2:{}", metrics_port())));
  ::close(*taken);
}

TEST_F(ProcessTest, TellsTheServiceManagerHowItIs) {
  testing::NotifyListener listener(root_ + "/notify");
  ASSERT_TRUE(listener.bound());
  std::vector<std::string> heard;
  auto hears = [&](const std::string& what) {
    return comes_true(
        [&] {
          for (std::string& each : listener.heard()) heard.push_back(std::move(each));
          return std::any_of(heard.begin(), heard.end(),
                             [&](const std::string& each) { return each.find(what) != std::string::npos; });
        },
        10ms);
  };
  std::unique_ptr<Child> storage;
  {
    Environment socket("NOTIFY_SOCKET", (root_ + "/notify").c_str()), watchdog("WATCHDOG_USEC", "400000");
    storage = start_storage();
  }
  EXPECT_TRUE(hears("STATUS=waiting: ")) << "for the manager";
  EXPECT_TRUE(hears("READY=1")) << "it does all that it can by itself";
  EXPECT_THAT(heard, Not(Contains("WATCHDOG=1"))) << "it does not serve yet";
  auto manager = start_manager();
  EXPECT_TRUE(hears("STATUS=serving"));
  EXPECT_TRUE(hears("WATCHDOG_USEC=400000"));
  for (int times = 0; times < 3; ++times) {
    EXPECT_TRUE(hears("WATCHDOG=1"));
    heard.clear();
  }
  storage->signal(SIGTERM);
  EXPECT_TRUE(hears("STOPPING=1"));
  EXPECT_EQ(storage->wait(), 0);
}

}  // namespace
}  // namespace slice::service
