// Preloaded into a server, spoils the syncs of some of its files (PATTERN as of fnmatch(3), against the
// file's path). The first one of each process is told on standard error.
//   SLICE_SKIP_FSYNC=PATTERN   fsync and fdatasync do nothing and answer success, so that a test can show
//   that it
//                              would notice
//   SLICE_SLOW_FSYNC=PATTERN, SLICE_SLOW_FSYNC_MS=N   they take N ms longer, as on a slow disk

#include <dlfcn.h>
#include <fnmatch.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace {

using Sync = int (*)(int);

bool fits(const char* pattern, int fd, const char* what) {
  if (pattern == nullptr) return false;
  char link[64];
  char path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = ::readlink(link, path, sizeof path - 1);
  if (length <= 0) return false;
  path[length] = '\0';
  if (::fnmatch(pattern, path, 0) != 0) return false;
  static std::atomic<bool> told = false;
  if (!told.exchange(true)) std::fprintf(stderr, "skip_fsync: %s is %s\n", path, what);
  return true;
}

bool is_skipped(int fd) {
  static const char* const pattern = std::getenv("SLICE_SKIP_FSYNC");
  return fits(pattern, fd, "not synced");
}

void wait_if_slow(int fd) {
  static const char* const pattern = std::getenv("SLICE_SLOW_FSYNC");
  static const char* const milliseconds = std::getenv("SLICE_SLOW_FSYNC_MS");
  if (milliseconds != nullptr && fits(pattern, fd, "synced slowly"))
    ::usleep(static_cast<useconds_t>(std::atoi(milliseconds)) * 1000);
}

int sync_by(const char* name, int fd) {
  if (is_skipped(fd)) return 0;
  wait_if_slow(fd);
  return reinterpret_cast<Sync>(::dlsym(RTLD_NEXT, name))(fd);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int fsync(int fd) {
  return sync_by("fsync", fd);
}

extern "C" __attribute__((visibility("default"))) int fdatasync(int fd) {
  return sync_by("fdatasync", fd);
}
