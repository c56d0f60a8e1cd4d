#include "tests/cluster/client/durability_model.h"

#include <sstream>
#include <vector>

#include "tests/cluster/guest/check.h"

namespace slice::client {

void Model::release(const std::string& name) {
  const auto found = objects_.find(name);
  if (found == objects_.end()) return;
  --found->second->links;
  objects_.erase(found);
}

bool Model::apply(const std::string& operation) {
  std::istringstream words(operation);
  std::string verb, name, other;
  words >> verb >> name;
  if (verb == "create") {
    objects_[name] = std::make_shared<Object>();
  } else if (verb == "mkdir") {
    objects_[name] = std::make_shared<Object>(Object{Kind::kFolder, {}, 1});
  } else if (verb == "symlink") {
    words >> other;
    objects_[name] = std::make_shared<Object>(Object{Kind::kSymlink, other, 1});
  } else if (verb == "write") {
    std::uint64_t offset = 0, size = 0, seed = 0;
    words >> offset >> size >> seed;
    std::string& content = objects_.at(name)->content;
    if (content.size() < offset + size) content.resize(offset + size, '\0');
    content.replace(offset, size, guest::pattern(seed, 0, size));
  } else if (verb == "truncate") {
    std::uint64_t size = 0;
    words >> size;
    objects_.at(name)->content.resize(size, '\0');
  } else if (verb == "remove" || verb == "rmdir") {
    release(name);
  } else if (verb == "rename") {
    words >> other;
    const std::shared_ptr<Object> object = objects_.at(name);
    release(other);
    objects_.erase(name);
    objects_[other] = object;
  } else if (verb == "link") {
    words >> other;
    objects_[other] = objects_.at(name);
    ++objects_[other]->links;
  } else {
    return false;
  }
  return !words.fail();
}

std::string Model::any(Kind kind, std::uint64_t random) const {
  std::vector<const std::string*> names;
  for (const auto& [name, object] : objects_) {
    if (object->kind == kind) names.push_back(&name);
  }
  return names.empty() ? std::string() : *names[random % names.size()];
}

}  // namespace slice::client
