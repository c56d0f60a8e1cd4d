// Commands of tests that set a network up.
#ifndef SLICE_CONTROL_XDP_TESTING_SHELL_H
#define SLICE_CONTROL_XDP_TESTING_SHELL_H

#include <cstdlib>
#include <string>

namespace slice::proxy::testing {

inline bool run(const std::string& command) {
  // NOLINTNEXTLINE(cert-env33-c,concurrency-mt-unsafe): one thread, fixed words
  return std::system(command.c_str()) == 0;
}

}  // namespace slice::proxy::testing

#endif  // SLICE_CONTROL_XDP_TESTING_SHELL_H
