// slice-smallfiled: the bytes of every file below the threshold.
#include "smallfile/server.h"

int main(int argc, char** argv) {
  return slice::service::run_process(
      {.about = "Slice small-file server: the bytes of every file below the threshold",
       .kinds = {slice::smallfile::server_kind()}},
      argc, argv);
}
