// A folder of one's own on a volume, and calls in it that must succeed: what tests and loads are written
// with.
#ifndef SLICE_TESTS_CLUSTER_CLIENT_SESSION_H
#define SLICE_TESTS_CLUSTER_CLIENT_SESSION_H

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/cluster/client/nfs_connection.h"

namespace slice::client {

// Command-line arguments: `--name value`, and flags that take no value. Ends the process at an unknown form.
class Arguments {
 public:
  Arguments(int argc, char** argv, std::set<std::string> flags);
  bool flag(const std::string& name) const { return given_flags_.contains(name); }
  std::string text(const std::string& name, const std::string& otherwise) const;
  std::uint64_t number(const std::string& name, std::uint64_t otherwise) const;
  // A value that must be there; ends the process if it is not.
  std::string needed(const std::string& name) const;
  const std::vector<std::string>& words() const { return words_; }

 private:
  std::map<std::string, std::string> values_;
  std::set<std::string> given_flags_;
  std::vector<std::string> words_;
};

// Which volume, and how to reach it.
struct Settings {
  std::string server, mount_server, path = "/";
  std::uint16_t port = 2049, mount_port = 20048;
  Transport transport = Transport::kTcp;
  double patience = 60;
};

// --server A [--mount-server A] [--export PATH] [--port N] [--mount-port N] [--transport tcp|udp] [--patience
// S]
Settings settings_from(const Arguments& arguments);

// How long a load goes on: [--seconds N] [--while FILE], not longer than that file is there.
class LoadTime {
 public:
  explicit LoadTime(const Arguments& arguments);
  bool over() const;

 private:
  double until_;
  std::string wanted_;
};

// Calls throw RpcError when no answer came, or when a status other than OK came that the name does not
// announce.
class Session {
 public:
  // Mounts, and makes (or empties) a folder of this name in the export's root.
  Session(const Settings& settings, const std::string& folder);

  const Settings& settings() const { return settings_; }
  ConnectionOptions nfs_options(Credential credential) const;
  ConnectionOptions mount_options() const;
  NfsConnection& nfs() { return nfs_; }
  const Handle& root() const { return root_; }
  const Handle& folder() const { return folder_; }

  Handle create(const std::string& name) { return create(folder_, name); }
  Handle create(const Handle& folder, const std::string& name);
  Handle make_folder(const std::string& name);
  Handle lookup(const std::string& name) { return lookup(folder_, name); }
  Handle lookup(const Handle& folder, const std::string& name);
  nfsstat3 lookup_status(const std::string& name);
  nfsstat3 remove(const std::string& name);
  nfsstat3 setattr(const Handle& object, const sattr3& attributes);
  fattr3 attributes(const Handle& object);
  // Writes all bytes, in as many calls as the server's short counts ask for; returns the write verifiers of
  // all: a server may have restarted between two.
  std::set<std::string> write(const Handle& file, std::uint64_t offset, std::string_view bytes,
                              stable_how stable);
  // Reads up to `size` bytes, less at the end of the file, in pieces of 32 KiB.
  std::string read(const Handle& file, std::uint64_t offset, std::size_t size);
  // Returns the verifier.
  std::string commit(const Handle& file);
  // All names, with "." and ".." if the server lists them.
  std::vector<std::string> list(const Handle& folder, std::uint32_t count, bool plus);
  // Removes the session's folder and all below.
  void remove_folder();

 private:
  void empty(const Handle& folder);

  Settings settings_;
  Handle root_;
  NfsConnection nfs_;
  std::string name_;
  Handle folder_;
};

}  // namespace slice::client

#endif  // SLICE_TESTS_CLUSTER_CLIENT_SESSION_H
