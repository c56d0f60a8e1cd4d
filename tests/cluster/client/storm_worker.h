// One worker of a storm of names: random operations on names of its own in shared folders, some of them two
// at once that exclude each other. Every status is checked: none but the right one may ever come, however
// often servers are killed meanwhile.
#ifndef SLICE_TESTS_CLUSTER_CLIENT_STORM_WORKER_H
#define SLICE_TESTS_CLUSTER_CLIENT_STORM_WORKER_H

#include <optional>
#include <string>

#include "tests/cluster/client/storm_world.h"

namespace slice::client {

class StormWorker {
 public:
  // `transport`: its own. The world must outlive it.
  StormWorker(StormWorld& world, std::uint64_t number, std::uint64_t seed, Transport transport);

  // One operation, or a few that belong together. Throws RpcError at the first wrong status.
  void step();
  const StormModel& model() const { return model_; }
  std::uint64_t acknowledged() const { return acknowledged_; }
  Caller& calls() { return calls_; }

 private:
  using Entry = StormModel::value_type;

  std::uint64_t random();
  const Handle& any_folder_handle();
  StormPlace new_place(const char* kind);
  const Handle& folder(const StormPlace& place) const { return world_.folder(place.folder); }
  // A name of this type, or none.
  std::optional<StormPlace> any(ftype3 type);
  StormObject& at(const StormPlace& place) { return *model_.at(place); }
  void add(const StormPlace& place, ftype3 type, Handle handle);
  void forget(const StormPlace& place);
  void move(const StormPlace& from, const StormPlace& to);
  nfsstat3 ask_rename(const Handle& from_folder, const std::string& from, const Handle& to_folder,
                      const std::string& to);
  void acknowledge(nfsstat3 status, const std::string& what);

  void make_file();
  void make_symlink();
  void unpack_tree();
  void rename(ftype3 type);
  void link();
  void remove();
  void remove_folder();
  void look();
  void claim_trophy();

  // Two at once, of which the volume must let one win.
  void race_rmdir_and_create();
  void race_two_renames();
  void race_link_and_remove();
  void race_into_each_other();
  void race_two_mkdirs();
  void exactly_one(std::pair<nfsstat3, nfsstat3> statuses, std::initializer_list<nfsstat3> loses,
                   const char* what);

  StormWorld& world_;
  Caller calls_;
  std::uint64_t number_, random_, names_ = 0, acknowledged_ = 0;
  StormModel model_;
};

}  // namespace slice::client

#endif  // SLICE_TESTS_CLUSTER_CLIENT_STORM_WORKER_H
