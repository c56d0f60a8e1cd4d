// NFSv3 and MOUNT messages, ours against libnfs's: what we encode, libnfs decodes to the same values and
// encodes to the same bytes, and what libnfs encodes, we decode.
#include <gtest/gtest.h>
#include <nfsc/libnfs-zdr.h>
// After libnfs-zdr.h, which they need.
#include <nfsc/libnfs-raw-mount.h>
#include <nfsc/libnfs-raw-nfs.h>

#include <functional>
#include <string>
#include <vector>

#include "wire/mount3.h"
#include "wire/nfs3.h"
#include "wire/nfs3_readdir.h"

namespace slice {
namespace {

using nfs3::Attributes;
using nfs3::DirOpArgs;
using nfs3::WccData;
using rpc::XdrWriter;

const std::string kHandleText = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRST";  // 56 bytes
ByteView handle() {
  return as_bytes(kHandleText);
}

Attributes attributes() {
  return {.type = nfs3::FileType::kSymlink,
          .mode = 0777,
          .nlink = 2,
          .uid = 1000,
          .gid = 100,
          .size = 1ull << 40,
          .used = 4096,
          .rdev_major = 6,
          .rdev_minor = 7,
          .fsid = 8,
          .fileid = FileId{0x0001000000000009},
          .atime = {10, 11},
          .mtime = {12, 13},
          .ctime = {14, 999999999}};
}
WccData wcc() {
  return {nfs3::WccAttributes{5, {1, 2}, {3, 4}}, attributes()};
}
nfs3::SetAttributes set_attributes() {
  using TimeHow = nfs3::SetAttributes::TimeHow;
  return {.mode = 0600,
          .uid = 1,
          .gid = 2,
          .size = 3,
          .set_atime = TimeHow::kClientTime,
          .set_mtime = TimeHow::kServerTime,
          .atime = {4, 5}};
}
DirOpArgs where() {
  return {handle(), "name.txt"};
}

// Decodes our bytes with libnfs, lets `look` compare the values, encodes them again and compares the bytes.
template <class T, class Codec>
void agree(Codec codec, const XdrWriter& ours, const std::function<void(const T&)>& look = nullptr) {
  std::vector<char> bytes(ours.view().begin(), ours.view().end());
  T value{};
  ZDR in;
  libnfs_zdrmem_create(&in, bytes.data(), static_cast<uint32_t>(bytes.size()), ZDR_DECODE);
  ASSERT_TRUE(codec(&in, &value)) << "libnfs does not decode " << to_hex(ours.view());
  EXPECT_EQ(static_cast<std::size_t>(in.pos), bytes.size()) << "libnfs leaves bytes over";
  if (look) look(value);

  std::vector<char> again(bytes.size() + 64);
  ZDR out;
  libnfs_zdrmem_create(&out, again.data(), static_cast<uint32_t>(again.size()), ZDR_ENCODE);
  ASSERT_TRUE(codec(&out, &value));
  EXPECT_EQ(to_hex({reinterpret_cast<std::uint8_t*>(again.data()), static_cast<std::size_t>(out.pos)}),
            to_hex(ours.view()));
  libnfs_zdr_destroy(&out);
  libnfs_zdr_destroy(&in);
}

template <class Args>
XdrWriter arguments(const Args& args) {
  XdrWriter out;
  nfs3::encode_arguments(out, args);
  return out;
}
template <class... Result>
XdrWriter result(const Result&... parts) {
  XdrWriter out;
  nfs3::encode_result(out, parts...);
  return out;
}
XdrWriter failure(nfs3::Procedure procedure) {
  XdrWriter out;
  nfs3::encode_failure(out, procedure, nfs3::Status::kStale, attributes(), wcc());
  return out;
}

void expect_attributes(const fattr3& theirs) {
  EXPECT_EQ(theirs.type, NF3LNK);
  EXPECT_EQ(theirs.mode, 0777u);
  EXPECT_EQ(theirs.nlink, 2u);
  EXPECT_EQ(theirs.uid, 1000u);
  EXPECT_EQ(theirs.gid, 100u);
  EXPECT_EQ(theirs.size, 1ull << 40);
  EXPECT_EQ(theirs.used, 4096u);
  EXPECT_EQ(theirs.rdev.specdata1, 6u);
  EXPECT_EQ(theirs.rdev.specdata2, 7u);
  EXPECT_EQ(theirs.fsid, 8u);
  EXPECT_EQ(theirs.fileid, 0x0001000000000009u);
  EXPECT_EQ(theirs.atime.seconds, 10u);
  EXPECT_EQ(theirs.atime.nseconds, 11u);
  EXPECT_EQ(theirs.mtime.seconds, 12u);
  EXPECT_EQ(theirs.ctime.nseconds, 999999999u);
}
std::string text(const nfs_fh3& fh) {
  return {fh.data.data_val, fh.data.data_len};
}

TEST(LibnfsArguments, OfEveryProcedure) {
  agree<GETATTR3args>(zdr_GETATTR3args, arguments(handle()),
                      [](const GETATTR3args& a) { EXPECT_EQ(text(a.object), kHandleText); });
  agree<SETATTR3args>(zdr_SETATTR3args,
                      arguments(nfs3::SetattrArgs{handle(), set_attributes(), nfs3::Time{7, 8}}),
                      [](const SETATTR3args& a) {
                        EXPECT_EQ(a.new_attributes.mode.set_mode3_u.mode, 0600u);
                        EXPECT_EQ(a.new_attributes.uid.set_uid3_u.uid, 1u);
                        EXPECT_EQ(a.new_attributes.gid.set_gid3_u.gid, 2u);
                        EXPECT_EQ(a.new_attributes.size.set_size3_u.size, 3u);
                        EXPECT_EQ(a.new_attributes.atime.set_it, SET_TO_CLIENT_TIME);
                        EXPECT_EQ(a.new_attributes.atime.set_atime_u.atime.nseconds, 5u);
                        EXPECT_EQ(a.new_attributes.mtime.set_it, SET_TO_SERVER_TIME);
                        EXPECT_EQ(a.guard.sattrguard3_u.obj_ctime.seconds, 7u);
                      });
  agree<SETATTR3args>(zdr_SETATTR3args, arguments(nfs3::SetattrArgs{handle(), {}, std::nullopt}));
  agree<LOOKUP3args>(zdr_LOOKUP3args, arguments(where()),
                     [](const LOOKUP3args& a) { EXPECT_STREQ(a.what.name, "name.txt"); });
  agree<ACCESS3args>(zdr_ACCESS3args, arguments(nfs3::AccessArgs{handle(), 45}),
                     [](const ACCESS3args& a) { EXPECT_EQ(a.access, 45u); });
  agree<READLINK3args>(zdr_READLINK3args, arguments(handle()));
  agree<READ3args>(zdr_READ3args, arguments(nfs3::ReadArgs{handle(), 1ull << 50, 77}),
                   [](const READ3args& a) {
                     EXPECT_EQ(a.offset, 1ull << 50);
                     EXPECT_EQ(a.count, 77u);
                   });
  agree<WRITE3args>(zdr_WRITE3args,
                    arguments(nfs3::WriteArgs{handle(), 9, 5, nfs3::Stable::kDataSync, as_bytes("hello")}),
                    [](const WRITE3args& a) {
                      EXPECT_EQ(a.offset, 9u);
                      EXPECT_EQ(a.stable, DATA_SYNC);
                      EXPECT_EQ(std::string(a.data.data_val, a.data.data_len), "hello");
                    });
  agree<CREATE3args>(zdr_CREATE3args,
                     arguments(nfs3::CreateArgs{where(), nfs3::CreateMode::kGuarded, set_attributes(), {}}));
  agree<CREATE3args>(
      zdr_CREATE3args,
      arguments(nfs3::CreateArgs{where(), nfs3::CreateMode::kExclusive, {}, {1, 2, 3, 4, 5, 6, 7, 8}}),
      [](const CREATE3args& a) { EXPECT_EQ(a.how.createhow3_u.verf[7], 8); });
  agree<MKDIR3args>(zdr_MKDIR3args, arguments(nfs3::MkdirArgs{where(), set_attributes()}));
  agree<SYMLINK3args>(zdr_SYMLINK3args, arguments(nfs3::SymlinkArgs{where(), {}, "../target"}),
                      [](const SYMLINK3args& a) { EXPECT_STREQ(a.symlink.symlink_data, "../target"); });
  agree<MKNOD3args>(zdr_MKNOD3args,
                    arguments(nfs3::MknodArgs{where(), nfs3::FileType::kCharacter, set_attributes(), 8, 1}),
                    [](const MKNOD3args& a) {
                      EXPECT_EQ(a.what.type, NF3CHR);
                      EXPECT_EQ(a.what.mknoddata3_u.chr_device.spec.specdata1, 8u);
                    });
  agree<MKNOD3args>(zdr_MKNOD3args, arguments(nfs3::MknodArgs{where(), nfs3::FileType::kFifo, {}}));
  agree<REMOVE3args>(zdr_REMOVE3args, arguments(where()));
  agree<RMDIR3args>(zdr_RMDIR3args, arguments(where()));
  agree<RENAME3args>(zdr_RENAME3args, arguments(nfs3::RenameArgs{where(), {handle(), "to"}}),
                     [](const RENAME3args& a) {
                       EXPECT_STREQ(a.from.name, "name.txt");
                       EXPECT_STREQ(a.to.name, "to");
                     });
  agree<LINK3args>(zdr_LINK3args, arguments(nfs3::LinkArgs{handle(), where()}));
  agree<READDIR3args>(zdr_READDIR3args,
                      arguments(nfs3::ReaddirArgs{handle(), 9, {1, 2, 3, 4, 5, 6, 7, 8}, 4096}),
                      [](const READDIR3args& a) {
                        EXPECT_EQ(a.cookie, 9u);
                        EXPECT_EQ(a.cookieverf[0], 1);
                        EXPECT_EQ(a.count, 4096u);
                      });
  agree<READDIRPLUS3args>(zdr_READDIRPLUS3args, arguments(nfs3::ReaddirplusArgs{handle(), 9, {}, 1024, 8192}),
                          [](const READDIRPLUS3args& a) {
                            EXPECT_EQ(a.dircount, 1024u);
                            EXPECT_EQ(a.maxcount, 8192u);
                          });
  agree<FSSTAT3args>(zdr_FSSTAT3args, arguments(handle()));
  agree<FSINFO3args>(zdr_FSINFO3args, arguments(handle()));
  agree<PATHCONF3args>(zdr_PATHCONF3args, arguments(handle()));
  agree<COMMIT3args>(zdr_COMMIT3args, arguments(nfs3::CommitArgs{handle(), 3, 4}), [](const COMMIT3args& a) {
    EXPECT_EQ(a.offset, 3u);
    EXPECT_EQ(a.count, 4u);
  });
}

TEST(LibnfsResults, OfEveryProcedure) {
  agree<GETATTR3res>(zdr_GETATTR3res, result(nfs3::GetattrOk{attributes()}),
                     [](const GETATTR3res& r) { expect_attributes(r.GETATTR3res_u.resok.obj_attributes); });
  agree<SETATTR3res>(zdr_SETATTR3res, result(nfs3::Status::kOk, wcc()), [](const SETATTR3res& r) {
    const wcc_data& theirs = r.SETATTR3res_u.resok.obj_wcc;
    EXPECT_EQ(theirs.before.pre_op_attr_u.attributes.size, 5u);
    EXPECT_EQ(theirs.before.pre_op_attr_u.attributes.mtime.seconds, 1u);
    EXPECT_EQ(theirs.before.pre_op_attr_u.attributes.ctime.nseconds, 4u);
    expect_attributes(theirs.after.post_op_attr_u.attributes);
  });
  agree<LOOKUP3res>(zdr_LOOKUP3res, result(nfs3::LookupOk{handle(), attributes(), std::nullopt}),
                    [](const LOOKUP3res& r) {
                      EXPECT_EQ(text(r.LOOKUP3res_u.resok.object), kHandleText);
                      EXPECT_TRUE(r.LOOKUP3res_u.resok.obj_attributes.attributes_follow);
                      EXPECT_FALSE(r.LOOKUP3res_u.resok.dir_attributes.attributes_follow);
                    });
  agree<ACCESS3res>(zdr_ACCESS3res, result(nfs3::AccessOk{attributes(), 31}),
                    [](const ACCESS3res& r) { EXPECT_EQ(r.ACCESS3res_u.resok.access, 31u); });
  agree<READLINK3res>(zdr_READLINK3res, result(nfs3::ReadlinkOk{attributes(), "target"}),
                      [](const READLINK3res& r) { EXPECT_STREQ(r.READLINK3res_u.resok.data, "target"); });
  agree<READ3res>(zdr_READ3res, result(nfs3::ReadOk{attributes(), 5, true, as_bytes("hello")}),
                  [](const READ3res& r) {
                    const READ3resok& ok = r.READ3res_u.resok;
                    EXPECT_EQ(ok.count, 5u);
                    EXPECT_TRUE(ok.eof);
                    EXPECT_EQ(std::string(ok.data.data_val, ok.data.data_len), "hello");
                  });
  agree<WRITE3res>(zdr_WRITE3res,
                   result(nfs3::WriteOk{wcc(), 10, nfs3::Stable::kFileSync, Verifier{0x0102030405060708}}),
                   [](const WRITE3res& r) {
                     EXPECT_EQ(r.WRITE3res_u.resok.count, 10u);
                     EXPECT_EQ(r.WRITE3res_u.resok.committed, FILE_SYNC);
                     EXPECT_EQ(r.WRITE3res_u.resok.verf[7], 8);
                   });
  auto created = [] { return result(nfs3::CreatedOk{handle(), attributes(), wcc()}); };
  agree<CREATE3res>(zdr_CREATE3res, created());
  agree<MKDIR3res>(zdr_MKDIR3res, created());
  agree<SYMLINK3res>(zdr_SYMLINK3res, created());
  agree<MKNOD3res>(zdr_MKNOD3res, created());
  agree<REMOVE3res>(zdr_REMOVE3res, result(nfs3::Status::kOk, wcc()));
  agree<RMDIR3res>(zdr_RMDIR3res, result(nfs3::Status::kOk, wcc()));
  agree<RENAME3res>(zdr_RENAME3res, result(nfs3::Status::kOk, nfs3::RenameResult{wcc(), {}}),
                    [](const RENAME3res& r) {
                      EXPECT_TRUE(r.RENAME3res_u.resok.fromdir_wcc.before.attributes_follow);
                      EXPECT_FALSE(r.RENAME3res_u.resok.todir_wcc.before.attributes_follow);
                    });
  agree<LINK3res>(zdr_LINK3res, result(nfs3::Status::kOk, nfs3::LinkResult{attributes(), {}}));
  agree<FSSTAT3res>(zdr_FSSTAT3res, result(nfs3::FsstatOk{attributes(), 1, 2, 3, 4, 5, 6, 7}),
                    [](const FSSTAT3res& r) {
                      const FSSTAT3resok& ok = r.FSSTAT3res_u.resok;
                      EXPECT_EQ(ok.tbytes, 1u);
                      EXPECT_EQ(ok.fbytes, 2u);
                      EXPECT_EQ(ok.abytes, 3u);
                      EXPECT_EQ(ok.tfiles, 4u);
                      EXPECT_EQ(ok.afiles, 6u);
                      EXPECT_EQ(ok.invarsec, 7u);
                    });
  agree<FSINFO3res>(zdr_FSINFO3res, result(nfs3::FsinfoOk{.attributes = attributes()}),
                    [](const FSINFO3res& r) {
                      const FSINFO3resok& ok = r.FSINFO3res_u.resok;
                      EXPECT_EQ(ok.rtmax, nfs3::kMaxTransfer);
                      EXPECT_EQ(ok.wtmax, nfs3::kMaxTransfer);
                      EXPECT_EQ(ok.dtpref, 65536u);
                      EXPECT_EQ(ok.maxfilesize, (std::uint64_t{1} << 63) - 1);
                      EXPECT_EQ(ok.time_delta.nseconds, 1u);
                      EXPECT_EQ(ok.properties, 0x1bu);
                    });
  agree<PATHCONF3res>(zdr_PATHCONF3res, result(nfs3::PathconfOk{.attributes = attributes()}),
                      [](const PATHCONF3res& r) {
                        const PATHCONF3resok& ok = r.PATHCONF3res_u.resok;
                        EXPECT_EQ(ok.linkmax, 65000u);
                        EXPECT_EQ(ok.name_max, 255u);
                        EXPECT_TRUE(ok.no_trunc);
                        EXPECT_FALSE(ok.case_insensitive);
                        EXPECT_TRUE(ok.case_preserving);
                      });
  agree<COMMIT3res>(zdr_COMMIT3res, result(nfs3::CommitOk{wcc(), Verifier{9}}),
                    [](const COMMIT3res& r) { EXPECT_EQ(r.COMMIT3res_u.resok.verf[7], 9); });
}

TEST(LibnfsResults, FailuresOfEveryProcedure) {
  using nfs3::Procedure;
  agree<GETATTR3res>(zdr_GETATTR3res, failure(Procedure::kGetattr),
                     [](const GETATTR3res& r) { EXPECT_EQ(r.status, NFS3ERR_STALE); });
  agree<SETATTR3res>(zdr_SETATTR3res, failure(Procedure::kSetattr));
  agree<LOOKUP3res>(zdr_LOOKUP3res, failure(Procedure::kLookup));
  agree<ACCESS3res>(zdr_ACCESS3res, failure(Procedure::kAccess));
  agree<READLINK3res>(zdr_READLINK3res, failure(Procedure::kReadlink));
  agree<READ3res>(zdr_READ3res, failure(Procedure::kRead));
  agree<WRITE3res>(zdr_WRITE3res, failure(Procedure::kWrite));
  agree<CREATE3res>(zdr_CREATE3res, failure(Procedure::kCreate));
  agree<MKDIR3res>(zdr_MKDIR3res, failure(Procedure::kMkdir));
  agree<SYMLINK3res>(zdr_SYMLINK3res, failure(Procedure::kSymlink));
  agree<MKNOD3res>(zdr_MKNOD3res, failure(Procedure::kMknod));
  agree<REMOVE3res>(zdr_REMOVE3res, failure(Procedure::kRemove));
  agree<RMDIR3res>(zdr_RMDIR3res, failure(Procedure::kRmdir));
  agree<RENAME3res>(zdr_RENAME3res, failure(Procedure::kRename));
  agree<LINK3res>(zdr_LINK3res, failure(Procedure::kLink));
  agree<READDIR3res>(zdr_READDIR3res, failure(Procedure::kReaddir));
  agree<READDIRPLUS3res>(zdr_READDIRPLUS3res, failure(Procedure::kReaddirplus));
  agree<FSSTAT3res>(zdr_FSSTAT3res, failure(Procedure::kFsstat));
  agree<FSINFO3res>(zdr_FSINFO3res, failure(Procedure::kFsinfo));
  agree<PATHCONF3res>(zdr_PATHCONF3res, failure(Procedure::kPathconf));
  agree<COMMIT3res>(zdr_COMMIT3res, failure(Procedure::kCommit));
}

TEST(LibnfsResults, Listings) {
  nfs3::DirectoryEntry entry{FileId{5}, "entry", 6, attributes(), handle()};
  XdrWriter plain;
  nfs3::EntryListWriter list(plain, false, attributes(), {1, 2, 3, 4, 5, 6, 7, 8}, {.maxcount = 10000});
  ASSERT_TRUE(list.add(entry));
  ASSERT_TRUE(list.add({FileId{7}, "second", 8, {}, {}}));
  list.finish(true);
  agree<READDIR3res>(zdr_READDIR3res, plain, [](const READDIR3res& r) {
    const READDIR3resok& ok = r.READDIR3res_u.resok;
    EXPECT_EQ(ok.cookieverf[7], 8);
    EXPECT_TRUE(ok.reply.eof);
    ASSERT_NE(ok.reply.entries, nullptr);
    EXPECT_STREQ(ok.reply.entries->name, "entry");
    EXPECT_EQ(ok.reply.entries->cookie, 6u);
    ASSERT_NE(ok.reply.entries->nextentry, nullptr);
    EXPECT_EQ(ok.reply.entries->nextentry->fileid, 7u);
    EXPECT_EQ(ok.reply.entries->nextentry->nextentry, nullptr);
  });
  XdrWriter plus;
  nfs3::EntryListWriter plus_list(plus, true, attributes(), {}, {.maxcount = 10000});
  ASSERT_TRUE(plus_list.add(entry));
  ASSERT_TRUE(plus_list.add({FileId{7}, "second", 8, {}, {}}));
  plus_list.finish(false);
  agree<READDIRPLUS3res>(zdr_READDIRPLUS3res, plus, [](const READDIRPLUS3res& r) {
    const auto* first = r.READDIRPLUS3res_u.resok.reply.entries;
    ASSERT_NE(first, nullptr);
    expect_attributes(first->name_attributes.post_op_attr_u.attributes);
    EXPECT_EQ(text(first->name_handle.post_op_fh3_u.handle), kHandleText);
    ASSERT_NE(first->nextentry, nullptr);
    EXPECT_FALSE(first->nextentry->name_handle.handle_follows);
  });
}

TEST(LibnfsMount, MntAndExport) {
  XdrWriter mnt;
  encode(mnt, mount3::MntResult{mount3::Status::kOk, handle(), {1, 0}});
  agree<mountres3>(zdr_mountres3, mnt, [](const mountres3& r) {
    const mountres3_ok& ok = r.mountres3_u.mountinfo;
    EXPECT_EQ(std::string(ok.fhandle.fhandle3_val, ok.fhandle.fhandle3_len), kHandleText);
    ASSERT_EQ(ok.auth_flavors.auth_flavors_len, 2u);
    EXPECT_EQ(ok.auth_flavors.auth_flavors_val[0], 1u);
  });
  XdrWriter refused;
  encode(refused, mount3::MntResult{.status = mount3::Status::kAcces});
  agree<mountres3>(zdr_mountres3, refused,
                   [](const mountres3& r) { EXPECT_EQ(r.fhs_status, MNT3ERR_ACCES); });
}

}  // namespace
}  // namespace slice
