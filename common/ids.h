// Strong types for the numbers that must not be mixed up. Same size as the number, no cost.
#ifndef SLICE_COMMON_IDS_H
#define SLICE_COMMON_IDS_H

#include <compare>
#include <cstdint>
#include <functional>

namespace slice {

template <class Tag, class Rep>
struct Id {
  Rep value{};
  constexpr auto operator<=>(const Id&) const = default;
};

using FileId = Id<struct FileIdTag, std::uint64_t>;                          // never reused within a volume
using TreeId = Id<struct TreeIdTag, std::uint16_t>;                          // of a tree; 0: of none
using VolumeId = Id<struct VolumeIdTag, std::uint32_t>;                      //
using SiteId = Id<struct SiteIdTag, std::uint32_t>;                          // a logical server of one class
using Generation = Id<struct GenerationTag, std::uint64_t>;                  // version of the routing tables
using SettingsGeneration = Id<struct SettingsGenerationTag, std::uint64_t>;  // of the settings
using Xid = Id<struct XidTag, std::uint32_t>;                                // ONC RPC transaction number
using Epoch = Id<struct EpochTag, std::uint32_t>;                            // truncation epoch of a file
using BackingEpoch = Id<struct BackingEpochTag, std::uint64_t>;  // of a backing set: one owner's time
using Verifier = Id<struct VerifierTag, std::uint64_t>;  // NFSv3 write verifier, one ensemble-wide sequence

}  // namespace slice

template <class Tag, class Rep>
struct std::hash<::slice::Id<Tag, Rep>> {
  std::size_t operator()(::slice::Id<Tag, Rep> id) const noexcept { return std::hash<Rep>{}(id.value); }
};

namespace slice {

// For tables whose size is a power of two: FileIDs of different sites differ in their upper bits alone.
template <class Id>
struct MixedHash {
  std::size_t operator()(Id id) const noexcept {
    return static_cast<std::size_t>((static_cast<std::uint64_t>(id.value) * 0x9e3779b97f4a7c15ull) >> 32);
  }
};

}  // namespace slice

#endif  // SLICE_COMMON_IDS_H
