// The version of all programs, as `--version` says it: "slice " and the version of CMakeLists.txt's
// project().
#ifndef SLICE_COMMON_VERSION_H
#define SLICE_COMMON_VERSION_H

namespace slice {

extern const char* const kVersion;

}  // namespace slice

#endif  // SLICE_COMMON_VERSION_H
