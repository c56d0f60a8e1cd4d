#include "block/raw_volumes.h"

#include <algorithm>
#include <utility>

#include "routing/copies.h"

namespace slice::block {
namespace {

bool may_be_in_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == '-';
}

tl::unexpected<Error> no_volume(const std::string& name) {
  return fail(Errc::kNotFound, "there is no raw volume {}", name);
}

}  // namespace

Status check_volume_name(std::string_view name) {
  const bool good = !name.empty() && name.size() <= kMaxVolumeName && name.front() != '.' &&
                    std::ranges::all_of(name, may_be_in_name);
  if (good) return {};
  return fail(Errc::kInvalid,
              "a volume's name is at most {} letters, digits, '.', '_' and '-', and does not begin with '.'",
              kMaxVolumeName);
}

std::string path_of_volume(std::string_view name) {
  return fmt::format("{}/{}", kVolumesFolder, name);
}

std::uint64_t begin_of_volume(const EnsembleConfig& config, std::uint32_t stripe_shift) {
  const std::uint64_t unit = std::uint64_t{1} << stripe_shift;
  return std::max<std::uint64_t>((config.volume.threshold + unit - 1) / unit, 1) * unit;
}

Task<Result<RawVolume>> RawVolumes::find(std::string name) {
  SLICE_CO_RETURN_IF_ERROR(check_volume_name(name));
  RawVolume volume{.name = name, .file = names_.root(), .attributes = {}};
  std::string path;
  for (const std::string& part : {std::string(kVolumesName), name, std::string(kDataName)}) {
    path += "/" + part;
    auto found = co_await names_.look_up(volume.file, part, path);
    if (!found && found.error().code == Errc::kNotFound) co_return no_volume(name);
    if (!found) co_return fail(std::move(found.error()));
    volume.file = *found;
  }
  const routing::FileHandle& handle = volume.file.handle;
  if (handle.tree != kTreeOfVolumes || handle.type != nfs3::FileType::kRegular ||
      !routing::has_layout(handle))
    co_return fail(Errc::kInvalid, "{} is no raw volume's file", path);
  auto attributes = co_await names_.attributes(volume.file, path);
  if (!attributes) co_return fail(std::move(attributes.error()));
  volume.attributes = *attributes;
  volume.begin = begin_of_volume(config_, handle.stripe_shift);
  co_return volume;
}

// To the size that it has, as it was looked at: whoever changes that meanwhile makes it begin anew.
Task<Result<RawVolume>> RawVolumes::open(std::string name) {
  constexpr int kTries = 5;
  Status status;
  for (int i = 0; i < kTries; ++i) {
    auto volume = co_await find(name);
    if (!volume) co_return fail(std::move(volume.error()));
    rpc::XdrWriter arguments;
    nfs3::SetattrArgs args{.object = volume->file.bytes, .attributes = {}, .guard = volume->attributes.ctime};
    args.attributes.size = volume->attributes.size;
    encode_arguments(arguments, args);
    nfs3::PostOpAttributes after;
    status =
        co_await names_.ask<nfs3::WccData>(nfs3::Procedure::kSetattr, arguments.take(), path_of_volume(name),
                                           [&](const nfs3::WccData& wcc) { after = wcc.after; });
    if (!status && status.error().code == Errc::kStale) continue;
    if (!status) co_return fail(std::move(status.error()));
    if (!after || after->rdev_major <= volume->attributes.rdev_major)
      co_return fail(Errc::kIo, "{}: its epoch has not changed", path_of_volume(name));
    volume->attributes = *after;
    volume->file.handle = routing::opened_at(volume->file.handle, volume->epoch());
    volume->file.bytes = routing::HandleCodec(config_).mint(volume->file.handle);
    co_return std::move(*volume);
  }
  co_return fail(std::move(status.error()));
}

Task<Result<std::vector<std::string>>> RawVolumes::names() {
  auto folder =
      co_await names_.look_up(names_.root(), std::string(kVolumesName), std::string(kVolumesFolder));
  if (!folder && folder.error().code == Errc::kNotFound) co_return std::vector<std::string>{};
  if (!folder) co_return fail(std::move(folder.error()));
  co_return co_await names_.list(*folder, std::string(kVolumesFolder));
}

}  // namespace slice::block
