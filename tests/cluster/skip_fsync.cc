// Preloaded into a server, takes out the syncs of some of its files, so that a test can show that it would
// notice: with SLICE_SKIP_FSYNC=PATTERN (as fnmatch(3), against the file's path), fsync and fdatasync of such
// files do nothing and answer success. The first one of each process is told on standard error.

#include <dlfcn.h>
#include <fnmatch.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace {

using Sync = int (*)(int);

bool is_skipped(int fd) {
  static const char* const pattern = std::getenv("SLICE_SKIP_FSYNC");
  if (pattern == nullptr) return false;
  char link[64];
  char path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = ::readlink(link, path, sizeof path - 1);
  if (length <= 0) return false;
  path[length] = '\0';
  if (::fnmatch(pattern, path, 0) != 0) return false;
  static std::atomic<bool> told = false;
  if (!told.exchange(true)) std::fprintf(stderr, "skip_fsync: %s is not synced\n", path);
  return true;
}

int sync_by(const char* name, int fd) {
  if (is_skipped(fd)) return 0;
  return reinterpret_cast<Sync>(::dlsym(RTLD_NEXT, name))(fd);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int fsync(int fd) {
  return sync_by("fsync", fd);
}

extern "C" __attribute__((visibility("default"))) int fdatasync(int fd) {
  return sync_by("fdatasync", fd);
}
