// Result<T>: how operating errors travel. Programmer errors are asserted instead.
#ifndef SLICE_COMMON_RESULT_H
#define SLICE_COMMON_RESULT_H

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace slice {

// What kind of failure it is, as far as a caller may act on it. NFS status numbers are named in
// wire/nfs_status.h only, and made from these in one place there.
enum class Errc {
  kInvalid,      // the input (configuration, message, argument) is wrong
  kCorrupt,      // stored bytes fail their checksum or their format
  kNotFound,     //
  kExists,       //
  kDenied,       // authentication or permission
  kNoSpace,      //
  kQuota,        // a user's or group's quota leaves no room
  kIo,           // the disk or the system refused
  kUnavailable,  // the peer cannot be reached now; trying again is right
  kTimedOut,     // no answer in time; the peer may or may not have acted
  kMisdirected,  // the peer does not own the site
  kStale,        // the object named no longer exists, or an older epoch
  kTooLarge,     // over a stated limit
};

std::string_view errc_name(Errc code);

struct [[nodiscard]] Error {
  Errc code;
  std::string message;  // one line, no newline; says what, where, and what was expected
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

// fail(Errc::kInvalid, "{}:{}: no such role", file, line): an Error ready to be returned from any Result.
template <class... Args>
tl::unexpected<Error> fail(Errc code, fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

// Passes a callee's error on, with what the caller knows put before it.
inline tl::unexpected<Error> fail(const Error& cause, std::string_view context) {
  return tl::unexpected<Error>(Error{cause.code, fmt::format("{}: {}", context, cause.message)});
}
inline tl::unexpected<Error> fail(Error cause) {
  return tl::unexpected<Error>(std::move(cause));
}

}  // namespace slice

// Return (RETURN_IF_ERROR) or co_return (CO_RETURN_IF_ERROR) the error of a Result-valued expression.
#define SLICE_RETURN_IF_ERROR(expression)                     \
  do {                                                        \
    if (auto slice_result_ = (expression); !slice_result_)    \
      return ::slice::fail(std::move(slice_result_).error()); \
  } while (false)
#define SLICE_CO_RETURN_IF_ERROR(expression)                     \
  do {                                                           \
    if (auto slice_result_ = (expression); !slice_result_)       \
      co_return ::slice::fail(std::move(slice_result_).error()); \
  } while (false)

#endif  // SLICE_COMMON_RESULT_H
