#include "common/version.h"

namespace slice {

const char* const kVersion = "slice " SLICE_VERSION;

}  // namespace slice
