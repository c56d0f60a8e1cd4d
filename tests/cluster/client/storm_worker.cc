#include "tests/cluster/client/storm_worker.h"

#include "tests/cluster/guest/check.h"

namespace slice::client {
namespace {

constexpr std::size_t kMostNames = 60;
constexpr std::uint64_t kFilesOfTree = 6;

ConnectionOptions options_over(ConnectionOptions options, Transport transport) {
  options.transport = transport;
  return options;
}

std::string name_of(const StormPlace& place) {
  return "shared-" + std::to_string(place.folder) + "/" + place.name;
}

}  // namespace

StormWorker::StormWorker(StormWorld& world, std::uint64_t number, std::uint64_t seed, Transport transport)
    : world_(world),
      calls_(options_over(world.nfs_options(), transport)),
      number_(number),
      random_(seed * 1000 + number) {}

void StormWorker::step() {
  if (model_.size() < 8) return unpack_tree();
  const std::uint64_t kind = random() % 100;
  const bool more = model_.size() < kMostNames;
  if (kind < 12) return more ? make_file() : remove();
  if (kind < 20) return more ? unpack_tree() : remove_folder();
  if (kind < 24) return make_symlink();
  if (kind < 44) return rename(NF3REG);
  if (kind < 54) return rename(NF3DIR);
  if (kind < 62) return more ? link() : remove();
  if (kind < 72) return remove();
  if (kind < 78) return remove_folder();
  if (kind < 86) return look();
  if (kind < 92) return claim_trophy();
  static constexpr void (StormWorker::* kRaces[])() = {
      &StormWorker::race_rmdir_and_create, &StormWorker::race_two_renames, &StormWorker::race_link_and_remove,
      &StormWorker::race_into_each_other, &StormWorker::race_two_mkdirs};
  (this->*kRaces[random() % std::size(kRaces)])();
}

std::uint64_t StormWorker::random() {
  return guest::next_random(random_);
}

StormPlace StormWorker::new_place(const char* kind) {
  return {random() % StormWorld::kFolders,
          "w" + std::to_string(number_) + "-" + kind + "-" + std::to_string(++names_)};
}

std::optional<StormPlace> StormWorker::any(ftype3 type) {
  std::vector<const StormPlace*> places;
  for (const auto& [place, object] : model_) {
    if (object->type == type) places.push_back(&place);
  }
  if (places.empty()) return std::nullopt;
  return *places[random() % places.size()];
}

void StormWorker::add(const StormPlace& place, ftype3 type, Handle handle) {
  auto object = std::make_shared<StormObject>();
  object->type = type;
  object->handle = std::move(handle);
  model_[place] = std::move(object);
  ++acknowledged_;
}

void StormWorker::forget(const StormPlace& place) {
  const auto found = model_.find(place);
  --found->second->links;
  model_.erase(found);
}

void StormWorker::move(const StormPlace& from, const StormPlace& to) {
  const auto replaced = model_.find(to);
  if (replaced != model_.end()) --replaced->second->links;
  model_[to] = model_.at(from);
  model_.erase(from);
}

void StormWorker::acknowledge(nfsstat3 status, const std::string& what) {
  must(status, what);
  ++acknowledged_;
}

nfsstat3 StormWorker::ask_rename(const Handle& from_folder, const std::string& from, const Handle& to_folder,
                                 const std::string& to) {
  return calls_.status(kRename, RENAME3args{in_folder(from_folder, from), in_folder(to_folder, to)});
}

void StormWorker::make_file() {
  const StormPlace place = new_place("file");
  add(place, NF3REG, calls_.create(folder(place), place.name));
}

void StormWorker::make_symlink() {
  const StormPlace place = new_place("symbolic");
  std::string target = "target";
  acknowledge(calls_.status(kSymlink, SYMLINK3args{in_folder(folder(place), place.name),
                                                   {with_mode(0777), target.data()}}),
              "SYMLINK of " + name_of(place));
  add(place, NF3LNK, calls_.lookup(folder(place), place.name));
}

void StormWorker::unpack_tree() {
  const StormPlace place = new_place("folder");
  add(place, NF3DIR, calls_.unpack_folder(folder(place), place.name));
  for (std::uint64_t i = 0; i < kFilesOfTree; ++i) {
    const std::string name = "file-" + std::to_string(i);
    calls_.unpack_file(at(place).handle, name);
    at(place).children.insert(name);
    ++acknowledged_;
  }
}

// To a new name, or over another file, or over an empty folder.
void StormWorker::rename(ftype3 type) {
  const auto from = any(type);
  if (!from) return;
  StormPlace to = new_place(type == NF3DIR ? "folder" : "file");
  const auto other = any(type);
  const bool over = random() % 3 == 0 && model_.at(*other) != model_.at(*from) && at(*other).children.empty();
  if (over) to = *other;
  acknowledge(ask_rename(folder(*from), from->name, folder(to), to.name),
              "RENAME of " + name_of(*from) + " to " + name_of(to));
  move(*from, to);
}

void StormWorker::link() {
  const auto from = any(NF3REG);
  if (!from) return;
  const StormPlace to = new_place("file");
  acknowledge(calls_.status(kLink, LINK3args{at(*from).handle.raw(), in_folder(folder(to), to.name)}),
              "LINK of " + name_of(*from) + " as " + name_of(to));
  model_[to] = model_.at(*from);
  ++at(to).links;
}

void StormWorker::remove() {
  const auto place = any(random() % 4 == 0 ? NF3LNK : NF3REG);
  if (!place) return;
  acknowledge(calls_.status(kRemove, REMOVE3args{in_folder(folder(*place), place->name)}),
              "REMOVE of " + name_of(*place));
  const Handle handle = at(*place).handle;
  const bool last = at(*place).links == 1;
  forget(*place);
  must(calls_.status(kLookup, LOOKUP3args{in_folder(folder(*place), place->name)}),
       "LOOKUP of what was removed", NFS3ERR_NOENT);
  must(calls_.status(kGetattr, GETATTR3args{handle.raw()}), "GETATTR after REMOVE",
       last ? NFS3ERR_STALE : NFS3_OK);
}

void StormWorker::remove_folder() {
  const auto place = any(NF3DIR);
  if (!place) return;
  const RMDIR3args arguments{in_folder(folder(*place), place->name)};
  StormObject& object = at(*place);
  if (!object.children.empty())
    must(calls_.status(kRmdir, arguments), "RMDIR of a full folder", NFS3ERR_NOTEMPTY);
  while (!object.children.empty()) {
    const std::string name = *object.children.begin();
    acknowledge(calls_.status(kRemove, REMOVE3args{in_folder(object.handle, name)}), "REMOVE of " + name);
    object.children.erase(name);
  }
  acknowledge(calls_.status(kRmdir, arguments), "RMDIR of " + name_of(*place));
  forget(*place);
}

void StormWorker::look() {
  const auto place = any(random() % 2 == 0 ? NF3REG : NF3DIR);
  if (!place) return;
  const StormObject& object = at(*place);
  if (calls_.lookup(folder(*place), place->name).bytes() != object.handle.bytes()) {
    throw RpcError(name_of(*place) + " leads to another file");
  }
  const fattr3 attributes = calls_.attributes(object.handle);
  if (object.type == NF3REG && attributes.nlink != object.links) {
    throw RpcError(name_of(*place) + " has " + std::to_string(attributes.nlink) + " links, wanted " +
                   std::to_string(object.links));
  }
}

void StormWorker::claim_trophy() {
  const StormPlace place = new_place("claim");
  Handle file = calls_.create(folder(place), place.name);
  const std::size_t number = random() % Trophies::kCount;
  acknowledge(ask_rename(folder(place), place.name, world_.trophy_folder(), Trophies::name(number)),
              "RENAME over a trophy");
  world_.trophies.add(number, std::move(file));
}

// ---- two at once ----

void StormWorker::exactly_one(std::pair<nfsstat3, nfsstat3> statuses, std::initializer_list<nfsstat3> loses,
                              const char* what) {
  const bool first = statuses.first == NFS3_OK;
  const nfsstat3 loser = first ? statuses.second : statuses.first;
  const bool one_won = first != (statuses.second == NFS3_OK);
  if (one_won && std::find(loses.begin(), loses.end(), loser) != loses.end()) {
    ++acknowledged_;
    return;
  }
  throw RpcError(std::string(what) + " at once answer " + status_name(statuses.first) + " and " +
                 status_name(statuses.second));
}

void StormWorker::race_rmdir_and_create() {
  const StormPlace place = new_place("raced");
  const std::string child = "child";
  const Handle made = calls_.make_folder(folder(place), place.name);
  const RMDIR3args rmdir{in_folder(folder(place), place.name)};
  const auto statuses = calls_.together(kRmdir, rmdir, kCreate, create_arguments(made, child, GUARDED));
  exactly_one(statuses, {NFS3ERR_NOTEMPTY, NFS3ERR_NOENT, NFS3ERR_STALE}, "RMDIR and CREATE in that folder");
  if (statuses.first == NFS3_OK) return;
  must(statuses.first, "RMDIR that a CREATE was before", NFS3ERR_NOTEMPTY);
  must(calls_.status(kRemove, REMOVE3args{in_folder(made, child)}), "REMOVE of the raced child");
  must(calls_.status(kRmdir, rmdir), "RMDIR of the raced folder");
}

void StormWorker::race_two_renames() {
  const auto from = any(NF3REG);
  if (!from) return;
  const StormPlace one = new_place("file"), other = new_place("file");
  const auto rename_to = [&](const StormPlace& to) {
    return RENAME3args{in_folder(folder(*from), from->name), in_folder(folder(to), to.name)};
  };
  const auto statuses = calls_.together(kRename, rename_to(one), kRename, rename_to(other));
  exactly_one(statuses, {NFS3ERR_NOENT}, "two RENAMEs of one name");
  move(*from, statuses.first == NFS3_OK ? one : other);
}

void StormWorker::race_link_and_remove() {
  const StormPlace place = new_place("file"), second = new_place("file");
  Handle file = calls_.create(folder(place), place.name);
  const auto statuses = calls_.together(kLink, LINK3args{file.raw(), in_folder(folder(second), second.name)},
                                        kRemove, REMOVE3args{in_folder(folder(place), place.name)});
  must(statuses.second, "REMOVE beside a LINK");
  if (statuses.first == NFS3_OK) return add(second, NF3REG, std::move(file));
  if (statuses.first != NFS3ERR_NOENT)
    must(statuses.first, "LINK beside the REMOVE of the last name", NFS3ERR_STALE);
  must(calls_.status(kGetattr, GETATTR3args{file.raw()}), "GETATTR after both", NFS3ERR_STALE);
}

// Two folders, each moved into the other: both would cut them off the tree.
void StormWorker::race_into_each_other() {
  const StormPlace one = new_place("folder"), other = new_place("folder");
  const Handle first = calls_.make_folder(folder(one), one.name),
               second = calls_.make_folder(folder(other), other.name);
  const std::string inside = "inside";
  const auto statuses =
      calls_.together(kRename, RENAME3args{in_folder(folder(one), one.name), in_folder(second, inside)},
                      kRename, RENAME3args{in_folder(folder(other), other.name), in_folder(first, inside)});
  exactly_one(statuses, {NFS3ERR_INVAL}, "RENAMEs of two folders into each other");
  const bool first_moved = statuses.first == NFS3_OK;
  const StormPlace& outer = first_moved ? other : one;
  const Handle& outer_handle = first_moved ? second : first;
  must(calls_.status(kRmdir, RMDIR3args{in_folder(folder(outer), outer.name)}), "RMDIR of the outer folder",
       NFS3ERR_NOTEMPTY);
  must(calls_.status(kRmdir, RMDIR3args{in_folder(outer_handle, inside)}), "RMDIR of the inner folder");
  must(calls_.status(kRmdir, RMDIR3args{in_folder(folder(outer), outer.name)}), "RMDIR of the outer folder");
}

void StormWorker::race_two_mkdirs() {
  const StormPlace place = new_place("folder");
  const MKDIR3args arguments{in_folder(folder(place), place.name), with_mode(0755)};
  exactly_one(calls_.together(kMkdir, arguments, kMkdir, arguments), {NFS3ERR_EXIST},
              "two MKDIRs of one name");
  add(place, NF3DIR, calls_.lookup(folder(place), place.name));
}

}  // namespace slice::client
