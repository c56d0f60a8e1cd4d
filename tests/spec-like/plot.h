// Plots of reports, drawn by gnuplot: throughput against offered load, and latency against throughput, a line
// a report.
#ifndef SLICE_TESTS_SPEC_LIKE_PLOT_H
#define SLICE_TESTS_SPEC_LIKE_PLOT_H

#include <string>
#include <vector>

#include "tests/spec-like/report.h"

namespace slice::load {

// What gnuplot is told; `path` ends with .svg or .png.
std::string plot_script(const std::vector<Report>& reports, const std::string& path);
// kInvalid for another ending; kIo where gnuplot is not there or fails.
Status plot(const std::vector<Report>& reports, const std::string& path);

}  // namespace slice::load

#endif  // SLICE_TESTS_SPEC_LIKE_PLOT_H
