#include "tests/cluster/client/storm_world.h"

#include <cstdio>

namespace slice::client {
namespace {

constexpr double kSettle = 5;  // seconds in which a folder's count of links must be right

std::string folder_name(std::size_t number) {
  return "shared-" + std::to_string(number);
}

}  // namespace

void Trophies::add(std::size_t number, Handle file) {
  const std::lock_guard lock(mutex_);
  claims_[number].push_back(std::move(file));
}

std::vector<Handle> Trophies::claims(std::size_t number) const {
  const std::lock_guard lock(mutex_);
  return claims_[number];
}

StormWorld::StormWorld(const Settings& settings)
    : session_(settings, "name-storm"), calls_(session_.nfs_options({})), inner_(kFolders) {
  for (std::size_t i = 0; i < kFolders; ++i) {
    const bool inside = i >= kFolders / 2;
    const Handle& parent = inside ? folders_[i - kFolders / 2] : session_.folder();
    folders_.push_back(calls_.make_folder(parent, folder_name(i)));
    if (inside) inner_[i - kFolders / 2].insert(folder_name(i));
  }
  trophy_folder_ = calls_.make_folder(session_.folder(), "trophies");
}

void StormWorld::wrong(const std::string& what) {
  std::printf("not ok name-storm verify: %s\n", what.c_str());
  ++wrong_;
}

int StormWorld::verify(const std::vector<const StormModel*>& models) {
  for (std::size_t i = 0; i < kFolders; ++i) {
    std::map<std::string, const StormObject*> wanted;
    for (const StormModel* model : models) {
      for (const auto& [place, object] : *model) {
        if (place.folder == i) wanted[place.name] = object.get();
      }
    }
    verify_folder(i, wanted);
  }
  std::set<std::string> held;
  for (std::size_t i = 0; i < Trophies::kCount; ++i) {
    if (trophies.claims(i).empty()) continue;
    held.insert(Trophies::name(i));
    verify_trophy(i);
  }
  verify_names(trophy_folder_, "trophies", held);
  return wrong_;
}

void StormWorld::verify_folder(std::size_t number, const std::map<std::string, const StormObject*>& wanted) {
  std::set<std::string> names = inner_[number];
  auto links = static_cast<std::uint32_t>(2 + names.size());
  for (const auto& [name, object] : wanted) {
    names.insert(name);
    links += object->type == NF3DIR ? 1 : 0;
    try {
      verify_object(folder(number), name, *object);
    } catch (const RpcError& error) {
      wrong(folder_name(number) + "/" + name + ": " + error.what());
    }
  }
  verify_names(folder(number), folder_name(number), names);
  verify_links(folder(number), folder_name(number), links);
}

// Listed once each, and nothing else, by both procedures that list.
void StormWorld::verify_names(const Handle& folder, const std::string& where, std::set<std::string> wanted) {
  wanted.insert({".", ".."});
  for (const bool plus : {false, true}) {
    std::set<std::string> missing = wanted;
    for (const std::string& name : session_.list(folder, 8192, plus)) {
      if (missing.erase(name) == 1) continue;
      wrong(where + "/" + name +
            (wanted.contains(name) ? " is listed twice" : " is there, but was removed or never made"));
    }
    for (const std::string& name : missing) wrong(where + "/" + name + " is not listed");
  }
}

void StormWorld::verify_object(const Handle& folder, const std::string& name, const StormObject& wanted) {
  ++verified_;
  if (calls_.lookup(folder, name).bytes() != wanted.handle.bytes()) throw RpcError("leads to another file");
  const fattr3 attributes = calls_.attributes(wanted.handle);
  if (attributes.type != wanted.type) throw RpcError("is of another type");
  if (wanted.type == NF3DIR) {
    verify_names(wanted.handle, name, wanted.children);
    for (const std::string& child : wanted.children) calls_.lookup(wanted.handle, child);
    verified_ += wanted.children.size();
  }
  verify_links(wanted.handle, name, wanted.type == NF3DIR ? 2 : wanted.links);
}

// A folder's links may follow a little later, since they are counted elsewhere than the names.
void StormWorld::verify_links(const Handle& object, const std::string& where, std::uint32_t wanted) {
  std::uint32_t links = 0;
  for (const double start = now(); now() < start + kSettle;) {
    const fattr3 attributes = calls_.attributes(object);
    links = attributes.nlink;
    if (links == wanted) return;
    if (attributes.type != NF3DIR) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  wrong(where + " has " + std::to_string(links) + " links, wanted " + std::to_string(wanted));
}

void StormWorld::verify_trophy(std::size_t number) {
  const std::string name = Trophies::name(number);
  const auto found = calls_.call(kLookup, LOOKUP3args{in_folder(trophy_folder_, name)});
  if ((*found)->status != NFS3_OK) return wrong(name + ": LOOKUP answers " + status_name((*found)->status));
  const Handle holder((*found)->LOOKUP3res_u.resok.object);
  bool claimed = false;
  for (const Handle& claim : trophies.claims(number)) {
    ++verified_;
    const nfsstat3 status = calls_.status(kGetattr, GETATTR3args{claim.raw()});
    const bool holds = claim.bytes() == holder.bytes();
    claimed |= holds;
    if (status != (holds ? NFS3_OK : NFS3ERR_STALE)) {
      wrong("a file that was renamed to " + name + (holds ? ", which it still is" : " and then replaced") +
            ": GETATTR answers " + status_name(status));
    }
  }
  if (!claimed) wrong(name + " is a file that nobody was told is there");
}

}  // namespace slice::client
