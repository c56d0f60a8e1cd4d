// slice-proxyd: the ensemble's proxy (control/proxyd/proxy_role.h).
#include "control/proxyd/proxy_role.h"
#include "proxy/front/listener_guard.h"

int main(int argc, char** argv) {
  if (auto code = slice::proxy::run_guard(argc, argv)) return *code;
  return slice::service::run_process(
      {.about = "slice-proxyd: serves the volume at its virtual address by routing each request",
       .kinds = {slice::proxy::server_kind()}},
      argc, argv);
}
