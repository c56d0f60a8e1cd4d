// NbdMetrics: what an NbdServer counts, and which of its log lines may be written now.
#ifndef SLICE_BLOCK_NBD_METRICS_H
#define SLICE_BLOCK_NBD_METRICS_H

#include <array>
#include <cstdint>
#include <string_view>

#include "block/nbd.h"
#include "common/log.h"
#include "common/metrics.h"

namespace slice::block {

// Why a client did not get what it asked for before there were requests.
enum class NbdRefusal : std::uint8_t {
  kStranger,       // of an address that nobody lets in
  kCrowded,        // too many connections, or its place was needed
  kSlow,           // it took too long
  kMalformed,      // no NBD, or not as the protocol has it
  kTooMany,        // options
  kUnknownExport,  //
  kCannotOpen,     // the device
  kTls,            // not offered, not asked for where it has to be, or failed
  kKinds
};
// Why the server ended a connection that had requests.
enum class NbdEnd : std::uint8_t { kMalformed, kStalled, kKinds };
enum class NbdLine : std::uint8_t { kOpened, kEnded, kRefused, kFailed, kKinds };

class NbdMetrics {
 public:
  // Which outlives it.
  explicit NbdMetrics(Metrics& metrics);

  void count(nbd::Command command);
  void count(nbd::ErrorNumber error);
  void count(NbdRefusal why) { refused_[static_cast<std::size_t>(why)]->add(); }
  void count(NbdEnd why) { ended_[static_cast<std::size_t>(why)]->add(); }
  bool may_log(NbdLine kind) { return lines_.allow(kind); }

  Gauge& connections;
  Counter &read, &written;  // bytes

 private:
  static constexpr std::array kCommands{nbd::Command::kRead,  nbd::Command::kWrite,
                                        nbd::Command::kFlush, nbd::Command::kWriteZeroes,
                                        nbd::Command::kTrim,  nbd::Command::kBlockStatus};
  static constexpr std::array kErrors{nbd::ErrorNumber::kIo, nbd::ErrorNumber::kInvalid,
                                      nbd::ErrorNumber::kNoSpace, nbd::ErrorNumber::kOverflow,
                                      nbd::ErrorNumber::kShutdown};
  std::array<Counter*, kCommands.size() + 1> requests_{};  // the last: of other commands
  std::array<Counter*, kErrors.size()> errors_{};
  std::array<Counter*, static_cast<std::size_t>(NbdRefusal::kKinds)> refused_{};
  std::array<Counter*, static_cast<std::size_t>(NbdEnd::kKinds)> ended_{};
  LogLimiters<NbdLine> lines_{5};
};

std::string_view text_of(NbdRefusal why);

// As much of a name as a log line has room for.
inline std::string_view short_name(std::string_view name) {
  constexpr std::size_t kMost = 64;
  return name.substr(0, kMost);
}

}  // namespace slice::block

#endif  // SLICE_BLOCK_NBD_METRICS_H
