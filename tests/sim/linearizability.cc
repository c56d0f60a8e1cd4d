#include "tests/sim/linearizability.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <cassert>
#include <unordered_set>

#include "tests/sim/random.h"

namespace slice::sim {
namespace {

class Search {
 public:
  Search(const std::vector<Operation>& history, std::size_t most_states)
      : history_(history), most_states_(most_states) {
    assert(history.size() <= kMostOperations);
  }

  void run(const Model& initial) {
    order_.clear();
    explore({}, 0, initial);
  }
  Verdict take() { return std::move(verdict_); }

 private:
  using Done = std::bitset<kMostOperations>;

  // An operation can be next where no other that is left had its answer before this one was called.
  std::vector<std::size_t> candidates(const Done& done) const {
    std::uint64_t first_end = ~std::uint64_t{0};
    for (std::size_t i = 0; i < history_.size(); ++i) {
      if (!done[i] && history_[i].answered) first_end = std::min(first_end, history_[i].end);
    }
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < history_.size(); ++i) {
      if (!done[i] && history_[i].start <= first_end) found.push_back(i);
    }
    return found;
  }

  static std::uint64_t key_of(std::size_t i) { return mix(i + 0x51ed2701); }
  void add(std::size_t i, Done& done, std::uint64_t& key) {
    done.set(i);
    key ^= key_of(i);
    order_.push_back(i);
    if (order_.size() > verdict_.longest.size()) verdict_.longest = order_;
  }

  void explore(Done done, std::uint64_t key, const Model& state) {
    std::size_t depth = order_.size();
    std::vector<std::size_t> next = settle(done, key, state);
    if (visited_.size() >= most_states_) verdict_.gave_up = true;
    if (!verdict_.gave_up && visited_.insert(mix(key) ^ state.hash()).second) {
      note_if_final(next, done, state);
      for (std::size_t i : next) {
        Model::Step step = state.apply(history_[i], i);
        if (!step.explained || !step.next) continue;
        Done with = done;
        std::uint64_t with_key = key;
        add(i, with, with_key);
        explore(with, with_key, *step.next);
        order_.pop_back();
      }
    }
    order_.resize(depth);
  }

  // What is right now and changes nothing may as well happen now: it stands in nobody's way. Returns what
  // else can be next.
  std::vector<std::size_t> settle(Done& done, std::uint64_t& key, const Model& state) {
    for (;;) {
      std::vector<std::size_t> next = candidates(done);
      bool any = false;
      for (std::size_t i : next) {
        if (!history_[i].answered) continue;
        Model::Step step = state.apply(history_[i], i);
        if (!step.explained || step.next) continue;
        add(i, done, key);
        any = true;
      }
      if (!any) return next;
    }
  }

  void note_if_final(const std::vector<std::size_t>& next, const Done& done, const Model& state) {
    bool all = std::all_of(next.begin(), next.end(), [&](std::size_t i) { return !history_[i].answered; });
    if (!all) return;
    for (std::size_t i = 0; i < history_.size(); ++i) {
      if (!done[i] && history_[i].answered) return;
    }
    if (finals_.insert(state.hash()).second) verdict_.finals.push_back(state);
  }

  const std::vector<Operation>& history_;
  std::size_t most_states_;
  std::vector<std::size_t> order_;
  std::unordered_set<std::uint64_t> visited_;
  std::unordered_set<std::uint64_t> finals_;
  Verdict verdict_;
};

}  // namespace

Verdict linearize(const std::vector<Model>& initial, const std::vector<Operation>& history,
                  std::size_t most_states) {
  Search search(history, most_states);
  for (const Model& model : initial) search.run(model);
  return search.take();
}

std::string explain(const std::vector<Model>& initial, const std::vector<Operation>& history,
                    const Verdict& verdict) {
  std::string text = verdict.gave_up ? "the search gave up\n" : "";
  text += fmt::format("{} possible states before; the first:\n", initial.size());
  if (!initial.empty()) text += initial.front().describe();
  text += fmt::format("{} of {} operations can be explained, in this order:\n", verdict.longest.size(),
                      history.size());
  std::vector<bool> done(history.size());
  for (std::size_t i : verdict.longest) {
    done[i] = true;
    text += "  " + describe(history[i]) + "\n";
  }
  text += "not:\n";
  for (std::size_t i = 0; i < history.size(); ++i) {
    if (!done[i]) text += "  " + describe(history[i]) + "\n";
  }
  return text;
}

}  // namespace slice::sim
