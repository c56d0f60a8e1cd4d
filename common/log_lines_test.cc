// Log lines that a peer has a hand in.
#include "common/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace slice {
namespace {

using ::testing::MatchesRegex;

// What `lines` writes to standard error.
template <class Lines>
std::string written(Lines lines) {
  int pipe_ends[2];
  EXPECT_EQ(::pipe2(pipe_ends, O_NONBLOCK), 0);
  int before = ::dup(STDERR_FILENO);
  ::dup2(pipe_ends[1], STDERR_FILENO);
  lines();
  ::dup2(before, STDERR_FILENO);
  std::string text(65536, 0);
  ssize_t n = ::read(pipe_ends[0], text.data(), text.size());
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  for (int fd : {before, pipe_ends[0], pipe_ends[1]}) ::close(fd);
  return text;
}

TEST(Log, APeersTextStaysWithinItsLine) {
  std::string text = written([] {
    log_warning("path='{}'", "/a\n2026-01-01T00:00:00.000Z error manager1 forged\x1b[2J\x7f\xc3\xa4\t");
  });
  EXPECT_EQ(std::ranges::count(text, '\n'), 1);
  EXPECT_TRUE(
      text.ends_with("path='/a\\x0a2026-01-01T00:00:00.000Z error manager1 forged\\x1b[2J\\x7f\\xc3\\xa4"
                     "\\x09'\n"))
      << text;
}

TEST(Log, ALineMayBeAnObject) {
  configure_log("dir1", LogLevel::kInfo);
  set_log_format(LogFormat::kJson);
  const std::string text = written([] { log_warning("path='{}'", "/a\n\"b\"\\"); });
  set_log_format(LogFormat::kText);
  EXPECT_THAT(text, MatchesRegex(R"(\{"time":"[-0-9]+T[:.0-9]+Z","level":"warning","process":"dir1",)"
                                 R"("message":"path='/a\\\\x0a\\"b\\"\\\\'"\})"
                                 "\n"));
}

TEST(Log, TheJournalIsToldThePriority) {
  const auto begin_of = [](LogLevel level) {
    return written([&] {
             struct stat standard_error{};
             ::fstat(STDERR_FILENO, &standard_error);
             ::setenv("JOURNAL_STREAM",
                      fmt::format("{}:{}", standard_error.st_dev, standard_error.st_ino).c_str(), 1);
             configure_log("dir1", LogLevel::kInfo);
             log(level, "text");
           })
        .substr(0, 5);
  };
  EXPECT_EQ(begin_of(LogLevel::kError), "<3>20");
  EXPECT_EQ(begin_of(LogLevel::kInfo), "<6>20");
  ::setenv("JOURNAL_STREAM", "1:2", 1);  // inherited, and standard error led elsewhere
  EXPECT_EQ(written([] {
              configure_log("dir1", LogLevel::kInfo);
              log_error("text");
            }).substr(0, 2),
            "20");
  ::unsetenv("JOURNAL_STREAM");
}

TEST(Log, WhatWasLeftOutIsToldWithTheNextLine) {
  LogLimiter limit(2);
  std::string text = written([&] {
    for (int i = 0; i < 1000; ++i) {
      if (limit.allow()) log_warning("refused");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    if (limit.allow()) log_warning("refused");
  });
  EXPECT_LE(std::ranges::count(text, '\n'), 8) << text;
  EXPECT_NE(text.find("lines like the next were left out: "), std::string::npos) << text;
}

}  // namespace
}  // namespace slice
