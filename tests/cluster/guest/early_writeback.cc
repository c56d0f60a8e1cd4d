// What a kernel may do at any time: writes parts of files back to the disk, in any order, long before
// somebody syncs them.
//
//   early_writeback FOLDER SEED [PATTERN]
//
// Until it is killed, takes the files below the folder one after another, and starts the write-back of a run
// of their bytes that chance draws. Run it on a host whose power is cut (the suite power-cut): without it
// everything that was not synced is lost alike, and nothing is ever torn.

#include <fcntl.h>
#include <fnmatch.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>

#include "tests/cluster/guest/check.h"

namespace {

constexpr auto kPause = std::chrono::milliseconds(25);  // between files: system calls cost guests much

// From the front, to the end, or anything between: parts of a file that belong together are torn apart.
void write_back_some(const std::filesystem::path& path, std::uint64_t& random) {
  std::error_code gone;
  const std::uint64_t size = std::filesystem::file_size(path, gone);
  if (gone || size == 0) return;
  const std::uint64_t from =
      slice::guest::next_random(random) % 2 == 0 ? 0 : slice::guest::next_random(random) % size;
  const std::uint64_t bytes = 1 + slice::guest::next_random(random) % (size - from);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  ::sync_file_range(fd, static_cast<off_t>(from), static_cast<off_t>(bytes), SYNC_FILE_RANGE_WRITE);
  ::close(fd);
}

void go_over(const char* folder, const char* left_out, std::uint64_t& random) {
  std::error_code ignored;
  for (std::filesystem::recursive_directory_iterator at(folder, ignored), end; at != end;
       at.increment(ignored)) {
    if (!at->is_regular_file(ignored) || ::fnmatch(left_out, at->path().c_str(), 0) == 0) continue;
    write_back_some(at->path(), random);
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: early_writeback FOLDER SEED [PATTERN]\n");
    return 2;
  }
  std::uint64_t random = std::strtoull(argv[2], nullptr, 10);
  for (;;) {
    go_over(argv[1], argc > 3 ? argv[3] : "", random);
    std::this_thread::sleep_for(kPause);
  }
}
