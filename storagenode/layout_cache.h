// LayoutCache: layouts of mirrored and block-mapped files, from their coordinators; of the latter with one
// piece of the map each. A layout holds as long as still() says so:
// a coordinator that changes it has either recalled it from here by then, or waited until this node's session
// with it has ended. One loop.
#ifndef SLICE_STORAGENODE_LAYOUT_CACHE_H
#define SLICE_STORAGENODE_LAYOUT_CACHE_H

#include <map>
#include <memory>
#include <unordered_map>
#include <utility>

#include "common/log.h"
#include "routing/copies.h"
#include "service/context.h"

namespace slice::storagenode {

class LayoutCache {
 public:
  static constexpr std::size_t kMaxLayouts = 65536;
  static constexpr Duration kRenew = std::chrono::seconds(1);
  // Below the time that another node waits for a forwarded write.
  static constexpr Duration kPatience = std::chrono::seconds(3);
  static constexpr Duration kEndPatience = std::chrono::milliseconds(300);

  explicit LayoutCache(service::ServiceContext& context);
  ~LayoutCache() {
    context_.loop.cancel(timer_);
    *gone_ = true;
  }
  LayoutCache(const LayoutCache&) = delete;
  LayoutCache& operator=(const LayoutCache&) = delete;

  // Keeps sessions with all coordinators up, until end().
  void start();
  // From the first line on no layout may be used any more, nor is any got; tells the coordinators so.
  // Again with `durable`: wire::EndSessionArgs. True: each has answered, within kEndPatience.
  Task<bool> end(bool durable);
  bool ended() const { return ended_; }

  // For this stripe. `place`: it is going to be written, so it gets its place now, where it has none.
  // kUnavailable: the coordinator does not answer, or has given no session, or no layout, for kPatience.
  Task<Result<wire::FileLayout>> get(routing::FileHandle handle, std::uint64_t stripe, bool place);
  // The same for what others wait for, and a coordinator perhaps for those: kMisdirected, at once, where the
  // file's site is just changing its coordinator.
  Task<Result<wire::FileLayout>> get_now(routing::FileHandle handle, std::uint64_t stripe);
  // The last version that this node has heard from the file's coordinator.
  rpc::LayoutStamp stamp(const routing::FileHandle& handle) const;
  // Whether this node, which is the first whole one of the stripe's `copies`, orders its writes since before
  // whoever has this stamp got it. kNotYet: it may not yet, by this layout.
  enum class Orders { kSinceBefore, kSinceLater, kNotYet };
  Orders orders(const rpc::LayoutStamp& stamp, const routing::FileHandle& handle,
                const wire::FileLayout& layout, const routing::StripeCopies& copies,
                std::uint64_t stripe) const;
  // Whether the layout with this version, which get() gave, may still be used.
  bool still(const routing::FileHandle& handle, std::uint64_t stripe, std::uint64_t version) const;
  // Layouts are void: a coordinator says so.
  void recall(const wire::RecallArgs& args);
  // Whether args are of this file.
  bool concerns(const wire::RecallArgs& args, FileId file) const;
  // They are void, as another node knows.
  void drop(FileId file, std::uint64_t below_version);
  // The next get() asks for the file's layout anew, and takes what it is given, be it the same.
  void ask_again(FileId file);

 private:
  struct Session {
    std::uint64_t number = 0;
    MonoTime until;
    bool asking = false;
    std::uint64_t version = 0;  // the last one that the coordinator has told
    std::uint64_t first = 0;    // that it told this process
  };
  struct Entry {
    std::uint32_t coordinator = 0;
    wire::FileLayout layout;
  };
  // Layouts that are being fetched: what was recalled meanwhile.
  struct Fetch {
    unsigned count = 0;
    std::uint64_t least_version = 0;
  };
  bool live(std::uint32_t coordinator) const;
  // By the tables, or as one of the coordinators has told, until there are newer tables.
  std::uint32_t coordinator_of(FileId file) const;
  void told(FileId file, std::uint32_t coordinator);
  Task<Result<wire::FileLayout>> get_once(routing::FileHandle handle, std::uint64_t stripe, bool place);
  void heard(std::uint32_t coordinator, std::uint64_t version);
  Task<void> renew(std::uint32_t coordinator);
  Task<bool> tell_end(std::uint32_t coordinator, bool durable);
  Task<bool> wait_for_session(std::uint32_t coordinator);
  using Key = std::pair<FileId, std::uint64_t>;  // with the number of the piece
  static Key key_of(FileId file, std::uint64_t stripe) { return {file, wire::piece_of(stripe)}; }
  Task<Result<wire::FileLayout>> fetch(const routing::FileHandle& handle, std::uint32_t coordinator,
                                       wire::LayoutArgs args);
  void drop_all_of(std::uint32_t coordinator);

  service::ServiceContext& context_;
  std::map<std::uint32_t, Session> sessions_;  // by coordinator
  std::map<Key, Entry> entries_;
  std::unordered_map<FileId, Fetch> fetches_;
  std::map<std::uint32_t, std::uint32_t> owners_;  // of coordinator sites, as told
  Generation owners_known_;                        // the tables' then
  bool ended_ = false;
  TimerId timer_ = TimerId::kNone;
  std::shared_ptr<bool> gone_ = std::make_shared<bool>(false);
  LogLimiter log_{1};
  Counter& fetched_;
  Counter& recalled_;
  Counter& lost_;
};

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_LAYOUT_CACHE_H
