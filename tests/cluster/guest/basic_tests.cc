// The operations of Connectathon's basic set, each checked after the client's caches are dropped.

#include <sys/statvfs.h>

#include <algorithm>
#include <climits>

#include "tests/cluster/guest/conformance.h"

namespace slice::guest {
namespace {

constexpr int kLevels = 4, kFiles = 4, kFolders = 3;

// Makes (or removes) a tree of kLevels levels; returns how many files and folders.
int make_level(const std::string& path, int levels) {
  int made = 0;
  for (int i = 0; i < kFiles; ++i, ++made) make_file(path + "/file." + std::to_string(i), path);
  for (int i = 0; levels > 1 && i < kFolders; ++i, ++made) {
    const std::string folder = path + "/dir." + std::to_string(i);
    expect_ok(mkdir(folder.c_str(), 0755), "mkdir " + folder);
    made += make_level(folder, levels - 1);
  }
  return made;
}

int remove_level(const std::string& path) {
  int removed = 0;
  for (const std::string& name : names_in(path)) {
    const std::string entry = path + "/" + name;
    ++removed;
    if (S_ISDIR(stat_of(entry).st_mode)) {
      removed += remove_level(entry);
      expect_ok(rmdir(entry.c_str()), "rmdir " + entry);
    } else {
      expect_eq(content_of(entry), path, "content of " + entry);
      expect_ok(unlink(entry.c_str()), "unlink " + entry);
    }
  }
  return removed;
}

void trees_are_made_and_removed() {
  const int made = make_level(".", kLevels);
  forget_caches();
  expect_eq(remove_level("."), made, "entries found when removing");
  expect_eq(names_in(".").size(), 0U, "entries left");
}

void working_folder_is_found() {
  char wanted[PATH_MAX];
  expect(getcwd(wanted, sizeof wanted) != nullptr, "getcwd");
  for (int i = 0; i < 50; ++i) {
    expect_ok(mkdir("deeper", 0755), "mkdir");
    expect_ok(chdir("deeper"), "chdir");
    char got[PATH_MAX];
    expect(getcwd(got, sizeof got) != nullptr, "getcwd");
    expect_eq(std::string(got), std::string(wanted) + "/deeper", "getcwd");
    expect_ok(chdir(".."), "chdir ..");
    expect(getcwd(got, sizeof got) != nullptr, "getcwd above");
    expect_eq(std::string(got), std::string(wanted), "getcwd above");
    expect_ok(rmdir("deeper"), "rmdir");
  }
}

void dot_dot_leads_up() {
  expect_ok(mkdir("a", 0755), "mkdir");
  expect_ok(mkdir("a/b", 0755), "mkdir");
  forget_caches();
  expect_eq(stat_of("a/b/../..").st_ino, stat_of(".").st_ino, "fileid of a/b/../..");
  expect_eq(stat_of("a/b/..").st_ino, stat_of("a").st_ino, "fileid of a/b/..");
  expect_eq(stat_of("a/.").st_ino, stat_of("a").st_ino, "fileid of a/.");
}

void modes_change() {
  make_file("file");
  for (int i = 0; i < 20; ++i) {
    for (mode_t mode : {0000, 0400, 0644, 0755, 0777, 01777, 04755, 02755, 06711}) {
      expect_ok(chmod("file", mode), "chmod");
      if (i == 0) forget_caches();
      expect_eq(stat_of("file").st_mode & 07777, mode, "mode");
    }
  }
}

void file_is_written_and_read() {
  const std::size_t size = 8 << 20;
  for (int round = 0; round < 2; ++round) {
    make_file("big", pattern(7, 0, size));
    forget_caches();
    expect_eq(stat_of("big").st_size, size, "size");
    expect(content_of("big") == pattern(7, 0, size), "bytes differ");
  }
}

// Connectathon's test 5b: small records, synchronous.
void synchronous_records_are_kept() {
  {
    File file("records", O_RDWR | O_CREAT | O_SYNC);
    for (std::uint64_t i = 0; i < 128; ++i) {
      const std::string record = pattern(i, 0, 1021);
      expect_eq(write(file.get(), record.data(), record.size()), 1021, "write");
    }
  }
  forget_caches();
  const std::string content = content_of("records");
  expect_eq(content.size(), 128U * 1021U, "size");
  for (std::uint64_t i = 0; i < 128; ++i) {
    expect(content.compare(i * 1021, 1021, pattern(i, 0, 1021)) == 0,
           "record " + std::to_string(i) + " differs");
  }
}

void names_are_listed() {
  for (int i = 0; i < 200; ++i) make_file("file." + std::to_string(i));
  for (int i = 0; i < 200; i += 2) expect_ok(unlink(("file." + std::to_string(i)).c_str()), "unlink");
  forget_caches();
  std::vector<std::string> names = names_in(".");
  expect_eq(names.size(), 100U, "names listed");
  std::sort(names.begin(), names.end());
  expect(std::unique(names.begin(), names.end()) == names.end(), "a name is listed twice");
}

void links_and_renames() {
  for (int i = 0; i < 10; ++i) {
    make_file("one", "content");
    expect_ok(rename("one", "two"), "rename");
    expect(!exists("one"), "the old name is still there");
    expect_eq(stat_of("two").st_nlink, 1U, "nlink after rename");
    expect_ok(link("two", "three"), "link");
    forget_caches();
    expect_eq(stat_of("two").st_nlink, 2U, "nlink after link");
    expect_eq(stat_of("two").st_ino, stat_of("three").st_ino, "fileid of both names");
    expect_ok(unlink("two"), "unlink");
    expect_eq(stat_of("three").st_nlink, 1U, "nlink after unlink");
    expect_eq(content_of("three"), "content", "content after unlink of the other name");
    expect_ok(unlink("three"), "unlink");
  }
}

void symbolic_links_are_read() {
  for (std::size_t length : {1U, 10U, 255U, 1000U, 1023U}) {
    const std::string target = std::string(length - 1, 'x') + "/";
    expect_ok(symlink(target.c_str(), "link"), "symlink of " + std::to_string(length) + " bytes");
    forget_caches();
    char got[4096];
    const long size = expect_ok(readlink("link", got, sizeof got), "readlink");
    expect_eq(std::string(got, static_cast<std::size_t>(size)), target, "target");
    expect(S_ISLNK(stat_of("link").st_mode), "it is no symbolic link");
    expect_eq(stat_of("link").st_size, length, "size of the link");
    expect_ok(unlink("link"), "unlink");
  }
  make_file("file", "behind");
  expect_ok(symlink("file", "link"), "symlink");
  expect_eq(content_of("link"), "behind", "content through the link");
}

void volume_figures_are_sane() {
  struct statvfs info{};
  make_file("file");
  for (const char* path : {".", "file"}) {
    expect_ok(statvfs(path, &info), "statvfs");
    expect(info.f_blocks > 0 && info.f_bfree <= info.f_blocks && info.f_bavail <= info.f_bfree,
           "free blocks do not fit the total");
    expect(info.f_files == 0 || info.f_ffree <= info.f_files, "free files do not fit the total");
    expect_eq(info.f_namemax, 255U, "longest name");
  }
}

// `df -i`: files that were made are there, at the latest when servers have told one another.
void files_are_counted() {
  constexpr unsigned kMade = 100;
  auto in_use = [] {
    struct statvfs info{};
    expect_ok(statvfs(".", &info), "statvfs");
    return info.f_files - info.f_ffree;
  };
  // What was removed before is told late, too.
  auto before = in_use();
  for (unsigned still = 0, tries = 0; still < 25 && tries < 200; ++tries) {
    usleep(100'000);
    still = in_use() == before ? still + 1 : 0;
    before = in_use();
  }
  for (unsigned i = 0; i < kMade; ++i) make_file("counted" + std::to_string(i));
  auto more = in_use() - before;
  for (int tries = 0; more < kMade && tries < 50; ++tries) {
    usleep(100'000);
    more = in_use() - before;
  }
  expect(more >= kMade, "only " + std::to_string(more) + " files more are in use");
}

void special_files_are_kept() {
  expect_ok(mknod("pipe", S_IFIFO | 0640, 0), "mknod of a pipe");
  expect_ok(mknod("socket", S_IFSOCK | 0600, 0), "mknod of a socket");
  expect_ok(mknod("block", S_IFBLK | 0600, (7U << 8U) | 3U), "mknod of a block device");
  expect_ok(mknod("char", S_IFCHR | 0600, (1U << 8U) | 3U), "mknod of a character device");
  forget_caches();
  expect(S_ISFIFO(stat_of("pipe").st_mode), "it is no pipe");
  expect_eq(stat_of("pipe").st_mode & 0777, 0640U, "mode of the pipe");
  expect(S_ISSOCK(stat_of("socket").st_mode), "it is no socket");
  expect(S_ISBLK(stat_of("block").st_mode), "it is no block device");
  expect_eq(stat_of("block").st_rdev, (7U << 8U) | 3U, "number of the block device");
  expect(S_ISCHR(stat_of("char").st_mode), "it is no character device");
  expect_eq(stat_of("char").st_rdev, (1U << 8U) | 3U, "number of the character device");
}

}  // namespace

std::vector<Test> basic_tests() {
  return {{"basic", "trees", trees_are_made_and_removed},
          {"basic", "getcwd", working_folder_is_found},
          {"basic", "dot_dot", dot_dot_leads_up},
          {"basic", "chmod", modes_change},
          {"basic", "write_read", file_is_written_and_read},
          {"basic", "synchronous_records", synchronous_records_are_kept},
          {"basic", "readdir", names_are_listed},
          {"basic", "link_rename", links_and_renames},
          {"basic", "symlink", symbolic_links_are_read},
          {"basic", "statfs", volume_figures_are_sane},
          {"basic", "files_are_counted", files_are_counted},
          {"basic", "special_files", special_files_are_kept}};
}

}  // namespace slice::guest
