#include "common/did_you_mean.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>

namespace slice {
namespace {

constexpr std::size_t kLongWord = 6;      // letters
constexpr std::size_t kLongestWord = 64;  // nobody mistypes longer ones

// Edits between the two, a swap of neighbours being one.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> edits(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      std::size_t& here = edits[i][j];
      if (i == 0 || j == 0) {
        here = i + j;
        continue;
      }
      here =
          std::min({edits[i - 1][j] + 1, edits[i][j - 1] + 1, edits[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) here = std::min(here, edits[i - 2][j - 2] + 1);
    }
  }
  return edits[a.size()][b.size()];
}

}  // namespace

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  if (word.size() > kLongestWord) return "";
  std::size_t least = word.size() < kLongWord ? 2 : 3;
  const std::string* nearest = nullptr;
  for (const std::string& each : known) {
    const std::size_t edits = distance(word, each);
    if (edits >= least || edits >= word.size()) continue;
    least = edits;
    nearest = &each;
  }
  return nearest == nullptr ? "" : fmt::format("; did you mean '{}'?", *nearest);
}

}  // namespace slice
