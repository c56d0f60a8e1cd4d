// slice-coordd: the coordinator.
#include "coordinator/server.h"
#include "service/process.h"

int main(int argc, char** argv) {
  using namespace slice;
  return service::run_process(
      {.role = ServerRole::kCoordinator, .about = "Slice coordinator"}, argc, argv,
      [](service::ServiceContext& context) { return std::make_unique<coordinator::Coordinator>(context); });
}
