// What programs do with open files: exclusive creation, removal while open, appending, mapping, renaming
// over.

#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cstring>

#include "tests/cluster/guest/conformance.h"

namespace slice::guest {
namespace {

// Runs the body in a child and returns its exit code; an exception counts as 99.
template <typename Body>
pid_t in_child(Body body) {
  const pid_t child = fork();
  expect_ok(child, "fork");
  if (child == 0) {
    int code = 99;
    try {
      code = body();
    } catch (const std::exception& error) {
      dprintf(1, "  child: %s\n", error.what());
    }
    _exit(code);
  }
  return child;
}

int exit_code(pid_t child) {
  int status = 0;
  expect_ok(waitpid(child, &status, 0), "waitpid");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

void exclusive_creation() {
  File first("file", O_CREAT | O_EXCL | O_RDWR, 0640);
  expect_errno(open("file", O_CREAT | O_EXCL | O_RDWR, 0600), EEXIST, "a second exclusive create");
  expect_eq(stat_of("file").st_mode & 07777, 0640U, "mode");
  expect_ok(symlink("nowhere", "link"), "symlink");
  expect_errno(open("link", O_CREAT | O_EXCL | O_RDWR, 0600), EEXIST,
               "exclusive create over a symbolic link");
  expect(!exists("nowhere"), "the link's target was made");
}

// Of several processes that create one name exclusively, one wins.
void exclusive_creation_has_one_winner() {
  constexpr int kRounds = 20, kRivals = 3;
  for (int round = 0; round < kRounds; ++round) {
    const std::string name = "lock." + std::to_string(round);
    std::vector<pid_t> rivals;
    for (int i = 0; i < kRivals; ++i) {
      rivals.push_back(
          in_child([&] { return open(name.c_str(), O_CREAT | O_EXCL | O_WRONLY, 0600) >= 0 ? 1 : 0; }));
    }
    int winners = 0;
    for (pid_t rival : rivals) winners += exit_code(rival);
    expect_eq(winners, 1, "winners of " + name);
  }
}

void file_lives_while_open() {
  File file("file", O_CREAT | O_RDWR);
  expect_eq(write(file.get(), "before", 6), 6, "write");
  expect_ok(unlink("file"), "unlink of an open file");
  expect(!exists("file"), "the name is still there");
  expect_eq(write(file.get(), "after", 5), 5, "write after unlink");
  expect_ok(fsync(file.get()), "fsync after unlink");
  forget_caches();
  char got[16] = {};
  expect_eq(pread(file.get(), got, sizeof got, 0), 11, "read after unlink");
  expect_eq(std::string(got), "beforeafter", "content after unlink");
  expect_ok(fchmod(file.get(), 0600), "fchmod after unlink");
  make_file("file", "another");
  expect_eq(pread(file.get(), got, 6, 0), 6, "read while another has the name");
  expect_eq(std::string(got, 6), "before", "content while another has the name");
  file.close();
  expect_eq(names_in(".").size(), 1U, "names left: the silly-renamed file must go at close");
}

void open_target_of_rename_lives() {
  make_file("old", "old content");
  make_file("new", "new content");
  File file("new", O_RDONLY);
  expect_ok(rename("old", "new"), "rename over an open file");
  expect_eq(content_of("new"), "old content", "content under the name");
  forget_caches();
  char got[16] = {};
  expect_eq(read(file.get(), got, sizeof got), 11, "read of the replaced file");
  expect_eq(std::string(got), "new content", "content of the replaced file");
  file.close();
  expect_eq(names_in(".").size(), 1U, "names left");
}

void silly_names_can_be_removed() {
  if (!on_nfs()) throw Skip("only NFS clients rename open files that are removed");
  File file("file", O_CREAT | O_RDWR);
  expect_eq(write(file.get(), "bytes", 5), 5, "write");
  expect_ok(unlink("file"), "unlink");
  const std::vector<std::string> names = names_in(".");
  expect_eq(names.size(), 1U, "names while open");
  expect(names[0].starts_with(".nfs"), "the name while open is " + names[0]);
  expect_errno(rmdir("."), EINVAL, "rmdir of the current folder by dot");
}

void appending() {
  for (int i = 0; i < 200; ++i) {
    File file("log", O_WRONLY | O_APPEND | O_CREAT);
    const std::string line = "line " + std::to_string(i) + "\n";
    expect_eq(write(file.get(), line.data(), line.size()), line.size(), "append");
    file.close();
  }
  forget_caches();
  std::string wanted;
  for (int i = 0; i < 200; ++i) wanted += "line " + std::to_string(i) + "\n";
  expect_eq(content_of("log"), wanted, "the log");
}

void appending_over_the_threshold() {
  std::string wanted;
  for (std::uint64_t i = 0; i < 50; ++i) {
    File file("log", O_WRONLY | O_APPEND | O_CREAT);
    const std::string piece = pattern(i, 0, 3001);
    expect_eq(write(file.get(), piece.data(), piece.size()), piece.size(), "append");
    file.close();
    wanted += piece;
    if (i % 10 == 0) forget_caches();
  }
  forget_caches();
  expect(content_of("log") == wanted, "the log differs");
}

void mapped_writes_arrive() {
  constexpr std::size_t kSize = 300 * 1024;
  make_file("file", std::string(kSize, 'a'));
  {
    File file("file", O_RDWR);
    void* mapping = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    expect(mapping != MAP_FAILED, "mmap");
    char* bytes = static_cast<char*>(mapping);
    for (std::size_t at : {0UL, 4095UL, 4096UL, 65535UL, 65536UL, 131072UL, kSize - 1}) bytes[at] = 'b';
    expect_ok(msync(mapping, kSize, MS_SYNC), "msync");
    expect_ok(munmap(mapping, kSize), "munmap");
  }
  forget_caches();
  std::string wanted(kSize, 'a');
  for (std::size_t at : {0UL, 4095UL, 4096UL, 65535UL, 65536UL, 131072UL, kSize - 1}) wanted[at] = 'b';
  expect(content_of("file") == wanted, "bytes written through a mapping are not there");
}

void private_mapping_changes_nothing() {
  make_file("file", "original");
  File file("file", O_RDONLY);
  void* mapping = mmap(nullptr, 8, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.get(), 0);
  expect(mapping != MAP_FAILED, "mmap");
  std::memcpy(mapping, "changed!", 8);
  munmap(mapping, 8);
  forget_caches();
  expect_eq(content_of("file"), "original", "content");
}

void truncation_on_open() {
  make_file("file", std::string(200000, 'x'));
  File(std::string("file"), O_WRONLY | O_TRUNC).close();
  forget_caches();
  expect_eq(stat_of("file").st_size, 0, "size after O_TRUNC");
  File(std::string("file"), O_WRONLY | O_CREAT, 0600).close();
  expect_eq(stat_of("file").st_mode & 0777, 0644U, "O_CREAT changed the mode of what was there");
}

void programs_run_from_the_volume() {
  make_file("script", "#!/bin/sh\nexit 7\n", 0755);
  forget_caches();
  const pid_t child = in_child([] {
    execl("./script", "./script", nullptr);
    return 98;
  });
  expect_eq(exit_code(child), 7, "exit code of a script on the volume");
}

void duplicated_descriptors_share_the_position() {
  File file("file", O_CREAT | O_RDWR);
  const pid_t child = in_child([&] { return write(file.get(), "child", 5) == 5 ? 0 : 1; });
  expect_eq(exit_code(child), 0, "child");
  expect_eq(write(file.get(), "parent", 6), 6, "write");
  expect_eq(content_of("file"), "childparent", "content");
}

void locks_exclude() {
  File file("file", O_CREAT | O_RDWR);
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_len = 10;
  expect_ok(fcntl(file.get(), F_SETLK, &lock), "lock");
  const pid_t child = in_child([] {
    File mine("file", O_RDWR);
    struct flock wanted{};
    wanted.l_type = F_WRLCK;
    wanted.l_start = 5;
    wanted.l_len = 1;
    const bool refused = fcntl(mine.get(), F_SETLK, &wanted) < 0;
    wanted.l_start = 10;
    return refused && fcntl(mine.get(), F_SETLK, &wanted) == 0 ? 0 : 1;
  });
  expect_eq(exit_code(child), 0, "a child sees the lock");
}

// One process renames a file to and fro; at every moment one of the two names is there, whole.
void rename_storm_is_seen_whole() {
  make_file("a", "1");
  make_file("target", "old");
  const pid_t mover = in_child([] {
    for (int i = 0; i < 300; ++i) {
      make_file("new." + std::to_string(i), "content " + std::to_string(i));
      expect_ok(rename(("new." + std::to_string(i)).c_str(), "target"), "rename");
    }
    return 0;
  });
  int seen = 0;
  int status = 0;
  while (waitpid(mover, &status, WNOHANG) == 0) {
    const int file = open("target", O_RDONLY);
    if (file < 0 && errno == ESTALE) continue;  // replaced between the client's look-up and its use
    expect_ok(file, "open of a name that is always there");
    ++seen;
    close(file);
  }
  expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the mover failed");
  expect(seen > 0, "the watcher saw nothing");
  expect_eq(content_of("target"), "content 299", "content at the end");
  expect_eq(names_in(".").size(), 2U, "names left");
}

}  // namespace

std::vector<Test> general_tests() {
  return {{"general", "exclusive_create", exclusive_creation},
          {"general", "exclusive_create_race", exclusive_creation_has_one_winner},
          {"general", "unlink_while_open", file_lives_while_open},
          {"general", "rename_over_open", open_target_of_rename_lives},
          {"general", "silly_rename", silly_names_can_be_removed},
          {"general", "append", appending},
          {"general", "append_over_threshold", appending_over_the_threshold},
          {"general", "mmap_shared", mapped_writes_arrive},
          {"general", "mmap_private", private_mapping_changes_nothing},
          {"general", "open_truncates", truncation_on_open},
          {"general", "exec", programs_run_from_the_volume},
          {"general", "shared_position", duplicated_descriptors_share_the_position},
          {"general", "local_locks", locks_exclude},
          {"general", "rename_storm", rename_storm_is_seen_whole}};
}

}  // namespace slice::guest
