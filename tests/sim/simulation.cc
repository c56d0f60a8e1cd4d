#include "tests/sim/simulation.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "tests/sim/linearizability.h"
#include "tests/sim/rounds.h"
#include "tests/sim/site_mover.h"
#include "tests/sim/store_check.h"
#include "tests/sim/workload.h"

namespace slice::sim {
namespace {

constexpr Duration kNamesStorm = std::chrono::seconds(5);  // at most: then all becomes calm
constexpr Duration kNamesStormBegins =
    std::chrono::milliseconds(300);                     // faults are planned for the first of it
constexpr std::chrono::seconds kLongestCalm{300};       // for what must come to its end when all is calm
constexpr Duration kSettle = std::chrono::seconds(30);  // for what servers owe one another afterwards

// Those of simulations that have ended: a task of theirs may still wait.
std::vector<std::unique_ptr<Workload>>& ended_workloads() {
  static auto* all = new std::vector<std::unique_ptr<Workload>>();
  return *all;
}

class Simulation : public Rounds {
 public:
  Simulation(const SimulationOptions& options, Trace::Print print)
      : Rounds(options, std::move(print), kLongestCalm),
        workload_(std::make_unique<Workload>(ensemble(), options.clients, options.operations)),
        sites_(std::make_unique<SiteMover>(ensemble(), std::vector{wire::Role::kDirectory})),
        states_{Model::with_root(workload_->root().id, ensemble().config().volume.root_mode)} {}
  ~Simulation() override {
    ended_workloads().push_back(std::move(workload_));
    (void)sites_.release();  // a task of it may still wait
  }
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

 protected:
  std::string complaint() const override { return workload_->failure(); }
  std::string unfinished() const override { return workload_->unfinished(); }

  void play(unsigned /*round*/) override {
    ensemble().storm(kNamesStormBegins, options().crashes);
    workload_->start_round();
    const bool moves = options().ensemble.moves;
    if (moves) spawn(sites_->move_until([this] { return workload_->idle() || !good(); }));
    ensemble().loop().run_until([&] { return workload_->idle(); }, kNamesStorm);
    if (!wait_for_calm()) return;
    if (!wait_for([&] { return workload_->idle(); }, "the clients' calls are not all answered")) return;
    if (moves) {
      std::shared_ptr<bool> settled = sites_->settled();
      if (!wait_for([&] { return *settled; }, "moves of sites do not end")) return;
    }
    ensemble().loop().advance(kSettle);
    count_answers();
    if (!explain_history()) return;
    workload_->start_reading();
    if (!wait_for([&] { return workload_->idle(); }, "reading the tree does not end")) return;
    compare_tree();
    workload_->forget_removed(states_.front());
  }

 private:
  void count_answers() {
    for (const Operation& each : workload_->history().operations()) {
      ++result().operations;
      if (!each.answered) ++result().unanswered;
      std::string text = describe(each);
      auto kind = text.substr(text.find("client") + 9);
      ++result().answers[kind.substr(0, kind.find(' ')) + " " +
                         (each.answered ? std::string(nfs3::status_name(each.status)) : "-")];
    }
  }

  bool explain_history() {
    workload_->history().judge_sizes(ensemble().has_proxies());
    const std::vector<Operation>& history = workload_->history().operations();
    Verdict verdict = linearize(states_, history);
    if (verdict.gave_up) ++result().undecided;
    if (verdict.finals.empty()) {
      wrong(
          (verdict.gave_up ? "the history is too wide to decide on\n" : "the history is not linearizable\n") +
          explain(states_, history, verdict));
      return false;
    }
    states_ = std::move(verdict.finals);
    workload_->history().clear();
    return true;
  }

  // Nothing goes on any more: each look at the tree leaves those states that it fits.
  void compare_tree() {
    workload_->history().judge_sizes(ensemble().has_proxies());
    const std::vector<Operation>& looks = workload_->history().operations();
    for (std::size_t i = 0; i < looks.size(); ++i) {
      std::vector<Model> fitting;
      for (Model& state : states_) {
        Model::Step step = looks[i].answered ? state.apply(looks[i], i) : Model::Step{};
        if (step.explained) fitting.push_back(step.next ? std::move(*step.next) : std::move(state));
      }
      if (fitting.empty()) {
        wrong(fmt::format(
            "the tree is in none of the states that it may be in\nlook: {}\n{} states; the first:\n{}",
            describe(looks[i]), states_.size(), states_.front().describe()));
        return;
      }
      states_ = std::move(fitting);
    }
    workload_->history().clear();
    std::string difference = check_stores(ensemble().directory_stores(), states_.front());
    if (!difference.empty())
      wrong("what is stored is not the tree\n" + difference + states_.front().describe());
    if (!options().ensemble.quotas) return;
    if (const std::string miscounted = ensemble().miscounted_usage(); !miscounted.empty()) wrong(miscounted);
  }

  std::unique_ptr<Workload> workload_;
  std::unique_ptr<SiteMover> sites_;
  std::vector<Model> states_;
};

}  // namespace

SimulationResult simulate(const SimulationOptions& options, Trace::Print print) {
  return Simulation(options, std::move(print)).run();
}

}  // namespace slice::sim
