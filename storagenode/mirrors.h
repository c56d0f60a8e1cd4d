// Mirrors: a storage node's part in files that have a layout: mirrored ones (docs/mirrors.md), and
// block-mapped ones, which are the same with one copy (docs/block-maps.md). One whole copy of a stripe, the
// first in the order of the tables, orders its writes: it writes, has the others write, and answers when all
// have it. A copy that does not get a write misses it from then on, which the file's coordinator knows
// durably before the client is answered. Reads are answered by any whole copy. One loop.
#ifndef SLICE_STORAGENODE_MIRRORS_H
#define SLICE_STORAGENODE_MIRRORS_H

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "service/nfs_program.h"
#include "service/placing.h"
#include "storagenode/layout_cache.h"
#include "storagenode/object_store.h"
#include "storagenode/stripe_locks.h"
#include "storagenode/suspects.h"

namespace slice::storagenode {

// What a READ or WRITE by a former opener's handle is answered: kStale.
Error another_has_opened(const routing::FileHandle& handle);

class Mirrors {
 public:
  Mirrors(service::ServiceContext& context, ObjectStore& store);

  LayoutCache& layouts() { return layouts_; }
  // Sessions and probes, until leave().
  void start() { layouts_.start(); }
  // The process is about to end: nobody is to wait for it. Coordinators and the other storage nodes know so
  // when this ends; what was written is durable. From before that on nothing that goes by layouts is
  // answered.
  Task<void> leave();
  // Another node's process is about to end.
  void left(std::uint32_t server) { suspects_.leaves(server); }
  ObjectName object_of(const routing::FileHandle& handle) const {
    return {context_.config.volume.id, handle.fileid, ObjectKind::kFile};
  }

  // ---- for READ and WRITE ----
  struct Passed {
    std::optional<service::NfsAnswer> answer;  // nothing: the copy here is the one to answer,
    std::uint64_t version = 0;                 // by the layout with this version
  };
  // What the sender of a WRITE had heard when it sent it: as it says, or LayoutCache::stamp() of now.
  rpc::LayoutStamp sent(const service::NfsRequest& request) const;
  // Gives the request to the copy that it is for, where that is not the one here. `write`: it is one, and
  // sent() says this. `not_here`: the copy here is of no use.
  Task<Passed> pass_on(const service::NfsRequest& request, std::uint64_t offset,
                       std::optional<rpc::LayoutStamp> write, bool not_here, rpc::XdrWriter& results);
  // What a read of the copy here has shown counts.
  bool still(const routing::FileHandle& handle, std::uint64_t offset, std::uint64_t version) const {
    return layouts_.still(handle, offset >> handle.stripe_shift, version);
  }
  // Writes to all copies; all bytes in one stripe. `sent`: of the request. kMisdirected: another copy orders
  // them by now. Else as ObjectStore::write(), and kUnavailable. `data` lives until the task ends.
  struct Written {
    // Nothing was done: another copy may have ordered writes since it was sent, and may have done this one.
    bool sent_too_early = false;
    ObjectStore::Written here{};
    Verifier verifier{};  // older than that of any copy's server which has started since it was sent there
  };
  Task<Result<Written>> write(routing::FileHandle handle, rpc::LayoutStamp sent, std::uint64_t offset,
                              ByteView data, ObjectStore::WriteOptions options);
  // The copy here cannot be read: it misses this stripe, and gets it anew from another one.
  Task<void> lose(routing::FileHandle handle, std::uint64_t stripe);

  // ---- for the object program ----
  Task<wire::ForwardResult> forward(wire::ForwardArgs args);
  Task<nfs3::Status> copy(wire::CopyArgs args);
  Task<nfs3::Status> discard(wire::DiscardArgs args);
  // Ends when no write or discard under a layout below args.version is on its way any more.
  Task<void> recall(wire::RecallArgs args);
  // Ends when no write by an opener's handle (routing/file_handle.h) of an epoch before is on its way any
  // more.
  Task<void> until_written(FileId file, Epoch before);

 private:
  // How one copy took a write.
  enum class Took { kDone, kOldLayout, kOtherEpoch, kRemoved, kFailed };
  struct Outcome {
    std::uint32_t server = 0;
    Took took = Took::kFailed;
    std::optional<Error> error;
    ObjectStore::Written written;
  };
  struct Put {
    routing::FileHandle handle;
    std::uint64_t version = 0, number = 0, offset = 0;
    ByteView data;
    ObjectStore::WriteOptions options;
  };
  // What one round of a write came to.
  struct Round {
    bool again = false;  // under another layout or epoch
    bool some_have_it = false;
    Result<Written> written = Written{};
  };
  Task<Round> write_round(const routing::FileHandle& handle, rpc::LayoutStamp sent, std::uint64_t offset,
                          ByteView data, ObjectStore::WriteOptions options);
  Task<Outcome> put_here(Put put);
  Task<Outcome> put_there(Put put, std::uint32_t server);
  Task<Result<wire::ForwardResult>> call_forward(const Put& put, std::uint32_t server);
  Task<bool> note_missed(const routing::FileHandle& handle, std::uint32_t server, std::uint64_t stripe);
  Task<bool> until_idle();
  std::vector<Task<bool>> tell_others();
  // True: it has answered.
  Task<bool> tell(rpc::Endpoint node);
  rpc::Endpoint endpoint_of(std::uint32_t server) const;
  // What goes by a layout, from where it is looked at on: a recall waits for it.
  class UnderWay;

  service::ServiceContext& context_;
  ObjectStore& store_;
  LayoutCache layouts_;
  StripeLocks ordered_;
  struct Going {
    std::multiset<std::uint64_t> numbers;  // UnderWay::UnderWay()
    std::vector<OneShot<bool>> waiting;    // for one of them to end
  };
  std::map<FileId, Going> under_way_, opened_;
  service::WriteNumbers numbers_;
  Suspects suspects_;
  LogLimiter log_{1};
  Counter& forwarded_;
  Counter& passed_on_;
  Counter& missed_;
  Counter& copied_;
  Counter& too_early_;
};

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_MIRRORS_H
