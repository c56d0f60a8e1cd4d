#include "service/process_figures.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <vector>

namespace slice::service {
namespace {

class ProcessFiguresTest : public ::testing::Test {
 protected:
  std::uint64_t figure(std::string_view name) { return metrics_.counter(name).value(); }
  Metrics metrics_;
  ProcessFigures figures_{metrics_};
};

TEST_F(ProcessFiguresTest, SayWhatTheSystemSays) {
  figures_.refresh();
  const std::uint64_t before = figure("process_cpu_seconds_total");
  const std::clock_t began = std::clock();
  while (std::clock() - began < CLOCKS_PER_SEC / 20) {
  }
  figures_.refresh();
  EXPECT_GE(figure("process_cpu_seconds_total") - before, 40'000u);  // microseconds
  EXPECT_GT(figure("process_resident_memory_bytes"), 1u << 20);
  EXPECT_GT(figure("process_virtual_memory_bytes"), figure("process_resident_memory_bytes"));
  EXPECT_GE(figure("process_max_fds"), 64u);
  const double age = static_cast<double>(std::time(nullptr)) -
                     static_cast<double>(figure("process_start_time_seconds")) / 1e9;
  EXPECT_GT(age, -2);
  EXPECT_LT(age, 600);
}

TEST_F(ProcessFiguresTest, CountDescriptors) {
  figures_.refresh();
  const std::uint64_t before = figure("process_open_fds");
  EXPECT_GE(before, 3u);
  std::vector<int> opened;
  for (int i = 0; i < 20; ++i) opened.push_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ::usleep(100'000);
  figures_.refresh();
  EXPECT_EQ(figure("process_open_fds"), before + 20);
  for (int fd : opened) ::close(fd);
}

}  // namespace
}  // namespace slice::service
