// What backing_set.cc, backing_set_stream.cc and backing_set_filling.cc share, and nobody else.
#ifndef SLICE_SERVICE_BACKING_BACKING_SET_IMPL_H
#define SLICE_SERVICE_BACKING_BACKING_SET_IMPL_H

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/log.h"
#include "service/backing/backing_set.h"
#include "service/backing/change_batch.h"
#include "service/backing/node_calls.h"
#include "service/internal_call.h"

namespace slice::service {

class BackingSet::Impl : public std::enable_shared_from_this<BackingSet::Impl> {
 public:
  // Between two attempts at what did not succeed.
  static constexpr Duration kRetry = std::chrono::milliseconds(200);

  explicit Impl(Seams seams)
      : seams_(std::move(seams)),
        loop_(seams_.loop),
        changing_members_(loop_),
        changes_(counter("backing_changes_total", "changes of files that were sent to the backing set")),
        change_bytes_(
            counter("backing_change_bytes_total", "bytes that were written to the backing set, once")),
        calls_(counter("backing_change_calls_total",
                       "CHANGE calls made to each member of the backing set; changes a call is the gain of "
                       "sending together")),
        members_lost_(counter("backing_members_lost_total",
                              "nodes that were taken out of the backing set, since they did not follow")),
        members_filled_(counter("backing_members_filled_total", "nodes that were filled and became members")),
        filled_bytes_(counter("backing_filled_bytes_total", "bytes that were copied to fill nodes")),
        scrubbed_bytes_(counter("backing_scrubbed_bytes_total",
                                "bytes whose copies were compared in the background, of each member")),
        scrub_passes_(counter("backing_scrub_passes_total", "whole passes of comparing all copies")),
        damaged_(counter("backing_damaged_total",
                         "pieces of 1 MiB that one member had otherwise than it should, and that were made "
                         "anew from another")),
        members_(seams_.metrics.gauge("backing_members", "nodes with a whole copy of the backing set")),
        copies_(seams_.metrics.gauge(
            "backing_copies_wanted",
            "nodes that are to have a whole copy of the backing set; 0 where another run owns it")),
        differing_(
            seams_.metrics.gauge("backing_differing_pieces",
                                 "pieces of 1 MiB of which copies differ, and it is not known which is "
                                 "right: as of the last whole pass")) {}

  Task<Status> open();
  bool is_open() const { return open_; }
  Standing standing() const { return standing_; }
  const std::string& waits_for() const { return waits_for_; }
  bool holds() const;
  Task<bool> until_holds();
  Task<void> close();

  const Files& files() const { return files_; }
  storage::Space space() const;
  Status intact() const { return intact_; }
  std::uint64_t add(const std::shared_ptr<SetFile>& file, wire::BackingOp op, std::uint64_t offset,
                    std::uint64_t length, ByteView bytes);
  std::uint64_t sync_folder(const std::string& folder);
  std::shared_ptr<SetFile> create(const std::string& path);
  void rename(const std::shared_ptr<SetFile>& file, const std::string& to);
  Task<Status> carried_out(std::uint64_t number);
  Task<Status> room();
  Task<Result<std::size_t>> read(std::shared_ptr<SetFile> file, std::uint64_t offset, ByteSpan into);

  // It will not be used any more.
  void drop() {
    closed_ = true;
    tell_whether_it_holds();
    fail_waiters(Error{Errc::kUnavailable, "backing set: closed"});
  }

 private:
  // A node that gets the changes: a member of the set, or one that is filled.
  struct Receiver {
    std::uint32_t server = 0;
    rpc::Endpoint endpoint;
    bool attached = false;   // changes may be sent
    bool filled = false;     // it has all that the set has, and is told so with each CHANGE
    bool counts = false;     // nothing is over before it is over there
    bool confirmed = false;  // the manager has it as a member
    bool leaving = false;    // it does not follow, and the manager is told
    bool gone = false;
    std::deque<std::shared_ptr<ChangeBatch>> outbox;
    std::size_t under_way = 0;
    std::uint64_t sent = 0;              // the last CHANGE that it was, or will be, sent
    std::set<std::uint64_t> unanswered;  // numbers up to `sent`
    MonoTime session_until{};
    storage::Space space;

    bool here() const { return !leaving && !gone; }
    bool member() const { return confirmed && here(); }
    // It has carried out all up to this one.
    bool has(std::uint64_t number) const {
      return sent >= number && (unanswered.empty() || *unanswered.begin() > number);
    }
  };
  using Node = std::shared_ptr<Receiver>;

  static Node new_node(std::uint32_t server, rpc::Endpoint endpoint) {
    auto node = std::make_shared<Receiver>();
    node->server = server;
    node->endpoint = endpoint;
    return node;
  }
  // Why an answer is none that was hoped for.
  template <class R>
  static std::string why(const Result<R>& result) {
    return result ? std::string(wire::backing_status_name(result->status)) : result.error().message;
  }

  // What is written of a file while it is copied or compared.
  class Watched {
   public:
    Watched(Impl& set, std::shared_ptr<SetFile> file) : set_(set), file_(std::move(file)) {
      set_.watched_.push_back(this);
    }
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;
    ~Watched() { std::erase(set_.watched_, this); }
    void note(const SetFile& file, storage::Range touched) {
      if (file_.get() == &file) written_.push_back(touched);
    }
    bool touches(std::uint64_t offset, std::uint64_t length) const {
      return std::any_of(written_.begin(), written_.end(), [&](const storage::Range& each) {
        return each.offset < offset + length && offset < each.offset + each.length;
      });
    }
    bool any() const { return !written_.empty(); }
    const std::vector<storage::Range>& written() const { return written_; }

   private:
    Impl& set_;
    std::shared_ptr<SetFile> file_;
    std::vector<storage::Range> written_;
  };

  Counter& counter(CounterName name, Help help) { return seams_.metrics.counter(name, help); }
  template <class R, class Args>
  Task<Result<R>> call(const Node& node, wire::BackingProcedure procedure, Args args,
                       Duration timeout = kPatience) {
    return internal_call<R>(seams_.channel, node->endpoint, wire::kBackingProgram, procedure, args, timeout);
  }

  // ---- becoming the owner ----
  Task<Status> begin_run();
  Task<Status> stand_by();
  Task<Result<wire::BackingSet>> claim();
  Task<Status> learn_endpoints();
  Task<Result<wire::BackingAttachResult>> attach(Node node, std::uint64_t begins_behind, bool empty);
  struct Attached {
    Node node;
    std::optional<wire::BackingAttachResult> result;  // none: it did not answer, or cannot be used
  };
  Task<Attached> attach_at_start(Node node, bool empty, MonoTime until, std::shared_ptr<bool> somebody);
  // What a node has, page by page.
  Task<Status> list(const Node& node, std::function<void(NodePage)> take);

  // ---- the stream of changes ----
  // Why nothing can be done with the set any more; fine: it can.
  Status usable() const;
  void append(const wire::BackingChange& change);
  void note(SetFile& file, wire::BackingOp op, std::uint64_t offset, std::uint64_t length, std::size_t size);
  void pump_soon();
  void pump();
  void seal();
  // A CHANGE of its own that has these changes for one node, and none for the others.
  std::uint64_t send_to(const Node& node, const std::vector<wire::BackingChange>& changes);
  void hand_out(std::shared_ptr<ChangeBatch> batch);
  void send_more(const Node& node);
  Task<void> send(std::shared_ptr<Impl> stays, Node node, std::shared_ptr<ChangeBatch> batch);
  void answered(const Node& node, const ChangeBatch& batch);
  void settle();

  // ---- members ----
  Task<void> renew(std::shared_ptr<Impl> stays, Node node);
  std::size_t count_members() const;
  // It does not follow. Where it is the last one that has everything it stays, and is waited for.
  bool lose(const Node& node, const std::string& why);
  Task<void> take_out(std::shared_ptr<Impl> stays, Node node);
  // At the manager; ends when it is durable. False: this is the owner no more.
  Task<bool> set_members(const Node* joining);
  // With another one, where it joins.
  std::vector<std::uint32_t> members_with(const Node* joining) const;
  // Into the set's own file. Returns the CHANGE with which it is durable.
  std::uint64_t write_members();
  wire::BackingSet as_the_manager_has_it() const;
  // To the manager, which may have lost its state.
  Task<void> tell_manager();
  // The same, while members are being changed.
  Task<void> tell_manager_now();
  void forget(const Node& node);
  void broken(const std::string& why);
  void stale() { broken("another owner has been given the set"); }
  void fail_waiters(const Error& error);
  // To those who wait for it, where that is decided now.
  void tell_whether_it_holds();

  // ---- filling ----
  Task<void> keep_whole(std::shared_ptr<Impl> stays);
  // That is to go; null: there is none.
  Node drained_member() const;
  Task<std::optional<std::uint32_t>> choose_node();
  Task<void> fill(std::uint32_t server);
  Task<Status> fill_node(Node node);
  Task<Status> fill_file(Node node, std::shared_ptr<SetFile> file);
  Task<Status> fill_piece(Node node, Node from, std::shared_ptr<SetFile> file, std::uint64_t number);
  Task<Status> remove_others(Node node);
  Task<Status> sync_all(Node node);
  Task<Status> wait_for(Node node, std::uint64_t number);
  Task<Result<wire::BackingDigestResult>> digests(Node node, const SetFile& file, std::uint64_t first,
                                                  std::uint32_t count, std::uint64_t after);
  Task<Result<std::size_t>> read_from(Node node, std::shared_ptr<SetFile> file, std::uint64_t offset,
                                      ByteSpan into);

  // ---- comparing ----
  Task<void> scrub(std::shared_ptr<Impl> stays);
  // How many pieces differ of which it is not known who has them right; none: it was not finished.
  Task<std::optional<std::uint64_t>> scrub_pass();
  Task<std::uint64_t> scrub_pieces(std::shared_ptr<SetFile> file, std::uint64_t first);
  void cut_longer(const std::shared_ptr<SetFile>& file, const std::vector<Node>& members,
                  const std::vector<Result<wire::BackingDigestResult>>& found);
  Task<bool> compare(std::shared_ptr<SetFile> file, std::uint64_t piece, const std::vector<Node>& members,
                     std::vector<std::optional<std::uint32_t>> found);
  // `from` has the piece right.
  Task<Status> mend(Node node, Node from, std::shared_ptr<SetFile> file, std::uint64_t piece);

  // A member to read from; null: none answers now.
  Node source() const;

  Seams seams_;
  Loop& loop_;
  std::uint64_t run_ = 0, former_ = 0;  // this, and the one that is known to have ended; 0: none is
  wire::BackingOwner owner_;
  std::map<std::uint32_t, rpc::Endpoint> endpoints_;  // of storage servers
  std::string waits_for_;
  Files files_;
  std::vector<Node> nodes_;
  Status intact_;
  bool open_ = false, closed_ = false;
  Standing standing_ = Standing::kNotKnown;

  ChangeWriter forming_;
  std::uint64_t last_ = 0;                                           // the last CHANGE that was sealed
  std::map<std::uint64_t, std::shared_ptr<ChangeBatch>> under_way_;  // not over
  std::size_t bytes_under_way_ = 0;
  bool pump_posted_ = false;
  std::multimap<std::uint64_t, OneShot<Status>> waiters_;
  std::deque<OneShot<Status>> wait_for_room_;
  std::vector<OneShot<bool>> wait_until_it_holds_;

  AsyncMutex changing_members_;
  std::uint64_t last_members_change_ = 0;  // that the manager was asked for
  std::uint64_t members_change_ = 0;       // that it has
  LogLimiter keep_log_{1}, silent_log_{1};
  std::vector<Watched*> watched_;
  std::map<std::uint32_t, MonoTime> lost_;  // members that were taken out, and when
  Counter &changes_, &change_bytes_, &calls_, &members_lost_, &members_filled_, &filled_bytes_;
  Counter &scrubbed_bytes_, &scrub_passes_, &damaged_;
  Gauge &members_, &copies_, &differing_;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_BACKING_BACKING_SET_IMPL_H
