// RawVolumes: raw volumes by name (docs/raw-volumes.md). One is a file `data` in a directory of its own,
// which says how it is laid out, in a directory of the root that is a tree without exports: no NFS client
// comes in.
//
// Its bytes begin behind the first stripe unit, and not below the threshold of small files, so that storage
// nodes alone have some: they are who knows openers. The file always has a layout.
//
// Who opens one gives the file the next truncation epoch, by a SETATTR of the size that it has: from when
// that is answered, storage nodes take nothing by the handles of those before, ever again.
#ifndef SLICE_BLOCK_RAW_VOLUMES_H
#define SLICE_BLOCK_RAW_VOLUMES_H

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/settings.h"
#include "service/names.h"

namespace slice::block {

inline constexpr std::string_view kVolumesFolder = "/.volumes", kVolumesName = ".volumes", kDataName = "data";
inline constexpr std::uint64_t kSectorSize = 512;
inline constexpr std::size_t kMaxVolumeName = 64;

// kInvalid: not of letters, digits, '.', '_' and '-', or begins with '.', or is too long.
Status check_volume_name(std::string_view name);
std::string path_of_volume(std::string_view name);

struct RawVolume {
  std::string name;
  service::Names::Found file;
  nfs3::Attributes attributes;
  std::uint64_t begin = 0;  // of its bytes within the file
  std::uint64_t size() const { return attributes.size > begin ? attributes.size - begin : 0; }
  std::uint64_t stripe_unit() const { return std::uint64_t{1} << file.handle.stripe_shift; }
  // How often it was opened, or made smaller.
  Epoch epoch() const { return Epoch{attributes.rdev_major}; }
};

// Where the bytes of a volume begin whose file has this stripe unit.
std::uint64_t begin_of_volume(const EnsembleConfig& config, std::uint32_t stripe_shift);

class RawVolumes {
 public:
  // All that `names` refers to, and `config`, outlive it.
  RawVolumes(const EnsembleConfig& config, service::Names& names) : config_(config), names_(names) {}

  // kNotFound: there is none of this name, or it is not whole (making it was cut off).
  Task<Result<RawVolume>> find(std::string name);
  // Also opens it: the file's handle is then an opener's.
  Task<Result<RawVolume>> open(std::string name);
  // All names, whole or not, in order.
  Task<Result<std::vector<std::string>>> names();

 private:
  const EnsembleConfig& config_;
  service::Names& names_;
};

}  // namespace slice::block

#endif  // SLICE_BLOCK_RAW_VOLUMES_H
