// slice-stored: the storage node.
#include "storagenode/server.h"

int main(int argc, char** argv) {
  return slice::service::run_process(
      {.about = "Slice storage node", .kinds = {slice::storagenode::server_kind()}}, argc, argv);
}
