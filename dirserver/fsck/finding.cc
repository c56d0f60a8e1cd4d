#include "dirserver/fsck/finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

namespace slice::dirserver::fsck {
namespace {

constexpr std::array<std::string_view, kKinds> kKindNames{
    "dangling",   "wrong-target", "no-directory", "misplaced",  "bad-name",  "orphan",     "names",
    "link-count", "parent",       "tree",         "entries",    "part",      "known-part", "cycle",
    "reclaim",    "locks",        "truncation",   "sequence",   "duplicate", "root",       "intention",
    "site-twice", "corrupt",      "unreadable",   "lost-bytes", "nameless",  "stray",      "unfinished"};

}  // namespace

std::string_view kind_name(Kind kind) {
  return kKindNames[static_cast<std::size_t>(kind)];
}

void Report::add(Finding finding) {
  ++counts_[static_cast<std::size_t>(finding.kind)];
  auto& list = finding.kind == Kind::kUnfinished ? unfinished_ : findings_;
  if (list.size() < limit_) list.push_back(std::move(finding));
}

std::uint64_t Report::damage() const {
  return std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0}) - count(Kind::kUnfinished);
}

void Report::sort() {
  auto order = [](const Finding& a, const Finding& b) {
    return std::tie(a.kind, a.site, a.file, a.name, a.what) <
           std::tie(b.kind, b.site, b.file, b.name, b.what);
  };
  std::sort(findings_.begin(), findings_.end(), order);
  std::sort(unfinished_.begin(), unfinished_.end(), order);
}

}  // namespace slice::dirserver::fsck
