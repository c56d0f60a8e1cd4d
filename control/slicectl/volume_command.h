// `slicectl volume`: raw volumes, which slice-blockd serves to block clients (docs/raw-volumes.md).
#ifndef SLICE_CONTROL_SLICECTL_VOLUME_COMMAND_H
#define SLICE_CONTROL_SLICECTL_VOLUME_COMMAND_H

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "block/raw_volumes.h"
#include "cli/command_line.h"
#include "control/slicectl/output.h"
#include "control/slicectl/queries.h"

namespace slice::slicectl {

// "1MiB": the logarithm of a stripe unit. kInvalid.
Result<std::uint32_t> parse_stripe_unit(const std::string& text);
// "hash": FilePolicy::placement; of kPlacementNames.
std::uint32_t placement_of(const std::string& name);

// A line of `volume list`. Nothing but the name: making it was cut off.
struct ListedVolume {
  std::string name;
  std::optional<block::RawVolume> volume;
};
std::string render_volumes(const std::vector<ListedVolume>& volumes, Format format);
std::string render_volume(const block::RawVolume& volume, const Where& where, Format format);

class VolumeCommand {
 public:
  explicit VolumeCommand(const cli::Command& app);

  bool parsed() const { return volume_.parsed(); }
  // What was asked for in the wrong way; also before a configuration is read.
  Status check();
  // The exit code.
  Task<int> run(const Seams& seams, const Output& output);

 private:
  using Tables = std::shared_ptr<const routing::RoutingTables>;
  Task<Status> create(const Seams& seams, const Tables& tables);
  Task<Status> make_folder(const Seams& seams, const Tables& tables);
  Task<Status> make_data(const Seams& seams, const Tables& tables, const Where& folder);
  Task<Status> resize(const Seams& seams, const Tables& tables);
  Task<Status> remove(const Seams& seams, const Tables& tables);
  Task<Result<std::string>> list(const Seams& seams, const Tables& tables, Format format);
  Task<Result<std::string>> status(const Seams& seams, const Tables& tables, Format format);

  cli::Command volume_, create_, list_, status_, resize_, remove_;
  std::string name_, size_text_, stripe_unit_, placement_;
  wire::FilePolicy policy_;
  bool shrink_ = false;
  std::uint64_t size_ = 0;  // check() sets it
};

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_VOLUME_COMMAND_H
