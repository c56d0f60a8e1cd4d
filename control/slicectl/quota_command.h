// `slicectl quota`: what users, groups and trees may have, and what they have (docs/quotas.md).
#ifndef SLICE_CONTROL_SLICECTL_QUOTA_COMMAND_H
#define SLICE_CONTROL_SLICECTL_QUOTA_COMMAND_H

#include <optional>
#include <string>

#include "cli/command_line.h"
#include "control/slicectl/output.h"
#include "control/slicectl/queries.h"

namespace slice::slicectl {

// Nothing where it is anything else.
std::optional<std::uint32_t> parse_number(std::string_view text, int base = 10);
// "SOFT[:HARD]", sizes as in a configuration; 0: there is no such limit. A soft limit alone has no hard one.
// kInvalid.
Result<QuotaLimit> parse_quota_limit(std::string_view text);
// "90s", "30m", "12h", "7d": seconds. kInvalid.
Result<std::uint32_t> parse_grace(std::string_view text);
std::string grace_text(std::uint64_t seconds);
// By the host's users and groups, or a tree's path; or its number. kNotFound.
Result<QuotaId> find_owner(const std::string& kind, const std::string& name, const Settings& settings);
// `now`: seconds of the wall clock.
std::string render_quotas(const wire::QuotaUsageResult& usage, const Settings& settings, std::uint64_t now,
                          Format format);

class QuotaCommand {
 public:
  explicit QuotaCommand(const cli::Command& app);

  bool parsed() const { return quota_.parsed(); }
  // What was asked for in the wrong way; also before a configuration is read.
  Status check();
  // The exit code: 1 where nothing was changed, or nobody of that name has a quota; 3 where it is changed,
  // and some processes do not know it yet.
  Task<int> run(const Seams& seams, const Output& output);

 private:
  Task<int> change(const Seams& seams, const Output& output, wire::ChangeQuotaArgs args);
  Task<int> show(const Seams& seams, const Output& output, wire::QuotaUsageArgs args);

  cli::Command quota_, set_, show_, list_, remove_;
  std::string kind_, name_, space_, files_, grace_;
  wire::ChangeQuotaArgs change_;  // check() sets it, and run() whose
  Settings settings_;             // run() asks for them
};

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_QUOTA_COMMAND_H
