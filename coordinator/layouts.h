// Layouts: which copies of mirrored files miss what. Durable in the intention log (MISSING), and kept in
// memory whole. Whoever changes one knows, when that ends, that no node acts on an older one. One loop.
#ifndef SLICE_COORDINATOR_LAYOUTS_H
#define SLICE_COORDINATOR_LAYOUTS_H

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "coordinator/intentions.h"
#include "coordinator/sessions.h"
#include "routing/copies.h"

namespace slice::coordinator {

class Layouts {
 public:
  static constexpr std::size_t kMaxMissing = 1 << 20;  // copies; more of them are not noted: JUKEBOX

  Layouts(service::ServiceContext& context, Intentions& intentions, Sessions& sessions);

  wire::FileLayout of(FileId file) const;
  bool misses_everything(FileId file, std::uint32_t server) const;
  bool joins(FileId file, std::uint32_t server) const;

  // The copy at `server` misses these stripes. kOk: durable, and nobody reads them there any more. kJukebox:
  // no other copy of one of them is whole.
  Task<nfs3::Status> missed(routing::FileHandle handle, std::uint32_t server, wire::StripeRange stripes);
  // From the end of this on the copy gets every write that ends well. False: it misses nothing (any more), or
  // everything and was not emptied for this.
  Task<bool> join(routing::FileHandle handle, std::uint32_t server, bool emptied);
  // The copy misses nothing any more, unless it does not join now.
  Task<bool> joined(routing::FileHandle handle, std::uint32_t server);
  // The file is gone.
  void forget(FileId file);

  // What a crash has left; before the first call of anything else.
  void resume(storage::LogSequence sequence, const Intention& intention);

  // All copies that miss something, in the order of fileIDs.
  std::vector<std::pair<routing::FileHandle, std::uint32_t>> owed() const;
  std::size_t missing() const { return missing_; }

 private:
  struct Copy {
    wire::Missing missing;
    storage::LogSequence sequence;
  };
  struct File {
    explicit File(Loop& loop) : lock(loop) {}
    routing::FileHandle handle;
    std::uint64_t changed = 0;
    std::map<std::uint32_t, Copy> copies;  // by server
    AsyncMutex lock;
    unsigned users = 0;
  };
  // A file while somebody works on it.
  class Use;

  bool another_is_whole(const File& file, const routing::FileHandle& handle, std::uint32_t server,
                        wire::StripeRange stripes) const;
  Task<nfs3::Status> put(File& file, const routing::FileHandle& handle, wire::Missing missing);
  void erase(File& file, std::uint32_t server);
  std::uint64_t next_version() { return ++version_; }
  void drop_if_idle(FileId file);

  service::ServiceContext& context_;
  Intentions& intentions_;
  Sessions& sessions_;
  std::map<FileId, std::unique_ptr<File>> files_;
  std::uint64_t version_;
  std::uint64_t dropped_;  // the version when a file was last dropped from `files_`
  std::size_t missing_ = 0;
  Counter& missing_gauge_;
  Counter& missed_;
  Counter& refused_;
};

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_LAYOUTS_H
