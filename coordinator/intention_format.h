// The records of the intention log. Format: docs/formats/intention-log.md.
#ifndef SLICE_COORDINATOR_INTENTION_FORMAT_H
#define SLICE_COORDINATOR_INTENTION_FORMAT_H

#include <cstdint>
#include <variant>
#include <vector>

#include "common/bytes.h"
#include "common/ids.h"
#include "common/result.h"
#include "routing/file_handle.h"
#include "storage/log.h"
#include "wire/layout.h"

namespace slice::coordinator {

// kMissing: no operation, but what is owed to one copy of a mirrored file.
enum class Operation : std::uint32_t { kCommit = 1, kTruncate = 2, kRemove = 3, kMissing = 4, kMove = 5 };

// An operation over several servers that has begun.
struct Intention {
  Operation operation = Operation::kCommit;
  routing::HandleBytes handle{};  // hint zero
  std::uint64_t size = 0;         // kTruncate: the new size
  Epoch epoch;                    // kTruncate: the epoch that it starts
  // kMissing only:
  std::uint32_t server = 0;  // index in the configuration
  std::uint64_t version = 0;
  std::vector<wire::StripeRange> stripes;
  // kMove only: of one stripe, from one storage site to another.
  std::uint64_t stripe = 0;
  std::uint32_t from_site = 0, to_site = 0;
};

// Intentions that are fulfilled, by the sequence numbers of their records.
struct Cleared {
  std::vector<storage::LogSequence> intentions;
};
inline constexpr std::size_t kMaxCleared = 4096;  // of one record

Buffer encode_record(const Intention& intention);
Buffer encode_record(const Cleared& cleared);
// kCorrupt where the bytes are neither.
Result<std::variant<Intention, Cleared>> decode_record(ByteView record);

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_INTENTION_FORMAT_H
