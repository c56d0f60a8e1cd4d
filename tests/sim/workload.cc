#include "tests/sim/workload.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace slice::sim {
namespace {

using nfs3::CreateMode;
using nfs3::FileType;

constexpr double kGivesUp = 0.03;  // this share of calls is not waited for
constexpr Duration kShortPatience = std::chrono::milliseconds(300);
constexpr Duration kLongPatience = std::chrono::minutes(10);
constexpr std::size_t kRecent = 6;    // calls fall mostly on what became known last
constexpr std::size_t kCrowded = 64;  // known objects: then removing comes before making, everywhere

}  // namespace

Workload::Workload(SimEnsemble& ensemble, unsigned clients, unsigned operations)
    : ensemble_(ensemble),
      random_(ensemble.random().fork("workload")),
      operations_(operations),
      longest_pause_(std::chrono::milliseconds(random_.chance(0.5) ? 60 : 4)),
      names_{"a", "b", "c", "d"} {
  routing::FileHandle root = routing::root_handle(ensemble.config().volume);
  known_.push_back({root.fileid.value, FileType::kDirectory, ensemble.handles().mint(root)});
  for (unsigned i = 0; i < clients; ++i)
    clients_.push_back(std::make_unique<SimClient>(ensemble, history_, i));
}

const std::string& Workload::failure() const {
  for (const auto& client : clients_) {
    if (!client->failure().empty()) return client->failure();
  }
  return none_;
}

std::string Workload::unfinished() const {
  std::string text;
  for (const Operation& each : history_.operations()) {
    if (!each.answered) text += describe(each) + "\n";
  }
  return text;
}

void Workload::learn(const SimClient& client) {
  for (const KnownObject& each : client.learned()) {
    bool there =
        std::any_of(known_.begin(), known_.end(), [&](const auto& known) { return known.id == each.id; });
    if (!there) known_.push_back(each);
  }
}

void Workload::forget_removed(const Model& tree) {
  std::erase_if(
      known_, [&](const KnownObject& each) { return tree.find(each.id) == nullptr && !random_.chance(0.1); });
  for (auto& client : clients_) client->keep(known_);
}

// A long run's tree would grow for ever, since what is not empty stays.
bool Workload::crowded() const {
  return known_.size() > kCrowded;
}

const KnownObject& Workload::any_directory() {
  std::vector<const KnownObject*> fitting;
  for (const KnownObject& each : known_) {
    if (each.type == FileType::kDirectory) fitting.push_back(&each);
  }
  if (random_.chance(0.25)) return *fitting.front();
  std::size_t few = crowded() ? fitting.size() : std::min(fitting.size(), kRecent);
  return **(fitting.end() - 1 - static_cast<std::ptrdiff_t>(random_.below(few)));
}

const KnownObject& Workload::any_object() {
  std::size_t few = std::min(known_.size(), 2 * kRecent);
  return known_[known_.size() - 1 - random_.below(few)];
}

std::string Workload::any_name() {
  return names_[random_.below(names_.size())];
}

void Workload::start_round() {
  busy_ += static_cast<unsigned>(clients_.size());
  for (unsigned i = 0; i < clients_.size(); ++i) spawn(work(i));
}

Task<void> Workload::work(unsigned number) {
  SimClient& client = *clients_[number];
  for (unsigned i = 0; i < operations_; ++i) {
    co_await ensemble_.loop().sleep(random_.between({}, longest_pause_));
    client.set_patience(random_.chance(kGivesUp) ? kShortPatience : kLongPatience);
    co_await one_operation(client);
    learn(client);
  }
  --busy_;
}

Task<void> Workload::one_operation(SimClient& client) {
  std::uint64_t roll = random_.below(100);
  if (roll < 35) return crowded() ? take_away(client) : make(client);
  if (roll < 55) return take_away(client);
  if (roll < 78) return change(client);
  if (roll < 83) return touch_bytes(client);
  return look(client);
}

Task<void> Workload::make(SimClient& client) {
  KnownObject directory = any_directory();
  Operation operation{.kind = Kind::kCreate, .name = any_name()};
  std::uint64_t roll = random_.below(10);
  if (roll < 4) {
    operation.kind = Kind::kMkdir;
    operation.mode = 0755;
  } else if (roll < 5) {
    operation.kind = Kind::kSymlink;
  } else {
    operation.how = static_cast<CreateMode>(random_.below(3));
    if (operation.how == CreateMode::kExclusive) {
      operation.verifier = random_.below(3);
    } else {
      operation.mode = 0644;
      if (random_.chance(0.3)) operation.size = random_.below(3) * 5000;
    }
  }
  co_await client.create(directory, std::move(operation));
}

Task<void> Workload::take_away(SimClient& client) {
  KnownObject directory = any_directory();
  Kind kind = random_.chance(0.5) ? Kind::kRmdir : Kind::kRemove;
  co_await client.remove(directory, {.kind = kind, .name = any_name()});
}

Task<void> Workload::change(SimClient& client) {
  std::uint64_t roll = random_.below(10);
  if (roll < 5) {
    KnownObject from = any_directory(), to = random_.chance(0.3) ? from : any_directory();
    std::string name = any_name();
    co_await client.rename(from, to, {.name = name, .to_name = any_name()});
  } else if (roll < 7) {
    KnownObject file = any_object(), to = any_directory();
    co_await client.link(file, to, {.to_name = any_name()});
  } else {
    KnownObject object = any_object();
    Operation operation;
    if (object.type == FileType::kRegular && random_.chance(0.6)) {
      operation.size = random_.below(5) * 3000;
    } else {
      operation.mode = random_.chance(0.5) ? 0700 : 0755;
    }
    co_await client.setattr(object, std::move(operation));
  }
}

// Above the threshold too, so that storage nodes have a part in the file, and the coordinator in its end.
Task<void> Workload::touch_bytes(SimClient& client) {
  KnownObject object = any_object();
  if (object.type != FileType::kRegular) co_return;
  std::uint64_t offset = random_.below(4) * ensemble_.config().volume.threshold;
  co_await client.write(object, offset);
  if (random_.chance(0.5)) co_await client.commit(object);
}

Task<void> Workload::look(SimClient& client) {
  std::uint64_t roll = random_.below(10);
  if (roll < 4) {
    KnownObject directory = any_directory();
    co_await client.lookup(directory, random_.chance(0.1) ? ".." : any_name());
  } else if (roll < 8) {
    co_await client.getattr(any_object());
  } else {
    co_await client.list(any_directory(), names_, false);
  }
}

void Workload::start_reading() {
  ++busy_;
  clients_.front()->set_patience(kLongPatience);
  spawn(read_tree(*clients_.front()));
}

Task<void> Workload::read_tree(SimClient& client) {
  std::deque<KnownObject> directories{root()};
  while (!directories.empty()) {
    KnownObject directory = directories.front();
    directories.pop_front();
    auto listing = co_await client.list(directory, names_, true);
    co_await client.getattr(directory, true);
    co_await client.lookup(directory, "..", true);
    for (const auto& [name, id] : listing.names) {
      Operation found = co_await client.lookup(directory, name, true);
      if (found.status != nfs3::Status::kOk || !found.seen || found.seen->type != FileType::kDirectory)
        continue;
      if (auto object = client.known(found.result)) directories.push_back(*object);
    }
  }
  learn(client);
  std::vector<KnownObject> all = known_;
  for (const KnownObject& each : all) {
    Operation looked = co_await client.getattr(each, true);
    if (looked.status == nfs3::Status::kStale && each.type == FileType::kRegular)
      co_await client.write(each, 0, true);
  }
  --busy_;
}

}  // namespace slice::sim
