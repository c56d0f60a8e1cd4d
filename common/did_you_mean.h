// did_you_mean(): which known word somebody meant who mistyped one.
#ifndef SLICE_COMMON_DID_YOU_MEAN_H
#define SLICE_COMMON_DID_YOU_MEAN_H

#include <string>
#include <string_view>
#include <vector>

namespace slice {

// "; did you mean 'status'?", to be put behind the refusal of `word`; empty where none of `known` is near it:
// a letter that is missing, too many, another, or swapped with its neighbour; two such in words of six
// letters and more.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

}  // namespace slice

#endif  // SLICE_COMMON_DID_YOU_MEAN_H
