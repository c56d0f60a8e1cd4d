// NFSv3, call by call, over UDP or TCP: protocol --server A --export PATH [--transport udp|tcp] [--slice]
//
// What kernel clients hide: every procedure with arguments of our own, sizes of 1 byte to 32 KiB in one
// datagram, guards, verifiers, cookies, retransmissions, forged handles. Prints a line a test; exit code 1
// when one failed.
// --slice adds what only Slice promises.

#include <chrono>
#include <cstdio>
#include <set>
#include <thread>
#include <utility>

#include "tests/cluster/client/nfs_connection.h"
#include "tests/cluster/client/session.h"
#include "tests/cluster/guest/check.h"

namespace slice::client {
namespace {

using guest::expect;
using guest::expect_eq;
using guest::pattern;

void expect_status(nfsstat3 got, std::initializer_list<int> wanted, const std::string& what) {
  std::string names;
  for (int one : wanted) {
    if (static_cast<int>(got) == one) return;
    names += (names.empty() ? "" : " or ") + std::string(status_name(static_cast<nfsstat3>(one)));
  }
  guest::fail(what + " answers " + status_name(got) + ", wanted " + names);
}

constexpr int kOk = NFS3_OK, kExist = NFS3ERR_EXIST, kNoent = NFS3ERR_NOENT, kInval = NFS3ERR_INVAL;

// --- tests
// ---------------------------------------------------------------------------------------------------------

void null_answers(Session& session) {
  for (int i = 0; i < 100; ++i) session.nfs().call(kNull, Nothing{});
}

void exports_are_listed(Session& session) {
  NfsConnection mount(session.mount_options());
  const auto list = mount.call(kExport, Nothing{});
  bool found = false;
  for (exports one = **list; one != nullptr; one = one->ex_next)
    found |= session.settings().path == one->ex_dir;
  expect(found, "the export is not listed");
  std::string missing = "/no/such/export";
  expect((*mount.call(kMnt, missing.data()))->fhs_status != MNT3_OK, "MNT of a missing export succeeds");
}

void ports_are_told(Session& session) {
  ConnectionOptions options = session.nfs_options({});
  options.port = 111;
  NfsConnection portmap(options);
  for (std::uint32_t protocol : {6U, 17U}) {  // TCP, UDP
    const auto nfs = portmap.call(kGetport, pmap2_mapping{kNfs, 3, protocol, 0});
    expect_eq(**nfs, session.settings().port, "port of NFS");
    const auto mount = portmap.call(kGetport, pmap2_mapping{kMount, 3, protocol, 0});
    expect_eq(**mount, session.settings().mount_port, "port of MOUNT");
    const auto none = portmap.call(kGetport, pmap2_mapping{399999, 1, protocol, 0});
    expect_eq(**none, 0U, "port of a program that is not there");
  }
}

void attributes_are_set(Session& session) {
  const Handle file = session.create("attributes");
  for (std::uint32_t mode : {0600U, 0644U, 04755U}) {
    expect_status(session.setattr(file, with_mode(mode)), {kOk}, "SETATTR of the mode");
    expect_eq(session.attributes(file).mode & 07777, mode, "mode");
  }
  sattr3 times = no_attributes();
  times.mtime.set_it = SET_TO_CLIENT_TIME;
  times.mtime.set_mtime_u.mtime = {1234567, 890};
  expect_status(session.setattr(file, times), {kOk}, "SETATTR of the mtime");
  expect_eq(session.attributes(file).mtime.seconds, 1234567U, "mtime");
  expect_eq(session.attributes(file).mtime.nseconds, 890U, "nanoseconds of mtime");
  times.mtime.set_it = SET_TO_SERVER_TIME;
  expect_status(session.setattr(file, times), {kOk}, "SETATTR to the server's time");
  expect(session.attributes(file).mtime.seconds > 1600000000, "the server's time is not taken");
  expect_status(session.setattr(session.folder(), with_size(10)), {kInval, NFS3ERR_ISDIR, NFS3ERR_BADTYPE},
                "a size for a folder");
}

// Nor does it move when what data servers tell later arrives, and what was set stands.
void mtime_is_that_of_the_last_write(Session& session) {
  constexpr auto kReports = std::chrono::milliseconds(1500);
  const auto mtime_of = [&](const Handle& file) {
    const nfstime3 mtime = session.attributes(file).mtime;
    return std::pair(mtime.seconds, mtime.nseconds);
  };
  sattr3 times = no_attributes();
  times.mtime.set_it = SET_TO_CLIENT_TIME;
  times.mtime.set_mtime_u.mtime = {1234567, 890};
  for (std::uint64_t offset : {0U, 100'000U}) {
    const Handle file = session.create("mtime-" + std::to_string(offset));
    // The second is no news of the file's size.
    for (int i = 0; i < 2; ++i) session.write(file, offset, "0123456789", FILE_SYNC);
    const auto written = mtime_of(file);
    expect_status(session.setattr(file, with_mode(0600)), {kOk}, "SETATTR of the mode");
    expect(mtime_of(file) == written, "a change of the mode moves mtime");
    std::this_thread::sleep_for(kReports);
    expect(mtime_of(file) == written, "mtime moves by itself");
    session.write(file, offset, "9876543210", FILE_SYNC);
    expect(mtime_of(file) > written, "a write does not move mtime");
    expect_status(session.setattr(file, times), {kOk}, "SETATTR of the mtime");
    std::this_thread::sleep_for(kReports);
    expect(mtime_of(file) == std::pair(1234567U, 890U), "a time that was set does not stand");
  }
}

void guards_are_checked(Session& session) {
  const Handle file = session.create("guarded");
  SETATTR3args arguments;
  arguments.object = file.raw();
  arguments.new_attributes = with_mode(0600);
  arguments.guard.check = 1;
  arguments.guard.sattrguard3_u.obj_ctime = {1, 2};
  expect_status((*session.nfs().call(kSetattr, arguments))->status, {NFS3ERR_NOT_SYNC},
                "SETATTR with a wrong guard");
  expect_eq(session.attributes(file).mode & 07777, 0644U, "mode after a refused SETATTR");
  arguments.guard.sattrguard3_u.obj_ctime = session.attributes(file).ctime;
  expect_status((*session.nfs().call(kSetattr, arguments))->status, {kOk}, "SETATTR with the right guard");
}

void files_are_created(Session& session) {
  auto& nfs = session.nfs();
  const Handle& folder = session.folder();
  expect_status((*nfs.call(kCreate, create_arguments(folder, "new", GUARDED)))->status, {kOk},
                "guarded CREATE");
  expect_status((*nfs.call(kCreate, create_arguments(folder, "new", GUARDED)))->status, {kExist},
                "the same again");
  expect_status((*nfs.call(kCreate, create_arguments(folder, "new", UNCHECKED)))->status, {kOk},
                "unchecked CREATE");
  CREATE3args exclusive = create_arguments(folder, "exclusive", EXCLUSIVE);
  std::memcpy(exclusive.how.createhow3_u.verf, "verifier", 8);
  const auto first = nfs.call(kCreate, exclusive);
  expect_status((*first)->status, {kOk}, "exclusive CREATE");
  const auto again = nfs.call(kCreate, exclusive);
  expect_status((*again)->status, {kOk}, "the same exclusive CREATE again");
  expect(Handle((*first)->CREATE3res_u.resok.obj.post_op_fh3_u.handle).bytes() ==
             Handle((*again)->CREATE3res_u.resok.obj.post_op_fh3_u.handle).bytes(),
         "both exclusive CREATEs name one file");
  for (std::size_t byte = 0; byte < 8; ++byte) {
    CREATE3args other = exclusive;
    other.how.createhow3_u.verf[byte] = 'X';
    expect_status((*nfs.call(kCreate, other))->status, {kExist}, "exclusive CREATE with another verifier");
  }
}

void names_are_checked(Session& session) {
  auto& nfs = session.nfs();
  const auto create = [&](const std::string& name) {
    return (*nfs.call(kCreate, create_arguments(session.folder(), name, UNCHECKED)))->status;
  };
  expect_status(create(std::string(255, 'n')), {kOk}, "CREATE of 255 bytes");
  expect_status(create(std::string(256, 'n')), {NFS3ERR_NAMETOOLONG}, "CREATE of 256 bytes");
  expect_status(create(""), {kInval, NFS3ERR_ACCES, kExist, kNoent}, "CREATE of the empty name");
  for (const char* name : {".", ".."}) {
    expect_status(create(name), {kExist, kInval, NFS3ERR_ISDIR, NFS3ERR_ACCES},
                  std::string("CREATE of ") + name);
    expect_status(session.remove(name),
                  {kInval, NFS3ERR_ISDIR, NFS3ERR_EXIST, NFS3ERR_ACCES, NFS3ERR_PERM, NFS3ERR_NOTEMPTY},
                  std::string("REMOVE of ") + name);
    expect_status(session.lookup_status(name), {kOk}, std::string("LOOKUP of ") + name);
  }
  expect_status(create("a/b"), {kInval, NFS3ERR_ACCES, kNoent}, "CREATE of a name with a slash");
  expect_status(session.lookup_status("missing"), {kNoent}, "LOOKUP of a missing name");
  expect_status(session.remove("missing"), {kNoent}, "REMOVE of a missing name");
}

void objects_of_every_kind(Session& session) {
  auto& nfs = session.nfs();
  MKDIR3args folder{in_folder(session.folder(), "sub"), with_mode(0755)};
  expect_status((*nfs.call(kMkdir, folder))->status, {kOk}, "MKDIR");
  expect_status((*nfs.call(kMkdir, folder))->status, {kExist}, "MKDIR again");
  SYMLINK3args link{in_folder(session.folder(), "link"), {with_mode(0777), const_cast<char*>("the/target")}};
  expect_status((*nfs.call(kSymlink, link))->status, {kOk}, "SYMLINK");
  const Handle symbolic = session.lookup("link");
  const auto target = nfs.call(kReadlink, READLINK3args{symbolic.raw()});
  expect_status((*target)->status, {kOk}, "READLINK");
  expect_eq(std::string((*target)->READLINK3res_u.resok.data), "the/target", "target");
  MKNOD3args pipe;
  std::memset(&pipe, 0, sizeof pipe);
  pipe.where = in_folder(session.folder(), "pipe");
  pipe.what.type = NF3FIFO;
  pipe.what.mknoddata3_u.pipe_attributes = with_mode(0600);
  expect_status((*nfs.call(kMknod, pipe))->status, {kOk}, "MKNOD");
  expect_eq(session.attributes(session.lookup("pipe")).type, NF3FIFO, "type of a pipe");
  const Handle sub = session.lookup("sub");
  expect_status((*nfs.call(kRead, read_arguments(sub, 0, 10)))->status, {NFS3ERR_ISDIR, kInval},
                "READ of a folder");
  expect_status((*nfs.call(kRead, read_arguments(symbolic, 0, 10)))->status, {kInval},
                "READ of a symbolic link");
  expect_status((*nfs.call(kReadlink, READLINK3args{sub.raw()}))->status, {kInval}, "READLINK of a folder");
  expect_status((*nfs.call(kWrite, write_arguments(sub, 0, "x", FILE_SYNC)))->status, {kInval, NFS3ERR_ISDIR},
                "WRITE to a folder");
  REMOVE3args remove{in_folder(session.folder(), "sub")};
  expect_status((*nfs.call(kRemove, remove))->status, {NFS3ERR_ISDIR, NFS3ERR_PERM, kInval},
                "REMOVE of a folder");
  RMDIR3args rmdir{in_folder(session.folder(), "sub")};
  expect_status((*nfs.call(kRmdir, rmdir))->status, {kOk}, "RMDIR");
  RMDIR3args wrong{in_folder(session.folder(), "pipe")};
  expect_status((*nfs.call(kRmdir, wrong))->status, {NFS3ERR_NOTDIR}, "RMDIR of a pipe");
  ACCESS3args access{session.folder().raw(), 0x3f};
  const auto rights = nfs.call(kAccess, access);
  expect_status((*rights)->status, {kOk}, "ACCESS");
  expect((*rights)->ACCESS3res_u.resok.access & ACCESS3_LOOKUP, "root may not look up");
}

void names_move(Session& session) {
  auto& nfs = session.nfs();
  const Handle file = session.create("from");
  const auto rename = [&](const std::string& from, const std::string& to) {
    return (*nfs.call(kRename,
                      RENAME3args{in_folder(session.folder(), from), in_folder(session.folder(), to)}))
        ->status;
  };
  expect_status(rename("from", "to"), {kOk}, "RENAME");
  expect_status(session.lookup_status("from"), {kNoent}, "LOOKUP of the old name");
  expect(session.lookup("to").bytes() == file.bytes(), "the handle changed with the name");
  expect_status((*nfs.call(kLink, LINK3args{file.raw(), in_folder(session.folder(), "second")}))->status,
                {kOk}, "LINK");
  expect_eq(session.attributes(file).nlink, 2U, "nlink");
  expect_status(rename("to", "second"), {kOk}, "RENAME onto a hard link of itself");
  expect_eq(session.attributes(file).nlink, 2U, "nlink after it");
  expect_status(rename("missing", "to"), {kNoent}, "RENAME of a missing name");
  expect_status(session.remove("to"), {kOk}, "REMOVE");
  expect_status(session.remove("second"), {kOk}, "REMOVE of the last name");
  expect_status((*nfs.call(kGetattr, GETATTR3args{file.raw()}))->status, {NFS3ERR_STALE},
                "GETATTR of a removed file");
  expect_status((*nfs.call(kRead, read_arguments(file, 0, 10)))->status, {NFS3ERR_STALE},
                "READ of a removed file");
}

void bytes_of_every_size(Session& session) {
  const Handle file = session.create("bytes");
  std::string model;
  std::uint64_t seed = 1;
  for (std::uint64_t offset :
       {0ULL, 1ULL, 8191ULL, 65535ULL - 32768ULL, 65530ULL, 65536ULL, 131071ULL, 500000ULL}) {
    for (std::size_t size :
         {1U, 2U, 3U, 4U, 511U, 1400U, 1473U, 4096U, 8192U, 8300U, 16384U, 32767U, 32768U}) {
      const std::string bytes = pattern(++seed, 0, size);
      session.write(file, offset, bytes, seed % 3 == 0 ? FILE_SYNC : seed % 3 == 1 ? UNSTABLE : DATA_SYNC);
      if (model.size() < offset + size) model.resize(offset + size, '\0');
      model.replace(offset, size, bytes);
      expect(session.read(file, offset, size) == bytes,
             "bytes read are not those written: " + std::to_string(size) + " at " + std::to_string(offset));
    }
  }
  session.commit(file);
  expect_eq(session.attributes(file).size, model.size(), "size");
  expect(session.read(file, 0, model.size() + 100) == model, "the file as a whole differs");
}

void ends_of_files(Session& session) {
  auto& nfs = session.nfs();
  for (std::size_t size : {0U, 1U, 65535U, 65536U, 65537U, 131072U, 200000U}) {
    const Handle file = session.create("ends." + std::to_string(size));
    if (size > 0) session.write(file, 0, pattern(1, 0, size), FILE_SYNC);
    const auto past = nfs.call(kRead, read_arguments(file, size, 100));
    expect_status((*past)->status, {kOk}, "READ at the end");
    expect_eq((*past)->READ3res_u.resok.count, 0U, "bytes at the end");
    expect((*past)->READ3res_u.resok.eof != 0, "no EOF at the end of " + std::to_string(size));
    const auto far = nfs.call(kRead, read_arguments(file, 0x7fffffff00000000ULL, 100));
    expect((*far)->status != NFS3_OK ||
               ((*far)->READ3res_u.resok.count == 0 && (*far)->READ3res_u.resok.eof != 0),
           "READ far behind the end");
    const auto none = nfs.call(kRead, read_arguments(file, 0, 0));
    expect_status((*none)->status, {kOk}, "READ of nothing");
    expect_eq((*none)->READ3res_u.resok.count, 0U, "READ of nothing");
    if (size == 0) continue;
    const auto last = nfs.call(kRead, read_arguments(file, size - 1, 100));
    expect_eq((*last)->READ3res_u.resok.count, 1U, "bytes at the last byte");
    expect((*last)->READ3res_u.resok.eof != 0, "no EOF with the last byte of " + std::to_string(size));
    if (size == 1) continue;
    const auto before = nfs.call(kRead, read_arguments(file, size - 2, 1));
    expect((*before)->READ3res_u.resok.eof == 0, "EOF before the last byte of " + std::to_string(size));
  }
  const Handle file = session.create("limits");
  for (std::uint64_t offset : {0x8000000000000000ULL, 0xfffffffffffffff0ULL, 0xffffffffffffffffULL}) {
    expect_status((*nfs.call(kWrite, write_arguments(file, offset, "far", FILE_SYNC)))->status,
                  {kInval, NFS3ERR_FBIG, NFS3ERR_NOSPC}, "WRITE beyond the largest offset");
    const auto read = nfs.call(kRead, read_arguments(file, offset, 10));
    expect((*read)->status != NFS3_OK || (*read)->READ3res_u.resok.count == 0,
           "READ beyond the largest offset");
  }
  expect_eq(session.attributes(file).size, 0U, "size after refused writes");
}

void holes_are_zeros(Session& session) {
  const Handle file = session.create("holes");
  session.write(file, 300000, "island", FILE_SYNC);
  expect(session.read(file, 0, 300006) == std::string(300000, '\0') + "island", "a hole is not zeros");
  session.write(file, 1000, "early", FILE_SYNC);
  expect_status(session.setattr(file, with_size(66000)), {kOk}, "SETATTR of the size");
  expect_status(session.setattr(file, with_size(400000)), {kOk}, "SETATTR of the size");
  std::string wanted(400000, '\0');
  wanted.replace(1000, 5, "early");
  expect(session.read(file, 0, 400000) == wanted, "old bytes came back, or new ones are gone");
}

void write_verifiers_are_steady(Session& session) {
  std::set<std::string> verifiers;
  for (int i = 0; i < 10; ++i) {
    const Handle file = session.create("verifier." + std::to_string(i));
    for (std::uint64_t offset : {0ULL, 70000ULL, 140000ULL, 210000ULL}) {
      verifiers.merge(session.write(file, offset, pattern(1, 0, 5000), UNSTABLE));
    }
    verifiers.insert(session.commit(file));
  }
  expect_eq(verifiers.size(), 1U, "different write verifiers while nothing restarted");
}

void weak_consistency_is_true_or_absent(Session& session) {
  const Handle file = session.create("wcc");
  for (std::uint64_t offset : {0ULL, 100ULL, 70000ULL, 65530ULL}) {
    const fattr3 before = session.attributes(file);
    const auto written = session.nfs().call(kWrite, write_arguments(file, offset, "0123456789", FILE_SYNC));
    expect_status((*written)->status, {kOk}, "WRITE");
    const wcc_data& wcc = (*written)->WRITE3res_u.resok.file_wcc;
    if (wcc.before.attributes_follow != 0) {
      expect_eq(wcc.before.pre_op_attr_u.attributes.size, before.size, "size before, of WRITE");
      expect_eq(wcc.before.pre_op_attr_u.attributes.mtime.nseconds, before.mtime.nseconds,
                "mtime before, of WRITE");
    }
    const fattr3 after = session.attributes(file);
    if (wcc.after.attributes_follow != 0) {
      expect_eq(wcc.after.post_op_attr_u.attributes.size, after.size, "size after, of WRITE");
      expect_eq(wcc.after.post_op_attr_u.attributes.mtime.nseconds, after.mtime.nseconds,
                "mtime after, of WRITE");
      expect_eq(wcc.after.post_op_attr_u.attributes.fileid, after.fileid, "fileid after, of WRITE");
    }
  }
  const fattr3 before = session.attributes(session.folder());
  const auto made = session.nfs().call(kCreate, create_arguments(session.folder(), "wcc-child", GUARDED));
  const wcc_data& wcc = (*made)->CREATE3res_u.resok.dir_wcc;
  if (wcc.before.attributes_follow != 0) {
    expect_eq(wcc.before.pre_op_attr_u.attributes.mtime.nseconds, before.mtime.nseconds,
              "mtime before, of CREATE");
  }
  if (wcc.after.attributes_follow != 0) {
    expect_eq(wcc.after.post_op_attr_u.attributes.mtime.nseconds,
              session.attributes(session.folder()).mtime.nseconds, "mtime after, of CREATE");
  }
}

void folders_are_listed(Session& session) {
  const Handle folder = session.make_folder("list");
  std::set<std::string> wanted = {".", ".."};
  for (int i = 0; i < 300; ++i) {
    const std::string name =
        "entry-" + std::to_string(i) + std::string(static_cast<std::size_t>(i % 60), 'x');
    session.create(folder, name);
    wanted.insert(name);
  }
  for (std::uint32_t count : {1024U, 4096U, 32768U}) {
    for (const bool plus : {false, true}) {
      const std::vector<std::string> names = session.list(folder, count, plus);
      const std::set<std::string> unique(names.begin(), names.end());
      expect_eq(names.size(), unique.size(), "names listed twice");
      expect(unique == wanted, "names listed differ from those made, with count " + std::to_string(count));
    }
  }
}

void listings_that_cannot_be(Session& session) {
  const Handle folder = session.make_folder("list");
  session.create(folder, "entry");
  READDIR3args tiny;
  std::memset(&tiny, 0, sizeof tiny);
  tiny.dir = folder.raw();
  tiny.count = 10;
  expect_status((*session.nfs().call(kReaddir, tiny))->status, {NFS3ERR_TOOSMALL, kInval},
                "READDIR with room for nothing");
  READDIR3args file;
  std::memset(&file, 0, sizeof file);
  const Handle no_folder = session.create("no-folder");
  file.dir = no_folder.raw();
  file.count = 4096;
  expect_status((*session.nfs().call(kReaddir, file))->status, {NFS3ERR_NOTDIR}, "READDIR of a file");
}

void volume_is_described(Session& session) {
  auto& nfs = session.nfs();
  const Handle file = session.create("described");
  for (const Handle& handle : {session.folder(), file}) {
    const auto info = nfs.call(kFsinfo, FSINFO3args{handle.raw()});
    expect_status((*info)->status, {kOk}, "FSINFO");
    const FSINFO3resok& facts = (*info)->FSINFO3res_u.resok;
    expect(facts.rtmax >= 32768 && facts.wtmax >= 32768, "transfers of less than 32 KiB");
    expect(facts.rtpref <= facts.rtmax && facts.wtpref <= facts.wtmax,
           "preferred transfers over the largest");
    const auto stat = nfs.call(kFsstat, FSSTAT3args{handle.raw()});
    expect_status((*stat)->status, {kOk}, "FSSTAT");
    expect((*stat)->FSSTAT3res_u.resok.fbytes <= (*stat)->FSSTAT3res_u.resok.tbytes,
           "more free than there is");
    const auto conf = nfs.call(kPathconf, PATHCONF3args{handle.raw()});
    expect_status((*conf)->status, {kOk}, "PATHCONF");
    expect((*conf)->PATHCONF3res_u.resok.no_trunc != 0, "names are cut");
  }
  if (session.settings().transport == Transport::kTcp) {
    const std::uint32_t most = (*nfs.call(kFsinfo, FSINFO3args{file.raw()}))->FSINFO3res_u.resok.wtmax;
    const std::string bytes = pattern(3, 0, std::min<std::size_t>(most, 1 << 20));
    const auto written = nfs.call(kWrite, write_arguments(file, 0, bytes, UNSTABLE));
    expect_status((*written)->status, {kOk}, "WRITE of wtmax bytes");
    expect(session.read(file, 0, bytes.size()) == bytes || (*written)->WRITE3res_u.resok.count < bytes.size(),
           "wtmax bytes differ");
  }
}

void longest_name_is_told(Session& session) {
  const auto conf = session.nfs().call(kPathconf, PATHCONF3args{session.folder().raw()});
  expect_status((*conf)->status, {kOk}, "PATHCONF");
  expect_eq((*conf)->PATHCONF3res_u.resok.name_max, 255U, "longest name");
}

void bogus_handles_are_refused(Session& session) {
  auto& nfs = session.nfs();
  for (const std::string& bytes : {std::string(), std::string("x"), std::string(32, '\0'),
                                   std::string(56, 'h'), std::string(64, '\xff')}) {
    const Handle bogus(bytes);
    const std::initializer_list<int> wanted = {NFS3ERR_BADHANDLE, NFS3ERR_STALE, NFS3ERR_INVAL};
    expect_status((*nfs.call(kGetattr, GETATTR3args{bogus.raw()}))->status, wanted,
                  "GETATTR of a bogus handle");
    expect_status((*nfs.call(kPathconf, PATHCONF3args{bogus.raw()}))->status, wanted,
                  "PATHCONF of a bogus handle");
    expect_status((*nfs.call(kRead, read_arguments(bogus, 0, 10)))->status, wanted, "READ of a bogus handle");
  }
}

// A change of any bit but the hint's is noticed; the hint (bytes 32 to 39) is not part of what a client must
// keep.
void forged_handles_are_refused(Session& session) {
  const Handle file = session.create("forged");
  session.write(file, 0, pattern(1, 0, 100000), FILE_SYNC);
  for (std::size_t byte = 0; byte < file.bytes().size(); ++byte) {
    std::string bytes = file.bytes();
    bytes[byte] = static_cast<char>(bytes[byte] ^ 0x10);
    const Handle forged(bytes);
    const bool hint = byte >= 32 && byte < 40;
    for (std::uint64_t offset : {0ULL, 70000ULL}) {
      const nfsstat3 status = (*session.nfs().call(kRead, read_arguments(forged, offset, 10)))->status;
      if (hint) {
        expect_status(status, {kOk}, "READ with another hint");
      } else {
        expect_status(status, {NFS3ERR_BADHANDLE, NFS3ERR_STALE},
                      "READ with byte " + std::to_string(byte) + " forged");
      }
    }
    if (!hint) {
      expect_status((*session.nfs().call(kGetattr, GETATTR3args{forged.raw()}))->status,
                    {NFS3ERR_BADHANDLE, NFS3ERR_STALE}, "GETATTR");
    }
  }
}

// A handle alone is no right: data servers ask who reads. They may remember attributes for 2 s.
void strangers_are_refused_at_the_data(Session& session) {
  const Handle file = session.create("private");
  session.write(file, 0, pattern(1, 0, 200000), FILE_SYNC);
  sattr3 owner = with_mode(0600);
  owner.uid = {1, {65001}};
  owner.gid = {1, {65001}};
  expect_status(session.setattr(file, owner), {kOk}, "SETATTR of the owner");
  std::this_thread::sleep_for(std::chrono::milliseconds(2200));
  NfsConnection stranger(session.nfs_options(Credential{65002, 65002, {}}));
  NfsConnection friendly(session.nfs_options(Credential{65001, 65001, {}}));
  for (std::uint64_t offset : {0ULL, 70000ULL, 140000ULL}) {
    expect_status((*stranger.call(kRead, read_arguments(file, offset, 10)))->status, {NFS3ERR_ACCES},
                  "READ by a stranger");
    expect_status((*stranger.call(kWrite, write_arguments(file, offset, "x", FILE_SYNC)))->status,
                  {NFS3ERR_ACCES}, "WRITE by a stranger");
    expect_status((*friendly.call(kRead, read_arguments(file, offset, 10)))->status, {kOk},
                  "READ by the owner");
  }
}

// The same xid again, as a client sends it that missed the first answer: it gets the first answer.
void retransmissions_get_the_first_answer(Session& session) {
  auto& nfs = session.nfs();
  const auto twice = [&](const auto& procedure, const auto& arguments, const std::string& what) {
    const std::uint32_t xid = nfs.next_xid();
    expect_status((*nfs.call(procedure, arguments, xid))->status, {kOk}, what);
    expect_status((*nfs.call(procedure, arguments, xid))->status, {kOk}, what + " sent again");
  };
  twice(kCreate, create_arguments(session.folder(), "drc", GUARDED), "CREATE");
  twice(kMkdir, MKDIR3args{in_folder(session.folder(), "drc-folder"), with_mode(0755)}, "MKDIR");
  const Handle made = session.lookup("drc");
  twice(kLink, LINK3args{made.raw(), in_folder(session.folder(), "drc-link")}, "LINK");
  twice(kRename, RENAME3args{in_folder(session.folder(), "drc"), in_folder(session.folder(), "drc-new")},
        "RENAME");
  twice(kRemove, REMOVE3args{in_folder(session.folder(), "drc-new")}, "REMOVE");
  twice(kRmdir, RMDIR3args{in_folder(session.folder(), "drc-folder")}, "RMDIR");
}

// After a reconnect the client's port is another; the answer is still the first one.
void retransmissions_from_another_port(Session& session) {
  const std::uint32_t xid = session.nfs().next_xid();
  const CREATE3args arguments = create_arguments(session.folder(), "drc-port", GUARDED);
  expect_status((*session.nfs().call(kCreate, arguments, xid))->status, {kOk}, "CREATE");
  NfsConnection again(session.nfs_options({}));
  expect_status((*again.call(kCreate, arguments, xid))->status, {kOk}, "CREATE sent again from another port");
}

void many_calls_at_once(Session& session) {
  constexpr int kCalls = 400;
  const Handle file = session.create("many");
  const std::string bytes = pattern(9, 0, 200000);
  session.write(file, 0, bytes, UNSTABLE);
  session.commit(file);
  int finished = 0;
  std::string wrong;
  std::uint64_t random = 1;
  for (int i = 0; i < kCalls; ++i) {
    const std::uint64_t offset = guest::next_random(random) % 190000;
    session.nfs().call_async<READ3args, READ3res>(
        kRead, read_arguments(file, offset, 8192),
        [&, offset](const Answer<READ3res>& answer, const std::string& error) {
          ++finished;
          if (!answer) {
            wrong = error;
          } else if ((*answer)->status != NFS3_OK) {
            wrong = status_name((*answer)->status);
          } else {
            const READ3resok& read = (*answer)->READ3res_u.resok;
            if (read.count == 0 ||
                bytes.compare(offset, read.count, std::string(read.data.data_val, read.data.data_len)) != 0)
              wrong = "other bytes";
          }
        });
    while (session.nfs().outstanding() > 32) session.nfs().run_once(0.1);
  }
  while (finished < kCalls) session.nfs().run_once(0.1);
  expect(wrong.empty(), "of many READs at once one got " + wrong);
}

struct ProtocolTest {
  const char* name;
  void (*body)(Session&);
  bool slice_only = false;
};

constexpr ProtocolTest kTests[] = {{"null", null_answers},
                                   {"exports", exports_are_listed},
                                   {"portmap", ports_are_told},
                                   {"setattr", attributes_are_set},
                                   {"mtime", mtime_is_that_of_the_last_write},
                                   {"guards", guards_are_checked},
                                   {"create", files_are_created},
                                   {"names", names_are_checked},
                                   {"kinds", objects_of_every_kind},
                                   {"rename_link", names_move},
                                   {"bytes", bytes_of_every_size},
                                   {"ends", ends_of_files},
                                   {"holes", holes_are_zeros},
                                   {"verifiers", write_verifiers_are_steady},
                                   {"wcc", weak_consistency_is_true_or_absent},
                                   {"readdir", folders_are_listed},
                                   {"readdir_errors", listings_that_cannot_be},
                                   {"fsinfo", volume_is_described},
                                   {"name_max", longest_name_is_told},
                                   {"bogus_handles", bogus_handles_are_refused},
                                   {"forged_handles", forged_handles_are_refused, true},
                                   {"strangers", strangers_are_refused_at_the_data},
                                   {"retransmission", retransmissions_get_the_first_answer},
                                   {"retransmission_port", retransmissions_from_another_port, true},
                                   {"many_at_once", many_calls_at_once}};

int run_all(const Settings& settings, bool slice, const std::string& only) {
  int failed = 0, ran = 0;
  const char* transport = settings.transport == Transport::kUdp ? "udp" : "tcp";
  for (const ProtocolTest& test : kTests) {
    if ((test.slice_only && !slice) || (!only.empty() && only != test.name)) continue;
    ++ran;
    const double start = now();
    try {
      Session session(settings, std::string("protocol-") + transport + "-" + test.name);
      test.body(session);
      session.remove_folder();
      std::printf("ok %s %s (%.2f s)\n", transport, test.name, now() - start);
    } catch (const std::runtime_error& error) {
      std::printf("not ok %s %s: %s\n", transport, test.name, error.what());
      ++failed;
    }
    std::fflush(stdout);
  }
  std::printf("%d tests over %s: %d failed\n", ran, transport, failed);
  return failed == 0 && ran > 0 ? 0 : 1;
}

}  // namespace
}  // namespace slice::client

int main(int argc, char** argv) {
  using namespace slice::client;
  Arguments arguments(argc, argv, {"--slice"});
  const Settings settings = settings_from(arguments);
  return run_all(settings, arguments.flag("--slice"), arguments.text("--only", ""));
}
