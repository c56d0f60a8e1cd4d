// Tally: what was measured and what was found wrong; those of several clients and processes merge.
#ifndef SLICE_TESTS_SPEC_LIKE_TALLY_H
#define SLICE_TESTS_SPEC_LIKE_TALLY_H

#include <array>
#include <string>
#include <vector>

#include "tests/spec-like/histogram.h"
#include "wire/nfs3.h"

namespace slice::load {

struct Tally {
  struct Operation {
    Histogram latency;            // nanoseconds, of operations that were due within the interval
    std::uint64_t completed = 0;  // within the interval
  };
  std::array<Operation, nfs3::kProcedureCount> operations;
  std::uint64_t not_sent =
      0;  // due within the interval, but too many were under way; in the histograms as they then stood
  std::uint64_t failed = 0;        // without an answer
  std::uint64_t violations = 0;    // of the standard, or of what must be there
  std::uint64_t told_to_wait = 0;  // answered JUKEBOX
  std::uint64_t resent = 0;        // calls sent again
  std::uint64_t replayed = 0;      // a resent REMOVE or RENAME that was carried out twice
  std::uint64_t rewritten = 0;     // files written again, since the write verifier had changed
  std::uint64_t contended = 0;     // operations that waited for a file to be free
  std::uint64_t bytes_read = 0, bytes_written = 0;  // within the interval
  double processor_seconds = 0;                     // of the generator, within the interval
  std::vector<std::string> texts;                   // of the first violations and failures

  static constexpr std::size_t kTexts = 100;

  Operation& of(nfs3::Procedure procedure) { return operations[static_cast<std::size_t>(procedure)]; }
  Histogram latency() const;  // of all operations
  std::uint64_t completed() const;
  void merge(const Tally& other);
};

}  // namespace slice::load

#endif  // SLICE_TESTS_SPEC_LIKE_TALLY_H
