// Whether processes go by the manager's tables, and servers' records of their sites say the same, as
// heartbeats tell it: `slicectl tables --check`.
#ifndef SLICE_CONTROL_SLICECTL_COMPARISON_H
#define SLICE_CONTROL_SLICECTL_COMPARISON_H

#include <string>
#include <vector>

#include "wire/manager.h"

namespace slice::slicectl {

enum class Agreement {
  kSame,
  kDiffers,
  kNone,     // it has none
  kUnknown,  // it is silent
  kNotApplicable
};
std::string_view agreement_text(Agreement agreement);

struct ComparedProcess {
  std::string name;
  wire::Role role = wire::Role::kDirectory;
  std::size_t sites = 0;  // by the tables
  Agreement tables = Agreement::kUnknown;
  Agreement record = Agreement::kNotApplicable;
  Generation generation;  // of its tables
};

std::vector<ComparedProcess> compare(const wire::Tables& tables, const wire::MembersResult& members);
// Of them all: kDiffers where one does or has none, else kUnknown where one is silent, else kSame.
Agreement overall(const std::vector<ComparedProcess>& processes);

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_COMPARISON_H
