// Report: what a run found, as JSON (docs/formats/load-report.md), as text, and beside another one.
#ifndef SLICE_TESTS_SPEC_LIKE_REPORT_H
#define SLICE_TESTS_SPEC_LIKE_REPORT_H

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tests/spec-like/tally.h"

namespace slice::load {

// One offered load.
struct Point {
  double offered = 0;  // operations a second
  double seconds = 0;  // of the interval
  std::uint64_t files = 0;
  Tally tally;
  double achieved() const { return static_cast<double>(tally.completed()) / seconds; }
};

struct Report {
  std::string system;  // what the server is called
  std::string server, mix, transport;
  std::uint64_t seed = 0, processes = 0, clients = 0;  // clients: of all processes together
  double warm_up = 0;
  std::vector<Point> points;
  std::uint64_t violations() const;
  std::uint64_t failed() const;
};

nlohmann::json to_json(const Tally& tally);
// kInvalid where it is no tally.
Result<Tally> tally_from(const nlohmann::json& json);
std::string to_json_text(const Report& report);
Result<Report> report_from(std::string_view text, const std::string& path);
Result<Report> read_report(const std::string& path);

// For people: a line for each load, then one for each operation of each load.
std::string to_text(const Report& report);
// Loads that both have, by what each offered; and the most that each achieved.
std::string compare(const Report& a, const Report& b);

}  // namespace slice::load

#endif  // SLICE_TESTS_SPEC_LIKE_REPORT_H
