// Doubts: stripes of mirrored files that were being written here when a process before this one ended and had
// not made all durable, or of which a write came to no good end here. Who wrote them may be gone, and repeats
// nothing; so copies may differ there, each by what NFSv3 allows, and all are to be read alike
// (docs/mirrors.md, "After a crash"). Another copy counts then, and this one is made whole from it, since the
// coordinator is told that it misses them; so is a third one. Where no other is whole, this one counts. Until
// that is durable nothing of them is answered from here. One loop.
#ifndef SLICE_STORAGENODE_DOUBTS_H
#define SLICE_STORAGENODE_DOUBTS_H

#include <functional>
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
  // Another copy's node is waited for so long before it misses what this one has.
  static constexpr Duration kPatience = std::chrono::seconds(5);

  struct Seams {
    // MISSED, of a server; kJukebox also where the coordinator does not answer.
    std::function<Task<nfs3::Status>(routing::FileHandle, std::uint32_t, wire::StripeRange)> missed;
    std::function<Task<Result<routing::StripeCopies>>(routing::FileHandle, std::uint64_t)> copies;
  };
  Doubts(service::ServiceContext& context, ObjectStore& store, Seams seams);
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
    MonoTime since{};  // the last of them
  };
  ObjectName object_of(FileId file) const { return {context_.config.volume.id, file, ObjectKind::kFile}; }
  void begin();
  Task<void> settle_all(std::shared_ptr<bool> stopped);
  // What of the range is settled in one go is taken off it.
  Task<void> settle(const File& file, wire::StripeRange& range);
  Task<bool> settle_one(const File& file, std::uint64_t stripe);
  Task<bool> all_miss(const File& file, std::vector<std::uint32_t> servers, std::uint64_t stripe);
  void show() const;

  service::ServiceContext& context_;
  ObjectStore& store_;
  const Seams seams_;
  std::map<FileId, File> files_;
  bool settling_ = false;
  std::shared_ptr<bool> stopped_ = std::make_shared<bool>(false);
  Gauge& gauge_;
  Counter& settled_;
};

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_DOUBTS_H
