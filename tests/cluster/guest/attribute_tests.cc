// Times and counts: what moves with which operation, and what stays.

#include <sys/time.h>

#include <compare>

#include "tests/cluster/guest/conformance.h"

namespace slice::guest {
namespace {

struct Time {
  long seconds, nanoseconds;
  explicit Time(const struct timespec& from) : seconds(from.tv_sec), nanoseconds(from.tv_nsec) {}
  auto operator<=>(const Time&) const = default;
};

Time mtime(const std::string& path) {
  return Time(stat_of(path).st_mtim);
}
Time ctime_of(const std::string& path) {
  return Time(stat_of(path).st_ctim);
}

void wait_a_moment() {
  usleep(20000);
}

// Runs the operation and expects the times of `path` to move, or to stay.
void expect_times(const std::string& path, bool mtime_moves, bool ctime_moves, const std::string& what,
                  const std::function<void()>& operation) {
  forget_caches();
  const Time mtime_before = mtime(path), ctime_before = ctime_of(path);
  wait_a_moment();
  operation();
  forget_caches();
  const Time mtime_after = mtime(path), ctime_after = ctime_of(path);
  expect(mtime_after >= mtime_before, "mtime went back at " + what);
  expect(ctime_after >= ctime_before, "ctime went back at " + what);
  expect_eq(mtime_after > mtime_before, mtime_moves, "mtime of " + path + " moves at " + what);
  expect_eq(ctime_after > ctime_before, ctime_moves, "ctime of " + path + " moves at " + what);
}

void folder_times_follow_names() {
  expect_ok(mkdir("d", 0755), "mkdir");
  make_file("outside");
  const auto moves = [](const std::string& what, const std::function<void()>& operation) {
    expect_times("d", true, true, what, operation);
  };
  moves("create", [] { make_file("d/file"); });
  moves("mkdir", [] { expect_ok(mkdir("d/sub", 0755), "mkdir"); });
  moves("symlink", [] { expect_ok(symlink("x", "d/link"), "symlink"); });
  moves("link", [] { expect_ok(link("outside", "d/hard"), "link"); });
  moves("mknod", [] { expect_ok(mknod("d/pipe", S_IFIFO | 0600, 0), "mknod"); });
  moves("rename inside", [] { expect_ok(rename("d/file", "d/renamed"), "rename"); });
  moves("rename out", [] { expect_ok(rename("d/renamed", "renamed"), "rename"); });
  moves("rename in", [] { expect_ok(rename("renamed", "d/file"), "rename"); });
  moves("unlink", [] { expect_ok(unlink("d/file"), "unlink"); });
  moves("rmdir", [] { expect_ok(rmdir("d/sub"), "rmdir"); });
  expect_times("d", false, false, "a failed create",
               [] { expect_errno(mkdir("d/hard", 0755), EEXIST, "mkdir"); });
  expect_times("d", false, false, "a failed unlink", [] { expect_errno(unlink("d/no"), ENOENT, "unlink"); });
  expect_times("d", false, false, "a write inside", [] { make_file("d/hard", "new content"); });
}

void file_times_follow_data() {
  make_file("file", "x");
  expect_times("file", true, true, "a write", [] {
    File file("file", O_WRONLY);
    expect_eq(pwrite(file.get(), "y", 1, 0), 1, "write");
    file.close();
  });
  expect_times("file", true, true, "a write above the threshold", [] {
    File file("file", O_WRONLY);
    expect_eq(pwrite(file.get(), "y", 1, 200000), 1, "write");
    file.close();
  });
  expect_times("file", true, true, "truncate", [] { expect_ok(truncate("file", 70000), "truncate"); });
  expect_times("file", true, true, "truncate upwards",
               [] { expect_ok(truncate("file", 170000), "truncate"); });
  expect_times("file", true, true, "open with O_TRUNC", [] { File("file", O_WRONLY | O_TRUNC).close(); });
  expect_times("file", false, false, "a read", [] { content_of("file"); });
  expect_times("file", false, true, "chmod", [] { expect_ok(chmod("file", 0600), "chmod"); });
  expect_times("file", false, true, "chown", [] { expect_ok(chown("file", 5, 5), "chown"); });
  expect_times("file", false, true, "link", [] { expect_ok(link("file", "other"), "link"); });
  expect_times("file", false, true, "unlink of another name", [] { expect_ok(unlink("other"), "unlink"); });
}

void times_are_set_exactly() {
  make_file("file", "x");
  expect_ok(mkdir("folder", 0755), "mkdir");
  for (const char* path : {"file", "folder"}) {
    for (long seconds : {1L, 1000000000L, 2147483647L}) {
      const struct timespec times[2] = {{seconds, 123456789}, {seconds, 987654321}};
      expect_ok(utimensat(AT_FDCWD, path, times, 0), "utimensat");
      forget_caches();
      const struct stat info = stat_of(path);
      const std::string which = std::string(" of ") + path + " set to second " + std::to_string(seconds);
      expect_eq(info.st_atim.tv_sec, seconds, "atime" + which);
      expect_eq(info.st_mtim.tv_sec, seconds, "mtime" + which);
      expect_eq(info.st_atim.tv_nsec, 123456789, "nanoseconds of atime" + which);
      expect_eq(info.st_mtim.tv_nsec, 987654321, "nanoseconds of mtime" + which);
    }
  }
}

void one_time_is_set_alone() {
  make_file("file", "x");
  const struct timespec both[2] = {{1000, 0}, {2000, 0}};
  expect_ok(utimensat(AT_FDCWD, "file", both, 0), "utimensat");
  const struct timespec modified[2] = {{0, UTIME_OMIT}, {3000, 0}};
  expect_ok(utimensat(AT_FDCWD, "file", modified, 0), "utimensat");
  forget_caches();
  expect_eq(stat_of("file").st_atim.tv_sec, 1000, "atime that was not set");
  expect_eq(stat_of("file").st_mtim.tv_sec, 3000, "mtime that was set");
  const struct timespec now[2] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
  expect_ok(utimensat(AT_FDCWD, "file", now, 0), "utimensat");
  forget_caches();
  expect(stat_of("file").st_atim.tv_sec > 1000000, "atime set to now");
  expect_eq(stat_of("file").st_mtim.tv_sec, 3000, "mtime that was not set");
}

// What cp -p does: write, then set the times, then close. The times must hold against the late write.
void times_survive_writing_before() {
  for (std::size_t size : {10U, 70000U, 300000U}) {
    File file("file", O_CREAT | O_RDWR | O_TRUNC);
    const std::string bytes = pattern(1, 0, size);
    expect_eq(write(file.get(), bytes.data(), size), size, "write");
    const struct timespec times[2] = {{1111, 0}, {2222, 0}};
    expect_ok(futimens(file.get(), times), "futimens");
    file.close();
    forget_caches();
    expect_eq(stat_of("file").st_mtim.tv_sec, 2222,
              "mtime after a copy of " + std::to_string(size) + " bytes");
    usleep(1500000);
    forget_caches();
    expect_eq(stat_of("file").st_mtim.tv_sec, 2222, "mtime some time after");
    expect_eq(stat_of("file").st_size, size, "size some time after");
  }
}

void times_are_valid() {
  make_file("file", "x");
  File file("file", O_RDWR);
  Time last = mtime("file");
  for (int i = 0; i < 50; ++i) {
    expect_eq(pwrite(file.get(), "y", 1, i * 5000), 1, "write");
    expect_ok(fsync(file.get()), "fsync");
    forget_caches();
    const Time now = mtime("file");
    expect(now.nanoseconds >= 0 && now.nanoseconds < 1000000000, "nanoseconds out of range");
    expect(now >= last, "mtime went back");
    last = now;
  }
}

void sizes_are_seen_at_once() {
  File file("file", O_CREAT | O_RDWR);
  off_t size = 0;
  for (int i = 0; i < 40; ++i) {
    const std::string bytes = pattern(1, 0, 7777);
    expect_eq(pwrite(file.get(), bytes.data(), bytes.size(), size), bytes.size(), "write");
    size += 7777;
    expect_ok(fdatasync(file.get()), "fdatasync");
    forget_caches();
    expect_eq(stat_of("file").st_size, size, "size after fdatasync");
  }
}

void space_is_accounted() {
  make_file("file", std::string(1 << 20, 'x'));
  forget_caches();
  expect(stat_of("file").st_blocks > 0, "a file of 1 MiB takes no blocks");
}

// What servers store of a file they tell within a second. It is open nowhere: then the client asks.
std::int64_t blocks_soon(const char* path, std::int64_t least, std::int64_t most) {
  std::int64_t blocks = -1;
  for (int tries = 0; tries < 30 && (blocks < least || blocks > most); ++tries) {
    if (tries > 0) usleep(100'000);
    forget_caches();
    blocks = stat_of(path).st_blocks;
  }
  return blocks;
}

void holes_take_no_space() {
  constexpr off_t kHole = 64 << 20;
  make_file("holes", "");
  expect_ok(truncate("holes", kHole), "truncate");
  std::int64_t blocks = blocks_soon("holes", 0, 8);
  expect(blocks <= 8, "a hole of 64 MiB takes " + std::to_string(blocks) + " blocks");
  const std::string bytes(100'000, 'x');
  for (off_t at : {off_t{0}, kHole / 2}) {
    File file("holes", O_WRONLY);
    expect_eq(pwrite(file.get(), bytes.data(), bytes.size(), at), bytes.size(), "write");
    expect_ok(fsync(file.get()), "fsync");
  }
  blocks = blocks_soon("holes", 390, 900);
  expect(blocks >= 390 && blocks <= 900, "200,000 bytes take " + std::to_string(blocks) + " blocks");
  make_file("dense", std::string(3 << 20, 'x'));
  expect_eq(blocks_soon("dense", 6144, 6144), std::int64_t{6144}, "blocks of 3 MiB");
}

void links_are_counted() {
  make_file("file", "x");
  for (int i = 0; i < 100; ++i) expect_ok(link("file", ("link." + std::to_string(i)).c_str()), "link");
  forget_caches();
  expect_eq(stat_of("file").st_nlink, 101U, "nlink");
  expect_ok(chmod("link.50", 0600), "chmod");
  forget_caches();
  expect_eq(stat_of("link.7").st_mode & 0777, 0600U, "mode under another name");
  for (int i = 0; i < 100; ++i) expect_ok(unlink(("link." + std::to_string(i)).c_str()), "unlink");
  forget_caches();
  expect_eq(stat_of("file").st_nlink, 1U, "nlink");
  expect_ok(symlink("file", "symbolic"), "symlink");
  expect_ok(link("symbolic", "symbolic2"), "link to a symbolic link");
  expect(S_ISLNK(stat_of("symbolic2").st_mode), "a link to a symbolic link");
}

}  // namespace

std::vector<Test> attribute_tests() {
  return {{"attributes", "folder_times", folder_times_follow_names},
          {"attributes", "file_times", file_times_follow_data},
          {"attributes", "set_times", times_are_set_exactly},
          {"attributes", "set_one_time", one_time_is_set_alone},
          {"attributes", "copied_times", times_survive_writing_before},
          {"attributes", "valid_times", times_are_valid},
          {"attributes", "size", sizes_are_seen_at_once},
          {"attributes", "blocks", space_is_accounted},
          {"attributes", "blocks_of_holes", holes_take_no_space},
          {"attributes", "nlink", links_are_counted}};
}

}  // namespace slice::guest
