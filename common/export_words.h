// Exports, as the configuration has them (docs/configuration.md), and the words of exports(5) for those who
// know them: who may be named as a client, and the options behind it.
#ifndef SLICE_COMMON_EXPORT_WORDS_H
#define SLICE_COMMON_EXPORT_WORDS_H

#include <string_view>

#include "common/config.h"
#include "common/config_section.h"
#include "common/result.h"

namespace slice {

// "*", an address, ADDRESS/BITS or ADDRESS/MASK into `out`. kInvalid, with what to write in its place: other
// words of exports(5), such as a netgroup, and what is no word of it.
Status read_export_client(std::string_view word, ExportConfig& out);

// "rw,no_root_squash,..." into `out`; a later word outdoes an earlier one. Words that ask for what is so
// anyway are good. kInvalid, with the cure: words that ask for what there is not, words that no exports(5)
// has.
Status read_export_options(std::string_view options, ExportConfig& out);

// For .cc files that read TOML: [[export]], into config.exports, and what is hardly meant into its warnings.
// Behind [proxy], whose certificate those need that want TLS.
void read_exports(config_internal::Refusals& refusals, const toml::array& entries, EnsembleConfig& config);

}  // namespace slice

#endif  // SLICE_COMMON_EXPORT_WORDS_H
