// How a command of slicectl that takes its time shows what it does.
#ifndef SLICE_CONTROL_SLICECTL_OUTPUT_H
#define SLICE_CONTROL_SLICECTL_OUTPUT_H

#include <functional>
#include <string>

#include "common/result.h"
#include "control/slicectl/render.h"

namespace slice::slicectl {

// The exit code where something is changed, and some processes do not know it yet.
inline constexpr int kSomeAreLate = 3;

struct Output {
  std::function<int(const Error& error)> say;           // tells of an error; the exit code
  std::function<int(const std::string& text)> print;    // shows a result; the exit code
  std::function<void(const std::string& text)> report;  // tells what goes on, a line
  Format format = Format::kText;
  bool terminal = false;  // what was shown may be shown anew in its place
};

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_OUTPUT_H
