// slice-proxyd: the ensemble's proxy (control/proxy/proxy_role.h).
#include "control/proxy/proxy_role.h"
#include "service/process.h"

int main(int argc, char** argv) {
  return slice::service::run_process(
      {.role = slice::ServerRole::kProxy,
       .about = "slice-proxyd: serves the volume at its virtual address by routing each request"},
      argc, argv, [](slice::service::ServiceContext& context) {
        return std::make_unique<slice::proxy::ProxyRole>(context);
      });
}
