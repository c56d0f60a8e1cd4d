#include "coordinator/intention_format.h"

#include <algorithm>

#include "rpc/xdr.h"

namespace slice::coordinator {
namespace {

constexpr std::uint32_t kIntention = 1, kCleared = 2;  // the kind of a record

void decode_missing(rpc::XdrReader& in, Intention& out) {
  out.server = in.u32();
  out.version = in.u64();
  std::uint32_t count = in.u32();
  if (count > wire::kMaxStripeRanges) in.fail();
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) {
    wire::StripeRange range{in.u64(), in.u64()};
    if (range.first >= range.end) in.fail();
    out.stripes.push_back(range);
  }
}

}  // namespace

Buffer encode_record(const Intention& intention) {
  rpc::XdrWriter out;
  out.u32(kIntention);
  out.u32(static_cast<std::uint32_t>(intention.operation));
  out.fixed(intention.handle);
  out.u64(intention.size);
  out.u32(intention.epoch.value);
  if (intention.operation == Operation::kMissing) {
    out.u32(intention.server);
    out.u64(intention.version);
    out.u32(static_cast<std::uint32_t>(intention.stripes.size()));
    for (const wire::StripeRange& range : intention.stripes) {
      out.u64(range.first);
      out.u64(range.end);
    }
  }
  if (intention.operation == Operation::kMove) {
    out.u64(intention.stripe);
    out.u32(intention.from_site);
    out.u32(intention.to_site);
  }
  return out.take();
}

Buffer encode_record(const Cleared& cleared) {
  rpc::XdrWriter out;
  out.u32(kCleared);
  out.u32(static_cast<std::uint32_t>(cleared.intentions.size()));
  for (storage::LogSequence sequence : cleared.intentions) out.u64(sequence.value);
  return out.take();
}

Result<std::variant<Intention, Cleared>> decode_record(ByteView record) {
  rpc::XdrReader in(record);
  std::uint32_t kind = in.u32();
  if (kind == kIntention) {
    Intention intention;
    std::uint32_t operation = in.u32();
    ByteView handle = in.fixed(intention.handle.size());
    intention.size = in.u64();
    intention.epoch = Epoch{in.u32()};
    if (operation == static_cast<std::uint32_t>(Operation::kMissing)) decode_missing(in, intention);
    if (operation == static_cast<std::uint32_t>(Operation::kMove)) {
      intention.stripe = in.u64();
      intention.from_site = in.u32();
      intention.to_site = in.u32();
    }
    if (in.complete() && operation >= static_cast<std::uint32_t>(Operation::kCommit) &&
        operation <= static_cast<std::uint32_t>(Operation::kMove)) {
      intention.operation = static_cast<Operation>(operation);
      std::copy(handle.begin(), handle.end(), intention.handle.begin());
      return intention;
    }
  } else if (kind == kCleared) {
    Cleared cleared;
    std::uint32_t count = in.u32();
    if (count > kMaxCleared) in.fail();
    for (std::uint32_t i = 0; in.ok() && i < count; ++i) {
      cleared.intentions.push_back(storage::LogSequence{in.u64()});
    }
    if (in.complete()) return cleared;
  }
  return fail(Errc::kCorrupt, "an intention record of {} bytes and kind {} is malformed", record.size(),
              kind);
}

}  // namespace slice::coordinator
