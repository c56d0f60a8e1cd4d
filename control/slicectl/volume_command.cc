#include "control/slicectl/volume_command.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "control/slicectl/render_parts.h"
#include "routing/copies.h"

namespace slice::slicectl {
namespace {

constexpr std::uint64_t kLargest = std::uint64_t{1} << 60;
constexpr std::uint32_t kOwnersMode = 0600, kOwnersFolder = 0700;

std::string folder_path(const std::string& name) {
  return block::path_of_volume(name);
}
std::string data_path(const std::string& name) {
  return fmt::format("{}/{}", folder_path(name), block::kDataName);
}

Json as_json(const block::RawVolume& volume) {
  return {{"name", volume.name},
          {"size", volume.size()},
          {"used", volume.attributes.used},
          {"copies", routing::copies_of(volume.file.handle)},
          {"stripe_unit", std::uint64_t{1} << volume.file.handle.stripe_shift},
          {"epoch", volume.epoch().value}};
}

}  // namespace

Result<std::uint32_t> parse_stripe_unit(const std::string& text) {
  auto unit = parse_size(text);
  if (!unit) return fail(std::move(unit.error()));
  if (!is_stripe_unit(*unit))
    return fail(Errc::kInvalid, "a stripe unit is a power of two from 8KiB to 1GiB");
  return static_cast<std::uint32_t>(std::countr_zero(*unit));
}

std::uint32_t placement_of(const std::string& name) {
  const auto found = std::ranges::find(kPlacementNames, name);
  return static_cast<std::uint32_t>(found - kPlacementNames.begin()) + 1;
}

std::string render_volumes(const std::vector<ListedVolume>& volumes, Format format) {
  Json list = Json::array();
  std::vector<std::vector<std::string>> rows{{"volume", "size", "used", "copies", "stripe unit", "epoch"}};
  for (const auto& [name, volume] : volumes) {
    if (!volume) {
      list.push_back({{"name", name}, {"whole", false}});
      rows.push_back({name, "not whole: create it again, or remove it"});
      continue;
    }
    list.push_back(as_json(*volume));
    rows.push_back({name, bytes_text(volume->size()), bytes_text(volume->attributes.used),
                    fmt::format("{}", routing::copies_of(volume->file.handle)),
                    bytes_text(std::uint64_t{1} << volume->file.handle.stripe_shift),
                    fmt::format("{}", volume->epoch().value)});
  }
  if (format == Format::kJson) return dump({{"volumes", std::move(list)}});
  return volumes.empty() ? "there are no raw volumes\n" : table(rows);
}

std::string render_volume(const block::RawVolume& volume, const Where& where, Format format) {
  Json nodes = Json::array();
  std::vector<std::vector<std::string>> rows{{"storage node", "stored"}};
  for (const Part& part : where.storage) {
    if (part.stat && part.stat->status == nfs3::Status::kNoEnt) continue;
    const bool known = part.stat && part.stat->status == nfs3::Status::kOk;
    nodes.push_back({{"name", part.server}, {"stored", known ? Json(part.stat->allocated) : Json()}});
    rows.push_back({part.server, known ? bytes_text(part.stat->allocated) : "does not answer"});
  }
  Json json = as_json(volume);
  json["nodes"] = std::move(nodes);
  if (format == Format::kJson) return dump(json);
  return fmt::format("{}: {} bytes, copies {}, stripe unit {}, epoch {}\n", volume.name, volume.size(),
                     routing::copies_of(volume.file.handle),
                     bytes_text(std::uint64_t{1} << volume.file.handle.stripe_shift), volume.epoch().value) +
         table(rows);
}

VolumeCommand::VolumeCommand(const cli::Command& app)
    : volume_(app.add_subcommand("volume", "raw volumes, for block clients (docs/raw-volumes.md)")) {
  volume_.require_subcommand();
  create_ = volume_.add_subcommand("create", "makes one, of zeros");
  create_.add_option("--size", size_text_, "e.g. 10GiB; a multiple of 512 bytes").required();
  create_
      .add_option("--copies", policy_.copies,
                  "on how many storage nodes each byte is; else as the volume of files has it")
      .in_range(1U, kMaxCopies);
  create_.add_option("--stripe-unit", stripe_unit_, "bytes on one storage node, e.g. 1MiB");
  create_
      .add_option("--placement", placement_, "of several copies: on which storage nodes (docs/block-maps.md)")
      .one_of({kPlacementNames.begin(), kPlacementNames.end()});
  list_ = volume_.add_subcommand("list", "all of them");
  status_ = volume_.add_subcommand("status", "one of them, and what each storage node has of it");
  resize_ = volume_.add_subcommand(
      "resize", "makes one larger, of zeros behind; who has it open sees it when he opens it again");
  resize_.add_option("--size", size_text_, "to what").required();
  resize_.add_flag("--shrink", shrink_,
                   "also smaller: what is behind is gone, and whoever has it open loses it");
  remove_ =
      volume_.add_subcommand("remove", "takes one away with all its bytes, also where somebody has it open");
  for (const cli::Command& each : {create_, status_, resize_, remove_})
    each.add_option("name", name_, "of the volume").required();
}

Status VolumeCommand::check() {
  if (!list_.parsed()) SLICE_RETURN_IF_ERROR(block::check_volume_name(name_));
  if (!size_text_.empty()) {
    auto size = parse_size(size_text_);
    if (!size) return fail(std::move(size.error()));
    size_ = *size;
    if (size_ == 0 || size_ % block::kSectorSize != 0 || size_ > kLargest)
      return fail(Errc::kInvalid, "a volume's size is a multiple of {} bytes, and at most 1 EiB",
                  block::kSectorSize);
  }
  if (!stripe_unit_.empty()) {
    auto shift = parse_stripe_unit(stripe_unit_);
    if (!shift) return fail(std::move(shift.error()));
    policy_.stripe_shift = *shift;
  }
  if (!placement_.empty()) policy_.placement = placement_of(placement_);
  return {};
}

Task<int> VolumeCommand::run(const Seams& seams, const Output& output) {
  auto tables = co_await ask_tables(seams);
  if (!tables) co_return output.say(tables.error());
  if (list_.parsed() || status_.parsed()) {
    auto text = co_await (list_.parsed() ? list(seams, *tables, output.format)
                                         : status(seams, *tables, output.format));
    co_return text ? output.print(*text) : output.say(text.error());
  }
  const Status done = co_await (create_.parsed()   ? create(seams, *tables)
                                : resize_.parsed() ? resize(seams, *tables)
                                                   : remove(seams, *tables));
  if (!done) co_return output.say(done.error());
  const char* what = create_.parsed() ? "made" : resize_.parsed() ? "resized" : "removed";
  co_return output.print(output.format == Format::kJson ? dump({{"volume", name_}, {"done", what}})
                                                        : fmt::format("volume {} is {}\n", name_, what));
}

Task<Status> VolumeCommand::make_folder(const Seams& seams, const Tables& tables) {
  const std::string folder(block::kVolumesFolder);
  auto there = co_await ask_where(seams, tables, folder);
  if (there && there->handle.tree == kTreeOfVolumes) co_return Status{};
  if (there)
    co_return fail(Errc::kInvalid, "{} is there, and was not made for raw volumes: rename it", folder);
  if (there.error().code != Errc::kNotFound) co_return fail(std::move(there.error()));
  auto root = co_await ask_where(seams, tables, "/");
  if (!root) co_return fail(std::move(root.error()));
  Status made =
      co_await make_tree_directory(seams, tables, *root, folder, kTreeOfVolumes, {.mode = kOwnersFolder});
  if (!made && made.error().code == Errc::kExists) co_return Status{};  // another slicectl was here, too
  co_return made;
}

// What was begun and cut off before is gone on with.
Task<Status> VolumeCommand::create(const Seams& seams, const Tables& tables) {
  SLICE_CO_RETURN_IF_ERROR(co_await make_folder(seams, tables));
  auto above = co_await ask_where(seams, tables, std::string(block::kVolumesFolder));
  if (!above) co_return fail(std::move(above.error()));
  Status made = co_await make_tree_directory(seams, tables, *above, folder_path(name_), kTreeOfVolumes,
                                             {.mode = kOwnersFolder});
  if (!made && made.error().code != Errc::kExists) co_return made;
  auto folder = co_await ask_where(seams, tables, folder_path(name_));
  if (!folder) co_return fail(std::move(folder.error()));
  co_return co_await make_data(seams, tables, *folder);
}

Task<Status> VolumeCommand::make_data(const Seams& seams, const Tables& tables, const Where& folder) {
  // One copy has a layout only by a block map.
  auto now = co_await ask_policy(seams, tables, folder.path, {});
  if (!now) co_return fail(std::move(now.error()));
  auto settings = co_await ask_settings(seams);
  if (!settings) co_return fail(std::move(settings.error()));
  wire::FilePolicy policy = policy_;
  if (policy.copies == 0) policy.copies = settings->copies;
  if (policy.placement == 0 || policy.copies == 1)
    policy.placement =
        placement_of(std::string(kPlacementNames[static_cast<std::size_t>(Placement::kFreeSpace)]));
  const std::uint32_t fields = wire::kPolicyCopies | wire::kPolicyPlacement |
                               (policy.stripe_shift != 0 ? wire::kPolicyStripeUnit : 0u);
  auto set =
      co_await ask_policy(seams, tables, folder.path,
                          {.fields = fields, .policy = policy, .inherit = false, .fewer_copies = true});
  if (!set) co_return fail(std::move(set.error()));
  const std::uint32_t shift =
      policy.stripe_shift != 0 ? policy.stripe_shift : seams.config.volume.stripe_shift;
  nfs3::SetAttributes attributes{.mode = kOwnersMode,
                                 .size = block::begin_of_volume(seams.config, shift) + size_};
  rpc::XdrWriter arguments;
  encode_arguments(arguments, nfs3::CreateArgs{.where = {folder.bytes, block::kDataName},
                                               .mode = nfs3::CreateMode::kGuarded,
                                               .attributes = attributes});
  service::Names names = names_of(seams, tables);
  Status made = co_await names.ask<nfs3::CreatedOk>(nfs3::Procedure::kCreate, arguments.take(),
                                                    data_path(name_), [](const auto&) {});
  if (!made && made.error().code == Errc::kExists)
    co_return fail(Errc::kExists, "there is a raw volume {}", name_);
  co_return made;
}

Task<Status> VolumeCommand::resize(const Seams& seams, const Tables& tables) {
  service::Names names = names_of(seams, tables);
  auto volume = co_await block::RawVolumes(seams.config, names).find(name_);
  if (!volume) co_return fail(std::move(volume.error()));
  if (size_ < volume->size() && !shrink_)
    co_return fail(Errc::kInvalid, "{} has {} bytes; say --shrink to lose those behind", name_,
                   volume->size());
  rpc::XdrWriter arguments;
  nfs3::SetattrArgs args{.object = volume->file.bytes, .attributes = {}, .guard = volume->attributes.ctime};
  args.attributes.size = volume->begin + size_;
  encode_arguments(arguments, args);
  co_return co_await names.ask<nfs3::WccData>(nfs3::Procedure::kSetattr, arguments.take(), data_path(name_),
                                              [](const auto&) {});
}

Task<Status> VolumeCommand::remove(const Seams& seams, const Tables& tables) {
  auto above = co_await ask_where(seams, tables, std::string(block::kVolumesFolder));
  auto folder = co_await ask_where(seams, tables, folder_path(name_));
  if (!above || !folder) {
    const Error& error = above ? folder.error() : above.error();
    if (error.code != Errc::kNotFound) co_return fail(error);
    co_return fail(Errc::kNotFound, "there is no raw volume {}", name_);
  }
  rpc::XdrWriter arguments;
  encode_arguments(arguments, nfs3::RemoveArgs{folder->bytes, block::kDataName});
  service::Names names = names_of(seams, tables);
  Status gone = co_await names.ask<nfs3::WccData>(nfs3::Procedure::kRemove, arguments.take(),
                                                  data_path(name_), [](const auto&) {});
  if (!gone && gone.error().code != Errc::kNotFound) co_return gone;
  co_return co_await remove_tree_directory(seams, tables, *above, folder_path(name_));
}

Task<Result<std::string>> VolumeCommand::list(const Seams& seams, const Tables& tables, Format format) {
  service::Names names = names_of(seams, tables);
  block::RawVolumes volumes(seams.config, names);
  auto all = co_await volumes.names();
  if (!all) co_return fail(std::move(all.error()));
  std::vector<ListedVolume> listed;
  for (const std::string& name : *all) {
    auto volume = co_await volumes.find(name);
    if (!volume && volume.error().code != Errc::kNotFound) co_return fail(std::move(volume.error()));
    listed.push_back({.name = name, .volume = volume ? std::optional(std::move(*volume)) : std::nullopt});
  }
  co_return render_volumes(listed, format);
}

Task<Result<std::string>> VolumeCommand::status(const Seams& seams, const Tables& tables, Format format) {
  service::Names names = names_of(seams, tables);
  auto volume = co_await block::RawVolumes(seams.config, names).find(name_);
  if (!volume) co_return fail(std::move(volume.error()));
  auto where = co_await ask_where(seams, tables, data_path(name_));
  if (!where) co_return fail(std::move(where.error()));
  co_return render_volume(*volume, *where, format);
}

}  // namespace slice::slicectl
