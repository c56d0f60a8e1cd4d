// Commands of tests that set a network up.
#ifndef SLICE_CONTROL_XDP_TESTING_SHELL_H
#define SLICE_CONTROL_XDP_TESTING_SHELL_H

#include <cstdlib>

namespace slice::proxy::testing {

inline bool run(const char* command) {
  return std::system(command) == 0;  // NOLINT(cert-env33-c,concurrency-mt-unsafe): one thread, fixed words
}

}  // namespace slice::proxy::testing

#endif  // SLICE_CONTROL_XDP_TESTING_SHELL_H
