// Doubts: stripes of mirrored files that were being written here when a process before this one ended and had
// not made all durable, or of which a write came to no good end here. Who wrote them may be gone, and repeats
// nothing; so copies may differ there, each by what NFSv3 allows, and all are to be read alike
// (docs/mirrors.md, "After a crash"). Another copy counts where it can: the coordinator is told that this one
// misses them, and makes it whole. Else all get what the one has that orders the stripe's writes. Until that
// is durable nothing of them is answered from here. One loop.
#ifndef SLICE_STORAGENODE_DOUBTS_H
#define SLICE_STORAGENODE_DOUBTS_H

#include <map>
#include <memory>
#include <vector>

#include "routing/copies.h"
#include "service/context.h"
#include "storagenode/object_store.h"
#include "wire/layout.h"

namespace slice::storagenode {

class Doubts {
 public:
  // A node that does not answer is waited for so long before its copy misses what the others have.
  static constexpr Duration kPatience = std::chrono::seconds(5);
  // Of a file in one go: notes of single stripes at the coordinator, which keeps so many apart and no more.
  static constexpr unsigned kMostNotes = 64;

  class Seams {
   public:
    virtual ~Seams() = default;
    // By the layout of now. kStale: the file is gone.
    virtual Task<Result<routing::StripeCopies>> copies(routing::FileHandle handle, std::uint64_t stripe) = 0;
    // Which stripes other copies of the file miss, in order.
    virtual Task<Result<std::vector<wire::StripeRange>>> others_miss(routing::FileHandle handle) = 0;
    // MISSED; kJukebox also where the coordinator does not answer.
    virtual Task<nfs3::Status> miss(routing::FileHandle handle, std::uint32_t server,
                                    wire::StripeRange stripes) = 0;
    // `to` gets the stripe as `from` has it, which orders its writes. kServerFault: who of the two does not
    // answer is in `silent`.
    virtual Task<nfs3::Status> copy(routing::FileHandle handle, std::uint64_t stripe, std::uint32_t from,
                                    std::uint32_t to, std::uint32_t* silent) = 0;
  };
  // All of it outlives it.
  Doubts(service::ServiceContext& context, ObjectStore& store, Seams& seams);
  ~Doubts() { *stopped_ = true; }
  Doubts(const Doubts&) = delete;
  Doubts& operator=(const Doubts&) = delete;

  // When the store is open.
  void start();
  // Of a mirrored file.
  void add(const routing::FileHandle& handle, std::uint64_t stripe);
  void stop() { *stopped_ = true; }
  bool has(FileId file, std::uint64_t stripe) const;

 private:
  struct File {
    routing::FileHandle handle;
    std::vector<wire::StripeRange> stripes;
    std::vector<wire::StripeRange> added;  // of these, since one of them was begun to be settled
    MonoTime since{};                      // the last of them
  };
  ObjectName object_of(FileId file) const { return {context_.config.volume.id, file, ObjectKind::kFile}; }
  void begin();
  Task<void> settle_all(std::shared_ptr<bool> stopped);
  // What of the range is left.
  Task<std::vector<wire::StripeRange>> settle(const File& file, wire::StripeRange range);
  // As far as another copy counts, and is the only other one.
  Task<std::vector<wire::StripeRange>> leave_to_another(const File& file, wire::StripeRange range);
  Task<bool> make_alike(const File& file, std::uint64_t stripe, unsigned& notes);
  void show() const;

  service::ServiceContext& context_;
  ObjectStore& store_;
  Seams& seams_;
  std::map<FileId, File> files_;
  bool settling_ = false;
  std::shared_ptr<bool> stopped_ = std::make_shared<bool>(false);
  Gauge& gauge_;
  Counter& settled_;
};

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_DOUBTS_H
