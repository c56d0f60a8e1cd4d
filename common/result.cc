#include "common/result.h"

namespace slice {

std::string_view errc_name(Errc code) {
  switch (code) {
    case Errc::kInvalid:
      return "invalid";
    case Errc::kCorrupt:
      return "corrupt";
    case Errc::kNotFound:
      return "not found";
    case Errc::kExists:
      return "exists";
    case Errc::kDenied:
      return "denied";
    case Errc::kQuota:
      return "quota";
    case Errc::kNoSpace:
      return "no space";
    case Errc::kIo:
      return "I/O error";
    case Errc::kUnavailable:
      return "unavailable";
    case Errc::kTimedOut:
      return "timed out";
    case Errc::kMisdirected:
      return "misdirected";
    case Errc::kStale:
      return "stale";
    case Errc::kTooLarge:
      return "too large";
  }
  return "unknown";
}

}  // namespace slice
