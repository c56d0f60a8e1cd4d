// What each user may do: modes, owners, groups, sticky folders, set-id bits. Tests act as users that need not
// exist.

#include <sys/time.h>

#include "tests/cluster/guest/conformance.h"

namespace slice::guest {
namespace {

constexpr uid_t kAnn = 65001, kBob = 65002;
constexpr gid_t kTeam = 65100, kOther = 65101;

void own(const std::string& path, uid_t user, gid_t group, mode_t mode) {
  expect_ok(chown(path.c_str(), user, group), "chown " + path);
  expect_ok(chmod(path.c_str(), mode), "chmod " + path);
}

long try_open(const std::string& path, int flags) {
  const int descriptor = open(path.c_str(), flags, 0644);
  if (descriptor >= 0) close(descriptor);
  return descriptor;
}

bool may_read(const std::string& path) {
  return try_open(path, O_RDONLY) >= 0;
}
bool may_write(const std::string& path) {
  return try_open(path, O_WRONLY) >= 0;
}

// Owner, group and others each get their own three bits, and only those.
void each_class_has_its_bits() {
  make_file("file", "content");
  struct Case {
    mode_t mode;
    bool owner_reads, owner_writes, group_reads, group_writes, other_reads, other_writes;
  };
  for (const Case& one :
       {Case{0000, false, false, false, false, false, false},
        Case{0400, true, false, false, false, false, false},
        Case{0200, false, true, false, false, false, false},
        Case{0040, false, false, true, false, false, false},
        Case{0020, false, false, false, true, false, false},
        Case{0004, false, false, false, false, true, false},
        Case{0002, false, false, false, false, false, true}, Case{0077, false, false, true, true, true, true},
        Case{0604, true, true, false, false, true, false}, Case{0666, true, true, true, true, true, true}}) {
    own("file", kAnn, kTeam, one.mode);
    forget_caches();
    std::ostringstream mode;
    mode << " with mode " << std::oct << one.mode;
    {
      AsUser owner(kAnn, kOther);
      expect_eq(may_read("file"), one.owner_reads, "the owner reads" + mode.str());
      expect_eq(may_write("file"), one.owner_writes, "the owner writes" + mode.str());
    }
    for (const bool supplementary : {false, true}) {
      AsUser member(kBob, supplementary ? kOther : kTeam,
                    supplementary ? std::vector<gid_t>{kTeam} : std::vector<gid_t>{});
      expect_eq(may_read("file"), one.group_reads, "a group's member reads" + mode.str());
      expect_eq(may_write("file"), one.group_writes, "a group's member writes" + mode.str());
    }
    AsUser stranger(kBob, kOther);
    expect_eq(may_read("file"), one.other_reads, "a stranger reads" + mode.str());
    expect_eq(may_write("file"), one.other_writes, "a stranger writes" + mode.str());
  }
}

// The data servers decide too: bytes on both sides of the threshold are guarded alike.
void bytes_are_guarded_on_every_server() {
  const std::string content = pattern(1, 0, 300000);
  make_file("file", content);
  own("file", kAnn, kTeam, 0640);
  forget_caches();
  {
    AsUser stranger(kBob, kOther);
    expect_errno(try_open("file", O_RDONLY), EACCES, "open by a stranger");
    expect_errno(truncate("file", 100), EACCES, "truncate by a stranger");
  }
  {
    AsUser member(kBob, kTeam);
    expect(content_of("file") == content, "a group's member reads other bytes");
    expect_errno(try_open("file", O_WRONLY), EACCES, "open for writing by a group's member");
  }
  AsUser owner(kAnn, kOther);
  File file("file", O_RDWR);
  expect_eq(pwrite(file.get(), "x", 1, 0), 1, "the owner writes");
  expect_eq(pwrite(file.get(), "x", 1, 200000), 1, "the owner writes");
  file.close();
}

// An open file stays usable: the owner may write after taking its own permission away.
void owner_writes_what_it_created_read_only() {
  expect_ok(chmod(".", 0777), "chmod");
  AsUser owner(kAnn);
  File file("file", O_CREAT | O_RDWR, 0400);
  const std::string content = pattern(2, 0, 200000);
  expect_eq(write(file.get(), content.data(), content.size()), content.size(),
            "write to a file made read-only");
  expect_ok(fsync(file.get()), "fsync");
  file.close();
  expect_errno(try_open("file", O_WRONLY), EACCES, "open for writing again");
  expect(content_of("file") == content, "content");
}

void folder_bits_count() {
  expect_ok(mkdir("folder", 0755), "mkdir");
  make_file("folder/file", "x");
  own("folder/file", kBob, kOther, 0644);
  struct Case {
    mode_t mode;
    int list, look_up, create;  // errno wanted, 0 for success
  };
  for (const Case& one : {Case{0000, EACCES, EACCES, EACCES}, Case{0400, 0, EACCES, EACCES},
                          Case{0100, EACCES, 0, EACCES}, Case{0500, 0, 0, EACCES}, Case{0300, EACCES, 0, 0},
                          Case{0200, EACCES, EACCES, EACCES}, Case{0700, 0, 0, 0}}) {
    own("folder", kAnn, kTeam, one.mode);
    forget_caches();
    AsUser owner(kAnn);
    std::ostringstream mode;
    mode << " with folder mode " << std::oct << one.mode;
    const auto check = [&](long result, int wanted, const std::string& what) {
      if (wanted == 0) {
        expect_ok(result, what + mode.str());
      } else {
        expect_errno(result, wanted, what + mode.str());
      }
    };
    check(try_open("folder", O_RDONLY | O_DIRECTORY), one.list, "open of the folder");
    check(try_open("folder/file", O_RDONLY), one.look_up, "open in the folder");
    check(try_open("folder/new", O_CREAT | O_EXCL | O_WRONLY), one.create, "create");
    if (one.create == 0) {
      expect_ok(rename("folder/new", "folder/newer"), "rename" + mode.str());
      expect_ok(link("folder/newer", "folder/linked"), "link" + mode.str());
      expect_ok(unlink("folder/linked"), "unlink" + mode.str());
      expect_ok(unlink("folder/newer"), "unlink" + mode.str());
      expect_ok(mkdir("folder/sub", 0755), "mkdir" + mode.str());
      expect_ok(rmdir("folder/sub"), "rmdir" + mode.str());
      expect_ok(symlink("x", "folder/link"), "symlink" + mode.str());
      expect_ok(unlink("folder/link"), "unlink" + mode.str());
    } else {
      expect_errno(mkdir("folder/sub", 0755), EACCES, "mkdir" + mode.str());
      expect_errno(symlink("x", "folder/link"), EACCES, "symlink" + mode.str());
      expect_errno(unlink("folder/file"), EACCES, "unlink" + mode.str());
      expect_errno(rename("folder/file", "folder/other"), EACCES, "rename" + mode.str());
      expect_errno(mknod("folder/pipe", S_IFIFO | 0600, 0), EACCES, "mknod" + mode.str());
    }
  }
}

void only_owners_change_modes() {
  make_file("file");
  own("file", kAnn, kTeam, 0644);
  {
    AsUser stranger(kBob, kTeam);
    expect_errno(chmod("file", 0666), EPERM, "chmod by a stranger");
    expect_errno(chown("file", kBob, static_cast<gid_t>(-1)), EPERM, "chown by a stranger");
    expect_errno(chown("file", static_cast<uid_t>(-1), kTeam), EPERM, "chgrp by a stranger");
  }
  AsUser owner(kAnn, kOther, {kTeam});
  expect_ok(chmod("file", 0600), "chmod by the owner");
  expect_errno(chown("file", kBob, static_cast<gid_t>(-1)), EPERM, "giving away");
  expect_ok(chown("file", static_cast<uid_t>(-1), kOther), "chgrp to an own group");
  expect_eq(stat_of("file").st_gid, kOther, "group");
  expect_errno(chown("file", static_cast<uid_t>(-1), 65200), EPERM, "chgrp to a foreign group");
}

void set_id_bits_are_cleared() {
  make_file("file", "x");
  own("file", kAnn, kTeam, 06755);
  forget_caches();
  expect_eq(stat_of("file").st_mode & 07777, 06755U, "mode before");
  {
    AsUser owner(kAnn, kTeam);
    expect_ok(chown("file", static_cast<uid_t>(-1), kTeam), "chgrp by the owner");
  }
  forget_caches();
  expect_eq(stat_of("file").st_mode & 06000, 0U, "set-id bits after chgrp by the owner");
  own("file", kAnn, kOther, 0666);
  expect_ok(chmod("file", 06777), "chmod");
  {
    AsUser stranger(kBob);
    File file("file", O_WRONLY);
    expect_eq(write(file.get(), "y", 1), 1, "write by a stranger");
    file.close();
  }
  forget_caches();
  expect_eq(stat_of("file").st_mode & 06000, 0U, "set-id bits after a write by a stranger");
}

void sticky_folders_protect() {
  expect_ok(mkdir("sticky", 0755), "mkdir");
  own("sticky", 65003, 65003, 01777);
  {
    AsUser ann(kAnn);
    make_file("sticky/file", "ann's", 0666);
    make_file("sticky/target", "ann's", 0666);
  }
  {
    AsUser bob(kBob);
    make_file("sticky/bobs", "bob's");
    expect_errno_in(unlink("sticky/file"), {EPERM, EACCES}, "unlink of another's file");
    expect_errno_in(rename("sticky/file", "sticky/mine"), {EPERM, EACCES}, "rename of another's file");
    expect_errno_in(rename("sticky/bobs", "sticky/target"), {EPERM, EACCES}, "rename over another's file");
    expect_ok(unlink("sticky/bobs"), "unlink of the own file");
  }
  {
    AsUser folder_owner(65003);
    expect_ok(unlink("sticky/target"), "unlink by the folder's owner");
  }
  AsUser ann(kAnn);
  expect_ok(unlink("sticky/file"), "unlink by the file's owner");
}

void groups_are_inherited() {
  expect_ok(mkdir("plain", 0777), "mkdir");
  own("plain", kAnn, kTeam, 0777);
  expect_ok(mkdir("setgid", 0777), "mkdir");
  own("setgid", kAnn, kTeam, 02777);
  {
    AsUser bob(kBob, kOther);
    make_file("plain/file");
    make_file("setgid/file");
    expect_ok(mkdir("setgid/sub", 0755), "mkdir");
  }
  forget_caches();
  expect_eq(stat_of("plain/file").st_gid, kOther, "group of a file in a plain folder");
  expect_eq(stat_of("plain/file").st_uid, kBob, "owner of a file");
  expect_eq(stat_of("setgid/file").st_gid, kTeam, "group of a file in a set-gid folder");
  expect_eq(stat_of("setgid/sub").st_gid, kTeam, "group of a folder in a set-gid folder");
}

void creation_masks_count() {
  for (mode_t mask : {0000U, 0022U, 0077U, 0777U}) {
    umask(mask);
    remove_tree("file");
    remove_tree("folder");
    File(std::string("file"), O_CREAT | O_WRONLY, 0666).close();
    expect_ok(mkdir("folder", 0777), "mkdir");
    forget_caches();
    expect_eq(stat_of("file").st_mode & 07777, 0666 & ~mask, "mode of a file");
    expect_eq(stat_of("folder").st_mode & 07777, 0777 & ~mask, "mode of a folder");
  }
  umask(022);
}

void times_belong_to_the_owner() {
  make_file("file");
  own("file", kAnn, kTeam, 0666);
  const struct timespec past[2] = {{1000000, 5}, {2000000, 6}};
  {
    AsUser writer(kBob);
    expect_errno(utimensat(AT_FDCWD, "file", past, 0), EPERM, "setting times by a stranger who may write");
    expect_ok(utimensat(AT_FDCWD, "file", nullptr, 0), "touching by a stranger who may write");
  }
  own("file", kAnn, kTeam, 0644);
  {
    AsUser stranger(kBob);
    expect_errno(utimensat(AT_FDCWD, "file", nullptr, 0), EACCES, "touching by a stranger who may not write");
  }
  AsUser owner(kAnn);
  expect_ok(utimensat(AT_FDCWD, "file", past, 0), "setting times by the owner");
  expect_eq(stat_of("file").st_mtim.tv_sec, 2000000, "mtime");
}

void access_answers_like_open() {
  make_file("file");
  expect_ok(mkdir("folder", 0755), "mkdir");
  for (mode_t mode = 0; mode < 8; ++mode) {
    own("file", kAnn, kTeam, mode << 6U);
    forget_caches();
    AsUser owner(kAnn);
    expect_eq(faccessat(AT_FDCWD, "file", R_OK, AT_EACCESS) == 0, (mode & 4U) != 0, "access for reading");
    expect_eq(faccessat(AT_FDCWD, "file", W_OK, AT_EACCESS) == 0, (mode & 2U) != 0, "access for writing");
    expect_eq(faccessat(AT_FDCWD, "file", X_OK, AT_EACCESS) == 0, (mode & 1U) != 0, "access for running");
  }
}

void many_groups_are_seen() {
  make_file("file");
  std::vector<gid_t> groups;
  for (gid_t group = 66000; group < 66016; ++group) groups.push_back(group);
  for (gid_t group : {66000U, 66007U, 66015U}) {
    own("file", kAnn, group, 0060);
    forget_caches();
    AsUser member(kBob, kOther, groups);
    expect(may_read("file") && may_write("file"),
           "a member by group " + std::to_string(group) + " of 16 may not");
  }
}

}  // namespace

std::vector<Test> permission_tests() {
  return {{"permissions", "classes", each_class_has_its_bits},
          {"permissions", "data_servers", bytes_are_guarded_on_every_server},
          {"permissions", "created_read_only", owner_writes_what_it_created_read_only},
          {"permissions", "folders", folder_bits_count},
          {"permissions", "chmod_chown", only_owners_change_modes},
          {"permissions", "set_id", set_id_bits_are_cleared},
          {"permissions", "sticky", sticky_folders_protect},
          {"permissions", "inherited_group", groups_are_inherited},
          {"permissions", "umask", creation_masks_count},
          {"permissions", "times", times_belong_to_the_owner},
          {"permissions", "access", access_answers_like_open},
          {"permissions", "sixteen_groups", many_groups_are_seen}};
}

}  // namespace slice::guest
