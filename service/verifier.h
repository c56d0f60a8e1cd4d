// VerifierClock: the largest write verifier this process knows of; what data servers answer
// (docs/architecture.md, "Write verifier"). Starts with the number drawn at start; only grows. One loop.
#ifndef SLICE_SERVICE_VERIFIER_H
#define SLICE_SERVICE_VERIFIER_H

#include <algorithm>

#include "common/ids.h"

namespace slice::service {

class VerifierClock {
 public:
  explicit VerifierClock(Verifier drawn) : largest_(drawn) {}
  Verifier largest() const { return largest_; }
  void see(Verifier other) { largest_ = std::max(largest_, other); }

 private:
  Verifier largest_;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_VERIFIER_H
