// Controller: has workers, here and on other hosts, put a load on a server, one offered load after the other,
// and merges what they found.
#ifndef SLICE_TESTS_SPEC_LIKE_CONTROLLER_H
#define SLICE_TESTS_SPEC_LIKE_CONTROLLER_H

#include <functional>
#include <vector>

#include "tests/spec-like/report.h"
#include "tests/spec-like/worker.h"

namespace slice::load {

struct Plan {
  Job job;  // of each worker; the folder gets the worker's number
  std::string mix_name, system;
  std::vector<double> rates;          // operations a second, of all together
  double warm_up = 5, interval = 30;  // seconds
  std::uint64_t processes = 1;        // here, or on each host
  std::vector<rpc::Endpoint> hosts;   // empty: here
  bool keep = false;                  // leave the files on the server
};

// `progress` gets a line now and then. The error of the first worker that could not go on; violations are no
// error.
Result<Report> carry_out(const Plan& plan, const std::function<void(const std::string&)>& progress);

}  // namespace slice::load

#endif  // SLICE_TESTS_SPEC_LIKE_CONTROLLER_H
