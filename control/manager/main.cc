// slice-managerd: the ensemble's manager (control/manager/manager.h).
#include "control/manager/manager.h"
#include "service/process.h"

int main(int argc, char** argv) {
  return slice::service::run_process(
      {.role = slice::ServerRole::kManager,
       .about = "slice-managerd: membership, tables and verifiers of an ensemble"},
      argc, argv, [](slice::service::ServiceContext& context) {
        return std::make_unique<slice::manager::Manager>(context);
      });
}
