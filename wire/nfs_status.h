// NFSv3 status numbers (RFC 1813 section 2.6), and the one place where an Error becomes one.
#ifndef SLICE_WIRE_NFS_STATUS_H
#define SLICE_WIRE_NFS_STATUS_H

#include <cstdint>
#include <string_view>

#include "common/result.h"

namespace slice::nfs3 {

enum class Status : std::uint32_t {
  kOk = 0,
  kPerm = 1,
  kNoEnt = 2,
  kIo = 5,
  kNxio = 6,
  kAcces = 13,
  kExist = 17,
  kXdev = 18,
  kNoDev = 19,
  kNotDir = 20,
  kIsDir = 21,
  kInval = 22,
  kFbig = 27,
  kNoSpc = 28,
  kRofs = 30,
  kMlink = 31,
  kNameTooLong = 63,
  kNotEmpty = 66,
  kDquot = 69,
  kStale = 70,
  kRemote = 71,
  kBadHandle = 10001,
  kNotSync = 10002,
  kBadCookie = 10003,
  kNotSupp = 10004,
  kTooSmall = 10005,
  kServerFault = 10006,
  kBadType = 10007,
  kJukebox = 10008,
};

std::string_view status_name(Status status);  // "NFS3ERR_STALE"
Status status_of(const Error& error);

}  // namespace slice::nfs3

#endif  // SLICE_WIRE_NFS_STATUS_H
