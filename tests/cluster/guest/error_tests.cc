// Which errno each mistake gets: what pjdfstest asks, for what NFSv3 can express.

#include <climits>

#include "tests/cluster/guest/conformance.h"

namespace slice::guest {
namespace {

const std::string kLongest(255, 'l');
const std::string kTooLong(256, 'l');

// Every call that takes a path, applied to one path. The folder, if needed, is ".".
struct PathCall {
  const char* name;
  std::function<long(const char*)> call;
};

long open_and_close(const char* path, int flags) {
  const int descriptor = open(path, flags, 0644);
  if (descriptor >= 0) close(descriptor);
  return descriptor;
}

std::vector<PathCall> path_calls() {
  return {{"stat",
           [](const char* path) {
             struct stat info;
             return static_cast<long>(stat(path, &info));
           }},
          {"open", [](const char* path) { return open_and_close(path, O_RDONLY); }},
          {"open with O_CREAT", [](const char* path) { return open_and_close(path, O_RDWR | O_CREAT); }},
          {"mkdir", [](const char* path) { return static_cast<long>(mkdir(path, 0755)); }},
          {"rmdir", [](const char* path) { return static_cast<long>(rmdir(path)); }},
          {"unlink", [](const char* path) { return static_cast<long>(unlink(path)); }},
          {"chmod", [](const char* path) { return static_cast<long>(chmod(path, 0644)); }},
          {"chown", [](const char* path) { return static_cast<long>(chown(path, 1, 1)); }},
          {"truncate", [](const char* path) { return static_cast<long>(truncate(path, 10)); }},
          {"symlink", [](const char* path) { return static_cast<long>(symlink("x", path)); }},
          {"link to it", [](const char* path) { return static_cast<long>(link("source", path)); }},
          {"link from it", [](const char* path) { return static_cast<long>(link(path, "other")); }},
          {"rename to it", [](const char* path) { return static_cast<long>(rename("source", path)); }},
          {"rename from it", [](const char* path) { return static_cast<long>(rename(path, "other")); }},
          {"mknod", [](const char* path) { return static_cast<long>(mknod(path, S_IFIFO | 0644, 0)); }}};
}

void names_too_long() {
  make_file("source");
  for (const PathCall& one : path_calls()) {
    expect_errno(one.call(kTooLong.c_str()), ENAMETOOLONG, std::string(one.name) + " of a name of 256 bytes");
  }
  make_file(kLongest, "x");
  expect_ok(rename(kLongest.c_str(), "short"), "rename from a name of 255 bytes");
  expect_ok(rename("short", kLongest.c_str()), "rename to a name of 255 bytes");
  expect_ok(unlink(kLongest.c_str()), "unlink of a name of 255 bytes");
  expect_ok(mkdir(kLongest.c_str(), 0755), "mkdir of a name of 255 bytes");
  expect_ok(rmdir(kLongest.c_str()), "rmdir of a name of 255 bytes");
  expect_ok(symlink("x", kLongest.c_str()), "symlink of a name of 255 bytes");
}

void a_file_is_no_folder() {
  make_file("source");
  make_file("file");
  for (const PathCall& one : path_calls()) {
    expect_errno(one.call("file/below"), ENOTDIR, std::string(one.name) + " below a file");
  }
}

void missing_folder() {
  make_file("source");
  for (const PathCall& one : path_calls()) {
    expect_errno(one.call("missing/below"), ENOENT, std::string(one.name) + " in a folder that is not there");
  }
}

void loops_of_links() {
  make_file("source");
  expect_ok(symlink("loop2", "loop1"), "symlink");
  expect_ok(symlink("loop1", "loop2"), "symlink");
  for (const PathCall& one : path_calls()) {
    expect_errno(one.call("loop1/below"), ELOOP, std::string(one.name) + " below a loop of links");
  }
  expect_errno(open("loop1", O_RDONLY), ELOOP, "open of a loop of links");
  expect_errno(open("loop1", O_RDONLY | O_NOFOLLOW), ELOOP, "open of a link with O_NOFOLLOW");
}

void missing_names() {
  expect_errno(open("missing", O_RDONLY), ENOENT, "open");
  expect_errno(unlink("missing"), ENOENT, "unlink");
  expect_errno(rmdir("missing"), ENOENT, "rmdir");
  expect_errno(rename("missing", "other"), ENOENT, "rename");
  expect_errno(link("missing", "other"), ENOENT, "link");
  expect_errno(chmod("missing", 0644), ENOENT, "chmod");
  expect_errno(truncate("missing", 1), ENOENT, "truncate");
}

void names_in_use() {
  make_file("file");
  expect_ok(mkdir("folder", 0755), "mkdir");
  expect_ok(symlink("nowhere", "link"), "symlink");
  expect_ok(mknod("pipe", S_IFIFO | 0644, 0), "mknod");
  make_file("source");
  for (const char* name : {"file", "folder", "link", "pipe"}) {
    const std::string over = std::string(" over ") + name;
    expect_errno(mkdir(name, 0755), EEXIST, "mkdir" + over);
    expect_errno(symlink("x", name), EEXIST, "symlink" + over);
    expect_errno(link("source", name), EEXIST, "link" + over);
    expect_errno(mknod(name, S_IFIFO | 0644, 0), EEXIST, "mknod" + over);
    expect_errno(open(name, O_CREAT | O_EXCL | O_RDWR, 0644), EEXIST, "exclusive create" + over);
  }
}

void folders_that_are_not_empty() {
  expect_ok(mkdir("full", 0755), "mkdir");
  make_file("full/file");
  expect_ok(mkdir("empty", 0755), "mkdir");
  expect_errno_in(rmdir("full"), {ENOTEMPTY, EEXIST}, "rmdir of a full folder");
  expect_errno_in(rename("empty", "full"), {ENOTEMPTY, EEXIST}, "rename over a full folder");
  expect(exists("full/file") && exists("empty"), "something is gone");
  expect_ok(rename("full", "empty"), "rename over an empty folder");
  expect(exists("empty/file") && !exists("full"), "the rename did not happen");
  expect_eq(stat_of("empty").st_nlink, 2U, "nlink of the renamed folder");
}

void folders_are_not_files() {
  expect_ok(mkdir("folder", 0755), "mkdir");
  make_file("file");
  expect_errno(open("folder", O_WRONLY), EISDIR, "open of a folder for writing");
  expect_errno(open("folder", O_RDWR | O_CREAT, 0644), EISDIR, "open of a folder with O_CREAT");
  expect_errno(truncate("folder", 0), EISDIR, "truncate of a folder");
  expect_errno_in(unlink("folder"), {EISDIR, EPERM}, "unlink of a folder");
  expect_errno(rmdir("file"), ENOTDIR, "rmdir of a file");
  expect_errno(rename("file", "folder"), EISDIR, "rename of a file over a folder");
  expect_errno(rename("folder", "file"), ENOTDIR, "rename of a folder over a file");
  expect_errno(link("folder", "other"), EPERM, "link to a folder");
  File folder("folder", O_RDONLY | O_DIRECTORY);
  char byte = 0;
  expect_errno(read(folder.get(), &byte, 1), EISDIR, "read of a folder");
}

void renames_that_cannot_be() {
  expect_ok(mkdir("a", 0755), "mkdir");
  expect_ok(mkdir("a/b", 0755), "mkdir");
  expect_ok(mkdir("a/b/c", 0755), "mkdir");
  expect_errno(rename("a", "a/b/c/d"), EINVAL, "rename of a folder into its own descendant");
  expect_errno(rename("a", "a/x"), EINVAL, "rename of a folder into itself");
  expect_errno_in(rename("a/b/c", "a"), {ENOTEMPTY, EEXIST}, "rename of a folder over its ancestor");
  expect_errno_in(rename("a/.", "x"), {EINVAL, EBUSY}, "rename of dot");
  expect_errno_in(rmdir("a/b/."), {EINVAL}, "rmdir of dot");
  expect_errno_in(rmdir("a/b/.."), {ENOTEMPTY, EINVAL, EEXIST}, "rmdir of dot dot");
  expect(exists("a/b/c"), "something is gone");
}

void renames_onto_the_same() {
  make_file("one", "content");
  expect_ok(rename("one", "one"), "rename onto itself");
  expect_eq(content_of("one"), "content", "content");
  expect_ok(link("one", "two"), "link");
  forget_caches();
  expect_ok(rename("one", "two"), "rename onto a hard link of itself");
  forget_caches();
  expect(exists("one") && exists("two"), "both names must stay");
  expect_eq(stat_of("one").st_nlink, 2U, "nlink");
}

void renames_between_folders() {
  for (const char* name : {"a", "b", "a/moved"}) expect_ok(mkdir(name, 0755), "mkdir");
  make_file("a/moved/file", "inside");
  make_file("a/file", "content");
  make_file("b/file", "replaced");
  expect_ok(rename("a/file", "b/file"), "rename of a file");
  expect_ok(rename("a/moved", "b/moved"), "rename of a folder");
  forget_caches();
  expect_eq(content_of("b/file"), "content", "content");
  expect_eq(content_of("b/moved/file"), "inside", "content below the moved folder");
  expect_eq(stat_of("b/moved/..").st_ino, stat_of("b").st_ino, "the moved folder's parent");
  expect_eq(names_in("a").size(), 0U, "entries left behind");
  expect_eq(stat_of("a").st_nlink, 2U, "nlink of the folder it left");
  expect_eq(stat_of("b").st_nlink, 3U, "nlink of the folder it entered");
  expect_ok(rmdir("a"), "rmdir of the folder it left");
}

void replaced_folders_are_forgotten() {
  expect_ok(mkdir("a", 0755), "mkdir");
  expect_ok(mkdir("b", 0755), "mkdir");
  File old("b", O_RDONLY | O_DIRECTORY);
  expect_ok(rename("a", "b"), "rename over an empty folder");
  forget_caches();
  expect_errno_in(openat(old.get(), "new", O_CREAT | O_RDWR, 0644), {ENOENT, ESTALE},
                  "create in a replaced folder");
}

void wrong_arguments() {
  make_file("file");
  expect_errno(truncate("file", -1), EINVAL, "truncate to a negative size");
  expect_errno(open("", O_RDONLY), ENOENT, "open of the empty name");
  expect_errno(mkdir("", 0755), ENOENT, "mkdir of the empty name");
  expect_errno(symlink("", "link"), ENOENT, "symlink to the empty target");
  char target[16];
  expect_errno(readlink("file", target, sizeof target), EINVAL, "readlink of a file");
  expect_errno(mkdir(".", 0755), EEXIST, "mkdir of dot");
  expect_errno(mkdir("..", 0755), EEXIST, "mkdir of dot dot");
  File file("file", O_RDONLY);
  expect_errno(write(file.get(), "x", 1), EBADF, "write to a file opened for reading");
  expect_errno(lseek(file.get(), -1, SEEK_SET), EINVAL, "lseek before the beginning");
}

void deep_paths() {
  std::string path = ".";
  for (int depth = 0; depth < 60; ++depth) {
    path += "/" + std::string(40, 'd');
    expect_ok(mkdir(path.c_str(), 0755), "mkdir at depth " + std::to_string(depth));
  }
  make_file(path + "/file", "deep");
  forget_caches();
  expect_eq(content_of(path + "/file"), "deep", "content");
  const std::string longer = std::string(PATH_MAX, 'p');
  expect_errno(open(longer.c_str(), O_RDONLY), ENAMETOOLONG, "open of a path that is too long");
}

// A name that is used again and again shows the newest file, never one of those removed.
void removed_files_do_not_come_back() {
  for (int i = 0; i < 50; ++i) {
    make_file("file", "content " + std::to_string(i));
    expect_ok(unlink("file"), "unlink");
    expect_errno(open("file", O_RDONLY), ENOENT, "open after unlink");
  }
  make_file("file", "new");
  forget_caches();
  expect_eq(content_of("file"), "new", "content");
}

}  // namespace

std::vector<Test> error_tests() {
  return {{"errors", "name_too_long", names_too_long},
          {"errors", "not_a_folder", a_file_is_no_folder},
          {"errors", "missing_folder", missing_folder},
          {"errors", "loops", loops_of_links},
          {"errors", "missing_names", missing_names},
          {"errors", "names_in_use", names_in_use},
          {"errors", "not_empty", folders_that_are_not_empty},
          {"errors", "is_a_folder", folders_are_not_files},
          {"errors", "impossible_renames", renames_that_cannot_be},
          {"errors", "renames_onto_the_same", renames_onto_the_same},
          {"errors", "renames_between_folders", renames_between_folders},
          {"errors", "replaced_folders", replaced_folders_are_forgotten},
          {"errors", "wrong_arguments", wrong_arguments},
          {"errors", "deep_paths", deep_paths},
          {"errors", "removed_files", removed_files_do_not_come_back}};
}

}  // namespace slice::guest
