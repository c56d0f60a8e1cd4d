#include "tests/packet/stages.h"

#include <bpf/libbpf.h>

#include "stages.skel.h"

namespace slice::packet {

Stages::Stages(const XdpHarness& xdp) : skeleton_(stages__open()) {
  require(skeleton_ != nullptr, "opening the programs");
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, skeleton_->obj) {
    if (bpf_map__is_internal(map)) continue;
    require(bpf_map__reuse_fd(map, xdp.map_fd(bpf_map__name(map))) == 0, bpf_map__name(map));
  }
  require(stages__load(skeleton_) == 0, "loading the programs");
}

Stages::~Stages() {
  stages__destroy(skeleton_);
}

std::vector<Stages::Program> Stages::of(const std::string& path) const {
  std::vector<Program> found;
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, skeleton_->obj) {
    std::string name = bpf_program__name(program);
    if (name.starts_with(path + "_"))
      found.push_back({name.substr(path.size() + 1), bpf_program__fd(program)});
  }
  return found;
}

}  // namespace slice::packet
