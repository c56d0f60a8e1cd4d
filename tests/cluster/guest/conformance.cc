// Conformance tests of a mounted volume: conformance FOLDER [TOPIC...]
//
// Run as root on the mount (tests act as several users). Also runs on a local file system, which is how the
// tests themselves are tested. Exit code 1 when a test failed.

#include "tests/cluster/guest/conformance.h"

#include <cstdio>

int main(int argc, char** argv) {
  using namespace slice::guest;
  if (argc < 2 || geteuid() != 0) {
    std::fprintf(stderr, "usage, as root: conformance FOLDER [TOPIC...]\n");
    return 2;
  }
  std::vector<Test> tests;
  for (auto topic : {basic_tests, general_tests, listing_tests, data_tests, error_tests, permission_tests,
                     attribute_tests}) {
    for (Test& test : topic()) tests.push_back(std::move(test));
  }
  const std::vector<std::string> topics(argv + 2, argv + argc);
  return run_tests(argv[1], tests, topics) == 0 ? 0 : 1;
}
