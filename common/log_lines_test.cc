// Log lines that a peer has a hand in.
#include "common/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace slice {
namespace {

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
