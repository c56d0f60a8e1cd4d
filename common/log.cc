#include "common/log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <ctime>

namespace slice {
namespace {

struct LogState {
  std::string process = "slice";
  LogFormat format = LogFormat::kText;
  bool to_journal = false;
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

// As systemd tells a service: $JOURNAL_STREAM is DEVICE:INODE of the journal's end of standard error.
bool stderr_is_the_journal() {
  const char* told = std::getenv("JOURNAL_STREAM");  // NOLINT(concurrency-mt-unsafe): before threads
  struct stat standard_error{};
  return told != nullptr && ::fstat(STDERR_FILENO, &standard_error) == 0 &&
         fmt::format("{}:{}", standard_error.st_dev, standard_error.st_ino) == told;
}

// syslog(3)'s numbers.
int priority_of(LogLevel level) {
  constexpr std::array kPriorities{7, 6, 4, 3};
  return kPriorities[static_cast<std::size_t>(level)];
}

std::string time_text() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm utc{};
  gmtime_r(&now.tv_sec, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, now.tv_nsec / 1000000);
}

// `text` is escaped already.
void append_json_string(std::string& line, std::string_view text) {
  line.push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') line.push_back('\\');
    line.push_back(c);
  }
  line.push_back('"');
}

std::string line_of(LogLevel level, std::string_view message) {
  const LogState& log = state();
  const std::string_view name = kLogLevelNames[static_cast<std::size_t>(level)];
  std::string line = log.to_journal ? fmt::format("<{}>", priority_of(level)) : "";
  if (log.format == LogFormat::kText) {
    line += fmt::format("{} {} {} ", time_text(), name, log.process);
    append_escaped(line, message);
    return line;
  }
  std::string escaped;
  append_escaped(escaped, message);
  line += fmt::format(R"({{"time":"{}","level":"{}","process":)", time_text(), name);
  append_json_string(line, log.process);
  line += R"(,"message":)";
  append_json_string(line, escaped);
  line.push_back('}');
  return line;
}

}  // namespace

void configure_log(std::string process, LogLevel least) {
  state().process = std::move(process);
  state().to_journal = stderr_is_the_journal();
  state().least = least;
}

void set_log_level(LogLevel least) {
  state().least = least;
}

void set_log_format(LogFormat format) {
  state().format = format;
}

bool log_enabled(LogLevel level) {
  return level >= state().least.load(std::memory_order_relaxed);
}

void write_log(LogLevel level, std::string_view message) {
  std::string line = line_of(level, message);
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
