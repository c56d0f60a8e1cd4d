// Layouts: which copies of mirrored files miss what, and where the stripes of block-mapped files are. The
// first is durable in the intention log (MISSING) and kept in memory whole, the second in BlockMaps. Whoever
// changes one knows, when that ends, that no node acts on an older one. One loop.
#ifndef SLICE_COORDINATOR_LAYOUTS_H
#define SLICE_COORDINATOR_LAYOUTS_H

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <unordered_set>
#include <utility>
#include <vector>

#include "coordinator/block_maps.h"
#include "coordinator/extents.h"
#include "coordinator/intentions.h"
#include "coordinator/recent_orderers.h"
#include "coordinator/sessions.h"
#include "routing/copies.h"

namespace slice::coordinator {

class Layouts {
 public:
  static constexpr std::size_t kMaxMissing = 1 << 20;  // copies; more of them are not noted: JUKEBOX
  static constexpr std::size_t kMaxRecent = 65536;     // files whose last orderers are remembered

  // `first`: the first version to give; none before was as large, wherever the files were then.
  Layouts(service::ServiceContext& context, Intentions& intentions, Sessions& sessions, BlockMaps& maps,
          Extents& extents, std::uint64_t first);

  // For one stripe, to be given to a node that asks; when Sessions::settled(). `place`: the stripe's piece
  // gets its sites now, where it has none that writes may go by. kJukebox, kIo, kStale (the file was
  // removed).
  Task<wire::LayoutResult> give(routing::FileHandle handle, std::uint64_t stripe, bool place);
  // The same as this process goes by it. kCorrupt, kIo.
  Result<wire::FileLayout> of(const routing::FileHandle& handle, std::uint64_t stripe) const;
  std::vector<wire::Missing> missing_of(FileId file) const;
  bool misses(FileId file, std::uint32_t server) const {
    return lost(server) || copy_of(file, server) != nullptr;
  }
  bool misses_everything(FileId file, std::uint32_t server) const;
  // The server was declared lost, and can use no layout any more: it misses everything of every file, without
  // a note of it.
  bool lost(std::uint32_t server) const;
  std::vector<std::uint32_t> lost_servers() const;
  bool joins(FileId file, std::uint32_t server) const;

  // The copy at `server` misses these stripes. kOk: durable, and nobody reads them there any more. kJukebox:
  // no other copy of one of them is whole.
  Task<nfs3::Status> missed(routing::FileHandle handle, std::uint32_t server, wire::StripeRange stripes);
  // From the end of this on the copy gets every write that ends well. False: it misses nothing (any more), or
  // everything and was not emptied for this.
  Task<bool> join(routing::FileHandle handle, std::uint32_t server, bool emptied);
  // The copy misses nothing any more, unless it does not join now.
  Task<bool> joined(routing::FileHandle handle, std::uint32_t server);
  // The server is no member any more: what it misses is of no account.
  Task<void> drop_copy(routing::FileHandle handle, std::uint32_t server);
  // ---- moving a stripe (docs/block-maps.md), in this order ----
  // From the end of this on the servers of `site` get every write of the stripe. False: not now.
  Task<bool> begin_move(routing::FileHandle handle, std::uint64_t stripe, SiteId site);
  // They have all of it. kOk: it is there now, durably, and nobody uses it where it was. kJukebox: it stays
  // where it was, a server could not keep up. kIo: which of the two is known after the next start.
  Task<nfs3::Status> end_move(routing::FileHandle handle, std::uint64_t stripe);
  // It stays where it was, and nobody writes it at the other site.
  Task<void> give_up_move(routing::FileHandle handle);

  // ---- emptying servers (docs/block-maps.md) ----
  // From the end of this on the piece has a record, and of its stripes those that nobody has written are on
  // no site that is left, where there are others. kJukebox: not now. kStale: the file was removed. kIo.
  Task<nfs3::Status> refit(routing::FileHandle handle, std::uint64_t piece);
  // `decides` is called before a stripe gets its place by the tables of now, or is given out as placed by the
  // hash; there is one at most.
  void on_decision(std::function<void()> decides) { decides_ = std::move(decides); }
  // Ends when all that was being placed when it began has its place.
  Task<void> placed();

  // The file is gone: durably, also its map.
  Task<Status> forget(FileId file);

  // Ends when nobody goes by a layout of before of files of these sites. From then on whole copies order
  // writes that lost ones did.
  Task<void> recall(std::vector<std::uint32_t> sites);

  // ---- moves of sites (docs/moves.md) ----
  using Which = std::function<bool(FileId)>;
  // These files are another coordinator's. Nobody works on them.
  void release(const Which& which);
  // They come from another one, which has given layouts up to `version`, and nobody goes by one of those any
  // more. What copies of them miss was resumed.
  void arrive(const Which& which, std::uint64_t version);
  // Of these files the last that were removed.
  std::vector<FileId> removed(const Which& which) const;
  // A write that comes late must not place stripes of it anew.
  void note_removed(FileId file);

  // What a crash has left, or another coordinator had; before the file's first call of anything else.
  void resume(storage::LogSequence sequence, const Intention& intention);

  // All copies that miss something, in the order of fileIDs.
  std::vector<std::pair<routing::FileHandle, std::uint32_t>> owed() const;
  std::size_t missing() const { return missing_; }
  // Of the layouts that are given now.
  std::uint64_t version() const { return version_; }
  // A later one than any that anybody has been told.
  std::uint64_t next_version() { return ++version_; }

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
    std::optional<wire::Moving> moving;
    bool unsure = false;  // of the move: whether it is durable
    AsyncMutex lock;
    unsigned users = 0;
  };
  // A file while somebody works on it.
  class Use;

  // Null where it misses nothing.
  const Copy* copy_of(FileId file, std::uint32_t server) const;
  bool another_is_whole(const File& file, const routing::FileHandle& handle, std::uint32_t server,
                        wire::StripeRange stripes) const;
  bool some_does_not_miss(const File& file, const routing::FileHandle& handle, std::uint64_t stripe) const;
  // What is noted when a copy misses `stripes` beside what it misses already.
  wire::StripeRange foreseen(const File& file, const routing::FileHandle& handle,
                             const wire::Missing& missing, wire::StripeRange stripes) const;
  // Writes may go by the piece as it is.
  bool settled(const routing::FileHandle& handle, const wire::MapPiece& piece) const;
  // Gives a piece that is not settled its sites.
  Task<nfs3::Status> settle(File& file, const routing::FileHandle& handle, std::uint64_t piece);
  // Of a block-mapped file, which has no bytes in this piece.
  Task<nfs3::Status> place(File& file, const routing::FileHandle& handle, std::uint64_t piece);
  Task<nfs3::Status> put_refitted(File& file, const routing::FileHandle& handle, wire::MapPiece piece);
  Task<bool> no_copy_at(File& file, const routing::FileHandle& handle, std::uint32_t server,
                        wire::StripeRange stripes);
  // Makes what is changed by now the file's layout: nobody acts on an older one at the end.
  Task<void> change(File& file);
  // The same where these servers may order writes from then on that they might not before.
  Task<void> change_orderers(File& file, std::vector<std::uint32_t> servers);
  Task<nfs3::Status> put(File& file, const routing::FileHandle& handle, wire::Missing missing);
  void erase(File& file, std::uint32_t server);
  void drop_if_idle(FileId file);

  service::ServiceContext& context_;
  Intentions& intentions_;
  Sessions& sessions_;
  BlockMaps& maps_;
  Extents& extents_;
  std::map<FileId, std::unique_ptr<File>> files_;
  std::map<std::uint32_t, std::uint64_t> lost_since_;   // by server: version of the recall
  std::set<std::pair<FileId, std::uint64_t>> placing_;  // pieces whose sites are being changed
  std::deque<FileId> removed_order_;                    // the last ones; fileIDs never come back
  std::unordered_set<FileId> removed_;
  std::uint64_t version_;
  std::uint64_t dropped_;  // the version when a file was last dropped from `files_`
  RecentOrderers orderers_{kMaxRecent};
  bool given_ = false;
  std::function<void()> decides_ = [] {};
  std::size_t missing_ = 0;
  Counter& missing_gauge_;
  Counter& missed_;
  Counter& refused_;
  Counter& placed_;
};

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_LAYOUTS_H
