// slice-dird: the directory server.
#include "dirserver/server.h"

int main(int argc, char** argv) {
  return slice::service::run_process(
      {.about = "Slice directory server: names and attributes", .kinds = {slice::dirserver::server_kind()}},
      argc, argv);
}
