// Random operations on the server and on a model that is a few maps, with crashes between: the two must agree
// about every answer and, from time to time, about the whole tree.
#include <map>
#include <random>
#include <set>

#include "dirserver/testing/fixture.h"

namespace slice::dirserver::testing {
namespace {

struct Node {
  nfs3::FileType type = nfs3::FileType::kRegular;
  Handle handle{};
  std::uint32_t names = 0;             // of files
  std::map<std::string, int> entries;  // of directories
  int parent = 0;
};

class ModelTest : public DirectoryFixture, public ::testing::WithParamInterface<unsigned> {
 protected:
  ModelTest() : random_(GetParam()) { nodes_[0] = {.type = nfs3::FileType::kDirectory, .handle = root()}; }

  std::size_t below(std::size_t limit) { return random_() % limit; }
  int any(bool directories) {
    std::vector<int> fitting;
    for (const auto& [id, node] : nodes_) {
      if ((node.type == nfs3::FileType::kDirectory) == directories) fitting.push_back(id);
    }
    return fitting.empty() ? -1 : fitting[below(fitting.size())];
  }
  std::string any_name() { return "n" + std::to_string(below(12)); }
  int find(int directory, const std::string& name) {
    auto found = nodes_[directory].entries.find(name);
    return found == nodes_[directory].entries.end() ? -1 : found->second;
  }
  bool is_directory(int id) { return nodes_[id].type == nfs3::FileType::kDirectory; }
  bool within(int directory, int ancestor) {
    for (; directory != ancestor; directory = nodes_[directory].parent) {
      if (directory == 0) return false;
    }
    return true;
  }
  void drop(int id) {
    if (is_directory(id) || --nodes_[id].names == 0) {
      gone_.push_back(nodes_[id].handle);
      nodes_.erase(id);
    }
  }

  void make() {
    int directory = any(true);
    std::string name = any_name();
    nfs3::FileType types[] = {nfs3::FileType::kRegular, nfs3::FileType::kDirectory, nfs3::FileType::kSymlink};
    nfs3::FileType type = types[below(3)];
    const Handle& at = nodes_[directory].handle;
    Made made = type == nfs3::FileType::kRegular     ? create(at, name)
                : type == nfs3::FileType::kDirectory ? mkdir(at, name)
                                                     : symlink(at, name, "somewhere");
    NfsStatus expected = find(directory, name) < 0 ? NfsStatus::kOk : NfsStatus::kExist;
    ASSERT_EQ(made.status, expected);
    if (expected != NfsStatus::kOk) return;
    nodes_[next_] = {.type = type, .handle = made.handle, .names = 1, .parent = directory};
    nodes_[directory].entries[name] = next_++;
  }
  void unlink() {
    int directory = any(true);
    std::string name = any_name();
    int id = find(directory, name);
    bool as_directory = below(2) == 0;
    NfsStatus expected = id < 0                                        ? NfsStatus::kNoEnt
                         : as_directory && !is_directory(id)           ? NfsStatus::kNotDir
                         : !as_directory && is_directory(id)           ? NfsStatus::kIsDir
                         : as_directory && !nodes_[id].entries.empty() ? NfsStatus::kNotEmpty
                                                                       : NfsStatus::kOk;
    const Handle& at = nodes_[directory].handle;
    ASSERT_EQ(as_directory ? rmdir(at, name) : remove(at, name), expected);
    if (expected != NfsStatus::kOk) return;
    nodes_[directory].entries.erase(name);
    drop(id);
  }
  void hard_link() {
    int directory = any(true), file = any(false);
    if (file < 0) return;
    std::string name = any_name();
    NfsStatus expected = find(directory, name) < 0 ? NfsStatus::kOk : NfsStatus::kExist;
    ASSERT_EQ(link(nodes_[file].handle, nodes_[directory].handle, name), expected);
    if (expected != NfsStatus::kOk) return;
    nodes_[directory].entries[name] = file;
    ++nodes_[file].names;
  }
  NfsStatus expected_rename(int source, int replaced, int to) {
    if (source < 0) return NfsStatus::kNoEnt;
    if (source == replaced) return NfsStatus::kOk;
    if (is_directory(source) && within(to, source)) return NfsStatus::kInval;
    if (replaced < 0) return NfsStatus::kOk;
    if (is_directory(source) && !is_directory(replaced)) return NfsStatus::kNotDir;
    if (!is_directory(source) && is_directory(replaced)) return NfsStatus::kIsDir;
    if (is_directory(replaced) && !nodes_[replaced].entries.empty()) return NfsStatus::kNotEmpty;
    return NfsStatus::kOk;
  }
  void move() {
    int from = any(true), to = any(true);
    std::string name = any_name(), new_name = any_name();
    int source = find(from, name), replaced = find(to, new_name);
    NfsStatus expected = expected_rename(source, replaced, to);
    ASSERT_EQ(rename(nodes_[from].handle, name, nodes_[to].handle, new_name), expected);
    if (expected != NfsStatus::kOk || source == replaced) return;
    nodes_[from].entries.erase(name);
    nodes_[to].entries[new_name] = source;
    nodes_[source].parent = to;
    if (replaced >= 0) drop(replaced);
  }
  void check_names() {
    int directory = any(true);
    std::string name = any_name();
    int id = find(directory, name);
    Made found = lookup(nodes_[directory].handle, name);
    ASSERT_EQ(found.status, id < 0 ? NfsStatus::kNoEnt : NfsStatus::kOk);
    if (id >= 0) ASSERT_EQ(found.handle, nodes_[id].handle);
  }
  void check_everything() {
    for (const auto& [id, node] : nodes_) {
      nfs3::Attributes now = attributes(node.handle);
      ASSERT_EQ(now.type, node.type);
      if (node.type != nfs3::FileType::kDirectory) {
        ASSERT_EQ(now.nlink, node.names);
        continue;
      }
      std::set<std::string> expected;
      std::uint32_t directories = 0;
      for (const auto& [name, child] : node.entries) {
        expected.insert(name);
        if (is_directory(child)) ++directories;
      }
      ASSERT_EQ(now.nlink, 2 + directories);
      std::vector<std::string> listed = names(node.handle, 300);
      ASSERT_EQ(std::set<std::string>(listed.begin(), listed.end()), expected);
      ASSERT_EQ(listed.size(), expected.size());
      ASSERT_EQ(lookup(node.handle, "..").handle, nodes_[node.parent].handle);
    }
    for (const Handle& handle : gone_) ASSERT_EQ(getattr(handle), NfsStatus::kStale);
  }

  std::mt19937_64 random_;
  std::map<int, Node> nodes_;
  std::vector<Handle> gone_;
  int next_ = 1;
};

TEST_P(ModelTest, AgreesWithTheServer) {
  for (int step = 0; step < 3000 && !HasFatalFailure(); ++step) {
    switch (below(8)) {
      case 0:
      case 1:
      case 2:
        make();
        break;
      case 3:
        unlink();
        break;
      case 4:
        hard_link();
        break;
      case 5:
      case 6:
        move();
        break;
      default:
        check_names();
    }
    if (step % 100 == 99) restart();  // nothing that was acknowledged may be lost
    if (step % 250 == 249) check_everything();
  }
}

// Calls that no reply came for are sent again after the crash, as clients do: each must have been done once,
// whether the crash came before or after it was durable.
TEST_P(ModelTest, UnansweredCallsAreDoneExactlyOnceOverCrashes) {
  Handle directory = mkdir(root(), "d").handle;
  std::set<std::string> expected;
  for (int i = 0; i < 200; ++i) {
    expected.insert("old-" + std::to_string(i));
    create(directory, "old-" + std::to_string(i));
  }
  std::uint32_t xid = 1 << 20;
  for (int round = 0; round < 25; ++round) {
    struct Sent {
      std::uint32_t xid;
      int kind;
      std::string name, to;
      std::shared_ptr<Pending> pending;
    };
    std::vector<Sent> all;
    for (int i = 0; i < 6; ++i) {
      std::string number = std::to_string(round * 6 + i);
      all.push_back({++xid, static_cast<int>(below(3)), "old-" + number, "new-" + number, {}});
    }
    auto transmit = [&](Sent& each) {
      switch (each.kind) {
        case 0:
          each.pending =
              send(Procedure::kCreate,
                   nfs3::CreateArgs{.where = {directory, each.to}, .mode = nfs3::CreateMode::kGuarded}, {},
                   each.xid);
          break;
        case 1:
          each.pending = send(Procedure::kRemove, nfs3::DirOpArgs{directory, each.name}, {}, each.xid);
          break;
        default:
          each.pending = send(Procedure::kRename,
                              nfs3::RenameArgs{.from = {directory, each.name}, .to = {directory, each.to}},
                              {}, each.xid);
      }
    };
    for (Sent& each : all) {
      transmit(each);
      loop_.advance(std::chrono::microseconds(below(600)));  // a sync takes a millisecond
    }
    loop_.advance(std::chrono::microseconds(below(1500)));
    std::map<std::uint32_t, std::string> answered;
    for (const Sent& each : all) {
      if (each.pending->ended) answered[each.xid] = *each.pending->results();
    }
    restart();
    for (Sent& each : all) {
      transmit(each);
      std::string results(as_text(wait(each.pending)));
      ASSERT_EQ(load_be<std::uint32_t>(as_bytes(results).data()), 0u) << "kind " << each.kind;
      if (answered.contains(each.xid)) ASSERT_EQ(results, answered[each.xid]);
      if (each.kind != 0) expected.erase(each.name);
      if (each.kind != 1) expected.insert(each.to);
    }
    std::vector<std::string> listed = names(directory);
    ASSERT_EQ(std::set<std::string>(listed.begin(), listed.end()), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ModelTest, ::testing::Range(1u, 6u));

}  // namespace
}  // namespace slice::dirserver::testing
