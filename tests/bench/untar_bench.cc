// The paper's untar load: client processes that each unpack a tree of their own, seven calls for each file
// and folder, one call at a time, through the proxy.
//
//   untar_bench --server A [--export PATH] [--processes N] [--objects N] [--pids NAME=PID,...] [--run NAME]
//               [--trace] --json
//
// Prints an object: seconds until the last process is done, mean seconds of a process, calls, processor
// seconds of each process of --pids, and how many files and folders have their attributes on each directory
// site. With --trace, for each client process the list of what it made: [folder or not, site of the parent,
// site of the object]. --run names the folder that this run works in. Every status is checked. Exit code 1
// when a call failed.

#include <cstdio>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/bench/processes.h"
#include "tests/bench/sites.h"
#include "tests/cluster/client/caller.h"
#include "tests/cluster/client/session.h"

namespace slice::client {
namespace {

constexpr std::uint64_t kFilesInFolder = 9, kFoldersInFolder = 4;

struct Made {
  bool folder = false;
  std::uint32_t parent_site = 0, site = 0;
};

// One client process: a tree in which every folder has some files and some folders.
class Process {
 public:
  Process(const ConnectionOptions& options, Handle top) : calls_(options), folders_{std::move(top)} {}

  void unpack(std::uint64_t objects) {
    const double start = now();
    for (std::uint64_t i = 0; made_.size() < objects; ++i) {
      if (i > 0) make_folder(folders_[(i - 1) / kFoldersInFolder], "folder-" + std::to_string(i));
      for (std::uint64_t file = 0; file < kFilesInFolder && made_.size() < objects; ++file) {
        const Handle& parent = folders_.back();
        note(false, parent, calls_.unpack_file(parent, "file-" + std::to_string(file)));
      }
    }
    seconds_ = now() - start;
  }
  double seconds() const { return seconds_; }
  const std::vector<Made>& made() const { return made_; }

 private:
  void make_folder(const Handle& parent, const std::string& name) {
    Handle made = calls_.unpack_folder(parent, name);
    note(true, parent, made);
    folders_.push_back(std::move(made));
  }
  void note(bool folder, const Handle& parent, const Handle& object) {
    made_.push_back({folder, directory_site(parent), directory_site(object)});
  }

  Caller calls_;
  std::vector<Handle> folders_;
  std::vector<Made> made_;
  double seconds_ = 0;
};

void count(nlohmann::json& sites, std::uint32_t site) {
  nlohmann::json& value = sites[std::to_string(site)];
  value = value.is_null() ? 1 : value.get<std::uint64_t>() + 1;
}

nlohmann::json summary_of(const std::vector<std::unique_ptr<Process>>& processes, bool trace) {
  nlohmann::json files = nlohmann::json::object(), folders = nlohmann::json::object();
  nlohmann::json traces = nlohmann::json::array();
  double longest = 0, sum = 0;
  std::uint64_t objects = 0;
  for (const auto& process : processes) {
    longest = std::max(longest, process->seconds());
    sum += process->seconds();
    objects += process->made().size();
    nlohmann::json steps = nlohmann::json::array();
    for (const Made& made : process->made()) {
      count(made.folder ? folders : files, made.site);
      if (trace) steps.push_back({made.folder ? 1 : 0, made.parent_site, made.site});
    }
    traces.push_back(std::move(steps));
  }
  nlohmann::json result{
      {"seconds", longest},     {"mean_seconds", sum / static_cast<double>(processes.size())},
      {"objects", objects},     {"calls", objects * Caller::kCallsToUnpack},
      {"files_by_site", files}, {"folders_by_site", folders}};
  if (trace) result["trace"] = std::move(traces);
  return result;
}

void unpack_all(const std::vector<std::unique_ptr<Process>>& processes, std::uint64_t objects) {
  std::string failure;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (const auto& process : processes) {
    threads.emplace_back([&, one = process.get()] {
      try {
        one->unpack(objects);
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex);
        failure = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (!failure.empty()) throw RpcError(failure);
}

nlohmann::json run(const Settings& settings, const Arguments& arguments) {
  Session session(settings, arguments.text("--run", "untar"));
  const auto pids = pids_from(arguments.text("--pids", ""));
  std::vector<std::unique_ptr<Process>> processes;
  for (std::uint64_t i = 0; i < arguments.number("--processes", 4); ++i) {
    Handle top = session.make_folder("process-" + std::to_string(i));
    processes.push_back(std::make_unique<Process>(session.nfs_options({}), std::move(top)));
  }
  std::map<std::string, double> before;
  for (const auto& [name, pid] : pids) before[name] = processor_seconds(pid);
  unpack_all(processes, arguments.number("--objects", 1000));
  nlohmann::json result = summary_of(processes, arguments.flag("--trace"));
  for (const auto& [name, pid] : pids) {
    result["processor_seconds"][name] = processor_seconds(pid) - before[name];
  }
  return result;
}

}  // namespace
}  // namespace slice::client

int main(int argc, char** argv) {
  using namespace slice::client;
  const Arguments arguments(argc, argv, {"--json", "--trace"});
  try {
    std::printf("%s\n", run(settings_from(arguments), arguments).dump().c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "untar_bench: %s\n", error.what());
    return 1;
  }
}
