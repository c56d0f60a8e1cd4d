#include "dirserver/fsck/keys.h"

#include "dirserver/cells/client_locks.h"
#include "dirserver/cells/steps.h"

namespace slice::dirserver::fsck {
namespace {

// The value's own error, without the value.
template <class T>
Status status_of(Result<T> result) {
  if (!result) return fail(std::move(result).error());
  return {};
}

}  // namespace

int numbers_size(CellKind kind) {
  switch (kind) {
    case CellKind::kAttributes:
    case CellKind::kClientLocks:
    case CellKind::kDuplicate:
    case CellKind::kOwedTouch:
    case CellKind::kPart:
    case CellKind::kReclaim:
    case CellKind::kTruncation:
      return 8;
    case CellKind::kCut:
    case CellKind::kIntention:
    case CellKind::kKnownPart:
    case CellKind::kName:
      return 16;
    case CellKind::kPrepared:
      return 24;
    case CellKind::kSequence:
      return 0;
    case CellKind::kFormat:
      break;  // of no site
  }
  return -1;
}

bool good_key(std::string_view key) {
  return key.size() >= 5 && static_cast<int>(key.size()) - 5 == numbers_size(kind_of(key));
}

Status check_value(std::string_view key, std::string_view value) {
  switch (kind_of(key)) {
    case CellKind::kAttributes:
      return status_of(decode_attribute_cell(site_of(key), value));
    case CellKind::kDuplicate:
      return status_of(decode_duplicate(value));
    case CellKind::kClientLocks:
      return status_of(decode_client_locks(value));
    case CellKind::kCut:
      return status_of(decode_cut(value));
    case CellKind::kReclaim:
      return status_of(decode_reclaim(value));
    case CellKind::kTruncation:
      return status_of(decode_truncation(value));
    case CellKind::kName:
      return status_of(decode_name_bucket(value));
    case CellKind::kSequence:
      return status_of(decode_number(value));
    case CellKind::kPart:
      return status_of(decode_part(value));
    case CellKind::kKnownPart:
      return status_of(decode_known_part(value));
    case CellKind::kOwedTouch:
      return status_of(decode_owed_touch(value));
    case CellKind::kIntention:
      return status_of(decode_intention(value));
    case CellKind::kPrepared:
      return status_of(decode_prepared(site_of(key), value));
    case CellKind::kFormat:
      break;
  }
  return fail(Errc::kCorrupt, "no such kind of cell");
}

std::string key_text(std::string_view key) {
  if (key.size() < 5) return fmt::format("key {}", to_hex(as_bytes(key)));
  std::string text = fmt::format("site {} {}", site_of(key).value, to_hex(as_bytes(key.substr(4, 1))));
  if (key[4] >= 'A' && key[4] <= 'Z') text.replace(text.size() - 2, 2, 1, key[4]);
  if (key.size() > 5) text += " 0x" + to_hex(as_bytes(key.substr(5)));
  return text;
}

}  // namespace slice::dirserver::fsck
