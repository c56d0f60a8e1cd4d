// slice-hostd: several servers of an ensemble in one process (service/process.h).
#include "control/manager/role.h"
#include "control/proxyd/proxy_role.h"
#include "coordinator/server.h"
#include "dirserver/server.h"
#include "proxy/front/listener_guard.h"
#include "smallfile/server.h"
#include "storagenode/server.h"

int main(int argc, char** argv) {
  if (auto code = slice::proxy::run_guard(argc, argv)) return *code;
  using namespace slice;
  return service::run_process(
      {.about = "slice-hostd: several servers of one host in one process, whatever their roles",
       .kinds = {manager::server_kind(), dirserver::server_kind(), smallfile::server_kind(),
                 storagenode::server_kind(), coordinator::server_kind(), proxy::server_kind()}},
      argc, argv);
}
