#include "service/process.h"
#include "storagenode/object_format.h"
#include "storagenode/server.h"

int main(int argc, char** argv) {
  return slice::service::run_process({.role = slice::ServerRole::kStorage,
                                      .about = "Slice storage node",
                                      .draws_verifier = true,
                                      .data_format = slice::storagenode::kFormatVersion},
                                     argc, argv, slice::storagenode::make_storage_server);
}
