// A client for the suite `crashes` (tests/cluster/crashes.py), which has server processes die while it works:
//
//   crash_client --server A --export PATH --folder NAME [--transport tcp|udp] [--far]
//
// Takes commands on standard input, one a line, and answers each with one line, "ok" or "not ok WHY":
//
//   prepare CASE OPERATION    makes what the operation works on; all of it stable
//   run CASE                  the operation; ends when all its calls are acknowledged
//   finish CASE               what is left of it, after which all of it is stable
//   check CASE                what is there is what was acknowledged, byte by byte, and nothing that was cut
//   or
//                             removed
//   verify                    the same of all cases, over a new connection
//   clear                     removes everything
//
// It behaves as a kernel's hard mount does: it waits, sends again, and writes again what a verifier says is
// lost.
// --far: files that are cut or removed reach over several segments of storage nodes
// (docs/formats/object-store.md).
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <set>
#include <sstream>
#include <utility>

#include "tests/cluster/client/session.h"
#include "tests/cluster/guest/check.h"

namespace slice::client {
namespace {

using guest::pattern;

constexpr std::uint64_t kLarge = 600'000;  // stripes on every storage node, and a part below the threshold
constexpr std::uint64_t kSmall = 10'000;   // below the threshold
constexpr std::uint64_t kOneStripe = 90'000;
constexpr std::uint64_t kCut = 200'000;
constexpr std::uint64_t kFar = (std::uint64_t{1} << 30) + 100'000;
constexpr std::uint64_t kFarBytes = 5000;
constexpr std::uint64_t kPiece = 32768;
// So many that each of two servers has some of them.
constexpr unsigned kSeveral = 12;
constexpr unsigned kMoves = 3;

// A file as it was acknowledged: its first bytes, and those behind kFar.
struct Content {
  std::string near, far;
  std::uint64_t size = 0;

  void put(std::uint64_t offset, const std::string& bytes) {
    std::string& part = offset < kFar ? near : far;
    const std::uint64_t at = offset < kFar ? offset : offset - kFar;
    if (part.size() < at + bytes.size()) part.resize(at + bytes.size());
    part.replace(at, bytes.size(), bytes);
    size = std::max(size, offset + bytes.size());
  }
  void set_size(std::uint64_t to) {
    if (to < near.size()) near.resize(to);
    if (to < kFar + far.size()) far.resize(to < kFar ? 0 : to - kFar);
    size = to;
  }
};

struct File {
  Handle handle;
  Content content;
};

struct Case {
  std::string operation;
  Handle folder;
  std::map<std::string, File> files;
  std::map<std::string, std::set<std::string>> folders;  // with the names in them
  std::vector<Handle> removed;                           // must be gone
  bool locked = false;                                   // all files, by process 1
  std::map<std::string, std::set<std::string>>
      verifiers;  // of unstable writes of files that no COMMIT has covered
};

class Cases {
 public:
  Cases(const Settings& settings, const std::string& folder, bool far)
      : session_(std::make_unique<Session>(settings, folder)),
        settings_(settings),
        name_(folder),
        far_(far) {}

  void command(const std::string& verb, const std::string& name, const std::string& operation) {
    if (verb == "verify") return verify();
    if (verb == "clear") return session_->remove_folder();
    if (verb == "prepare") return prepare(name, operation);
    const auto found = cases_.find(name);
    if (found == cases_.end()) throw RpcError("no case " + name);
    if (verb == "run") return run(found->second);
    if (verb == "finish") return finish(found->second);
    if (verb == "check") return check(found->second);
    throw RpcError("no command " + verb);
  }

 private:
  struct Operation {
    std::function<void(Cases&, Case&)> prepare, run;
  };

  static const std::map<std::string, Operation>& operations() {
    const auto nothing = [](Cases&, Case&) {};
    const auto large = [](Cases& on, Case& of) { on.make(of, "file", kLarge, on.far_); };
    const auto small = [](Cases& on, Case& of) { on.make_several(of, kSmall); };
    static const std::map<std::string, Operation> all{
        {"write", {nothing, [](Cases& on, Case& of) { on.write_and_commit(of, kLarge); }}},
        {"write-stable", {nothing, [](Cases& on, Case& of) { on.make(of, "file", kLarge, false); }}},
        {"write-unstable", {nothing, [](Cases& on, Case& of) { on.write_unstable(of, kLarge); }}},
        {"overwrite", {large, [](Cases& on, Case& of) { on.overwrite(of, 100'000, 400'000); }}},
        {"truncate", {large, [](Cases& on, Case& of) { on.truncate(of, kCut); }}},
        {"truncate-short",
         {[](Cases& on, Case& of) { on.make_several(of, kOneStripe); },
          [](Cases& on, Case& of) { on.truncate(of, kOneStripe - 10'000); }}},
        {"remove", {large, [](Cases& on, Case& of) { on.remove(of); }}},
        {"remove-several",
         {[](Cases& on, Case& of) { on.make_several(of, kOneStripe); },
          [](Cases& on, Case& of) { on.remove(of); }}},
        {"write-several",
         {nothing,
          [](Cases& on, Case& of) {
            on.write_several(of, kOneStripe);
            on.finish(of);
          }}},
        {"small-write",
         {nothing,
          [](Cases& on, Case& of) {
            on.write_several(of, kSmall);
            on.finish(of);
          }}},
        {"small-stable", {nothing, small}},
        {"small-truncate", {small, [](Cases& on, Case& of) { on.truncate(of, kSmall / 3); }}},
        {"small-remove", {small, [](Cases& on, Case& of) { on.remove(of); }}},
        {"lock",
         {[](Cases& on, Case& of) { on.make_linked(of, kSmall); }, [](Cases& on, Case& of) { on.lock(of); }}},
        {"names", {nothing, [](Cases& on, Case& of) { on.names(of); }}},
        {"create-cut",
         {[](Cases& on, Case& of) { on.make_linked(of, kOneStripe); },
          [](Cases& on, Case& of) { on.create_over(of, kOneStripe / 2); }}},
    };
    return all;
  }

  static void must(nfsstat3 status, const std::string& what) {
    if (status != NFS3_OK) throw RpcError(what + " answers " + status_name(status));
  }

  // ---- what operations consist of ----

  void prepare(const std::string& name, const std::string& operation) {
    const auto found = operations().find(operation);
    if (found == operations().end()) throw RpcError("no operation " + operation);
    Case& of = cases_[name];
    of.operation = operation;
    of.folder = session_->make_folder(name);
    found->second.prepare(*this, of);
  }
  void run(Case& of) { operations().at(of.operation).run(*this, of); }

  std::string fresh(std::uint64_t size) { return pattern(++seed_, 0, size); }

  void write(File& file, std::uint64_t offset, const std::string& bytes, stable_how stable,
             std::set<std::string>* verifiers = nullptr) {
    for (std::uint64_t at = 0; at < bytes.size(); at += kPiece) {
      auto answered =
          session_->write(file.handle, offset + at, std::string_view(bytes).substr(at, kPiece), stable);
      if (verifiers != nullptr) verifiers->merge(answered);
    }
    file.content.put(offset, bytes);
  }

  File& create(Case& of, const std::string& name) {
    File& file = of.files[name];
    file.handle = session_->create(of.folder, name);
    return file;
  }
  void make(Case& of, const std::string& name, std::uint64_t size, bool far) {
    File& file = create(of, name);
    write(file, 0, fresh(size), FILE_SYNC);
    if (far) write(file, kFar, fresh(kFarBytes), FILE_SYNC);
  }
  void make_several(Case& of, std::uint64_t size) {
    for (unsigned i = 0; i < kSeveral; ++i) make(of, "file" + std::to_string(i), size, false);
  }
  void write_unstable(Case& of, std::uint64_t size, const std::string& name = "file") {
    write(create(of, name), 0, fresh(size), UNSTABLE, &of.verifiers[name]);
  }
  void write_several(Case& of, std::uint64_t size) {
    for (unsigned i = 0; i < kSeveral; ++i) write_unstable(of, size, "file" + std::to_string(i));
  }
  void write_and_commit(Case& of, std::uint64_t size) {
    write_unstable(of, size);
    finish(of);
  }
  // COMMIT, and once more all that was written, where the verifiers are not all the same.
  void finish(Case& of) {
    for (auto& [name, verifiers] : of.verifiers) {
      File& file = of.files.at(name);
      for (;;) {
        verifiers.insert(session_->commit(file.handle));
        if (verifiers.size() == 1) break;
        verifiers.clear();
        write(file, 0, std::string(file.content.near), UNSTABLE, &verifiers);
      }
    }
    of.verifiers.clear();
  }
  void overwrite(Case& of, std::uint64_t offset, std::uint64_t size) {
    write(of.files.at("file"), offset, fresh(size), FILE_SYNC);
  }
  void set_size(File& file, std::uint64_t size) {
    must(session_->setattr(file.handle, with_size(size)), "SETATTR");
    file.content.set_size(size);
  }
  void truncate(Case& of, std::uint64_t size) {
    for (auto& [name, file] : of.files) set_size(file, size);
  }
  void remove(Case& of) {
    for (auto& [name, file] : of.files) {
      REMOVE3args arguments{in_folder(of.folder, name)};
      must((*session_->nfs().call(kRemove, arguments))->status, "REMOVE");
      of.removed.push_back(file.handle);
    }
    of.files.clear();
  }
  std::vector<Handle> make_folders(Case& of) {
    std::vector<Handle> folders;
    for (unsigned i = 0; i < kSeveral; ++i) {
      const std::string name = "folder" + std::to_string(i);
      MKDIR3args make{in_folder(of.folder, name), with_mode(0755)};
      must((*session_->nfs().call(kMkdir, make))->status, "MKDIR");
      of.folders[name];
      folders.push_back(session_->lookup(of.folder, name));
    }
    return folders;
  }
  // A second name of a file, in the case's folder: the one by which it is checked.
  void link(Case& of, const Handle& file, const std::string& name) {
    must((*session_->nfs().call(kLink, LINK3args{file.raw(), in_folder(of.folder, name)}))->status, "LINK");
    of.files[name].handle = file;
  }

  // Folders, which are spread over the directory servers, and files that move through some of them.
  void names(Case& of) {
    const std::vector<Handle> folders = make_folders(of);
    for (unsigned i = 0; i < kSeveral; ++i) {
      const std::string name = "file" + std::to_string(i);
      const Handle file = session_->create(folders[i], name);
      for (unsigned step = 0; step < kMoves; ++step) {
        const Handle& from = folders[(i + step) % kSeveral];
        const Handle& to = folders[(i + step + 1) % kSeveral];
        RENAME3args rename{in_folder(from, name), in_folder(to, name)};
        must((*session_->nfs().call(kRename, rename))->status, "RENAME");
      }
      link(of, file, "last" + std::to_string(i));
      REMOVE3args remove{in_folder(folders[(i + kMoves) % kSeveral], name)};
      must((*session_->nfs().call(kRemove, remove))->status, "REMOVE");
    }
    const std::string gone = "folder0";
    must((*session_->nfs().call(kRmdir, RMDIR3args{in_folder(of.folder, gone)}))->status, "RMDIR");
    of.folders.erase(gone);
  }
  // A file in each of several folders.
  void make_linked(Case& of, std::uint64_t size) {
    const std::vector<Handle> folders = make_folders(of);
    for (unsigned i = 0; i < kSeveral; ++i) {
      const std::string last = "last" + std::to_string(i);
      link(of, session_->create(folders[i], "file"), last);
      of.folders["folder" + std::to_string(i)].insert("file");
      write(of.files.at(last), 0, fresh(size), FILE_SYNC);
    }
  }
  // CREATE of those, with another size.
  void create_over(Case& of, std::uint64_t size) {
    for (unsigned i = 0; i < kSeveral; ++i) {
      const Handle folder = session_->lookup(of.folder, "folder" + std::to_string(i));
      CREATE3args arguments = create_arguments(folder, "file", UNCHECKED);
      arguments.how.createhow3_u.obj_attributes = with_size(size);
      must((*session_->nfs().call(kCreate, arguments))->status, "CREATE with a size");
      of.files.at("last" + std::to_string(i)).content.set_size(size);
    }
  }

  // NLM's answer: process `svid` wants all of the file exclusively, and does not wait.
  nlmstat4 lock(const Handle& file, unsigned svid) {
    if (locks_ == nullptr) locks_ = std::make_unique<NfsConnection>(session_->mount_options());
    static char cookie[] = "1", caller[] = "crash-client", owner[] = "owner";
    const nfs_fh3 handle = file.raw();
    NLM4_LOCKargs arguments{};
    arguments.cookie.data = {sizeof cookie, cookie};
    arguments.exclusive = 1;
    arguments.lock.caller_name = caller;
    arguments.lock.fh.data = {handle.data.data_len, handle.data.data_val};
    arguments.lock.oh = owner;
    arguments.lock.svid = svid;
    return (*locks_->call(kLock, arguments))->status;
  }
  void lock(Case& of) {
    for (auto& [name, file] : of.files) {
      if (lock(file.handle, 1) != NLM4_GRANTED) throw RpcError("a lock of " + name + " is refused");
      of.locked = true;
    }
  }

  // ---- whether all of it is there ----

  void check(Case& of) {
    std::set<std::string> wanted;
    for (const auto& [name, inner] : of.folders) {
      wanted.insert(name);
      compare_names(session_->lookup(of.folder, name), inner);
    }
    for (auto& [name, file] : of.files) {
      wanted.insert(name);
      compare(name, file);
      if (of.operation.find("truncate") != std::string::npos) compare_grown(name, file);
      if (of.locked && lock(file.handle, 2) != NLM4_DENIED)
        throw RpcError("the lock of " + name + " is lost");
    }
    compare_names(of.folder, wanted);
    for (const Handle& gone : of.removed) {
      const auto got = session_->nfs().call(kGetattr, GETATTR3args{gone.raw()});
      if ((*got)->status != NFS3ERR_STALE) throw RpcError("a removed file is there");
    }
  }

  void compare_names(const Handle& folder, const std::set<std::string>& wanted) {
    std::set<std::string> there;
    for (const std::string& name : session_->list(folder, 8192, false)) there.insert(name);
    there.erase(".");
    there.erase("..");
    if (there != wanted) throw RpcError("a folder has other names than it should");
  }

  void compare(const std::string& name, const File& file) {
    const Content& content = file.content;
    const fattr3 attributes = session_->attributes(file.handle);
    if (attributes.size != content.size) {
      throw RpcError(name + " has " + std::to_string(attributes.size) + " bytes, wanted " +
                     std::to_string(content.size));
    }
    compare_part(name, file.handle, 0, content.near, std::min(content.size, kLarge + kPiece));
    if (content.size > kFar) compare_part(name, file.handle, kFar, content.far, content.size - kFar);
  }
  // `wanted`, and zeros up to `size` bytes.
  void compare_part(const std::string& name, const Handle& file, std::uint64_t offset, std::string wanted,
                    std::uint64_t size) {
    wanted.resize(size);
    const std::string there = session_->read(file, offset, size);
    if (there == wanted) return;
    std::size_t first = 0;
    while (first < there.size() && there[first] == wanted[first]) ++first;
    throw RpcError(name + " has other bytes from offset " + std::to_string(offset + first));
  }
  // Where the file was longer once there must be zeros, if it grows again.
  void compare_grown(const std::string& name, File& file) {
    const std::uint64_t size = file.content.size;
    set_size(file, far_ ? kFar + kFarBytes : kLarge);
    compare(name + ", grown again,", file);
    set_size(file, size);
  }

  // Over a connection of its own: a Session for the cases' folder would empty that.
  void verify() {
    auto first = std::exchange(session_, std::make_unique<Session>(settings_, name_ + "-verify"));
    for (auto& [name, of] : cases_) {
      try {
        check(of);
      } catch (const RpcError& error) {
        throw RpcError(name + ": " + error.what());
      }
    }
    session_->remove_folder();
    session_ = std::move(first);
  }

  std::unique_ptr<Session> session_;
  std::unique_ptr<NfsConnection> locks_;  // to the lock manager
  const Settings settings_;
  const std::string name_;
  const bool far_;
  std::map<std::string, Case> cases_;
  std::uint64_t seed_ = 0;
};

}  // namespace
}  // namespace slice::client

int main(int argc, char** argv) {
  using namespace slice::client;
  const Arguments arguments(argc, argv, {"--far"});
  try {
    Cases cases(settings_from(arguments), arguments.needed("--folder"), arguments.flag("--far"));
    std::printf("ok\n");
    std::fflush(stdout);
    std::string line;
    while (std::getline(std::cin, line)) {
      std::istringstream words(line);
      std::string verb, name, operation;
      words >> verb >> name >> operation;
      try {
        cases.command(verb, name, operation);
        std::printf("ok\n");
      } catch (const std::exception& error) {
        std::printf("not ok %s: %s\n", line.c_str(), error.what());
      }
      std::fflush(stdout);
    }
  } catch (const std::exception& error) {
    std::printf("not ok: %s\n", error.what());
    return 1;
  }
  return 0;
}
