// A tree of files with known content: tree make|verify FOLDER [--files N] [--largest BYTES] [--seed S]
//
// Sizes run from 0 bytes to the largest, most of them small, some exactly at and around 8 KiB blocks, the
// threshold and the stripe unit; with folders several levels deep, hard and symbolic links, modes and times.
// `verify` needs only the same numbers, no copy. Exit code 1 at a difference, with a line for each.

#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/cluster/guest/check.h"

namespace slice::guest {
namespace {

struct Options {
  std::string folder;
  std::uint64_t files = 2000;
  std::uint64_t largest = 40'000'000;
  std::uint64_t seed = 1;
};

struct Entry {
  std::string folder;  // relative
  std::string name;
  std::size_t size = 0;
  mode_t mode = 0644;
  long mtime = 0;
};

// The i-th file of the tree.
Entry entry_of(const Options& options, std::uint64_t i) {
  static constexpr std::size_t kEdges[] = {0,      1,      127,    128,    129,   8191,  8192,
                                           8193,   8300,   65535,  65536,  65537, 73728, 98304,
                                           131071, 131072, 131073, 196608, 262145};
  static constexpr mode_t kModes[] = {0644, 0600, 0755, 0400, 0664};
  std::uint64_t state = options.seed * 1'000'003 + i;
  Entry entry;
  entry.folder = "d" + std::to_string(i % 20) + (i % 3 != 0 ? "/e" + std::to_string(i % 7) : "");
  entry.name = "file-" + std::to_string(i);
  if (i == 0) {
    entry.size = options.largest;
  } else if (i % 10 == 0) {
    entry.size = kEdges[i / 10 % std::size(kEdges)];
  } else if (i % 100 == 1) {
    entry.size = next_random(state) % (options.largest / 20 + 1);
  } else {
    entry.size = next_random(state) % (1U << (next_random(state) % 17));
  }
  entry.size = std::min<std::size_t>(entry.size, options.largest);
  entry.mode = kModes[i % std::size(kModes)];
  entry.mtime = 1'000'000'000 + static_cast<long>(i) * 1000;
  return entry;
}

void make_folder(const std::string& path) {
  if (mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) expect_ok(-1, "mkdir " + path);
}

void make(const Options& options) {
  make_folder(options.folder);
  for (std::uint64_t i = 0; i < options.files; ++i) {
    const Entry entry = entry_of(options, i);
    const std::string folder = options.folder + "/" + entry.folder;
    make_folder(options.folder + "/" + entry.folder.substr(0, entry.folder.find('/')));
    make_folder(folder);
    const std::string path = folder + "/" + entry.name;
    make_file(path, pattern(options.seed + i, 0, entry.size));
    expect_ok(chmod(path.c_str(), entry.mode), "chmod " + path);
    const struct timespec times[2] = {{entry.mtime, 0}, {entry.mtime, 0}};
    expect_ok(utimensat(AT_FDCWD, path.c_str(), times, 0), "utimensat " + path);
    if (i % 50 == 7)
      expect_ok(symlink(entry.name.c_str(), (folder + "/symbolic-" + std::to_string(i)).c_str()), "symlink");
    if (i % 50 == 9) expect_ok(link(path.c_str(), (folder + "/hard-" + std::to_string(i)).c_str()), "link");
  }
}

void verify_one(const Options& options, std::uint64_t i) {
  const Entry entry = entry_of(options, i);
  const std::string folder = options.folder + "/" + entry.folder;
  const std::string path = folder + "/" + entry.name;
  const struct stat info = stat_of(path);
  expect_eq(info.st_size, entry.size, "size of " + path);
  expect_eq(info.st_mode & 07777, entry.mode, "mode of " + path);
  expect_eq(info.st_mtim.tv_sec, entry.mtime, "mtime of " + path);
  expect_eq(info.st_nlink, i % 50 == 9 ? 2U : 1U, "nlink of " + path);
  expect(content_of(path) == pattern(options.seed + i, 0, entry.size), "content of " + path);
  if (i % 50 == 7) {
    char target[256] = {};
    expect_ok(readlink((folder + "/symbolic-" + std::to_string(i)).c_str(), target, sizeof target - 1),
              "readlink");
    expect_eq(std::string(target), entry.name, "target of the link beside " + path);
  }
  if (i % 50 == 9) {
    expect_eq(stat_of(folder + "/hard-" + std::to_string(i)).st_ino, info.st_ino,
              "fileid of the link to " + path);
  }
}

int verify(const Options& options) {
  int differences = 0;
  for (std::uint64_t i = 0; i < options.files; ++i) {
    try {
      verify_one(options, i);
    } catch (const Failure& failure) {
      std::printf("not ok tree: %s\n", failure.what());
      ++differences;
    }
  }
  if (differences == 0)
    std::printf("ok tree: %llu files are as they should be\n",
                static_cast<unsigned long long>(options.files));
  return differences == 0 ? 0 : 1;
}

}  // namespace
}  // namespace slice::guest

int main(int argc, char** argv) {
  using namespace slice::guest;
  const std::string verb = argc > 2 ? argv[1] : "";
  if ((verb != "make" && verb != "verify") || argc % 2 != 1) {
    std::fprintf(stderr, "usage: tree make|verify FOLDER [--files N] [--largest BYTES] [--seed S]\n");
    return 2;
  }
  Options options;
  options.folder = argv[2];
  for (int i = 3; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    std::uint64_t& value = name == "--files"     ? options.files
                           : name == "--largest" ? options.largest
                                                 : options.seed;
    value = std::strtoull(argv[i + 1], nullptr, 10);
  }
  try {
    if (verb == "verify") return verify(options);
    make(options);
    return 0;
  } catch (const Failure& failure) {
    std::printf("not ok tree: %s\n", failure.what());
    return 1;
  }
}
