#include "tests/cluster/client/session.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "tests/cluster/client/caller.h"

namespace slice::client {

namespace {

constexpr std::uint32_t kPiece = 32 * 1024;

[[noreturn]] void usage(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(2);
}

}  // namespace

Arguments::Arguments(int argc, char** argv, std::set<std::string> flags) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (flags.contains(name)) {
      given_flags_.insert(name);
    } else if (!name.starts_with("--")) {
      words_.push_back(name);
    } else if (i + 1 < argc) {
      values_[name] = argv[++i];
    } else {
      usage(name + " takes a value");
    }
  }
}

std::string Arguments::text(const std::string& name, const std::string& otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? otherwise : found->second;
}

std::uint64_t Arguments::number(const std::string& name, std::uint64_t otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? otherwise : std::strtoull(found->second.c_str(), nullptr, 10);
}

std::string Arguments::needed(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) usage(name + " is needed");
  return found->second;
}

Settings settings_from(const Arguments& arguments) {
  Settings settings;
  settings.server = arguments.needed("--server");
  settings.mount_server = arguments.text("--mount-server", settings.server);
  settings.path = arguments.text("--export", "/");
  settings.port = static_cast<std::uint16_t>(arguments.number("--port", 2049));
  settings.mount_port = static_cast<std::uint16_t>(arguments.number("--mount-port", 20048));
  settings.transport = arguments.text("--transport", "tcp") == "udp" ? Transport::kUdp : Transport::kTcp;
  settings.patience = static_cast<double>(arguments.number("--patience", 60));
  return settings;
}

LoadTime::LoadTime(const Arguments& arguments)
    : until_(now() + static_cast<double>(arguments.number("--seconds", 10))),
      wanted_(arguments.text("--while", "")) {}

bool LoadTime::over() const {
  return now() >= until_ || (!wanted_.empty() && !std::filesystem::exists(wanted_));
}

ConnectionOptions Session::nfs_options(Credential credential) const {
  return {.server = settings_.server,
          .port = settings_.port,
          .transport = settings_.transport,
          .credential = std::move(credential),
          .patience = settings_.patience};
}

ConnectionOptions Session::mount_options() const {
  ConnectionOptions options = nfs_options({});
  options.server = settings_.mount_server;
  options.port = settings_.mount_port;
  return options;
}

Session::Session(const Settings& settings, const std::string& folder)
    : settings_(settings),
      root_(mount_root(mount_options(), settings.mount_port, settings.path)),
      nfs_(nfs_options({})),
      name_(folder) {
  LOOKUP3args look{in_folder(root_, name_)};
  const auto found = nfs_.call(kLookup, look);
  if ((*found)->status == NFS3_OK) {
    folder_ = Handle((*found)->LOOKUP3res_u.resok.object);
    empty(folder_);
    return;
  }
  MKDIR3args make{in_folder(root_, name_), with_mode(0777)};
  must((*nfs_.call(kMkdir, make))->status, "MKDIR of " + name_);
  folder_ = lookup(root_, name_);
}

Handle Session::create(const Handle& folder, const std::string& name) {
  const auto made = nfs_.call(kCreate, create_arguments(folder, name, UNCHECKED));
  must((*made)->status, "CREATE of " + name);
  const post_op_fh3& handle = (*made)->CREATE3res_u.resok.obj;
  return handle.handle_follows != 0 ? Handle(handle.post_op_fh3_u.handle) : lookup(folder, name);
}

Handle Session::make_folder(const std::string& name) {
  MKDIR3args make{in_folder(folder_, name), with_mode(0755)};
  must((*nfs_.call(kMkdir, make))->status, "MKDIR of " + name);
  return lookup(name);
}

Handle Session::lookup(const Handle& folder, const std::string& name) {
  LOOKUP3args look{in_folder(folder, name)};
  const auto found = nfs_.call(kLookup, look);
  must((*found)->status, "LOOKUP of " + name);
  return Handle((*found)->LOOKUP3res_u.resok.object);
}

nfsstat3 Session::lookup_status(const std::string& name) {
  LOOKUP3args look{in_folder(folder_, name)};
  return (*nfs_.call(kLookup, look))->status;
}

nfsstat3 Session::remove(const std::string& name) {
  REMOVE3args arguments{in_folder(folder_, name)};
  return (*nfs_.call(kRemove, arguments))->status;
}

nfsstat3 Session::setattr(const Handle& object, const sattr3& attributes) {
  SETATTR3args arguments;
  std::memset(&arguments, 0, sizeof arguments);
  arguments.object = object.raw();
  arguments.new_attributes = attributes;
  return (*nfs_.call(kSetattr, arguments))->status;
}

fattr3 Session::attributes(const Handle& object) {
  const auto got = nfs_.call(kGetattr, GETATTR3args{object.raw()});
  must((*got)->status, "GETATTR");
  return (*got)->GETATTR3res_u.resok.obj_attributes;
}

std::set<std::string> Session::write(const Handle& file, std::uint64_t offset, std::string_view bytes,
                                     stable_how stable) {
  std::set<std::string> verifiers;
  while (!bytes.empty()) {
    const auto written = nfs_.call(kWrite, write_arguments(file, offset, bytes.substr(0, kPiece), stable));
    must((*written)->status, "WRITE at " + std::to_string(offset));
    const WRITE3resok& result = (*written)->WRITE3res_u.resok;
    if (result.count == 0 || result.count > bytes.size()) {
      throw RpcError("WRITE answers a count of " + std::to_string(result.count));
    }
    if (result.committed < stable) throw RpcError("WRITE is committed less than was asked for");
    verifiers.emplace(result.verf, sizeof result.verf);
    offset += result.count;
    bytes.remove_prefix(result.count);
  }
  return verifiers;
}

std::string Session::read(const Handle& file, std::uint64_t offset, std::size_t size) {
  std::string bytes;
  while (bytes.size() < size) {
    const auto piece = static_cast<std::uint32_t>(std::min<std::size_t>(kPiece, size - bytes.size()));
    const auto got = nfs_.call(kRead, read_arguments(file, offset + bytes.size(), piece));
    must((*got)->status, "READ at " + std::to_string(offset + bytes.size()));
    const READ3resok& result = (*got)->READ3res_u.resok;
    if (result.count != result.data.data_len || result.count > piece)
      throw RpcError("READ answers a wrong count");
    bytes.append(result.data.data_val, result.data.data_len);
    if (result.eof != 0) break;
    if (result.count == 0) throw RpcError("READ answers nothing, and no end of file");
  }
  return bytes;
}

std::string Session::commit(const Handle& file) {
  const auto done = nfs_.call(kCommit, COMMIT3args{file.raw(), 0, 0});
  must((*done)->status, "COMMIT");
  return {(*done)->COMMIT3res_u.resok.verf, sizeof(writeverf3)};
}

namespace {

// Both kinds of listing, entry by entry; the last cookie comes back for the next call.
template <typename Entry>
std::uint64_t take_entries(const Entry* entry, std::vector<std::string>& names, std::uint64_t cookie) {
  for (; entry != nullptr; entry = entry->nextentry) {
    names.emplace_back(entry->name);
    cookie = entry->cookie;
  }
  return cookie;
}

}  // namespace

std::vector<std::string> Session::list(const Handle& folder, std::uint32_t count, bool plus) {
  std::vector<std::string> names;
  std::uint64_t cookie = 0;
  cookieverf3 verifier = {};
  for (;;) {
    const std::size_t before = names.size();
    bool end = false;
    if (plus) {
      READDIRPLUS3args arguments{folder.raw(), cookie, {}, count, count};
      std::memcpy(arguments.cookieverf, verifier, sizeof verifier);
      const auto got = nfs_.call(kReaddirplus, arguments);
      must((*got)->status, "READDIRPLUS");
      const READDIRPLUS3resok& result = (*got)->READDIRPLUS3res_u.resok;
      cookie = take_entries(result.reply.entries, names, cookie);
      std::memcpy(verifier, result.cookieverf, sizeof verifier);
      end = result.reply.eof != 0;
    } else {
      READDIR3args arguments{folder.raw(), cookie, {}, count};
      std::memcpy(arguments.cookieverf, verifier, sizeof verifier);
      const auto got = nfs_.call(kReaddir, arguments);
      must((*got)->status, "READDIR");
      const READDIR3resok& result = (*got)->READDIR3res_u.resok;
      cookie = take_entries(result.reply.entries, names, cookie);
      std::memcpy(verifier, result.cookieverf, sizeof verifier);
      end = result.reply.eof != 0;
    }
    if (end) return names;
    if (names.size() == before) throw RpcError("a listing that neither ends nor goes on");
  }
}

void Session::empty(const Handle& folder) {
  for (const std::string& name : list(folder, kPiece / 4, false)) {
    if (name == "." || name == "..") continue;
    REMOVE3args remove{in_folder(folder, name)};
    if ((*nfs_.call(kRemove, remove))->status == NFS3_OK) continue;
    empty(lookup(folder, name));
    RMDIR3args rmdir{in_folder(folder, name)};
    must((*nfs_.call(kRmdir, rmdir))->status, "RMDIR of " + name);
  }
}

void Session::remove_folder() {
  empty(folder_);
  RMDIR3args rmdir{in_folder(root_, name_)};
  must((*nfs_.call(kRmdir, rmdir))->status, "RMDIR of " + name_);
}

}  // namespace slice::client
