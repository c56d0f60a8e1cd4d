#include "dirserver/server.h"
#include "service/process.h"

int main(int argc, char** argv) {
  return slice::service::run_process(
      {.role = slice::ServerRole::kDirectory, .about = "Slice directory server: names and attributes"}, argc,
      argv, [](slice::service::ServiceContext& context) {
        return std::make_unique<slice::dirserver::DirectoryServer>(context);
      });
}
