// Model: what the name space of a volume would be if every operation happened at one instant: a tree in
// memory. It is told an operation with its answer, and says whether that answer is right in the state it has,
// and what the state is afterwards.
//
// Where a call fails for several reasons, the answer may name any of them.
#ifndef SLICE_TESTS_SIM_MODEL_H
#define SLICE_TESTS_SIM_MODEL_H

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "tests/sim/operation.h"

namespace slice::sim {

class Model {
 public:
  struct Node {
    nfs3::FileType type = nfs3::FileType::kRegular;
    std::uint32_t mode = 0;
    std::uint64_t size = 0;
    std::uint32_t nlink = 1;                // of files
    ObjectId parent = kNoObject;            // of directories
    std::map<std::string, ObjectId> names;  // of directories
    std::optional<std::uint64_t> verifier;  // of an exclusive CREATE, until SETATTR
    bool directory() const { return type == nfs3::FileType::kDirectory; }
  };

  // A volume with an empty root.
  static Model with_root(ObjectId root, std::uint32_t mode);

  struct Step;
  // `number`: of the operation within its history: what an object made by an unanswered one is called until
  // its fileID is seen.
  Step apply(const Operation& operation, std::size_t number) const;

  const Node* find(ObjectId id) const;
  std::size_t objects() const { return nodes_.size(); }
  std::uint32_t links_of_directory(const Node& node) const;  // 2 and one a subdirectory
  std::uint64_t hash() const { return hash_; }
  const std::map<ObjectId, std::shared_ptr<const Node>>& nodes() const { return nodes_; }
  std::string describe() const;

 private:
  friend class ModelChange;
  void put(ObjectId id, Node node);
  void erase(ObjectId id);
  Model renamed(ObjectId unknown, ObjectId id) const;

  std::map<ObjectId, std::shared_ptr<const Node>> nodes_;
  std::uint64_t hash_ = 0;  // of all nodes, in any order
};

struct Model::Step {
  bool explained = false;     // the answer is right
  std::optional<Model> next;  // the state afterwards; nothing: as before
};

// The name of an object whose fileID nobody has seen.
inline constexpr ObjectId kUnseen = ObjectId{1} << 63;

}  // namespace slice::sim

#endif  // SLICE_TESTS_SIM_MODEL_H
