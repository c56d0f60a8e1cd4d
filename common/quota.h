// Quotas: how much users, groups and trees may store (docs/quotas.md): the limits, as the manager keeps them
// among the settings, and when what somebody has is too much.
#ifndef SLICE_COMMON_QUOTA_H
#define SLICE_COMMON_QUOTA_H

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <string_view>

#include "common/ids.h"

namespace slice {

enum class QuotaKind : std::uint32_t { kUser = 0, kGroup = 1, kTree = 2 };
inline constexpr std::array<std::string_view, 3> kQuotaKindNames{"user", "group", "tree"};
inline std::string_view quota_kind_name(QuotaKind kind) {
  return kQuotaKindNames[static_cast<std::size_t>(kind)];
}

// Whose: a uid, a gid, or a tree.
struct QuotaId {
  QuotaKind kind = QuotaKind::kUser;
  std::uint32_t id = 0;
  auto operator<=>(const QuotaId&) const = default;
};

// What is in no tree: nobody counts it, and nobody's limit it is.
inline constexpr QuotaId kOfNoTree{QuotaKind::kTree, 0};

// Of one resource: of space in bytes, of files in objects of any kind. 0: there is no such limit.
struct QuotaLimit {
  std::uint64_t soft = 0, hard = 0;
  // Seconds of the wall clock when the manager saw that there was more than `soft`; 0: there is not.
  std::uint64_t over_since = 0;
  bool operator==(const QuotaLimit&) const = default;

  bool any() const { return soft != 0 || hard != 0; }
  // Up to where somebody may go who has been over `soft` for as long as is said here, at `now` (seconds of
  // the wall clock); 2^64 - 1: as far as they want.
  std::uint64_t most(std::uint32_t grace, std::uint64_t now) const {
    if (soft != 0 && over_since != 0 && now >= over_since && now - over_since >= grace) return soft;
    return hard != 0 ? hard : ~std::uint64_t{0};
  }
  // What somebody is told that there is for them: as far as they may go, but a soft limit that is all there
  // is.
  std::uint64_t told(std::uint32_t grace, std::uint64_t now) const {
    return soft != 0 && hard == 0 ? soft : most(grace, now);
  }
};

inline constexpr std::uint32_t kDefaultQuotaGrace = 7 * 24 * 3600;  // seconds
struct Quota {
  QuotaLimit space, files;
  std::uint32_t grace = kDefaultQuotaGrace;  // seconds for which one may be over a soft limit
  bool operator==(const Quota&) const = default;
};

inline TreeId tree_of(QuotaId whose) {
  return TreeId{static_cast<std::uint16_t>(whose.id)};
}

// Whose what an object takes is: of its user, its group, and the tree that it is in.
struct QuotaOwners {
  std::uint32_t uid = 0, gid = 0;
  TreeId tree;  // 0: it is in none
  auto operator<=>(const QuotaOwners&) const = default;

  // As the superuser has it, who has no limit but a tree's: nothing is owned by these.
  static QuotaOwners of_tree(TreeId tree) { return {~std::uint32_t{0}, ~std::uint32_t{0}, tree}; }
  // For what is in no tree kOfNoTree is among them.
  std::array<QuotaId, 3> ids() const {
    return {QuotaId{QuotaKind::kUser, uid}, {QuotaKind::kGroup, gid}, {QuotaKind::kTree, tree.value}};
  }
  bool has(QuotaId whose) const { return ids()[static_cast<std::size_t>(whose.kind)] == whose; }
};

// Of all who have one; who is not among them may store what there is room for.
inline constexpr std::size_t kMaxQuotas = 4096;
using Quotas = std::map<QuotaId, Quota>;

// What somebody has.
struct QuotaUsage {
  std::uint64_t space = 0, files = 0;
  bool operator==(const QuotaUsage&) const = default;
};

}  // namespace slice

#endif  // SLICE_COMMON_QUOTA_H
