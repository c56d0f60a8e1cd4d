// The programs of stages.bpf.c, loaded over the tables of an XdpHarness.
#ifndef SLICE_TESTS_PACKET_STAGES_H
#define SLICE_TESTS_PACKET_STAGES_H

#include <string>
#include <vector>

#include "tests/packet/xdp_harness.h"

struct stages;  // bpftool's skeleton

namespace slice::packet {

class Stages {
 public:
  // Aborts with a message when they cannot be loaded. `xdp` lives longer.
  explicit Stages(const XdpHarness& xdp);
  ~Stages();
  Stages(const Stages&) = delete;
  Stages& operator=(const Stages&) = delete;

  struct Program {
    std::string stage;  // "decoded", ...: where it ends; "whole": not before its end
    int fd;
  };
  // Those of a path: "read", "request", "reply".
  std::vector<Program> of(const std::string& path) const;

 private:
  stages* skeleton_;
};

}  // namespace slice::packet

#endif  // SLICE_TESTS_PACKET_STAGES_H
