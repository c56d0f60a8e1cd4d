// slice-sim: runs simulations, seed after seed, and says how to run a failing one again.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/log.h"
#include "common/version.h"
#include "tests/sim/bytes.h"
#include "tests/sim/locks.h"

namespace slice::sim {
namespace {

constexpr const char* kUsage = R"(usage: slice-sim [--seeds N] [--from S] [--seed S [--trace]] [--servers N]
                 [--policy mkdir-switching|name-hashing] [--mkdir-probability P|none] [--clients N] [--rounds N]
                 [--operations N] [--crashes N] [--bytes] [--storage N] [--later N] [--copies N]
                 [--coordinators N] [--proxies N] [--managers N] [--failover [--broken nodes|owners|managers]]
                 [--moves [--names]] [--locks] [--quotas] [--disk-errors] [--placement hash|free-space] [--hours N] [--point NAME] [--points]
                 [--keep-going] [--log] [--version]

Runs a whole ensemble in this process, on simulated time, network and disks, once for each seed from S on (by
default 100, from 1), and checks what its clients saw. Ends at the first seed that fails (--keep-going: at the
last) with the command that runs it again. --seed S runs that one; --trace prints all that happens, --log also
what the servers log. --points prints how often each crash point was reached, and how often a process died
there. A run is the same whenever its options are.
--proxies N: clients call N proxies, by connections and datagrams, which die as servers do; without it they find
servers by the tables, as a proxy would. --managers N: managers are processes, too, and die; of several one leads, and any
may be stopped or lose its way to what they share; without it verifiers come from nowhere, and nobody asks for tables.
--failover: directory servers, small-file servers and coordinators keep what they have in two copies at storage nodes,
and each has a second host, where it stands by: hosts die with their disks, hear nothing or are not heard, and
processes are stopped and go on. With a manager, two proxies and three storage nodes at least. --broken: fencing that does
not work, at storage nodes, at who serves or at what several managers share, which has to be found.
--hours N: as many rounds as N hours of simulated time take, instead of --rounds.
--point NAME: of all crash points, processes die at this one alone (and where they are killed at random).
--bytes: clients read and write bytes of a few files instead of names; --storage nodes keep --copies of them;
--placement free-space: in block-mapped files, whose stripes are moved meanwhile. --disk-errors: disks of storage nodes
fail now and then; only with --bytes. --moves: --bytes and --managers 1, and sites of all classes are moved between
servers, those of directories where there are several; with --names clients work on names instead of bytes, and
directory sites alone are moved. --locks: clients lock bytes of files instead. --quotas: the clients' user and group have some, and what is counted of them is
looked at. --later: so many storage nodes more, with --moves, which are added in the first round.
)";

struct Arguments {
  SimulationOptions simulation;
  std::uint64_t from = 1, seeds = 100;
  bool trace = false, log = false, points = false, keep_going = false, bytes = false, locks = false;
};

std::optional<std::uint64_t> number(const char* text) {
  char* end = nullptr;
  std::uint64_t value = std::strtoull(text, &end, 10);
  return *text != 0 && *end == 0 ? std::optional(value) : std::nullopt;
}

constexpr std::pair<BrokenFencing, std::string_view> kBrokenNames[] = {
    {BrokenFencing::kNodes, "nodes"},
    {BrokenFencing::kOwners, "owners"},
    {BrokenFencing::kManagers, "managers"}};

class Parser {
 public:
  std::optional<Arguments> parse(int argc, char** argv) {
    bool names = false;
    for (int i = 1; i < argc; ++i) {
      std::string_view flag = argv[i];
      if (flag == "--trace") {
        arguments_.trace = true;
      } else if (flag == "--log") {
        arguments_.log = true;
      } else if (flag == "--points") {
        arguments_.points = true;
      } else if (flag == "--bytes") {
        arguments_.bytes = true;
        arguments_.simulation.ensemble.victims = ServerRole::kStorage;
      } else if (flag == "--moves") {
        unsigned& managers = arguments_.simulation.ensemble.managers;
        managers = std::max(managers, 1u);
        arguments_.bytes = arguments_.simulation.ensemble.moves = true;
        arguments_.simulation.ensemble.victims = ServerRole::kStorage;
      } else if (flag == "--failover") {
        give_standbys(arguments_.simulation.ensemble);
      } else if (flag == "--names") {
        names = true;
      } else if (flag == "--locks") {
        names = arguments_.locks = true;
      } else if (flag == "--disk-errors") {
        arguments_.simulation.ensemble.disk_errors = true;
      } else if (flag == "--quotas") {
        arguments_.simulation.ensemble.quotas = true;
      } else if (flag == "--keep-going") {
        arguments_.keep_going = true;
      } else if (i + 1 == argc || !set(flag, argv[++i])) {
        return std::nullopt;
      }
    }
    if (names) {
      arguments_.bytes = false;
      arguments_.simulation.ensemble.victims = ServerRole::kDirectory;
    }
    return arguments_;
  }

 private:
  bool set(std::string_view flag, const char* value) {
    SimulationOptions& simulation = arguments_.simulation;
    if (flag == "--policy") return set_policy(value);
    if (flag == "--placement") return set_placement(value);
    if (flag == "--broken") return set_broken(value);
    if (flag == "--mkdir-probability") return set_probability(value);
    if (flag == "--point") {
      simulation.ensemble.dangerous = value;
      return true;
    }
    auto given = number(value);
    if (!given) return false;
    auto small = static_cast<unsigned>(*given);
    if (flag == "--seeds") {
      arguments_.seeds = *given;
    } else if (flag == "--from") {
      arguments_.from = *given;
    } else if (flag == "--seed") {
      arguments_.from = *given;
      arguments_.seeds = 1;
    } else if (flag == "--servers") {
      simulation.ensemble.directory_servers = small;
    } else if (flag == "--clients") {
      simulation.clients = small;
    } else if (flag == "--rounds") {
      simulation.rounds = small;
    } else if (flag == "--hours") {
      simulation.lasts = std::chrono::hours(small);
    } else if (flag == "--operations") {
      simulation.operations = small;
    } else if (flag == "--storage") {
      simulation.ensemble.storage_nodes = small;
    } else if (flag == "--coordinators") {
      simulation.ensemble.coordinators = small;
    } else if (flag == "--later") {
      simulation.ensemble.later = small;
    } else if (flag == "--copies") {
      simulation.ensemble.copies = small;
    } else if (flag == "--proxies") {
      simulation.ensemble.proxies = small;
    } else if (flag == "--managers") {
      simulation.ensemble.managers = small;
    } else if (flag == "--crashes") {
      simulation.crashes = small;
    } else {
      return false;
    }
    return true;
  }
  bool set_policy(std::string_view value) {
    bool hashing = value == "name-hashing";
    if (!hashing && value != "mkdir-switching") return false;
    arguments_.simulation.ensemble.policy =
        hashing ? VolumeConfig::NamePolicy::kNameHashing : VolumeConfig::NamePolicy::kMkdirSwitching;
    return true;
  }
  bool set_probability(const char* value) {
    auto& probability = arguments_.simulation.ensemble.mkdir_probability;
    probability = std::string_view(value) == "none" ? std::nullopt : std::optional(std::atof(value));
    return true;
  }
  bool set_broken(std::string_view value) {
    for (const auto& [fencing, name] : kBrokenNames) {
      if (name != value) continue;
      arguments_.simulation.ensemble.broken = fencing;
      return true;
    }
    return false;
  }
  bool set_placement(std::string_view value) {
    auto found = std::find(kPlacementNames.begin(), kPlacementNames.end(), value);
    if (found == kPlacementNames.end()) return false;
    arguments_.simulation.ensemble.placement = static_cast<Placement>(found - kPlacementNames.begin());
    return true;
  }
  Arguments arguments_;
};

std::string failover_of(const EnsembleOptions& ensemble) {
  if (ensemble.backing == 0) return "";
  for (const auto& [fencing, name] : kBrokenNames) {
    if (fencing == ensemble.broken) return fmt::format(" --failover --broken {}", name);
  }
  return " --failover";
}

std::string hours_of(const SimulationOptions& simulation) {
  if (simulation.lasts == Duration(0)) return "";
  return fmt::format(" --hours {}", std::chrono::duration_cast<std::chrono::hours>(simulation.lasts).count());
}

std::string replay_command(const Arguments& arguments, std::uint64_t seed) {
  const SimulationOptions& simulation = arguments.simulation;
  bool hashing = simulation.ensemble.policy == VolumeConfig::NamePolicy::kNameHashing;
  return fmt::format(
      "./slice sim --seed {} --trace --servers {} --policy {} --mkdir-probability {} --clients {} --rounds "
      "{} "
      "--operations {} --crashes {} --storage {} --later {} --copies {} --coordinators {} --managers {} "
      "--proxies {} "
      "--placement "
      "{}{}{}{}{}{}{}{}{}",
      seed, simulation.ensemble.directory_servers, hashing ? "name-hashing" : "mkdir-switching",
      simulation.ensemble.mkdir_probability ? fmt::format("{}", *simulation.ensemble.mkdir_probability)
                                            : "none",
      simulation.clients, simulation.rounds, simulation.operations, simulation.crashes,
      simulation.ensemble.storage_nodes, simulation.ensemble.later, simulation.ensemble.copies,
      simulation.ensemble.coordinators, simulation.ensemble.managers, simulation.ensemble.proxies,
      kPlacementNames[static_cast<std::size_t>(simulation.ensemble.placement)],
      arguments.bytes ? " --bytes" : "", simulation.ensemble.disk_errors ? " --disk-errors" : "",
      failover_of(simulation.ensemble),
      simulation.ensemble.moves ? (arguments.bytes ? " --moves" : " --moves --names") : "",
      arguments.locks ? " --locks" : "", simulation.ensemble.quotas ? " --quotas" : "", hours_of(simulation),
      simulation.ensemble.dangerous.empty() ? "" : " --point " + simulation.ensemble.dangerous);
}

// What a batch of seeds tells its parent.
struct Totals {
  std::uint64_t operations = 0, unanswered = 0, kills = 0, undecided = 0, rounds = 0;
  Duration lasted{0};
  std::map<std::string, unsigned> answers;
  PointCounts points;

  void add(const SimulationResult& result) {
    operations += result.operations;
    unanswered += result.unanswered;
    kills += result.kills;
    rounds += result.rounds;
    lasted += result.lasted;
    undecided += result.undecided;
    for (const auto& [answer, count] : result.answers) answers[answer] += count;
    for (const auto& [point, count] : result.points) {
      points[point].reached += count.reached;
      points[point].died += count.died;
    }
  }
};

void print(const Totals& totals, bool points) {
  std::printf(
      "%.1f h, %llu rounds, %llu operations (%llu unanswered), %llu processes died, %llu rounds undecided\n",
      static_cast<double>(totals.lasted.count()) / 3600e9, static_cast<unsigned long long>(totals.rounds),
      static_cast<unsigned long long>(totals.operations), static_cast<unsigned long long>(totals.unanswered),
      static_cast<unsigned long long>(totals.kills), static_cast<unsigned long long>(totals.undecided));
  if (!points) return;
  for (const auto& [answer, count] : totals.answers) std::printf("  %-28s %8u\n", answer.c_str(), count);
  for (const auto& [point, count] : totals.points) {
    std::printf("  %-40s reached %8u, died %6u\n", point.c_str(), count.reached, count.died);
  }
}

// False where the seed fails.
bool run_seed(const Arguments& arguments, std::uint64_t seed, Totals& totals) {
  SimulationOptions options = arguments.simulation;
  options.ensemble.seed = seed;
  Trace::Print to_stdout;
  if (arguments.trace) {
    to_stdout = [](std::string_view line) {
      std::printf("%.*s\n", static_cast<int>(line.size()), line.data());
    };
  }
  const auto play = arguments.locks ? simulate_locks : arguments.bytes ? simulate_bytes : simulate;
  SimulationResult result = play(options, to_stdout);
  totals.add(result);
  if (result.failure.empty()) return true;
  std::printf("seed %llu fails: %s\nagain: %s\n", static_cast<unsigned long long>(seed),
              result.failure.c_str(), replay_command(arguments, seed).c_str());
  return false;
}

// Seeds [from, from + count) in a process of their own, since what a simulation held is never freed; and so a
// seed that ends the process is told, too.
bool run_batch(const Arguments& arguments, std::uint64_t from, std::uint64_t count) {
  std::fflush(stdout);
  pid_t child = fork();
  if (child < 0) {
    std::perror("slice-sim: fork");
    return false;
  }
  if (child == 0) {
    Totals totals;
    bool good = true;
    for (std::uint64_t seed = from; seed < from + count && (good || arguments.keep_going); ++seed) {
      if (!run_seed(arguments, seed, totals)) good = false;
    }
    if (arguments.points || arguments.seeds == 1 || arguments.simulation.lasts > Duration(0))
      print(totals, arguments.points);
    std::fflush(stdout);
    _exit(good ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    std::printf("a seed of %llu..%llu ends the process: %s\n", static_cast<unsigned long long>(from),
                static_cast<unsigned long long>(from + count - 1), strsignal(WTERMSIG(status)));
  }
  return status == 0;
}

int run(const Arguments& arguments) {
  // What a run of hours held is given back as soon as it has ended.
  const std::uint64_t batch = arguments.simulation.lasts == Duration(0) ? 100 : 1;
  bool good = true;
  std::uint64_t end = arguments.from + arguments.seeds;
  for (std::uint64_t seed = arguments.from; seed < end && (good || arguments.keep_going); seed += batch) {
    if (!run_batch(arguments, seed, std::min(batch, end - seed))) good = false;
  }
  std::printf("seeds %llu..%llu: %s\n", static_cast<unsigned long long>(arguments.from),
              static_cast<unsigned long long>(end - 1), good ? "all good" : "FAILED");
  return good ? 0 : 1;
}

}  // namespace
}  // namespace slice::sim

int main(int argc, char** argv) {
  const std::string_view only = argc == 2 ? argv[1] : "";
  if (only == "--version") return std::puts(slice::kVersion) < 0 ? 1 : 0;
  auto arguments = slice::sim::Parser().parse(argc, argv);
  bool help = only == "--help";
  if (!arguments) std::fputs(slice::sim::kUsage, help ? stdout : stderr);
  if (!arguments) return help ? 0 : 2;
  // Servers complain of all that they are made to suffer here.
  slice::configure_log("sim", arguments->log ? slice::LogLevel::kDebug : slice::LogLevel::kError);
  return slice::sim::run(*arguments);
}
