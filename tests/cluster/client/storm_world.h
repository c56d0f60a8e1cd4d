// What a storm of names works on, and what must be there after it: folders that all workers share, and the
// names that each worker was told it has in them.
#ifndef SLICE_TESTS_CLUSTER_CLIENT_STORM_WORLD_H
#define SLICE_TESTS_CLUSTER_CLIENT_STORM_WORLD_H

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/cluster/client/caller.h"
#include "tests/cluster/client/session.h"

namespace slice::client {

struct StormObject {
  ftype3 type = NF3REG;
  Handle handle;
  std::uint32_t links = 1;
  std::set<std::string> children;  // of a folder: files
};

struct StormPlace {
  std::size_t folder = 0;  // which of the shared ones
  std::string name;
  auto operator<=>(const StormPlace&) const = default;
};

// The acknowledged state of one worker. Hard links share their object.
using StormModel = std::map<StormPlace, std::shared_ptr<StormObject>>;

// Names for which all workers fight: each renames files of its own over them. Whoever was acknowledged last
// has it, and nobody can tell who that was; all others' files must be gone.
class Trophies {
 public:
  static constexpr std::size_t kCount = 4;
  static std::string name(std::size_t number) { return "trophy-" + std::to_string(number); }
  void add(std::size_t number, Handle file);
  // Those whose rename over this name was acknowledged.
  std::vector<Handle> claims(std::size_t number) const;

 private:
  mutable std::mutex mutex_;
  std::vector<Handle> claims_[kCount];
};

class StormWorld {
 public:
  static constexpr std::size_t kFolders = 12;

  // Makes the folders: half of them in the others.
  explicit StormWorld(const Settings& settings);
  const Handle& folder(std::size_t number) const { return folders_.at(number); }
  const Handle& trophy_folder() const { return trophy_folder_; }
  ConnectionOptions nfs_options() const { return session_.nfs_options({}); }

  // Compares the volume with what was acknowledged and prints every difference. Result: how many.
  int verify(const std::vector<const StormModel*>& models);
  std::size_t verified() const { return verified_; }
  // Removes everything, which must work too.
  void remove() { session_.remove_folder(); }

  Trophies trophies;

 private:
  void verify_folder(std::size_t number, const std::map<std::string, const StormObject*>& wanted);
  void verify_names(const Handle& folder, const std::string& where, std::set<std::string> wanted);
  void verify_object(const Handle& folder, const std::string& name, const StormObject& wanted);
  void verify_trophy(std::size_t number);
  void verify_links(const Handle& object, const std::string& where, std::uint32_t wanted);
  void wrong(const std::string& what);

  Session session_;
  Caller calls_;
  std::vector<Handle> folders_;
  std::vector<std::set<std::string>> inner_;  // names of the shared folders that lie in each
  Handle trophy_folder_;
  int wrong_ = 0;
  std::size_t verified_ = 0;
};

}  // namespace slice::client

#endif  // SLICE_TESTS_CLUSTER_CLIENT_STORM_WORLD_H
