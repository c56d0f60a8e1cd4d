// slice-smallfiled: the bytes of every file below the threshold.
#include "smallfile/server.h"

int main(int argc, char** argv) {
  using namespace slice;
  return service::run_process(
      {.role = ServerRole::kSmallFile,
       .about = "Slice small-file server: the bytes of every file below the threshold",
       .draws_verifier = true,
       .data_format = smallfile::kDataFormat},
      argc, argv,
      [](service::ServiceContext& context) { return std::make_unique<smallfile::SmallFileServer>(context); });
}
