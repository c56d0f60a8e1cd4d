// Numbers of the protocols as they lie on the wire: ONC RPC (RFC 5531), NFSv3
// and MOUNT (RFC 1813), PORTMAP (RFC 1833). Offsets are in bytes.
#ifndef SLICE_BPF_SHARED_NFS_OFFSETS_H
#define SLICE_BPF_SHARED_NFS_OFFSETS_H

#define SLICE_RPC_VERSION 2u
#define SLICE_RPC_CALL 0u
#define SLICE_RPC_REPLY 1u
#define SLICE_RPC_ACCEPTED 0u
#define SLICE_RPC_SUCCESS 0u

#define SLICE_PROGRAM_PORTMAP 100000u
#define SLICE_PROGRAM_NFS 100003u
#define SLICE_PROGRAM_MOUNT 100005u
#define SLICE_PROGRAM_NFSACL 100227u
#define SLICE_NFS_VERSION 3u  // of NFS and of NFSACL

// RFC 1813 section 3.3.
enum slice_procedure {
  SLICE_NFS_NULL = 0,
  SLICE_NFS_GETATTR = 1,
  SLICE_NFS_SETATTR = 2,
  SLICE_NFS_LOOKUP = 3,
  SLICE_NFS_ACCESS = 4,
  SLICE_NFS_READLINK = 5,
  SLICE_NFS_READ = 6,
  SLICE_NFS_WRITE = 7,
  SLICE_NFS_CREATE = 8,
  SLICE_NFS_MKDIR = 9,
  SLICE_NFS_SYMLINK = 10,
  SLICE_NFS_MKNOD = 11,
  SLICE_NFS_REMOVE = 12,
  SLICE_NFS_RMDIR = 13,
  SLICE_NFS_RENAME = 14,
  SLICE_NFS_LINK = 15,
  SLICE_NFS_READDIR = 16,
  SLICE_NFS_READDIRPLUS = 17,
  SLICE_NFS_FSSTAT = 18,
  SLICE_NFS_FSINFO = 19,
  SLICE_NFS_PATHCONF = 20,
  SLICE_NFS_COMMIT = 21,
  // NFSACL's two: procedures 1 and 2 of a program of their own, numbered behind those of NFS within Slice.
  SLICE_NFS_GETACL = 22,
  SLICE_NFS_SETACL = 23,
};
#define SLICE_NFS_PROCEDURES 22u    // of the program NFS
#define SLICE_NFSACL_PROCEDURES 3u  // of the program NFSACL
#define SLICE_NFSACL_NUMBERED 21u   // what is added to the number of one of NFSACL's, NULL excepted

#define SLICE_NF3REG 1u
#define SLICE_NF3DIR 2u

// RFC 5531 section 9, call: xid, type, RPC version, program, version,
// procedure, then credential and verifier as (flavor, length, body).
#define SLICE_CALL_XID 0u
#define SLICE_CALL_TYPE 4u
#define SLICE_CALL_RPC_VERSION 8u
#define SLICE_CALL_PROGRAM 12u
#define SLICE_CALL_VERSION 16u
#define SLICE_CALL_PROCEDURE 20u
#define SLICE_CALL_CREDENTIAL 24u
#define SLICE_AUTH_HEADER 8u  // flavor and length of a credential or verifier

// RFC 5531 section 9, accepted reply: xid, type, reply state, verifier, accept state.
#define SLICE_REPLY_STATE 8u
#define SLICE_REPLY_VERIFIER 12u

// RFC 1813 section 2.5, fattr3.
#define SLICE_FATTR_TYPE 0u
#define SLICE_FATTR_MODE 4u
#define SLICE_FATTR_NLINK 8u
#define SLICE_FATTR_UID 12u
#define SLICE_FATTR_GID 16u
#define SLICE_FATTR_SIZE 20u
#define SLICE_FATTR_USED 28u   // in room: behind the last byte that a WRITE wrote
#define SLICE_FATTR_EPOCH 36u  // rdev.specdata1: the truncation epoch, regular files only
#define SLICE_FATTR_SITE 40u   // rdev.specdata2: the directory site and SLICE_MTIME_SET, regular files only
#define SLICE_FATTR_FSID 44u
#define SLICE_FATTR_FILEID 52u
#define SLICE_FATTR_ATIME 60u
#define SLICE_FATTR_MTIME 68u
#define SLICE_FATTR_CTIME 76u
#define SLICE_FATTR_BYTES 84u
#define SLICE_FATTR_WORDS 21u
#define SLICE_MTIME_SET 0x80000000u  // beside the site: mtime is what a SETATTR set it to, not a write's
#define SLICE_WCC_ATTR_BYTES 24u     // size, mtime, ctime before the operation

#endif  // SLICE_BPF_SHARED_NFS_OFFSETS_H
