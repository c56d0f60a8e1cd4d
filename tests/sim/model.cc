#include "tests/sim/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/sim/random.h"

namespace slice::sim {

using NfsStatus = nfs3::Status;

namespace {

using nfs3::FileType;

std::uint64_t hash_of(ObjectId id, const Model::Node& node) {
  std::uint64_t h = mix(id + 1);
  for (std::uint64_t value : {static_cast<std::uint64_t>(node.type), std::uint64_t{node.mode}, node.size,
                              std::uint64_t{node.nlink}, node.parent, node.verifier.value_or(~0ULL)}) {
    h = mix(h ^ value) + 0x9e3779b97f4a7c15;
  }
  for (const auto& [name, target] : node.names) h = mix(mix_text(name, h) ^ target) + 1;
  return h;
}

std::uint64_t symlink_size(const Operation& operation) {
  return operation.size.value_or(0);
}

}  // namespace

// One operation on a copy of the state that is made when it is first changed.
class ModelChange {
 public:
  ModelChange(const Model& model, const Operation& operation, std::size_t number)
      : model_(&model), operation_(operation), unseen_(kUnseen | number) {}

  Model::Step run() {
    bool good = false;
    switch (operation_.kind) {
      case Kind::kLookup:
        good = lookup();
        break;
      case Kind::kGetattr:
        good = getattr();
        break;
      case Kind::kCreate:
      case Kind::kMkdir:
      case Kind::kSymlink:
        good = create();
        break;
      case Kind::kRemove:
      case Kind::kRmdir:
        good = remove();
        break;
      case Kind::kRename:
        good = rename();
        break;
      case Kind::kLink:
        good = link();
        break;
      case Kind::kSetattr:
        good = setattr();
        break;
      case Kind::kWrite:
      case Kind::kCommit:
        good = write();
        break;
      case Kind::kListedName:
        good = listed_name();
        break;
      case Kind::kListing:
        good = listing();
        break;
      case Kind::kSize:
        good = node(operation_.object) != nullptr && node(operation_.object)->size == operation_.size;
        break;
    }
    if (!good) return {};
    return {true, std::move(changed_)};
  }

 private:
  const Model& state() const { return changed_ ? *changed_ : *model_; }
  Model& change() {
    if (!changed_) changed_ = *model_;
    return *changed_;
  }
  const Model::Node* node(ObjectId id) const { return state().find(id); }
  template <class Edit>
  void edit(ObjectId id, Edit edit) {
    Model::Node copy = *node(id);
    edit(copy);
    change().put(id, std::move(copy));
  }

  bool success() const { return !operation_.answered || operation_.status == NfsStatus::kOk; }
  // The call fails for these reasons: right where the answer names one of them. Unanswered: nothing happened.
  bool fails(std::initializer_list<NfsStatus> reasons) const {
    return !operation_.answered ||
           std::find(reasons.begin(), reasons.end(), operation_.status) != reasons.end();
  }
  bool fails(const std::vector<NfsStatus>& reasons) const {
    return !operation_.answered ||
           std::find(reasons.begin(), reasons.end(), operation_.status) != reasons.end();
  }

  // Whether the answer's fileID is that of `id`. What was unseen has its name from now on.
  bool is(ObjectId& id, ObjectId shown) {
    if (shown == id) return true;
    if ((id & kUnseen) == 0 || node(shown) != nullptr) return false;
    changed_ = state().renamed(id, shown);
    id = shown;
    return true;
  }
  bool shows(ObjectId id) {
    if (!operation_.seen) return true;
    const Seen& seen = *operation_.seen;
    const Model::Node& at = *node(id);
    if (seen.type != at.type || seen.mode != at.mode) return false;
    if (at.directory()) return !operation_.exact || seen.nlink == state().links_of_directory(at);
    return seen.nlink == at.nlink && seen.size.value_or(at.size) == at.size;
  }
  bool found(ObjectId id) {
    if (!operation_.answered) return true;
    return success() && is(id, operation_.result) && shows(id);
  }

  // The directory of the call, or null after its failure was judged.
  const Model::Node* directory(ObjectId id, std::vector<NfsStatus>& reasons) const {
    const Model::Node* at = node(id);
    if (at == nullptr) reasons.push_back(NfsStatus::kStale);
    if (at != nullptr && !at->directory()) reasons.push_back(NfsStatus::kNotDir);
    return at != nullptr && at->directory() ? at : nullptr;
  }
  static ObjectId entry(const Model::Node* directory, const std::string& name) {
    if (directory == nullptr) return kNoObject;
    auto at = directory->names.find(name);
    return at == directory->names.end() ? kNoObject : at->second;
  }

  bool lookup() {
    std::vector<NfsStatus> reasons;
    const Model::Node* at = directory(operation_.object, reasons);
    if (at == nullptr) return fails(reasons);
    if (operation_.name == ".") return found(operation_.object);
    if (operation_.name == "..") return found(at->parent);
    ObjectId target = entry(at, operation_.name);
    return target == kNoObject ? fails({NfsStatus::kNoEnt}) : found(target);
  }

  bool getattr() {
    if (node(operation_.object) == nullptr) return fails({NfsStatus::kStale});
    return success() && shows(operation_.object);
  }

  bool create() {
    std::vector<NfsStatus> reasons;
    const Model::Node* at = directory(operation_.object, reasons);
    if (at == nullptr) return fails(reasons);
    ObjectId there = entry(at, operation_.name);
    return there == kNoObject ? make() : take(there);
  }
  bool make() {
    if (!success()) return false;
    ObjectId id = operation_.answered ? operation_.result : unseen_;
    if (id == kNoObject || node(id) != nullptr) return false;
    Model::Node made{.type = operation_.kind == Kind::kMkdir     ? FileType::kDirectory
                             : operation_.kind == Kind::kSymlink ? FileType::kSymlink
                                                                 : FileType::kRegular,
                     .mode = operation_.mode.value_or(0)};
    if (made.directory()) made.parent = operation_.object;
    if (operation_.kind == Kind::kSymlink) {
      made.mode = 0777;
      made.size = symlink_size(operation_);
    } else if (operation_.kind == Kind::kCreate) {
      made.size = operation_.size.value_or(0);
      if (operation_.how == nfs3::CreateMode::kExclusive) made.verifier = operation_.verifier;
    }
    change().put(id, std::move(made));
    edit(operation_.object, [&](Model::Node& node) { node.names[operation_.name] = id; });
    return shows(id);
  }
  // The name exists.
  bool take(ObjectId id) {
    const Model::Node& there = *node(id);
    bool unchecked = operation_.kind == Kind::kCreate && operation_.how == nfs3::CreateMode::kUnchecked &&
                     there.type == FileType::kRegular;
    bool same = operation_.kind == Kind::kCreate && operation_.how == nfs3::CreateMode::kExclusive &&
                there.verifier == operation_.verifier;
    if (!unchecked && !same) return fails({NfsStatus::kExist});
    if (!success()) return false;
    if (operation_.answered && !is(id, operation_.result)) return false;
    if (unchecked && operation_.size) {
      edit(id, [&](Model::Node& node) {
        node.size = *operation_.size;
        node.verifier.reset();  // as any SETATTR does
      });
    }
    return shows(id);
  }

  void drop(ObjectId id) {
    const Model::Node& gone = *node(id);
    if (gone.directory() || gone.nlink == 1) {
      change().erase(id);
    } else {
      edit(id, [](Model::Node& node) { --node.nlink; });
    }
  }

  bool remove() {
    std::vector<NfsStatus> reasons;
    const Model::Node* at = directory(operation_.object, reasons);
    if (at == nullptr) return fails(reasons);
    ObjectId id = entry(at, operation_.name);
    if (id == kNoObject) return fails({NfsStatus::kNoEnt});
    const Model::Node& victim = *node(id);
    if (operation_.kind == Kind::kRemove && victim.directory()) return fails({NfsStatus::kIsDir});
    if (operation_.kind == Kind::kRmdir && !victim.directory()) return fails({NfsStatus::kNotDir});
    if (!victim.names.empty()) return fails({NfsStatus::kNotEmpty});
    if (!success()) return false;
    edit(operation_.object, [&](Model::Node& node) { node.names.erase(operation_.name); });
    drop(id);
    return true;
  }

  bool within(ObjectId directory, ObjectId ancestor) const {
    for (;; directory = node(directory)->parent) {
      if (directory == ancestor) return true;
      if (node(directory)->parent == directory) return false;  // the root
    }
  }

  bool rename() {
    std::vector<NfsStatus> reasons;
    const Model::Node* from = directory(operation_.object, reasons);
    const Model::Node* to = directory(operation_.to, reasons);
    ObjectId source = entry(from, operation_.name), replaced = entry(to, operation_.to_name);
    if (from != nullptr && source == kNoObject) reasons.push_back(NfsStatus::kNoEnt);
    if (!reasons.empty()) return fails(reasons);
    if (source == replaced) {
      if (success()) change();  // at another instant it could have had an effect: not a mere look
      return success();
    }
    const Model::Node& moved = *node(source);
    if (moved.directory() && within(operation_.to, source)) reasons.push_back(NfsStatus::kInval);
    if (replaced != kNoObject) {
      const Model::Node& victim = *node(replaced);
      if (moved.directory() && !victim.directory()) reasons.push_back(NfsStatus::kNotDir);
      if (!moved.directory() && victim.directory()) reasons.push_back(NfsStatus::kIsDir);
      if (!victim.names.empty()) reasons.push_back(NfsStatus::kNotEmpty);
    }
    if (!reasons.empty()) return fails(reasons);
    if (!success()) return false;
    edit(operation_.object, [&](Model::Node& node) { node.names.erase(operation_.name); });
    edit(operation_.to, [&](Model::Node& node) { node.names[operation_.to_name] = source; });
    if (replaced != kNoObject) drop(replaced);
    if (node(source)->directory()) edit(source, [&](Model::Node& node) { node.parent = operation_.to; });
    return true;
  }

  bool link() {
    std::vector<NfsStatus> reasons;
    const Model::Node* file = node(operation_.object);
    if (file == nullptr) reasons.push_back(NfsStatus::kStale);
    if (file != nullptr && file->directory()) reasons.push_back(NfsStatus::kIsDir);
    const Model::Node* to = directory(operation_.to, reasons);
    if (entry(to, operation_.to_name) != kNoObject) reasons.push_back(NfsStatus::kExist);
    if (!reasons.empty()) return fails(reasons);
    if (!success()) return false;
    edit(operation_.to, [&](Model::Node& node) { node.names[operation_.to_name] = operation_.object; });
    edit(operation_.object, [](Model::Node& node) { ++node.nlink; });
    return shows(operation_.object);
  }

  bool setattr() {
    const Model::Node* at = node(operation_.object);
    if (at == nullptr) return fails({NfsStatus::kStale});
    if (operation_.size && at->type != FileType::kRegular) {
      return fails({at->directory() ? NfsStatus::kIsDir : NfsStatus::kInval});
    }
    if (!success()) return false;
    edit(operation_.object, [&](Model::Node& node) {
      node.mode = operation_.mode.value_or(node.mode);
      node.size = operation_.size.value_or(node.size);
      node.verifier.reset();
    });
    return shows(operation_.object);
  }

  // Data servers may know a file for a while that is removed already, but not for ever.
  bool write() {
    const Model::Node* at = node(operation_.object);
    if (at == nullptr && operation_.exact) return fails({NfsStatus::kStale});
    if (at == nullptr) return fails({NfsStatus::kStale, NfsStatus::kOk});
    if (!success()) return false;
    const std::uint64_t end = operation_.size.value_or(0);
    if (at->size < end) edit(operation_.object, [&](Model::Node& node) { node.size = end; });
    return true;
  }

  bool listed_name() {
    std::vector<NfsStatus> reasons;
    const Model::Node* at = directory(operation_.object, reasons);
    if (operation_.status != NfsStatus::kOk) return at == nullptr && fails(reasons);
    ObjectId target = entry(at, operation_.name);
    if (operation_.result == kNoObject) return target == kNoObject;
    return target != kNoObject && is(target, operation_.result);
  }

  bool listing() {
    std::vector<NfsStatus> reasons;
    const Model::Node* at = directory(operation_.object, reasons);
    if (at == nullptr) return fails(reasons);
    if (!success() || at->names.size() != operation_.listing.size()) return false;
    auto names = at->names;  // a copy: what was unseen may get its name
    for (auto& [name, id] : names) {
      auto shown = operation_.listing.find(name);
      if (shown == operation_.listing.end() || !is(id, shown->second)) return false;
    }
    return true;
  }

  const Model* model_;
  const Operation& operation_;
  ObjectId unseen_;
  std::optional<Model> changed_;
};

Model Model::with_root(ObjectId root, std::uint32_t mode) {
  Model model;
  model.put(root, {.type = FileType::kDirectory, .mode = mode, .parent = root});
  return model;
}

Model::Step Model::apply(const Operation& operation, std::size_t number) const {
  return ModelChange(*this, operation, number).run();
}

const Model::Node* Model::find(ObjectId id) const {
  auto found = nodes_.find(id);
  return found == nodes_.end() ? nullptr : found->second.get();
}

std::uint32_t Model::links_of_directory(const Node& node) const {
  auto subdirectories = std::count_if(node.names.begin(), node.names.end(), [&](const auto& entry) {
    const Node* target = find(entry.second);
    return target != nullptr && target->directory();
  });
  return static_cast<std::uint32_t>(2 + subdirectories);
}

void Model::put(ObjectId id, Node node) {
  erase(id);
  hash_ ^= hash_of(id, node);
  nodes_[id] = std::make_shared<const Node>(std::move(node));
}

void Model::erase(ObjectId id) {
  auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  hash_ ^= hash_of(id, *found->second);
  nodes_.erase(found);
}

Model Model::renamed(ObjectId unknown, ObjectId id) const {
  Model result;
  for (const auto& [each, node] : nodes_) {
    Node copy = *node;
    if (copy.parent == unknown) copy.parent = id;
    for (auto& [name, target] : copy.names) {
      if (target == unknown) target = id;
    }
    result.put(each == unknown ? id : each, std::move(copy));
  }
  return result;
}

std::string Model::describe() const {
  std::string text;
  for (const auto& [id, node] : nodes_) {
    text += fmt::format("  {:x} type={} mode={:o} nlink={} size={}", id, static_cast<unsigned>(node->type),
                        node->mode, node->directory() ? links_of_directory(*node) : node->nlink, node->size);
    if (node->directory()) text += fmt::format(" parent={:x}", node->parent);
    for (const auto& [name, target] : node->names) text += fmt::format(" {}={:x}", name, target);
    text += "\n";
  }
  return text;
}

}  // namespace slice::sim
