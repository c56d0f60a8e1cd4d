// slice-coordd: the coordinator.
#include "coordinator/server.h"

int main(int argc, char** argv) {
  return slice::service::run_process(
      {.about = "Slice coordinator", .kinds = {slice::coordinator::server_kind()}}, argc, argv);
}
