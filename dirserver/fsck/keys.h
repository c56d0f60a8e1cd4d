// What a key says: the reverse of cells/cells.h's key functions.
#ifndef SLICE_DIRSERVER_FSCK_KEYS_H
#define SLICE_DIRSERVER_FSCK_KEYS_H

#include <cstdint>
#include <string>
#include <string_view>

#include "common/bytes.h"
#include "dirserver/cells/cells.h"

namespace slice::dirserver::fsck {

inline constexpr unsigned kSequenceBits = 48;  // of a fileID: below the site that gave it out

// The site that gave the fileID out, where its attribute cell is.
inline SiteId home_of(FileId file) {
  return routing::directory_site_of(file);
}

// Keys have 5 bytes at least: a cursor gives no others.
inline SiteId site_of(std::string_view key) {
  return SiteId{load_be<std::uint32_t>(reinterpret_cast<const std::uint8_t*>(key.data()))};
}
inline CellKind kind_of(std::string_view key) {
  return static_cast<CellKind>(key[4]);
}
// The first number behind the kind, and the second.
inline std::uint64_t first_number(std::string_view key) {
  return load_be<std::uint64_t>(reinterpret_cast<const std::uint8_t*>(key.data()) + 5);
}
inline FileId file_of(std::string_view key) {
  return FileId{first_number(key)};
}
// The site at the end of a known part's or a prepared change's key.
inline SiteId site_in(std::string_view key) {
  return SiteId{static_cast<std::uint32_t>(last_number(key))};
}
// Of a name cell's key.
inline Position position_in(std::string_view key) {
  return Position{last_number(key)};
}

// How many bytes the numbers of a key of this kind take; -1: no such kind.
int numbers_size(CellKind kind);
// A kind there is, with the numbers that it has.
bool good_key(std::string_view key);
// Decodes a value by its key's kind; what is wrong with it, or nothing.
Status check_value(std::string_view key, std::string_view value);
// A key for people: "site 3 A 0x3000000000001".
std::string key_text(std::string_view key);

}  // namespace slice::dirserver::fsck

#endif  // SLICE_DIRSERVER_FSCK_KEYS_H
