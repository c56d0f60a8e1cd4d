#include "common/log.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <ctime>

namespace slice {
namespace {

struct LogState {
  std::string process = "slice";
  std::atomic<LogLevel> least{LogLevel::kInfo};
};

LogState& state() {
  static LogState instance;
  return instance;
}

// What a peer chose stays within its line, and does nothing to a terminal: other bytes than printable ASCII
// become \xNN.
void append_escaped(std::string& line, std::string_view message) {
  static constexpr char kDigits[] = "0123456789abcdef";
  for (char c : message) {
    auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte <= 0x7e) {
      line.push_back(c);
    } else {
      line.append({'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]});
    }
  }
}

}  // namespace

void configure_log(std::string process, LogLevel least) {
  state().process = std::move(process);
  state().least = least;
}

void set_log_level(LogLevel least) {
  state().least = least;
}

bool log_enabled(LogLevel level) {
  return level >= state().least.load(std::memory_order_relaxed);
}

void write_log(LogLevel level, std::string_view message) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm utc{};
  gmtime_r(&now.tv_sec, &utc);
  std::string line =
      fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z {} {} ", utc.tm_year + 1900, utc.tm_mon + 1,
                  utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, now.tv_nsec / 1000000,
                  kLogLevelNames[static_cast<std::size_t>(level)], state().process);
  append_escaped(line, message);
  line.push_back('\n');
  // One write a line, so that lines of several threads do not mix; a log that cannot be written is no
  // reason to stop serving.
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

bool LogLimiter::allow() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  if (now.tv_sec != second_) {
    unsigned left_out = used_ > per_second_ ? used_ - per_second_ : 0;
    second_ = now.tv_sec;
    used_ = 0;
    if (left_out > 0) log_warning("lines like the next were left out: {}", left_out);
  }
  return used_++ < per_second_;
}

}  // namespace slice
