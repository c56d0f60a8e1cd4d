// One pass over a large file, straight to the server that has its bytes: MB per second and processor time.
//
//   store_bench PATTERN --server A [--export PATH] [--port N] [--mount-port N] [--data-server A:PORT] [--name
//   NAME]
//               [--megabytes N] [--record BYTES] [--outstanding N] [--pids NAME=PID,...] [--json]
//
// PATTERN: write (a new file, in order), random-write (every record of it once, in an order of chance), both
// UNSTABLE and then COMMIT, which belongs to the time; read, random-read. Names, attributes and COMMIT go to
// --server. With
// --data-server READ and WRITE go to that storage node, with the hint in the handle that a proxy would stamp
// there. Bytes lie from 1 MiB on, above any threshold. Exit code 1 when a call failed or bytes are wrong.

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "bpf/shared/file_handle.h"
#include "tests/bench/processes.h"
#include "tests/bench/record_stream.h"
#include "tests/cluster/client/caller.h"
#include "tests/cluster/client/session.h"

namespace slice::client {
namespace {

constexpr std::uint64_t kFirst = 1 << 20;

struct Figure {
  double seconds = 0;
  std::uint64_t bytes = 0;
  std::map<std::string, double> processor_seconds;
};

// The handle as a proxy that knows the file sends it on.
std::string stamped(std::string handle, std::uint64_t size) {
  if (handle.size() != SLICE_HANDLE_SIZE) throw RpcError("not a handle of Slice");
  store_be(reinterpret_cast<std::uint8_t*>(handle.data()) + SLICE_HANDLE_AT_HINT,
           slice_hint_encode(1, 1, size));
  return handle;
}

class Bench {
 public:
  Bench(const Settings& settings, const Arguments& arguments)
      : caller_({.server = settings.server, .port = settings.port}),
        root_(mount_root({.server = settings.server}, settings.mount_port, settings.path)),
        name_(arguments.text("--name", "records")),
        data_server_(arguments.text("--data-server", "")),
        pids_(pids_from(arguments.text("--pids", ""))) {
    stream_ = {.server = settings.server,
               .port = settings.port,
               .record = static_cast<std::uint32_t>(arguments.number("--record", 1 << 20)),
               .first = kFirst,
               .outstanding = static_cast<unsigned>(arguments.number("--outstanding", 16))};
    bytes_ = (arguments.number("--megabytes", 2048) << 20) / stream_.record * stream_.record;
  }

  Figure run(const std::string& pattern) {
    const bool writes = pattern.ends_with("write");
    const Handle file = pattern == "write" ? fresh_file() : caller_.lookup(root_, name_);
    stream_.handle = file.bytes();
    if (!data_server_.empty()) {
      const std::size_t colon = data_server_.find(':');
      stream_.server = data_server_.substr(0, colon);
      stream_.port = static_cast<std::uint16_t>(std::stoi(data_server_.substr(colon + 1)));
      stream_.handle = stamped(file.bytes(), kFirst + bytes_);
    }
    std::vector<std::uint32_t> numbers(bytes_ / stream_.record);
    std::iota(numbers.begin(), numbers.end(), 0);
    if (pattern.starts_with("random")) std::shuffle(numbers.begin(), numbers.end(), std::mt19937(1));

    RecordStream stream(stream_);
    Figure figure{.bytes = bytes_};
    for (const auto& [process, pid] : pids_) figure.processor_seconds[process] = -processor_seconds(pid);
    const double start = now();
    if (writes) {
      stream.write(numbers);
      must((*caller_.call(kCommit, COMMIT3args{file.raw(), 0, 0}))->status, "COMMIT");
    } else {
      stream.read(numbers);
    }
    figure.seconds = now() - start;
    for (const auto& [process, pid] : pids_) figure.processor_seconds[process] += processor_seconds(pid);
    return figure;
  }

 private:
  Handle fresh_file() {
    const nfsstat3 gone = caller_.status(kRemove, REMOVE3args{in_folder(root_, name_)});
    if (gone != NFS3ERR_NOENT) must(gone, "REMOVE");
    return caller_.create(root_, name_);
  }

  Caller caller_;
  Handle root_;
  std::string name_, data_server_;
  std::map<std::string, int> pids_;
  RecordStream::Options stream_;
  std::uint64_t bytes_ = 0;
};

void print(const std::string& pattern, const Figure& figure, bool json) {
  const double rate = static_cast<double>(figure.bytes) / figure.seconds / 1e6;
  if (json) {
    const nlohmann::json said = {{"MB_per_second", rate},
                                 {"seconds", figure.seconds},
                                 {"bytes", figure.bytes},
                                 {"processor_seconds", figure.processor_seconds}};
    std::printf("%s\n", said.dump(1).c_str());
    return;
  }
  std::printf("%-12s %8.1f MB/s", pattern.c_str(), rate);
  for (const auto& [process, seconds] : figure.processor_seconds) {
    std::printf("  %s %.3f s/GiB", process.c_str(), seconds * (1 << 30) / static_cast<double>(figure.bytes));
  }
  std::printf("\n");
}

}  // namespace
}  // namespace slice::client

int main(int argc, char** argv) {
  using namespace slice::client;
  const Arguments arguments(argc, argv, {"--json"});
  const std::set<std::string> patterns = {"write", "random-write", "read", "random-read"};
  if (arguments.words().size() != 1 || !patterns.contains(arguments.words()[0])) {
    std::fprintf(stderr, "store_bench: give one of write, random-write, read, random-read\n");
    return 2;
  }
  try {
    const std::string& pattern = arguments.words()[0];
    print(pattern, Bench(settings_from(arguments), arguments).run(pattern), arguments.flag("--json"));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "store_bench: %s\n", error.what());
    return 1;
  }
}
