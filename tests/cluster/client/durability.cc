// Whether a volume keeps what it acknowledged, whatever is killed:
//
//   durability load   --server A --export PATH --log FILE [--seconds N] [--while FILE] [--workers N]
//                     [--seed S] [--reach BYTES] [--pause-ms N]
//   durability verify --server A --export PATH --log FILE
//   durability damage --server A --export PATH --log FILE     what a lossy server would leave behind
//
// `load` runs stable operations (FILE_SYNC writes, committed writes, create, mkdir, remove, rename, link,
// symlink, truncate), half of its workers over UDP, half over TCP, while others kill and restart the servers.
// It must never see an error: it only waits. Every acknowledged operation goes to the log, outside of the
// volume. `verify` compares the volume with the log. `damage` alters the volume behind the log's back in
// every way that verify must notice.
//
// --reach bounds where in files the load writes (default 300000): below the threshold, only small-file
// servers have bytes. --pause-ms: each worker waits that long between its operations (default 0), for a load
// beside others that lasts.
// --replays tolerates EXIST and NOENT for calls that were sent again, for servers without a durable
// duplicate-request cache. Exit code 1 when something is wrong.

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <thread>

#include "tests/cluster/client/durability_model.h"
#include "tests/cluster/client/session.h"
#include "tests/cluster/guest/check.h"

namespace slice::client {
namespace {

using guest::next_random;
using guest::pattern;

constexpr std::size_t kMostObjects = 60;
constexpr std::uint64_t kReach = 300'000, kLargestWrite = 100'000;
constexpr int kDamages = 4;                    // kinds of damage, each done to a file of its own
constexpr std::uint64_t kDamagedBytes = 1000;  // and the least size of such a file

std::string folder_of(std::uint64_t worker) {
  return "durability-" + std::to_string(worker);
}

// The log, shared by all workers: lines "WORKER OPERATION".
class Log {
 public:
  explicit Log(const std::string& path) : file_(path, std::ios::trunc) {
    if (!file_) throw std::runtime_error("cannot write " + path);
  }
  void acknowledged(std::uint64_t worker, const std::string& operation) {
    const std::lock_guard lock(mutex_);
    file_ << worker << ' ' << operation << '\n' << std::flush;
    ++lines_;
  }
  std::uint64_t lines() const { return lines_; }

 private:
  std::mutex mutex_;
  std::ofstream file_;
  std::atomic<std::uint64_t> lines_ = 0;
};

std::map<std::uint64_t, Model> read_log(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::map<std::uint64_t, Model> models;
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t space = line.find(' ');
    if (!models[std::stoull(line)].apply(line.substr(space + 1)))
      throw std::runtime_error("a line of the log: " + line);
  }
  return models;
}

// Compares one object with its model; throws what differs.
void compare_object(Session& session, const Handle& folder, const std::string& name, const Object& object) {
  const Handle handle = session.lookup(folder, name);
  const fattr3 attributes = session.attributes(handle);
  static constexpr ftype3 kTypes[] = {NF3REG, NF3DIR, NF3LNK};
  if (attributes.type != kTypes[static_cast<int>(object.kind)]) throw RpcError("is of another type");
  if (object.kind == Kind::kSymlink) {
    const auto target = session.nfs().call(kReadlink, READLINK3args{handle.raw()});
    if ((*target)->status != NFS3_OK || object.content != (*target)->READLINK3res_u.resok.data) {
      throw RpcError("has another target");
    }
  }
  if (object.kind != Kind::kFile) return;
  if (attributes.nlink != object.links) {
    throw RpcError("has " + std::to_string(attributes.nlink) + " links, wanted " +
                   std::to_string(object.links));
  }
  if (attributes.size != object.content.size()) {
    throw RpcError("has " + std::to_string(attributes.size) + " bytes, wanted " +
                   std::to_string(object.content.size()));
  }
  const std::string content = session.read(handle, 0, object.content.size() + 1);
  if (content == object.content) return;
  std::size_t first = 0;
  while (first < content.size() && content[first] == object.content[first]) ++first;
  throw RpcError("has other bytes from offset " + std::to_string(first) + " of " +
                 std::to_string(object.content.size()));
}

struct Totals {
  std::atomic<std::uint64_t> rewritten = 0, resent = 0, reconnects = 0, compared = 0;
  std::atomic<bool> failed = false;
  std::mutex mutex;
  double longest_wait = 0;
};

// One worker: random operations in a folder of its own, each logged once it is acknowledged.
class Worker {
 public:
  Worker(const Settings& settings, std::uint64_t number, const Arguments& arguments, Log& log, Totals& totals)
      : session_(settings, folder_of(number)),
        number_(number),
        random_(arguments.number("--seed", 1) * 1000 + number),
        reach_(arguments.number("--reach", kReach)),
        pause_(arguments.number("--pause-ms", 0)),
        replays_(arguments.flag("--replays")),
        log_(log),
        totals_(totals) {}

  void run(const LoadTime& time) {
    while (!time.over() && !totals_.failed) {
      step();
      std::this_thread::sleep_for(pause_);
    }
    if (!totals_.failed) make_files_to_damage();
    const ConnectionCounters& counters = session_.nfs().counters();
    totals_.resent += counters.resent;
    totals_.reconnects += counters.reconnects;
    const std::lock_guard lock(totals_.mutex);
    totals_.longest_wait = std::max(totals_.longest_wait, counters.longest_wait);
  }

 private:
  void done(const std::string& operation) {
    log_.acknowledged(number_, operation);
    if (!model_.apply(operation)) throw RpcError("the model refuses " + operation);
    std::erase_if(lasting_, [this](const auto& entry) { return !model_.objects().contains(entry.first); });
  }

  std::string new_name(const char* prefix) { return prefix + std::to_string(++names_); }

  // A status that must be OK; of a call that was sent again, a server without a durable cache may answer
  // otherwise.
  template <typename Arguments, typename Result>
  void must(const Procedure<Arguments, Result>& procedure, Arguments arguments, const std::string& what) {
    const std::uint64_t before = session_.nfs().counters().resent;
    const nfsstat3 status = (*session_.nfs().call(procedure, arguments))->status;
    if (status == NFS3_OK) return;
    const bool again = session_.nfs().counters().resent > before;
    if (replays_ && again && (status == NFS3ERR_EXIST || status == NFS3ERR_NOENT)) return;
    throw RpcError(what + " answers " + status_name(status) + (again ? ", having been sent again" : ""));
  }

  void step() {
    const std::uint64_t kind = next_random(random_) % 100;
    const std::string file = model_.any(Kind::kFile, next_random(random_));
    if (model_.objects().size() < 5 || (kind < 15 && model_.objects().size() < kMostObjects)) return make();
    if (file.empty()) return make();
    if (kind < 40) return write(file, FILE_SYNC);
    if (kind < 60) return write(file, UNSTABLE);
    if (kind < 66) return truncate(file);
    if (kind < 76) return rename(file);
    if (kind < 80) return link(file);
    if (kind < 87) return remove();
    if (kind < 94) return list_some();
    compare(file);
  }

  void make() {
    const std::uint64_t kind = next_random(random_) % 10;
    if (kind == 0) {
      const std::string name = new_name("folder");
      must(kMkdir, MKDIR3args{in_folder(session_.folder(), name), with_mode(0755)}, "MKDIR");
      done("mkdir " + name);
    } else if (kind == 1) {
      const std::string name = new_name("symbolic");
      std::string target = "target-of-" + name;
      must(kSymlink, SYMLINK3args{in_folder(session_.folder(), name), {with_mode(0777), target.data()}},
           "SYMLINK");
      done("symlink " + name + " " + target);
    } else {
      make_file();
    }
  }

  std::string make_file() {
    const std::string name = new_name("file");
    must(kCreate, create_arguments(session_.folder(), name, GUARDED), "CREATE");
    done("create " + name);
    return name;
  }

  // Chance may have left every file with further names or without bytes.
  void make_files_to_damage() {
    for (int i = 0; i < kDamages; ++i) write(make_file(), FILE_SYNC, 0, kDamagedBytes);
  }

  void write(const std::string& name, stable_how stable) {
    const std::uint64_t offset = next_random(random_) % reach_;
    const std::uint64_t most = next_random(random_) % 4 == 0 ? kLargestWrite : 9000;
    write(name, stable, offset, 1 + next_random(random_) % most);
  }

  // A stable write, or unstable ones and a COMMIT, written again if the verifier says that they may be lost.
  void write(const std::string& name, stable_how stable, std::uint64_t offset, std::uint64_t size) {
    const Handle file = session_.lookup(name);
    const std::uint64_t seed = next_random(random_);
    const std::string bytes = pattern(seed, 0, size);
    for (;;) {
      std::set<std::string> verifiers;
      for (std::uint64_t at = 0; at < size; at += 32768) {
        verifiers.merge(session_.write(file, offset + at, std::string_view(bytes).substr(at, 32768), stable));
      }
      if (stable != UNSTABLE) break;
      verifiers.insert(session_.commit(file));
      if (verifiers.size() == 1) break;
      ++totals_.rewritten;
    }
    done("write " + name + " " + std::to_string(offset) + " " + std::to_string(size) + " " +
         std::to_string(seed));
  }

  void truncate(const std::string& name) {
    const std::uint64_t size = next_random(random_) % reach_;
    SETATTR3args arguments;
    std::memset(&arguments, 0, sizeof arguments);
    const Handle file = session_.lookup(name);
    arguments.object = file.raw();
    arguments.new_attributes = with_size(size);
    must(kSetattr, arguments, "SETATTR");
    done("truncate " + name + " " + std::to_string(size));
  }

  // To a new name, or over another file.
  void rename(const std::string& name) {
    std::string to = new_name("file");
    const std::string other = model_.any(Kind::kFile, next_random(random_));
    if (next_random(random_) % 3 == 0 && model_.objects().at(other) != model_.objects().at(name)) to = other;
    must(kRename, RENAME3args{in_folder(session_.folder(), name), in_folder(session_.folder(), to)},
         "RENAME");
    done("rename " + name + " " + to);
  }

  void link(const std::string& name) {
    const std::string to = new_name("file");
    const Handle file = session_.lookup(name);
    must(kLink, LINK3args{file.raw(), in_folder(session_.folder(), to)}, "LINK");
    done("link " + name + " " + to);
  }

  void remove() {
    const Kind kind = static_cast<Kind>(next_random(random_) % 3);
    const std::string name = model_.any(kind, next_random(random_));
    if (name.empty()) return;
    if (kind == Kind::kFolder) {
      must(kRmdir, RMDIR3args{in_folder(session_.folder(), name)}, "RMDIR");
      done("rmdir " + name);
    } else {
      must(kRemove, REMOVE3args{in_folder(session_.folder(), name)}, "REMOVE");
      done("remove " + name);
    }
  }

  // What was acknowledged must also be seen at once, between two kills.
  void compare(const std::string& name) {
    try {
      compare_object(session_, session_.folder(), name, *model_.objects().at(name));
    } catch (const RpcError& error) {
      throw RpcError(folder_of(number_) + "/" + name + " " + error.what() + " (seen during the load)");
    }
    ++totals_.compared;
  }

  // One page of a listing that goes on through everything that happens meanwhile, restarts too: names that
  // are there all the time must be listed exactly once.
  void list_some() {
    if (cookie_ == 0) {
      lasting_.clear();
      for (const auto& [name, object] : model_.objects()) lasting_[name] = 0;
    }
    READDIR3args arguments{session_.folder().raw(), cookie_, {}, 600};
    std::memcpy(arguments.cookieverf, cookie_verifier_, sizeof cookie_verifier_);
    const auto got = session_.nfs().call(kReaddir, arguments);
    if ((*got)->status != NFS3_OK)
      throw RpcError(std::string("READDIR answers ") + status_name((*got)->status));
    const READDIR3resok& result = (*got)->READDIR3res_u.resok;
    for (const entry3* entry = result.reply.entries; entry != nullptr; entry = entry->nextentry) {
      cookie_ = entry->cookie;
      const auto found = lasting_.find(entry->name);
      if (found != lasting_.end() && ++found->second > 1) throw RpcError(found->first + " is listed twice");
    }
    std::memcpy(cookie_verifier_, result.cookieverf, sizeof cookie_verifier_);
    if (result.reply.eof == 0) return;
    for (const auto& [name, times] : lasting_) {
      if (times == 0) throw RpcError(name + " is not listed, though it was there all the time");
    }
    cookie_ = 0;
    std::memset(cookie_verifier_, 0, sizeof cookie_verifier_);
  }

  Session session_;
  std::uint64_t number_;
  std::uint64_t random_;
  std::uint64_t reach_;  // writes begin, and truncations end, below it
  std::chrono::milliseconds pause_;
  bool replays_;
  Log& log_;
  Totals& totals_;
  Model model_;
  std::uint64_t names_ = 0;
  std::map<std::string, int> lasting_;  // names that stay during a listing: how often it gave them
  std::uint64_t cookie_ = 0;
  cookieverf3 cookie_verifier_ = {};
};

int load(const Settings& settings, const Arguments& arguments) {
  Log log(arguments.needed("--log"));
  Totals totals;
  const LoadTime time(arguments);
  std::vector<std::thread> threads;
  for (std::uint64_t number = 0; number < arguments.number("--workers", 4); ++number) {
    threads.emplace_back([&, number] {
      Settings mine = settings;
      mine.transport = number % 2 == 0 ? Transport::kTcp : Transport::kUdp;
      try {
        Worker(mine, number, arguments, log, totals).run(time);
      } catch (const std::exception& error) {
        std::printf("not ok durability load: worker %llu: %s\n", static_cast<unsigned long long>(number),
                    error.what());
        std::fflush(stdout);
        totals.failed = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf(
      "%llu operations acknowledged, %llu objects compared meanwhile, %llu calls sent again, %llu "
      "connections lost, "
      "%llu unstable writes written again, longest wait %.1f s\n",
      number(log.lines()), number(totals.compared), number(totals.resent), number(totals.reconnects),
      number(totals.rewritten), totals.longest_wait);
  if (totals.failed || log.lines() == 0) return 1;
  std::printf("ok durability load\n");
  return 0;
}

int verify(const Settings& settings, const std::string& path) {
  const Handle root = mount_root({.server = settings.server}, settings.mount_port, settings.path);
  int wrong = 0;
  std::size_t objects = 0;
  for (const auto& [worker, model] : read_log(path)) {
    Session session(settings, "durability-verify");
    const Handle folder = session.lookup(root, folder_of(worker));
    std::set<std::string> names;
    for (const std::string& name : session.list(folder, 8192, worker % 2 == 0)) names.insert(name);
    names.erase(".");
    names.erase("..");
    for (const auto& [name, object] : model.objects()) {
      ++objects;
      try {
        if (names.erase(name) == 0) throw RpcError("is not listed");
        compare_object(session, folder, name, *object);
      } catch (const RpcError& error) {
        std::printf("not ok durability verify: %s/%s %s\n", folder_of(worker).c_str(), name.c_str(),
                    error.what());
        ++wrong;
      }
    }
    for (const std::string& name : names) {
      std::printf("not ok durability verify: %s/%s is there, but was removed or never made\n",
                  folder_of(worker).c_str(), name.c_str());
      ++wrong;
    }
    session.remove_folder();
  }
  if (wrong == 0) std::printf("ok durability verify: %zu objects are as acknowledged\n", objects);
  return wrong == 0 ? 0 : 1;
}

// One loss of each kind, each in another object of worker 0.
int damage(const Settings& settings, const std::string& path) {
  const auto models = read_log(path);
  const Model& model = models.at(0);
  Session session(settings, "durability-verify");
  const Handle folder = session.lookup(session.root(), folder_of(0));
  int done = 0;
  for (const auto& [name, object] : model.objects()) {
    if (object->kind != Kind::kFile || object->links != 1 || object->content.size() < kDamagedBytes) continue;
    const Handle file = session.lookup(folder, name);
    const std::size_t middle = object->content.size() / 2;
    if (done == 0) {
      const char other = static_cast<char>(object->content[middle] ^ 1);
      session.write(file, middle, std::string_view(&other, 1), FILE_SYNC);
    } else if (done == 1) {
      session.setattr(file, with_size(object->content.size() - 1));
    } else if (done == 2) {
      REMOVE3args remove{in_folder(folder, name)};
      session.nfs().call(kRemove, remove);
    } else if (done == 3) {
      const std::string second = "second-name";
      session.nfs().call(kLink, LINK3args{file.raw(), in_folder(folder, second)});
    } else {
      break;
    }
    std::printf("damaged %s/%s\n", folder_of(0).c_str(), name.c_str());
    ++done;
  }
  session.remove_folder();
  if (done == kDamages) return 0;
  std::printf("not ok durability damage: %d files to damage, wanted %d\n", done, kDamages);
  return 1;
}

}  // namespace
}  // namespace slice::client

int main(int argc, char** argv) {
  using namespace slice::client;
  const Arguments arguments(argc, argv, {"--replays"});
  const std::string verb = arguments.words().empty() ? "" : arguments.words()[0];
  const Settings settings = settings_from(arguments);
  try {
    if (verb == "load") return load(settings, arguments);
    if (verb == "verify") return verify(settings, arguments.needed("--log"));
    if (verb == "damage") return damage(settings, arguments.needed("--log"));
  } catch (const std::exception& error) {
    std::printf("not ok durability %s: %s\n", verb.c_str(), error.what());
    return 1;
  }
  std::fprintf(stderr, "usage: durability load|verify|damage --server A --export PATH --log FILE\n");
  return 2;
}
