#include "dirserver/across/answer.h"

#include "common/log.h"

namespace slice::dirserver {

void log_refusal(const Error& error) {
  static LogLimiter limiter(5);
  bool worth_a_line = error.code == Errc::kIo || error.code == Errc::kCorrupt;
  if (worth_a_line && limiter.allow()) log_error("{}: {}", errc_name(error.code), error.message);
}

tl::unexpected<nfs3::Status> refuse(const Error& error) {
  log_refusal(error);
  return refuse(nfs3::status_of(error));
}

}  // namespace slice::dirserver
