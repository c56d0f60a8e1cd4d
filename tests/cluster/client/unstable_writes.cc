// Unstable writes into blocks that also have stable bytes, for the suite `power-cut`:
//
//   unstable_writes write  --server A --export PATH [--seconds N] [--while FILE]
//                          stable bytes first ("ready"), then the others
//   unstable_writes verify --server A --export PATH     whether the stable ones are all there
//
// The first half of each block of 4096 bytes is written stably, once. The second half is written again and
// again, unstably and with no COMMIT, so at any moment much of the file differs between memory and disk.
// Those bytes may be lost or not; the stable ones beside them may not, whatever a power cut tears.

#include <cstdio>

#include "tests/cluster/client/session.h"
#include "tests/cluster/guest/check.h"

namespace slice::client {
namespace {

using guest::next_random;
using guest::pattern;

constexpr std::uint64_t kBlock = 4096, kHalf = kBlock / 2;
constexpr std::uint64_t kFirst = 64 << 10;  // stripes alone, nothing below the threshold
constexpr std::uint64_t kBlocks = 256;      // of each file
constexpr int kFiles = 4;
constexpr std::uint64_t kStableSeed = 1;

std::uint64_t at(std::uint64_t block) {
  return kFirst + block * kBlock;
}

std::string stable_half(std::uint64_t block) {
  return pattern(kStableSeed, block * kHalf, kHalf);
}

std::string name_of(int file) {
  return "file" + std::to_string(file);
}

int write(const Arguments& arguments) {
  Session session(settings_from(arguments), "durability-unstable");
  std::vector<Handle> files;
  for (int file = 0; file < kFiles; ++file) {
    files.push_back(session.create(name_of(file)));
    for (std::uint64_t block = 0; block < kBlocks; ++block) {
      session.write(files.back(), at(block), stable_half(block), FILE_SYNC);
    }
  }
  std::printf("ready\n");
  std::fflush(stdout);
  std::uint64_t random = 1;
  for (const LoadTime time(arguments); !time.over();) {
    const Handle& file = files[next_random(random) % kFiles];
    const std::string bytes = pattern(next_random(random), 0, kHalf);
    session.write(file, at(next_random(random) % kBlocks) + kHalf, bytes, UNSTABLE);
  }
  return 0;
}

int verify(const Settings& settings) {
  Session session(settings, "durability-verify");
  const Handle folder = session.lookup(session.root(), "durability-unstable");
  int wrong = 0;
  for (int file = 0; file < kFiles; ++file) {
    const Handle handle = session.lookup(folder, name_of(file));
    for (std::uint64_t block = 0; block < kBlocks; ++block) {
      try {
        if (session.read(handle, at(block), kHalf) == stable_half(block)) continue;
        throw RpcError("has other bytes");
      } catch (const RpcError& error) {
        std::printf("not ok unstable_writes verify: %s at %llu: %s\n", name_of(file).c_str(),
                    static_cast<unsigned long long>(at(block)), error.what());
        ++wrong;
      }
    }
  }
  session.remove_folder();
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace slice::client

int main(int argc, char** argv) {
  using namespace slice::client;
  const Arguments arguments(argc, argv, {});
  const std::string verb = arguments.words().empty() ? "" : arguments.words()[0];
  try {
    if (verb == "write") return write(arguments);
    if (verb == "verify") return verify(settings_from(arguments));
  } catch (const std::exception& error) {
    std::printf("not ok unstable_writes %s: %s\n", verb.c_str(), error.what());
    return 1;
  }
  std::fprintf(stderr, "usage: unstable_writes write|verify --server A --export PATH\n");
  return 2;
}
