#include "service/process_figures.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <ctime>
#include <limits>
#include <memory>

namespace slice::service {
namespace {

std::int64_t clock_ns(clockid_t clock) {
  timespec t{};
  ::clock_gettime(clock, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// The whole of a small file of /proc; empty where it cannot be read.
std::string proc_text(const char* path) {
  std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path, "re"), &std::fclose);
  if (file == nullptr) return "";
  std::string text(1024, 0);
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  return text;
}

// When the process started, ns since 1970: field 22 of /proc/self/stat is in ticks since the boot.
std::uint64_t start_ns() {
  const std::int64_t now = clock_ns(CLOCK_REALTIME);
  const std::string stat = proc_text("/proc/self/stat");
  std::size_t at = stat.rfind(')');  // the name may hold anything
  for (int field = 2; at != std::string::npos && field < 22; ++field) at = stat.find(' ', at + 1);
  const long ticks = ::sysconf(_SC_CLK_TCK);
  if (at == std::string::npos || ticks <= 0) return static_cast<std::uint64_t>(now);
  const auto since_boot = std::strtoull(stat.c_str() + at, nullptr, 10);
  const auto age =
      clock_ns(CLOCK_BOOTTIME) -
      static_cast<std::int64_t>(since_boot * (1'000'000'000 / static_cast<unsigned long>(ticks)));
  return static_cast<std::uint64_t>(now - age);
}

}  // namespace

ProcessFigures::ProcessFigures(Metrics& metrics)
    : processor_(metrics.counter("process_cpu_seconds_total", "user and system time of the process", {},
                                 Unit::kMicroseconds)),
      resident_(metrics.gauge("process_resident_memory_bytes", "memory of the process that is in RAM")),
      virtual_(metrics.gauge("process_virtual_memory_bytes", "address space of the process")),
      descriptors_(metrics.gauge("process_open_fds", "open file descriptors of the process")),
      most_descriptors_(metrics.gauge("process_max_fds", "most file descriptors that the process may have")),
      started_(metrics.gauge("process_start_time_seconds", "when the process started, since 1970-01-01 UTC",
                             {}, Unit::kNanoseconds)) {
  started_.set(start_ns());
}

void ProcessFigures::refresh() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto microseconds = [](const timeval& t) {
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000 + static_cast<std::uint64_t>(t.tv_usec);
  };
  processor_.set(microseconds(usage.ru_utime) + microseconds(usage.ru_stime));
  unsigned long size = 0, resident = 0;
  if (std::sscanf(proc_text("/proc/self/statm").c_str(), "%lu %lu", &size, &resident) == 2) {
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    virtual_.set(size * page);
    resident_.set(resident * page);
  }
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  most_descriptors_.set(limit.rlim_cur);
  count_descriptors();
}

void ProcessFigures::count_descriptors() {
  const std::int64_t began = clock_ns(CLOCK_MONOTONIC);
  if (began < count_again_ns_) return;
  std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), &::closedir);
  if (folder == nullptr) return;  // no descriptor is left, or /proc is not there
  std::uint64_t count = 0;
  while (const dirent* entry =
             ::readdir(folder.get())) {  // NOLINT(concurrency-mt-unsafe): a stream of its own
    if (entry->d_name[0] != '.') ++count;
  }
  descriptors_.set(count - 1);  // but for this look itself
  count_again_ns_ = began + 100 * (clock_ns(CLOCK_MONOTONIC) - began);
}

}  // namespace slice::service
