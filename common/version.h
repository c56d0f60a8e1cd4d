// The version of all programs, as `--version` says it.
#ifndef SLICE_COMMON_VERSION_H
#define SLICE_COMMON_VERSION_H

namespace slice {

inline constexpr const char* kVersion = "slice 0.1.0";

}  // namespace slice

#endif  // SLICE_COMMON_VERSION_H
