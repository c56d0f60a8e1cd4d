#include "service/backing/change_batch.h"

#include "service/internal_call.h"

namespace slice::service {
namespace {

constexpr std::size_t kHeadBytes = 1024;                        // of a call before its arguments, at most
constexpr std::size_t kCallBytes = rpc::kMaxCall - kHeadBytes;  // of a call's arguments
constexpr std::size_t kChangeBytes =
    5 * 8 + wire::kMaxBackingPath + 1;  // of a change beside its bytes, at most

// Where the encoding of BackingChangeArgs has what is known only when the call is sent.
constexpr std::size_t kNumberAt = 4 + 8 + 8, kWholeAt = kNumberAt + 8, kCountAt = kWholeAt + 4;
static_assert(kCountAt + 4 + kChangeBytes + wire::kBackingPiece <= kCallBytes, "a piece fits into a call");

}  // namespace

bool ChangeWriter::takes(const wire::BackingChange& change) const {
  return !begun_ || (count_ < wire::kMaxBackingChanges &&
                     out_.size() + change.bytes.size() + kChangeBytes <= kCallBytes);
}

void ChangeWriter::begin(const wire::BackingOwner& owner) {
  if (std::exchange(begun_, true)) return;
  encode(out_, wire::BackingChangeArgs{.owner = owner, .number = 0, .whole = false, .changes = {}});
}

void ChangeWriter::add(const wire::BackingOwner& owner, const wire::BackingChange& change) {
  begin(owner);
  encode(out_, change);
  ++count_;
}

std::shared_ptr<ChangeBatch> ChangeWriter::seal(std::uint64_t number, const void* only) {
  out_.patch_u64(kNumberAt, number);
  out_.patch_u32(kCountAt, count_);
  auto batch =
      std::make_shared<ChangeBatch>(ChangeBatch{.number = number, .arguments = out_.take(), .only = only});
  out_ = {};
  count_ = 0;
  begun_ = false;
  return batch;
}

rpc::Request ChangeBatch::request(const wire::BackingOwner& owner, const void* receiver, rpc::Endpoint to,
                                  bool whole, Duration timeout) const {
  const bool without = only != nullptr && only != receiver;
  rpc::Request request = internal_request(
      to, wire::kBackingProgram, wire::BackingProcedure::kChange,
      wire::BackingChangeArgs{.owner = owner, .number = number, .whole = whole, .changes = {}}, timeout,
      Duration(0));
  if (without) return request;
  request.arguments = arguments.clone();
  store_be(request.arguments.data() + kWholeAt, std::uint32_t{whole});
  return request;
}

}  // namespace slice::service
