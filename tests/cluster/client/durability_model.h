// What a volume must hold according to the acknowledged operations of a durability load.
//
// The load appends a line to its log, outside of the volume, for every operation that the server acknowledged
// as stable; the model is those lines applied in order. Contents follow from seeds, so the log stays small.
#ifndef SLICE_TESTS_CLUSTER_CLIENT_DURABILITY_MODEL_H
#define SLICE_TESTS_CLUSTER_CLIENT_DURABILITY_MODEL_H

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace slice::client {

enum class Kind { kFile, kFolder, kSymlink };

struct Object {
  Kind kind = Kind::kFile;
  std::string content;  // of a file; the target of a symbolic link
  std::uint32_t links = 1;
};

// The objects of one worker's folder, by name. Hard links share their object.
class Model {
 public:
  // Applies one acknowledged operation, as the log has it: "write NAME OFFSET SIZE SEED", "truncate NAME
  // SIZE", "create|mkdir|remove|rmdir NAME", "rename|link FROM TO", "symlink NAME TARGET". False if it is
  // none.
  bool apply(const std::string& operation);
  const std::map<std::string, std::shared_ptr<Object>>& objects() const { return objects_; }
  // Any name of this kind, chosen by `random`; empty if there is none.
  std::string any(Kind kind, std::uint64_t random) const;

 private:
  void release(const std::string& name);

  std::map<std::string, std::shared_ptr<Object>> objects_;
};

}  // namespace slice::client

#endif  // SLICE_TESTS_CLUSTER_CLIENT_DURABILITY_MODEL_H
