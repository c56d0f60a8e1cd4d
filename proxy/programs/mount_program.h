// MountProgram: MOUNT version 3 (RFC 1813 appendix I) on the virtual address. Exports one path, and
// directories below it, which it finds by LOOKUPs at directory servers, as the client itself would.
#ifndef SLICE_PROXY_PROGRAMS_MOUNT_PROGRAM_H
#define SLICE_PROXY_PROGRAMS_MOUNT_PROGRAM_H

#include <set>
#include <string>

#include "common/log.h"
#include "common/settings.h"
#include "proxy/tables/tables.h"
#include "routing/file_handle.h"
#include "rpc/channel.h"
#include "rpc/dispatcher.h"
#include "rpc/refusals.h"
#include "service/access.h"
#include "wire/mount3.h"

namespace slice::proxy {

// The components of `path` below `export_path` ("" and "." left out); nothing where it is not below it.
std::optional<std::vector<std::string>> path_below(std::string_view path, std::string_view export_path);

class MountProgram : public rpc::Program {
 public:
  // All of it outlives the program.
  MountProgram(const EnsembleConfig& config, const LiveSettings& settings, Tables tables,
               rpc::Channel& channel, Metrics& metrics);
  std::uint32_t number() const override { return mount3::kProgram; }
  std::uint32_t version() const override { return mount3::kVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override;

 private:
  struct Found {
    mount3::Status status = mount3::Status::kOk;
    std::vector<std::uint8_t> handle;
    rpc::Refused why = rpc::Refused::kPath;  // where it is not kOk
    TreeId tree = {};  // that the directory is in; or the last on the way to where none is
  };
  Task<Found> mount(rpc::Endpoint client, std::string path);
  Found refused(service::Stranger why);
  // Down the path, whoever may.
  Task<Found> walk(std::string path);
  Task<Found> step(const std::vector<std::uint8_t>& directory, const std::string& name);
  std::vector<mount3::ExportEntry> exports() const;
  std::vector<std::uint32_t> flavors(IpAddress client, TreeId tree) const;

  const EnsembleConfig& config_;
  const LiveSettings& settings_;
  Tables tables_;
  rpc::Channel& channel_;
  routing::HandleCodec handles_;
  Counter &mounts_, &refused_, &unreserved_ports_;
  void note(IpAddress address, const std::string& path);

  void note_refused(rpc::Endpoint client, const std::string& path, const Found& found);

  rpc::Refusals refusals_;
  LogLimiter no_answer_limit_{2};
  std::size_t mounted_bytes_ = 0;                          // of the paths in it
  std::set<std::pair<std::string, std::string>> mounted_;  // host, path: what DUMP shows, as far as is known
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_PROGRAMS_MOUNT_PROGRAM_H
