// One kind of name operation, again and again, on one directory server or over two of them.
//
//   cross_site_bench --server A [--export PATH] --owners N,N,... --operation OP [--count N] [--outstanding N]
//
// --owners: the number of the server of each directory site. OP is create, remove, remove_far_cell, mkdir,
// rmdir, link, rename or rename_folder, with _near (everything is on one server) or _far. The volume's hash
// is md5; under mkdir switching its probability must be 1, so that names choose where folders go.
//
// Makes what it needs, prints "ready", waits for a line on standard input, does --count operations and prints
// an object with their seconds. Every status is checked. Exit code 1 when a call failed.

#include <cstdio>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bpf/shared/routing.h"
#include "tests/bench/sites.h"
#include "tests/cluster/client/session.h"

namespace slice::client {
namespace {

struct Spot {
  Handle folder;
  std::string name;
};

// What one operation works on.
struct Item {
  Spot from, to;
  Handle object;
};

class Bench {
 public:
  Bench(const Settings& settings, const Arguments& arguments)
      : session_(settings, "cross-site"),
        operation_(arguments.needed("--operation")),
        far_(operation_.ends_with("_far") || operation_ == "remove_far_cell"),
        hashed_(arguments.flag("--name-hashing")),
        outstanding_(arguments.number("--outstanding", 1)),
        items_(arguments.number("--count", 300)) {
    std::istringstream list(arguments.needed("--owners"));
    for (std::string one; std::getline(list, one, ',');) owners_.push_back(one);
    find_folders();
  }

  void prepare() {
    for (Item& item : items_) place(item);
    const bool folder = operation_.starts_with("rmdir") || operation_.starts_with("rename_folder");
    if (folder) return each([this](Item& item) { make_folder(item.from, &item.object); });
    if (operation_.starts_with("create") || operation_.starts_with("mkdir")) return;
    each([this](Item& item) { make_file(item.from, &item.object); });
    if (operation_ != "remove_far_cell") return;
    // The other name remains, far from the attributes.
    each([this](Item& item) { link(item); });
    each([this](Item& item) { remove(item.from); });
    for (Item& item : items_) item.from = item.to;
  }

  double run() {
    const double start = now();
    each(action());
    return now() - start;
  }
  std::uint64_t told_to_wait() const { return told_to_wait_; }

 private:
  using Action = std::function<void(Item&)>;

  Action action() {
    const std::string kind = operation_.substr(0, operation_.find_last_of('_'));
    if (kind == "create") return [this](Item& item) { make_file(item.from, nullptr); };
    if (kind == "mkdir") return [this](Item& item) { make_folder(item.from, nullptr); };
    if (kind == "remove" || kind == "remove_far") return [this](Item& item) { remove(item.from); };
    if (kind == "rmdir") {
      return [this](Item& item) {
        send(kRmdir, "RMDIR", [&item] { return RMDIR3args{in_folder(item.from.folder, item.from.name)}; });
      };
    }
    if (kind == "link") return [this](Item& item) { link(item); };
    if (kind == "rename" || kind == "rename_folder") {
      return [this](Item& item) {
        send(kRename, "RENAME", [&item] {
          return RENAME3args{in_folder(item.from.folder, item.from.name),
                             in_folder(item.to.folder, item.to.name)};
        });
      };
    }
    throw RpcError("no such operation: " + operation_);
  }

  // ---- where things go ----

  const std::string& owner_of(const Handle& folder) const { return owners_.at(directory_site(folder)); }

  // A new name whose hash is of a site of this server (or, with `is` false, of another).
  std::string name_hashed(const Handle& folder, const std::string& owner, bool is) {
    slice_config config{};
    config.name_hash = SLICE_NAME_HASH_MD5;
    slice_handle fields;
    slice_handle_decode(reinterpret_cast<const std::uint8_t*>(folder.bytes().data()), &fields);
    for (;;) {
      std::string name = "name-" + std::to_string(++names_);
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(name.data());
      const auto length = static_cast<std::uint32_t>(name.size());
      slice_name_words memory;
      const std::uint64_t hash =
          slice_name_hash(&config, &memory, fields.fileid, bytes, length, bytes + length);
      if ((owners_.at(hash & (owners_.size() - 1)) == owner) == is) return name;
    }
  }

  // Two folders on the server of the session's, and one on another.
  void find_folders() {
    const std::string& home = owner_of(session_.folder());
    here_ = session_.make_folder(name_hashed(session_.folder(), home, true));
    same_ = session_.make_folder(name_hashed(session_.folder(), home, true));
    if (far_) elsewhere_ = session_.make_folder(name_hashed(session_.folder(), home, false));
    if (owner_of(here_) != home || owner_of(same_) != home || (far_ && owner_of(elsewhere_) == home)) {
      throw RpcError("folders are not where their names' hashes say: is the probability 1, the hash md5?");
    }
  }

  // `from`: a name on the server of here_, in it; `to`: a name on the same server, or far.
  void place(Item& item) {
    const std::string& home = owner_of(here_);
    const bool new_far = far_ && (operation_.starts_with("create") || operation_ == "remove_far" ||
                                  operation_.starts_with("mkdir") || operation_.starts_with("rmdir"));
    item.from = {here_, name_hashed(here_, home, !new_far)};
    const Handle& target = !far_ || hashed_ ? same_ : elsewhere_;
    item.to = {target, hashed_ ? name_hashed(target, home, !far_) : "name-" + std::to_string(++names_)};
  }

  // ---- calls ----

  void each(const Action& start) {
    for (std::size_t i = 0; i < items_.size() || busy_ > 0;) {
      while (i < items_.size() && busy_ < outstanding_) {
        ++busy_;
        start(items_[i++]);
      }
      session_.nfs().run_once(0.1);
    }
  }

  // One call; asked again when told to wait. `arguments` makes them from what outlives the call.
  template <typename Arguments, typename Result>
  void send(const Procedure<Arguments, Result>& procedure, const char* what,
            const std::function<Arguments()>& arguments,
            const std::function<void(const Result&)>& done = nullptr) {
    session_.nfs().call_async<Arguments, Result>(
        procedure, arguments(),
        [=, this, &procedure](const Answer<Result>& answer, const std::string& error) {
          if (!answer) throw RpcError(error);
          const Result& result = **answer;
          if (result.status == NFS3ERR_JUKEBOX) {
            ++told_to_wait_;
            return send(procedure, what, arguments, done);
          }
          if (result.status != NFS3_OK)
            throw RpcError(std::string(what) + " answers " + status_name(result.status));
          if (done) done(result);
          --busy_;
        });
  }
  template <typename Arguments, typename Result, typename Make>
  void send(const Procedure<Arguments, Result>& procedure, const char* what, const Make& arguments) {
    send<Arguments, Result>(procedure, what, std::function<Arguments()>(arguments));
  }

  void make_file(const Spot& at, Handle* made) {
    send<CREATE3args, CREATE3res>(
        kCreate, "CREATE", [&at] { return create_arguments(at.folder, at.name, GUARDED); },
        [made](const CREATE3res& result) {
          if (made != nullptr) *made = Handle(result.CREATE3res_u.resok.obj.post_op_fh3_u.handle);
        });
  }
  void make_folder(const Spot& at, Handle* made) {
    send<MKDIR3args, MKDIR3res>(
        kMkdir, "MKDIR", [&at] { return MKDIR3args{in_folder(at.folder, at.name), with_mode(0755)}; },
        [made](const MKDIR3res& result) {
          if (made != nullptr) *made = Handle(result.MKDIR3res_u.resok.obj.post_op_fh3_u.handle);
        });
  }
  void remove(const Spot& at) {
    send(kRemove, "REMOVE", [&at] { return REMOVE3args{in_folder(at.folder, at.name)}; });
  }
  void link(const Item& item) {
    send(kLink, "LINK",
         [&item] { return LINK3args{item.object.raw(), in_folder(item.to.folder, item.to.name)}; });
  }

  Session session_;
  std::string operation_;
  bool far_, hashed_;
  std::uint64_t outstanding_;
  std::vector<Item> items_;
  std::vector<std::string> owners_;
  Handle here_, same_, elsewhere_;
  std::uint64_t names_ = 0, busy_ = 0, told_to_wait_ = 0;
};

}  // namespace
}  // namespace slice::client

int main(int argc, char** argv) {
  using namespace slice::client;
  const Arguments arguments(argc, argv, {"--json", "--name-hashing"});
  try {
    Bench bench(settings_from(arguments), arguments);
    bench.prepare();
    std::printf("ready\n");
    std::fflush(stdout);
    std::string go;
    std::getline(std::cin, go);
    const double seconds = bench.run();
    std::printf("%s\n",
                nlohmann::json{{"seconds", seconds}, {"told_to_wait", bench.told_to_wait()}}.dump().c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cross_site_bench: %s\n", error.what());
    return 1;
  }
}
