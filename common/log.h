// Log lines: one a call, to standard error, `TIME LEVEL PROCESS message key=value...`, or as a JSON object.
// Where standard error is systemd's journal a line begins with its priority, `<4>` (sd-daemon(3)), which the
// journal takes off. Thread-safe.
#ifndef SLICE_COMMON_LOG_H
#define SLICE_COMMON_LOG_H

#include <fmt/core.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace slice {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
inline constexpr std::array<std::string_view, 4> kLogLevelNames{"debug", "info", "warning", "error"};

// kJson: an object with the strings time, level, process and message.
enum class LogFormat { kText, kJson };
inline constexpr std::array<std::string_view, 2> kLogFormatNames{"text", "json"};

// Called once at start: the process's name in the ensemble, and the least level that is written.
void configure_log(std::string process, LogLevel least);
// Another least level, at any time.
void set_log_level(LogLevel least);
// Before there are threads.
void set_log_format(LogFormat format);
bool log_enabled(LogLevel level);
void write_log(LogLevel level, std::string_view message);

template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) write_log(level, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::kDebug, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::kInfo, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::kWarning, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::kError, format, std::forward<Args>(args)...);
}

// For places that a peer can make noisy: true at most `per_second` times a second for one limiter.
class LogLimiter {
 public:
  explicit LogLimiter(unsigned per_second = 1) : per_second_(per_second) {}
  bool allow();

 private:
  unsigned per_second_;
  long second_ = 0;
  unsigned used_ = 0;
};

// One limiter for each kind of line, so that many of one kind hide none of another. `Kind` ends with kKinds.
template <class Kind>
class LogLimiters {
 public:
  explicit LogLimiters(unsigned per_second) { limiters_.fill(LogLimiter(per_second)); }
  bool allow(Kind kind) { return limiters_[static_cast<std::size_t>(kind)].allow(); }

 private:
  std::array<LogLimiter, static_cast<std::size_t>(Kind::kKinds)> limiters_;
};

}  // namespace slice

#endif  // SLICE_COMMON_LOG_H
