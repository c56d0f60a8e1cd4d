// Two clients see each other's work after close and open: close_to_open writer|reader FOLDER [--rounds N]
//
// Both run at once, each in a client of its own, on one folder. In each round the writer changes a file of
// some size, closes it and then names the round in `turn`; the reader, seeing the turn, opens the file and
// must read exactly that round's bytes; its answer in `seen` lets the writer go on. Files grow, shrink, are
// replaced, renamed over and removed. Exit code 1 when the reader saw anything else. The reader is to be
// started when the writer has printed `ready`.

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/cluster/guest/check.h"

namespace slice::guest {
namespace {

constexpr int kPatienceSeconds = 60;

std::size_t size_of_round(std::uint64_t round) {
  static constexpr std::size_t kSizes[] = {0,      1,      4096, 65535, 65536,   65537,
                                           131072, 300000, 100,  70000, 1000000, 8192};
  return kSizes[round % std::size(kSizes)];
}

enum class Change { kRewrite, kReplace, kRename, kAppend, kRemove };
Change change_of_round(std::uint64_t round) {
  return static_cast<Change>(round % 5);
}

// What `data` holds after a round; rounds that append keep what the round before left.
std::string content_after(std::uint64_t round) {
  const std::string own = pattern(round, 0, size_of_round(round));
  if (change_of_round(round) != Change::kAppend) return own;
  return content_after(round - 1) + own;
}

void append(const std::string& path, const std::string& bytes) {
  File file(path, O_WRONLY | O_APPEND);
  if (!bytes.empty()) expect_eq(write(file.get(), bytes.data(), bytes.size()), bytes.size(), "append");
  file.close();
}

void change(std::uint64_t round) {
  const std::string bytes = pattern(round, 0, size_of_round(round));
  switch (change_of_round(round)) {
    case Change::kRewrite:
      make_file("data", bytes);
      break;
    case Change::kReplace:
      if (exists("data")) expect_ok(unlink("data"), "unlink");
      make_file("data", bytes);
      break;
    case Change::kRename:
      make_file("data.new", bytes);
      expect_ok(rename("data.new", "data"), "rename");
      break;
    case Change::kAppend:
      append("data", bytes);
      break;
    case Change::kRemove:
      expect_ok(unlink("data"), "unlink");
      break;
  }
}

void say(const std::string& name, std::uint64_t round) {
  make_file(name + ".part", std::to_string(round));
  expect_ok(rename((name + ".part").c_str(), name.c_str()), "rename");
}

// Waits until the other side names the round. Each look opens the file anew: close-to-open is all it relies
// on.
void await(const std::string& name, std::uint64_t round) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(kPatienceSeconds);
  while (std::chrono::steady_clock::now() < end) {
    const int file = open(name.c_str(), O_RDONLY);
    char text[32] = {};
    const ssize_t size = file >= 0 ? read(file, text, sizeof text - 1) : 0;
    if (file >= 0) ::close(file);
    if (size > 0 && std::string(text) == std::to_string(round)) return;
    usleep(5000);
  }
  fail("the other client does not answer in round " + std::to_string(round));
}

void look(std::uint64_t round) {
  const std::string which = " in round " + std::to_string(round);
  if (change_of_round(round) == Change::kRemove) {
    expect_errno(open("data", O_RDONLY), ENOENT, "open of a removed file" + which);
    return;
  }
  const std::string wanted = content_after(round);
  File file("data", O_RDONLY);
  struct stat info{};
  expect_ok(fstat(file.get(), &info), "fstat");
  expect_eq(info.st_size, wanted.size(), "size after open" + which);
  expect(content_of("data") == wanted, "other bytes than were written" + which);
}

// A client that once found no such name may believe so for as long as it keeps a folder's attributes, half a
// minute and more: both names are there before anybody looks.
void prepare() {
  make_file("turn", "none");
  make_file("seen", "none");
  std::puts("ready");
  std::fflush(stdout);
}

void run(bool writer, std::uint64_t rounds) {
  if (writer) prepare();
  for (std::uint64_t round = 0; round < rounds; ++round) {
    if (writer) {
      change(round);
      say("turn", round);
      await("seen", round);
    } else {
      await("turn", round);
      look(round);
      say("seen", round);
    }
  }
}

}  // namespace
}  // namespace slice::guest

int main(int argc, char** argv) {
  using namespace slice::guest;
  const std::string role = argc > 2 ? argv[1] : "";
  if (role != "writer" && role != "reader") {
    std::fprintf(stderr, "usage: close_to_open writer|reader FOLDER [--rounds N]\n");
    return 2;
  }
  const std::uint64_t rounds = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 60;
  try {
    expect_ok(chdir(argv[2]), "chdir");
    run(role == "writer", rounds);
  } catch (const Failure& failure) {
    std::printf("not ok close_to_open %s: %s\n", role.c_str(), failure.what());
    return 1;
  }
  std::printf("ok close_to_open %s: %llu rounds\n", role.c_str(), static_cast<unsigned long long>(rounds));
  return 0;
}
