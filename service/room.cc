#include "service/room.h"

#include <algorithm>

namespace slice::service {

nfs3::PostOpAttributes room_for(const routing::FileHandle& handle, const KnownFile& known,
                                const OwnPart& own) {
  if (!handle.hint.can_patch) return std::nullopt;
  nfs3::Attributes room;
  room.type = nfs3::FileType::kRegular;
  room.nlink = 0;
  room.fileid = handle.fileid;
  room.rdev_minor = handle.directory_site.value;
  room.rdev_major = std::max(known.epoch, own.epoch).value;
  if (known.epoch >= own.epoch) room.size = known.attributes.size;
  if (own.epoch >= known.epoch) {
    room.size = std::max(room.size, own.end);
    room.used = own.written;
  }
  room.atime = own.atime;
  room.mtime = own.mtime;
  return room;
}

}  // namespace slice::service
