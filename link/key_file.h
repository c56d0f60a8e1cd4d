// The secret that a target of the link shares with its clients, as it lies in a file.
#ifndef SLICE_LINK_KEY_FILE_H
#define SLICE_LINK_KEY_FILE_H

#include <string>

#include "common/keys.h"
#include "common/result.h"

namespace slice::link {

// What frames' keys are made of (docs/formats/link.md). Errors: read_secret()'s.
Result<Key> read_key(const std::string& path);

}  // namespace slice::link

#endif  // SLICE_LINK_KEY_FILE_H
