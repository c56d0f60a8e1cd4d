// Storms of names over a volume whose servers others kill and restart meanwhile:
//
//   name_storm --server A --export PATH [--seconds N] [--workers N] [--seed S] [--steps N] [--damage]
//
// Workers, half of them over UDP, half over TCP, unpack trees, rename, link and remove files and folders
// among folders that all share, and make pairs of calls at once of which one must win; an observer looks at
// names that are replaced all the time and must always be there. No status but the right one may come: they
// only wait. Afterwards everything that was acknowledged, and nothing else, must be there. --damage alters
// the volume behind the model's back first, which must be noticed. Exit code 1 when something is wrong.

#include <atomic>
#include <cstdio>
#include <thread>

#include "tests/cluster/client/storm_worker.h"

namespace slice::client {
namespace {

struct Storm {
  double until = 0;
  std::uint64_t most_steps = 0;  // of each worker; 0: any number
  std::atomic<bool> failed = false, over = false;
  std::atomic<std::uint64_t> observed = 0;

  void fail(const std::string& who, const std::exception& error) {
    std::printf("not ok name-storm load: %s: %s\n", who.c_str(), error.what());
    std::fflush(stdout);
    failed = true;
  }
};

void work(Storm& storm, StormWorker& worker, std::uint64_t number) {
  try {
    for (std::uint64_t i = 0; now() < storm.until && !storm.failed; ++i) {
      if (storm.most_steps != 0 && i >= storm.most_steps) return;
      worker.step();
    }
  } catch (const std::exception& error) {
    storm.fail("worker " + std::to_string(number), error);
  }
}

// A name that was acknowledged once and only ever replaced is there at every moment.
void observe(Storm& storm, StormWorld& world) {
  try {
    Caller calls(world.nfs_options());
    while (!storm.over) {
      for (std::size_t i = 0; i < Trophies::kCount; ++i) {
        if (world.trophies.claims(i).empty()) continue;
        calls.lookup(world.trophy_folder(), Trophies::name(i));
        ++storm.observed;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  } catch (const std::exception& error) {
    storm.fail("observer", error);
  }
}

// Files that have one name.
std::vector<std::pair<StormPlace, const StormObject*>> single_files(
    const std::vector<std::unique_ptr<StormWorker>>& workers) {
  std::vector<std::pair<StormPlace, const StormObject*>> files;
  for (const auto& worker : workers) {
    for (const auto& [place, object] : worker->model()) {
      if (object->type == NF3REG && object->links == 1) files.emplace_back(place, object.get());
    }
  }
  return files;
}

// One loss of each kind: a name that is missing, a link too many, a name too many, another file.
void damage(StormWorld& world, const std::vector<std::unique_ptr<StormWorker>>& workers) {
  Caller& calls = workers[0]->calls();
  const auto files = single_files(workers);
  if (files.size() < 4) throw RpcError("too few files to damage");
  const auto folder = [&](std::size_t i) -> const Handle& { return world.folder(files[i].first.folder); };
  const auto name = [&](std::size_t i) -> const std::string& { return files[i].first.name; };
  const std::string linked = name(1) + "-extra", made = name(2) + "-extra";
  must(calls.status(kRemove, REMOVE3args{in_folder(folder(0), name(0))}), "REMOVE");
  must(calls.status(kLink, LINK3args{files[1].second->handle.raw(), in_folder(folder(1), linked)}), "LINK");
  calls.create(folder(2), made);
  must(calls.status(kRemove, REMOVE3args{in_folder(folder(3), name(3))}), "REMOVE");
  calls.create(folder(3), name(3));
  for (const std::string& each : {name(0), name(1), made, name(3)}) std::printf("damaged %s\n", each.c_str());
}

int run(const Settings& settings, const Arguments& arguments) {
  StormWorld world(settings);
  Storm storm;
  storm.until = now() + static_cast<double>(arguments.number("--seconds", 10));
  storm.most_steps = arguments.number("--steps", 0);
  std::vector<std::unique_ptr<StormWorker>> workers;
  for (std::uint64_t i = 0; i < arguments.number("--workers", 4); ++i) {
    workers.push_back(std::make_unique<StormWorker>(world, i, arguments.number("--seed", 1),
                                                    i % 2 == 0 ? Transport::kTcp : Transport::kUdp));
  }
  std::thread observer([&] { observe(storm, world); });
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    threads.emplace_back([&, i] { work(storm, *workers[i], i); });
  }
  for (std::thread& thread : threads) thread.join();
  storm.over = true;
  observer.join();

  std::uint64_t acknowledged = 0, resent = 0, waits = 0;
  double longest = 0;
  std::vector<const StormModel*> models;
  for (const auto& worker : workers) {
    models.push_back(&worker->model());
    acknowledged += worker->acknowledged();
    waits += worker->calls().nfs().counters().told_to_wait;
    resent += worker->calls().nfs().counters().resent;
    longest = std::max(longest, worker->calls().nfs().counters().longest_wait);
  }
  const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf(
      "%llu operations acknowledged, %llu looks at names being replaced, %llu calls sent again, %llu told to "
      "wait, longest wait %.1f s\n",
      number(acknowledged), number(storm.observed), number(resent), number(waits), longest);
  if (storm.failed || acknowledged == 0) return 1;
  if (arguments.flag("--damage")) damage(world, workers);
  if (world.verify(models) != 0) return 1;
  std::printf("ok name-storm: %zu objects are as acknowledged\n", world.verified());
  if (arguments.flag("--remove")) world.remove();
  return 0;
}

}  // namespace
}  // namespace slice::client

int main(int argc, char** argv) {
  using namespace slice::client;
  const Arguments arguments(argc, argv, {"--damage", "--remove"});
  try {
    return run(settings_from(arguments), arguments);
  } catch (const std::exception& error) {
    std::printf("not ok name-storm: %s\n", error.what());
    return 1;
  }
}
