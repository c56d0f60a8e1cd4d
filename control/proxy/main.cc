// slice-proxyd: the ensemble's proxy (control/proxy/proxy_role.h).
#include "control/proxy/listener_guard.h"
#include "control/proxy/proxy_role.h"

int main(int argc, char** argv) {
  if (auto code = slice::proxy::run_guard(argc, argv)) return *code;
  return slice::service::run_process(
      {.about = "slice-proxyd: serves the volume at its virtual address by routing each request",
       .kinds = {slice::proxy::server_kind()}},
      argc, argv);
}
