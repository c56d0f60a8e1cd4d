#include "tests/sim/rounds.h"

#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
// Nothing that ended() keeps is a leak, and to look through it at the exit would touch all of it: what a
// process of each of these ensembles has set aside, and mostly never used, is more than machines have.
extern "C" const char* __asan_default_options();   // NOLINT(bugprone-reserved-identifier): the runtime's name
extern "C" const char* __asan_default_options() {  // NOLINT(bugprone-reserved-identifier)
  return "detect_leaks=0";
}
#endif

namespace slice::sim {
namespace {

// Ensembles of simulations that have ended. Their processes were killed: nothing of them may run, not even to
// be freed.
std::vector<std::unique_ptr<SimEnsemble>>& ended() {
  static auto* all = new std::vector<std::unique_ptr<SimEnsemble>>();
  return *all;
}

}  // namespace

Rounds::Rounds(const SimulationOptions& options, Trace::Print print, std::chrono::seconds longest)
    : options_(options),
      longest_(longest),
      ensemble_(std::make_unique<SimEnsemble>(options.ensemble, std::move(print))) {
  ensemble_->network().set_tamper(options.tamper);
}

Rounds::~Rounds() {
  ended().push_back(std::move(ensemble_));
}

SimulationResult Rounds::run() {
  if (!ensemble_->start()) wrong(ensemble_->failure());
  if (good()) prepare();
  for (unsigned round = 0; good() && goes_on(round); ++round) {
    ensemble_->trace().note("round {}", round);
    play(round);
    ++result_.rounds;
  }
  result_.lasted = ensemble_->loop().now().time_since_epoch();
  result_.checksum = ensemble_->trace().checksum();
  result_.points = ensemble_->points();
  result_.kills = ensemble_->kills();
  return std::move(result_);
}

bool Rounds::goes_on(unsigned round) const {
  if (options_.lasts == Duration(0)) return round < options_.rounds;
  return ensemble_->loop().now().time_since_epoch() < options_.lasts;
}

void Rounds::wrong(std::string why) {
  ensemble_->trace().note("wrong: {}", why);
  if (good()) result_.failure = std::move(why);
}

bool Rounds::wait_for(const std::function<bool()>& done, std::string_view what) {
  auto over = [&] { return done() || !good() || !ensemble_->failure().empty() || !complaint().empty(); };
  bool came = ensemble_->loop().run_until(over, longest_);
  if (!ensemble_->failure().empty()) wrong(ensemble_->failure());
  if (std::string why = complaint(); !why.empty()) wrong(std::move(why));
  if (!came) wrong(fmt::format("{} within {} s\n{}", what, longest_.count(), unfinished()));
  return good();
}

bool Rounds::wait_for_calm() {
  ensemble_->calm();
  return wait_for([&] { return ensemble_->all_serving(); }, "not every process comes to serve");
}

}  // namespace slice::sim
