#include "tests/sim/locks.h"

#include <memory>
#include <utility>

#include "tests/sim/client.h"
#include "tests/sim/locker.h"
#include "tests/sim/rounds.h"
#include "tests/sim/site_mover.h"

namespace slice::sim {
namespace {

constexpr std::size_t kFiles = 3;
constexpr Duration kLockStorm = std::chrono::seconds(8);  // at most: then all becomes calm
constexpr Duration kLockStormBegins = std::chrono::milliseconds(500);
constexpr std::chrono::seconds kLongestLocks{600};
// By then a lock whose client has given up is taken back, or its client was asked once more.
constexpr Duration kFreePause = std::chrono::seconds(2);
constexpr int kFreeTries = 60;

// What simulations that have ended held: a task of theirs may still wait.
struct Held {
  HeldLocks locks;
  History history;
  std::unique_ptr<SimClient> client;
  std::vector<std::unique_ptr<Locker>> lockers;
  std::unique_ptr<SiteMover> sites;
  std::vector<routing::HandleBytes> files;
  unsigned busy = 0;
  std::string failure;
};
std::vector<std::unique_ptr<Held>>& ended_locks() {
  static auto* all = new std::vector<std::unique_ptr<Held>>();
  return *all;
}

class LockSimulation : public Rounds {
 public:
  LockSimulation(const SimulationOptions& options, Trace::Print print)
      : Rounds(options, std::move(print), kLongestLocks), held_(std::make_unique<Held>()) {
    held_->client = std::make_unique<SimClient>(ensemble(), held_->history, 0);
    for (unsigned i = 0; i < options.clients; ++i)
      held_->lockers.push_back(std::make_unique<Locker>(ensemble(), held_->locks, i));
    if (options.ensemble.moves)
      held_->sites = std::make_unique<SiteMover>(ensemble(), std::vector{wire::Role::kDirectory});
  }
  ~LockSimulation() override { ended_locks().push_back(std::move(held_)); }
  LockSimulation(const LockSimulation&) = delete;
  LockSimulation& operator=(const LockSimulation&) = delete;

 protected:
  std::string complaint() const override {
    if (!held_->failure.empty()) return held_->failure;
    for (const auto& locker : held_->lockers) {
      if (std::string why = locker->failure(); !why.empty()) return why;
    }
    return held_->client->failure();
  }

  void prepare() override {
    begin(make_files(*held_, ensemble()));
    if (!wait_for([&] { return held_->busy == 0; }, "the files are not made")) return;
    for (auto& locker : held_->lockers) locker->use(held_->files);
  }

  void play(unsigned /*round*/) override {
    ensemble().storm(kLockStormBegins, options().crashes);
    for (auto& locker : held_->lockers) begin(work(*held_, *locker, options().operations));
    const auto idle = [&] { return held_->busy == 0; };
    if (held_->sites)
      spawn(held_->sites->move_until([&idle = held_->busy, this] { return idle == 0 || !good(); }));
    ensemble().loop().run_until([&] { return idle() || !complaint().empty(); }, kLockStorm);
    if (!wait_for_calm() || !wait_for(idle, "the lockers' calls are not all answered")) return;
    if (held_->sites) {
      std::shared_ptr<bool> settled = held_->sites->settled();
      if (!wait_for([&] { return *settled; }, "moves of sites do not end")) return;
    }
    begin(look(*held_, ensemble()));
    wait_for(idle, "what is left is not found out");
    for (const auto& locker : held_->lockers) {
      for (const auto& [answer, count] : locker->answers()) result().answers[answer] = count;
    }
    result().operations += options().clients * options().operations;
  }

 private:
  void begin(Task<void> task) {
    ++held_->busy;
    spawn([](Held& of, Task<void> running) -> Task<void> {
      co_await std::move(running);
      --of.busy;
    }(*held_, std::move(task)));
  }

  static Task<void> make_files(Held& held, SimEnsemble& ensemble) {
    const KnownObject root{.id = 1,
                           .type = nfs3::FileType::kDirectory,
                           .handle = ensemble.handles().mint(routing::root_handle(ensemble.config().volume))};
    for (std::size_t i = 0; i < kFiles; ++i) {
      Operation create;
      create.kind = Kind::kCreate;
      create.name = fmt::format("file{}", i);
      create = co_await held.client->create(root, create);
      const auto made = held.client->known(create.result);
      if (!create.answered || create.status != nfs3::Status::kOk || !made) {
        held.failure = "a file cannot be made";
        co_return;
      }
      held.files.push_back(made->handle);
    }
  }
  static Task<void> work(Held& held, Locker& locker, unsigned steps) {
    for (unsigned i = 0; i < steps && held.failure.empty() && locker.failure().empty(); ++i)
      co_await locker.step();
  }
  // Nobody has anything, and all can be had.
  static Task<void> look(Held& held, SimEnsemble& ensemble) {
    for (std::size_t file = 0; file < held.files.size(); ++file) {
      bool free = false;
      for (int i = 0; i < kFreeTries && !free; ++i) {
        free = co_await held.lockers.front()->can_have(file);
        if (!free) co_await ensemble.loop().sleep(kFreePause);
      }
      if (free || !held.failure.empty()) continue;
      held.failure =
          fmt::format("a lock of file {} is left: {}", file, co_await held.lockers.front()->who_has(file));
    }
  }

  std::unique_ptr<Held> held_;
};

}  // namespace

SimulationResult simulate_locks(const SimulationOptions& options, Trace::Print print) {
  return LockSimulation(options, std::move(print)).run();
}

}  // namespace slice::sim
