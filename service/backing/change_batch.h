// ChangeBatch: one CHANGE call of a backing set's owner (wire/backing.h), encoded once for all who get it.
// ChangeWriter gathers changes until it is sent. For backing_set.cc.
#ifndef SLICE_SERVICE_BACKING_CHANGE_BATCH_H
#define SLICE_SERVICE_BACKING_CHANGE_BATCH_H

#include <memory>

#include "rpc/channel.h"
#include "rpc/xdr.h"
#include "wire/backing.h"

namespace slice::service {

struct ChangeBatch {
  std::uint64_t number = 0;
  Buffer arguments;            // of BackingChangeArgs, with `whole` false
  const void* only = nullptr;  // whom the changes are for; the others get a call without any. Null: all

  // The call to one who gets it. `whole`: as in BackingChangeArgs.
  rpc::Request request(const wire::BackingOwner& owner, const void* receiver, rpc::Endpoint to, bool whole,
                       Duration timeout) const;
};

class ChangeWriter {
 public:
  bool empty() const { return !begun_; }
  std::size_t bytes() const { return out_.size(); }
  // Whether one more change fits into the call. One of up to wire::kBackingPiece bytes does alone.
  bool takes(const wire::BackingChange& change) const;
  // For a call without changes.
  void begin(const wire::BackingOwner& owner);
  void add(const wire::BackingOwner& owner, const wire::BackingChange& change);
  // What was added, as the call of this number; the writer is empty again.
  std::shared_ptr<ChangeBatch> seal(std::uint64_t number, const void* only);

 private:
  rpc::XdrWriter out_;
  std::uint32_t count_ = 0;
  bool begun_ = false;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_BACKING_CHANGE_BATCH_H
