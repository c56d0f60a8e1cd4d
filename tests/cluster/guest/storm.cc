// Many renames at once: storm FOLDER [--movers N] [--rounds N] [--seed S] [--phase all|make|move|check]
// [--first N]
//
// Several processes rename, replace, link and remove among shared names in several folders. Afterwards every
// file that was made and not removed by its maker is there exactly once, with its content; nothing else is
// there. Exit code 1 otherwise. Several clients share a storm by phases: one makes the folders, each moves
// with movers numbered from its own --first, one checks (--movers is then the number of all).

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "tests/cluster/guest/check.h"

namespace slice::guest {
namespace {

constexpr int kFolders = 5, kOwnFiles = 20;

struct Options {
  std::string folder;
  std::string phase = "all";
  std::uint64_t movers = 4, rounds = 400, seed = 1, first = 0;
};

std::string folder_name(std::uint64_t i) {
  return "folder." + std::to_string(i);
}
std::string content_for(std::uint64_t mover, int file) {
  return pattern(mover * 1000 + static_cast<std::uint64_t>(file), 0,
                 100 + static_cast<std::size_t>(file) * 5000);
}

// One process: its own files wander from name to name; shared folders are renamed under all of them by mover
// 0.
void move(const Options& options, std::uint64_t mover) {
  std::uint64_t random = options.seed * 77 + mover;
  std::map<int, std::string> places;
  for (int i = 0; i < kOwnFiles; ++i) {
    places[i] = folder_name(next_random(random) % kFolders) + "/m" + std::to_string(mover) + "." +
                std::to_string(i) + ".0";
    make_file(places[i], content_for(mover, i));
  }
  for (std::uint64_t round = 1; round <= options.rounds; ++round) {
    const int file = static_cast<int>(next_random(random) % kOwnFiles);
    const std::string target = folder_name(next_random(random) % kFolders) + "/m" + std::to_string(mover) +
                               "." + std::to_string(file) + "." + std::to_string(round);
    switch (next_random(random) % 4) {
      case 0:  // over a file that is there
        make_file(target, "to be replaced");
        [[fallthrough]];
      case 1:
        expect_ok(rename(places[file].c_str(), target.c_str()), "rename " + places[file] + " to " + target);
        break;
      case 2:
        expect_ok(link(places[file].c_str(), target.c_str()), "link " + places[file] + " to " + target);
        expect_ok(unlink(places[file].c_str()), "unlink " + places[file]);
        break;
      default: {  // all movers fight for one name; the winner's file is parked there and fetched back
        const std::string shared = folder_name(0) + "/shared";
        if (link(places[file].c_str(), shared.c_str()) == 0) {
          expect_ok(rename(shared.c_str(), target.c_str()), "rename of the shared name");
          // Two links of one file: a rename of one onto the other leaves both, so the old one is removed.
          expect_ok(unlink(places[file].c_str()), "unlink " + places[file]);
        } else {
          expect(errno == EEXIST, "link to the shared name failed with errno " + std::to_string(errno));
          continue;
        }
      }
    }
    places[file] = target;
  }
}

int verify(const Options& options) {
  std::map<std::string, int> found;  // "mover.file" -> times
  int wrong = 0;
  for (int i = 0; i < kFolders; ++i) {
    for (const std::string& name : names_in(folder_name(static_cast<std::uint64_t>(i)))) {
      unsigned long mover = 0, round = 0;
      int file = 0;
      if (std::sscanf(name.c_str(), "m%lu.%d.%lu", &mover, &file, &round) != 3) {
        std::printf("not ok storm: %s is left over\n", name.c_str());
        ++wrong;
        continue;
      }
      ++found[std::to_string(mover) + "." + std::to_string(file)];
      if (content_of(folder_name(static_cast<std::uint64_t>(i)) + "/" + name) != content_for(mover, file)) {
        std::printf("not ok storm: %s has other bytes\n", name.c_str());
        ++wrong;
      }
    }
  }
  for (std::uint64_t mover = 0; mover < options.movers; ++mover) {
    for (int file = 0; file < kOwnFiles; ++file) {
      const int times = found[std::to_string(mover) + "." + std::to_string(file)];
      if (times == 1) continue;
      std::printf("not ok storm: file %d of mover %llu is there %d times\n", file,
                  static_cast<unsigned long long>(mover), times);
      ++wrong;
    }
  }
  return wrong;
}

void make_folders(const Options& options) {
  remove_tree(options.folder);
  expect_ok(mkdir(options.folder.c_str(), 0755), "mkdir");
  for (std::uint64_t i = 0; i < kFolders; ++i) {
    expect_ok(mkdir((options.folder + "/" + folder_name(i)).c_str(), 0755), "mkdir");
  }
}

// Result: how many movers failed.
int move_all(const Options& options) {
  for (std::uint64_t mover = options.first; mover < options.first + options.movers; ++mover) {
    const pid_t child = fork();
    expect_ok(child, "fork");
    if (child != 0) continue;
    int code = 0;
    try {
      move(options, mover);
    } catch (const Failure& failure) {
      std::printf("not ok storm: mover %llu: %s\n", static_cast<unsigned long long>(mover), failure.what());
      std::fflush(stdout);
      code = 1;
    }
    _exit(code);
  }
  int wrong = 0, status = 0;
  while (wait(&status) > 0) wrong += status == 0 ? 0 : 1;
  return wrong;
}

int run(const Options& options) {
  const bool all = options.phase == "all";
  int wrong = 0;
  if (all || options.phase == "make") make_folders(options);
  expect_ok(chdir(options.folder.c_str()), "chdir");
  if (all || options.phase == "move") wrong += move_all(options);
  if (all || options.phase == "check") {
    forget_caches();
    wrong += verify(options);
  }
  if (wrong == 0) {
    std::printf("ok storm %s: %llu movers, %llu rounds each\n", options.phase.c_str(),
                static_cast<unsigned long long>(options.movers),
                static_cast<unsigned long long>(options.rounds));
  }
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace slice::guest

int main(int argc, char** argv) {
  using namespace slice::guest;
  if (argc < 2 || argc % 2 != 0) {
    std::fprintf(stderr,
                 "usage: storm FOLDER [--movers N] [--rounds N] [--seed S] [--phase P] [--first N]\n");
    return 2;
  }
  Options options;
  options.folder = argv[1];
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--phase") {
      options.phase = argv[i + 1];
      continue;
    }
    std::uint64_t& value = name == "--movers"   ? options.movers
                           : name == "--rounds" ? options.rounds
                           : name == "--first"  ? options.first
                                                : options.seed;
    value = std::strtoull(argv[i + 1], nullptr, 10);
  }
  try {
    return run(options);
  } catch (const Failure& failure) {
    std::printf("not ok storm: %s\n", failure.what());
    return 1;
  }
}
