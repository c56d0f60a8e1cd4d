#include "tests/sim/simulation.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "tests/sim/linearizability.h"
#include "tests/sim/store_check.h"
#include "tests/sim/workload.h"

namespace slice::sim {
namespace {

constexpr Duration kStorm = std::chrono::seconds(5);               // at most: then all becomes calm
constexpr Duration kStormBegins = std::chrono::milliseconds(300);  // faults are planned for the first of it
constexpr std::chrono::seconds kLongest{300};           // for what must come to its end when all is calm
constexpr Duration kSettle = std::chrono::seconds(30);  // for what servers owe one another afterwards

// Simulations that have ended. Their processes were killed: nothing of them may run, not even to be freed.
std::vector<std::unique_ptr<SimEnsemble>>& ended() {
  static auto* all = new std::vector<std::unique_ptr<SimEnsemble>>();
  return *all;
}
std::vector<std::unique_ptr<Workload>>& ended_workloads() {
  static auto* all = new std::vector<std::unique_ptr<Workload>>();
  return *all;
}

class Simulation {
 public:
  Simulation(const SimulationOptions& options, Trace::Print print)
      : options_(options), ensemble_(std::make_unique<SimEnsemble>(options.ensemble, std::move(print))) {
    ensemble_->network().set_tamper(options.tamper);
    workload_ = std::make_unique<Workload>(*ensemble_, options.clients, options.operations);
    states_ = {Model::with_root(workload_->root().id, ensemble_->config().volume.root_mode)};
  }
  ~Simulation() {
    ended_workloads().push_back(std::move(workload_));
    ended().push_back(std::move(ensemble_));
  }
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  SimulationResult run() {
    if (!ensemble_->start()) fail_with(ensemble_->failure());
    for (unsigned round = 0; good() && round < options_.rounds; ++round) play(round);
    result_.checksum = ensemble_->trace().checksum();
    result_.points = ensemble_->points();
    result_.kills = ensemble_->kills();
    return std::move(result_);
  }

 private:
  bool good() const { return result_.failure.empty(); }
  void fail_with(std::string why) {
    if (good()) result_.failure = std::move(why);
  }
  bool wait_for(const std::function<bool()>& done, std::string_view what) {
    bool came = ensemble_->loop().run_until(
        [&] { return done() || !ensemble_->failure().empty() || !workload_->failure().empty(); }, kLongest);
    if (!ensemble_->failure().empty()) fail_with(ensemble_->failure());
    if (!workload_->failure().empty()) fail_with(workload_->failure());
    if (!came) fail_with(fmt::format("{} within {} s\n{}", what, kLongest.count(), workload_->unfinished()));
    return good();
  }

  void play(unsigned round) {
    ensemble_->trace().note("round {}", round);
    ensemble_->storm(kStormBegins, options_.crashes);
    workload_->start_round();
    ensemble_->loop().run_until([&] { return workload_->idle(); }, kStorm);
    ensemble_->calm();
    if (!wait_for([&] { return ensemble_->all_serving(); }, "not every process comes to serve")) return;
    if (!wait_for([&] { return workload_->idle(); }, "the clients' calls are not all answered")) return;
    ensemble_->loop().advance(kSettle);
    count_answers();
    if (!explain_history()) return;
    workload_->start_reading();
    if (!wait_for([&] { return workload_->idle(); }, "reading the tree does not end")) return;
    compare_tree();
    workload_->forget_removed(states_.front());
  }

  void count_answers() {
    for (const Operation& each : workload_->history().operations()) {
      ++result_.operations;
      if (!each.answered) ++result_.unanswered;
      std::string text = describe(each);
      auto kind = text.substr(text.find("client") + 9);
      ++result_.answers[kind.substr(0, kind.find(' ')) + " " +
                        (each.answered ? std::string(nfs3::status_name(each.status)) : "-")];
    }
  }

  bool explain_history() {
    workload_->history().disregard_written_sizes();
    const std::vector<Operation>& history = workload_->history().operations();
    Verdict verdict = linearize(states_, history);
    if (verdict.gave_up) ++result_.undecided;
    if (verdict.finals.empty()) {
      fail_with(
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
    workload_->history().disregard_written_sizes();
    const std::vector<Operation>& looks = workload_->history().operations();
    for (std::size_t i = 0; i < looks.size(); ++i) {
      std::vector<Model> fitting;
      for (const Model& state : states_) {
        Model::Step step = looks[i].answered ? state.apply(looks[i], i) : Model::Step{};
        if (step.explained) fitting.push_back(step.next ? std::move(*step.next) : state);
      }
      if (fitting.empty()) {
        fail_with(fmt::format(
            "the tree is in none of the states that it may be in\nlook: {}\n{} states; the first:\n{}",
            describe(looks[i]), states_.size(), states_.front().describe()));
        return;
      }
      states_ = std::move(fitting);
    }
    workload_->history().clear();
    std::string wrong = check_stores(ensemble_->directory_stores(), states_.front());
    if (!wrong.empty()) fail_with("what is stored is not the tree\n" + wrong + states_.front().describe());
  }

  SimulationOptions options_;
  SimulationResult result_;
  std::unique_ptr<SimEnsemble> ensemble_;
  std::unique_ptr<Workload> workload_;
  std::vector<Model> states_;
};

}  // namespace

SimulationResult simulate(const SimulationOptions& options, Trace::Print print) {
  return Simulation(options, std::move(print)).run();
}

}  // namespace slice::sim
