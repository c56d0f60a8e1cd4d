// Mix: what a load consists of: which operations in which shares, alone or in order, on a file set of which
// sizes. A mix is a TOML file; the built-in ones are such files, kept in the program (built_in_mixes.cc).
// docs/load.md explains the keys.
#ifndef SLICE_TESTS_SPEC_LIKE_MIX_H
#define SLICE_TESTS_SPEC_LIKE_MIX_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "tests/sim/random.h"

namespace slice::load {

enum class Step {
  kLookup,
  kMissing,
  kAccess,
  kGetattr,
  kSetattr,
  kRead,
  kWrite,
  kAppend,
  kCommit,
  kCreate,
  kRemove,
  kRename,
  kReadlink,
  kReaddir,
  kReaddirplus,
  kFsstat
};
inline constexpr std::size_t kSteps = 16;
std::string_view step_name(Step step);
Result<Step> step_of(std::string_view name);

// Steps that are done one after the other on one file.
struct Transaction {
  double weight = 0;
  std::vector<Step> steps;
};

struct SizeShare {
  std::uint64_t bytes = 0;
  double weight = 0;
};

struct Mix {
  std::string name;
  std::vector<Transaction> transactions;
  std::vector<SizeShare> sizes;
  std::uint64_t bytes_per_op = 0;  // of the file set, for each operation a second of the load
  std::uint64_t files = 0;         // at least, of each client
  double working_set = 1;          // share of the files that is used
  std::uint32_t files_per_directory = 30;
  std::uint32_t links_per_directory = 4;
  double missing = 0;             // share of lookups that are of names that are not there
  double append = 0;              // share of writes that make the file longer
  std::uint32_t transfer = 8192;  // bytes of a READ or WRITE, a multiple of kBlock
  bool sequential = false;        // the next bytes of a file, not any
  bool file_sync = false;         // writes are FILE_SYNC, not UNSTABLE

  double steps_per_transaction() const;
  double mean_file_size() const;
};

// kInvalid, with file and line, for what is no mix.
Result<Mix> parse_mix(std::string_view text, const std::string& path);
// The text of a built-in mix, or of the file where the name ends with ".toml". kNotFound where there is none.
Result<std::string> mix_text(const std::string& name);
std::vector<std::string_view> built_in_mixes();
std::string_view built_in_mix(std::string_view name);  // empty: no such mix

// Draws with the given weights.
class Chooser {
 public:
  Chooser() = default;
  explicit Chooser(const std::vector<double>& weights);
  std::size_t draw(sim::Random& random) const;

 private:
  std::vector<double> up_to_;  // sums of the weights
};
Chooser transactions_of(const Mix& mix);
Chooser sizes_of(const Mix& mix);

}  // namespace slice::load

#endif  // SLICE_TESTS_SPEC_LIKE_MIX_H
