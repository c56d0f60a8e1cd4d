// slice-managerd: the ensemble's manager (control/manager/role.h).
#include "control/manager/role.h"

int main(int argc, char** argv) {
  return slice::service::run_process(
      {.about = "slice-managerd: membership, tables and verifiers of an ensemble",
       .kinds = {slice::manager::server_kind()}},
      argc, argv);
}
