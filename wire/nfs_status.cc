#include "wire/nfs_status.h"

namespace slice::nfs3 {

std::string_view status_name(Status status) {
  switch (status) {
    case Status::kOk:
      return "NFS3_OK";
    case Status::kPerm:
      return "NFS3ERR_PERM";
    case Status::kNoEnt:
      return "NFS3ERR_NOENT";
    case Status::kIo:
      return "NFS3ERR_IO";
    case Status::kNxio:
      return "NFS3ERR_NXIO";
    case Status::kAcces:
      return "NFS3ERR_ACCES";
    case Status::kExist:
      return "NFS3ERR_EXIST";
    case Status::kXdev:
      return "NFS3ERR_XDEV";
    case Status::kNoDev:
      return "NFS3ERR_NODEV";
    case Status::kNotDir:
      return "NFS3ERR_NOTDIR";
    case Status::kIsDir:
      return "NFS3ERR_ISDIR";
    case Status::kInval:
      return "NFS3ERR_INVAL";
    case Status::kFbig:
      return "NFS3ERR_FBIG";
    case Status::kNoSpc:
      return "NFS3ERR_NOSPC";
    case Status::kRofs:
      return "NFS3ERR_ROFS";
    case Status::kMlink:
      return "NFS3ERR_MLINK";
    case Status::kNameTooLong:
      return "NFS3ERR_NAMETOOLONG";
    case Status::kNotEmpty:
      return "NFS3ERR_NOTEMPTY";
    case Status::kDquot:
      return "NFS3ERR_DQUOT";
    case Status::kStale:
      return "NFS3ERR_STALE";
    case Status::kRemote:
      return "NFS3ERR_REMOTE";
    case Status::kBadHandle:
      return "NFS3ERR_BADHANDLE";
    case Status::kNotSync:
      return "NFS3ERR_NOT_SYNC";
    case Status::kBadCookie:
      return "NFS3ERR_BAD_COOKIE";
    case Status::kNotSupp:
      return "NFS3ERR_NOTSUPP";
    case Status::kTooSmall:
      return "NFS3ERR_TOOSMALL";
    case Status::kServerFault:
      return "NFS3ERR_SERVERFAULT";
    case Status::kBadType:
      return "NFS3ERR_BADTYPE";
    case Status::kJukebox:
      return "NFS3ERR_JUKEBOX";
  }
  return "NFS3ERR_?";
}

Status status_of(const Error& error) {
  switch (error.code) {
    case Errc::kInvalid:
      return Status::kInval;
    case Errc::kCorrupt:
    case Errc::kIo:
      return Status::kIo;
    case Errc::kNotFound:
      return Status::kNoEnt;
    case Errc::kExists:
      return Status::kExist;
    case Errc::kDenied:
      return Status::kAcces;
    case Errc::kQuota:
      return Status::kDquot;
    case Errc::kNoSpace:
      return Status::kNoSpc;
    case Errc::kUnavailable:
    case Errc::kTimedOut:
    case Errc::kMisdirected:
      return Status::kJukebox;
    case Errc::kStale:
      return Status::kStale;
    case Errc::kTooLarge:
      return Status::kFbig;
  }
  return Status::kServerFault;
}

}  // namespace slice::nfs3
