#include "service/backing/backing_set.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <utility>

#include "common/log.h"
#include "service/backing/change_batch.h"
#include "service/internal_call.h"
#include "storage/durable_file.h"
#include "wire/failover.h"

namespace slice::service {
namespace {

using wire::BackingOp;
using wire::BackingProcedure;
using wire::BackingStatus;

constexpr const char* kRunFile = "backing.run";
constexpr Duration kRetry = std::chrono::milliseconds(200);
// Of a set that a former owner has: it may let go sooner than it would have to.
constexpr std::uint32_t kHeldRetryMs = 50;
constexpr Duration kRenewInterval = std::chrono::milliseconds(500);
constexpr Duration kKeepInterval = std::chrono::seconds(1);
// For so long a member that was taken out may come back before another node is filled in its place.
constexpr Duration kComeBack = std::chrono::seconds(30);
constexpr std::size_t kWindow = 8;            // CHANGE calls under way to one node
constexpr std::uint32_t kDigestsAtOnce = 64;  // so that a node answers within seconds
constexpr Duration kDigestTimeout = std::chrono::seconds(20);
constexpr std::size_t kSyncsAtOnce = 500;
// Of a CHANGE, whose syncs a busy disk may take long for: that a node is silent is noticed by its session.
constexpr Duration kChangeTimeout = std::chrono::seconds(10);

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

}  // namespace

class BackingSet::Impl : public std::enable_shared_from_this<BackingSet::Impl> {
 public:
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
        members_(seams_.metrics.gauge("backing_members", "nodes with a whole copy of the backing set")) {}

  Task<Status> open();
  bool is_open() const { return open_; }
  Standing standing() const { return standing_; }
  const std::string& waits_for() const { return waits_for_; }
  bool holds() const;
  Task<void> close();

  const Files& files() const { return files_; }
  storage::Space space() const;
  Status intact() const { return intact_; }
  std::uint64_t add(const std::shared_ptr<SetFile>& file, BackingOp op, std::uint64_t offset,
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
    fail_waiters(Error{Errc::kUnavailable, "backing set: closed"});
  }

 private:
  // A piece of a file on its way to a node that is filled, and what was written of it meanwhile.
  struct Copying {
    std::shared_ptr<SetFile> file;
    std::vector<storage::Range> written;
  };

  Counter& counter(CounterName name, Help help) { return seams_.metrics.counter(name, help); }
  template <class R, class Args>
  Task<Result<R>> call(const Node& node, BackingProcedure procedure, Args args,
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
  Task<Status> list_files(Node node);

  // ---- the stream of changes ----
  void note(SetFile& file, BackingOp op, std::uint64_t offset, std::uint64_t length, std::size_t size);
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
  void forget(const Node& node);
  void broken(const std::string& why);
  void fail_waiters(const Error& error);

  // ---- filling ----
  Task<void> keep_whole(std::shared_ptr<Impl> stays);
  // That is to go; null: there is none.
  Node drained_member() const;
  Task<std::optional<std::uint32_t>> choose_node();
  Task<void> fill(std::uint32_t server);
  Task<Status> fill_node(Node node);
  Task<Status> fill_file(Node node, std::shared_ptr<SetFile> file);
  Task<Status> fill_piece(Node node, std::shared_ptr<SetFile> file, std::uint64_t number);
  Task<Status> remove_others(Node node);
  Task<Status> sync_all(Node node);
  Task<Status> wait_for(Node node, std::uint64_t number);
  Task<Result<wire::BackingDigestResult>> digests(Node node, const SetFile& file, std::uint64_t first);
  Task<Result<std::size_t>> read_from(Node node, std::shared_ptr<SetFile> file, std::uint64_t offset,
                                      ByteSpan into);
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

  AsyncMutex changing_members_;
  Copying* copying_ = nullptr;
  std::map<std::uint32_t, MonoTime> lost_;  // members that were taken out, and when
  Counter &changes_, &change_bytes_, &calls_, &members_lost_, &members_filled_, &filled_bytes_;
  Gauge& members_;
};

// ---- becoming the owner ----

// Durably before anybody hears of this run: so the next one finds it, if it becomes the owner.
Task<Status> BackingSet::Impl::begin_run() {
  auto former = co_await storage::read_file(seams_.local, kRunFile);
  if (former && former->size() == sizeof former_) {
    former_ = load_be<std::uint64_t>(former->data());
  } else if (!former && former.error().code != Errc::kNotFound) {
    log_warning("backing set of {}: {}; its former session has to end by itself", seams_.name,
                former.error().message);
  }
  do run_ = seams_.random();
  while (run_ == 0 || run_ == former_);
  Buffer run(sizeof run_);
  store_be(run.data(), run_);
  co_return co_await storage::replace_file(seams_.local, kRunFile, std::move(run));
}

Task<Status> BackingSet::Impl::learn_endpoints() {
  auto tables = co_await seams_.managers.call<wire::Tables>(
      seams_.channel, wire::ManagerProcedure::kGetTables, NoArguments{}, kPatience);
  if (!tables) co_return fail(std::move(tables).error());
  for (const wire::ServerEntry& entry : tables->servers) {
    if (entry.role == wire::Role::kStorage) endpoints_[entry.server] = entry.endpoint;
  }
  co_return Status{};
}

// Until the manager wants the server to be served here.
Task<Status> BackingSet::Impl::stand_by() {
  const wire::StandbyArgs args{.server = seams_.server, .endpoint = seams_.at, .instance = run_};
  rpc::Endpoint said;
  while (!closed_) {
    auto result = co_await seams_.managers.call<wire::StandbyResult>(
        seams_.channel, wire::ManagerProcedure::kStandby, args, kPatience);
    if (result && result->take) {
      standing_ = Standing::kChosen;
      co_return Status{};
    }
    standing_ = result ? Standing::kStandsBy : Standing::kNotKnown;
    if (result) {
      waits_for_ = fmt::format("it stands by for {} at {}", seams_.name, rpc::to_string(result->serves));
      if (std::exchange(said, result->serves) != result->serves) log_info("{}", waits_for_);
    } else {
      waits_for_ = "the manager, for its backing set";
    }
    co_await loop_.sleep(wire::kStandbyInterval);
  }
  co_return fail(Errc::kUnavailable, "closed");
}

Task<Result<wire::BackingSet>> BackingSet::Impl::claim() {
  const wire::BackingClaimArgs args{
      .server = seams_.server, .instance = run_, .former = former_, .copies = seams_.copies};
  std::string said;
  for (;;) {
    auto claimed = co_await seams_.managers.call<wire::BackingClaimResult>(
        seams_.channel, wire::ManagerProcedure::kBackingClaim, args, kPatience);
    if (claimed && claimed->refused.empty()) {
      if (claimed->made) log_info("backing set of {}: made name={}", seams_.name, seams_.name);
      co_return claimed->set;
    }
    waits_for_ = claimed ? claimed->refused : "the manager, for its backing set";
    if (std::exchange(said, waits_for_) != waits_for_) log_info("{} waits: {}", seams_.name, waits_for_);
    co_await loop_.sleep(kRetry);
    if (closed_) co_return fail(Errc::kUnavailable, "closed");
  }
}

Task<Result<wire::BackingAttachResult>> BackingSet::Impl::attach(Node node, std::uint64_t begins_behind,
                                                                 bool empty) {
  const MonoTime asked = loop_.now();
  auto result = co_await call<wire::BackingAttachResult>(
      node, BackingProcedure::kAttach,
      wire::BackingAttachArgs{
          .owner = owner_, .former = former_, .empty = empty, .begins_behind = begins_behind});
  if (result && result->status == BackingStatus::kOk) {
    node->session_until = asked + wire::kBackingSession - kMargin;
    node->space = {.total_bytes = result->total_bytes, .free_bytes = result->free_bytes};
    node->sent = begins_behind;
    node->attached = true;
  }
  co_return result;
}

// Until it answers, or until then where somebody else has.
Task<BackingSet::Impl::Attached> BackingSet::Impl::attach_at_start(Node node, bool empty, MonoTime until,
                                                                   std::shared_ptr<bool> somebody) {
  for (;;) {
    auto result = co_await attach(node, 0, empty);
    const BackingStatus status = result ? result->status : BackingStatus::kIo;
    if (result && status == BackingStatus::kOk) {
      *somebody = true;
      co_return Attached{node, *result};
    }
    if (status == BackingStatus::kStale) {
      broken("another owner has been given the set");
      co_return Attached{node, std::nullopt};
    }
    if (status == BackingStatus::kHeld && intact_ && !closed_) {
      co_await loop_.sleep(std::chrono::milliseconds(std::min(result->wait_ms + 1, kHeldRetryMs)));
      continue;
    }
    if (!intact_ || closed_ || (*somebody && loop_.now() >= until)) {
      log_warning("backing set of {}: node {} does not take part: {}", seams_.name, node->server,
                  result ? wire::backing_status_name(status) : std::string_view(result.error().message));
      co_return Attached{node, std::nullopt};
    }
    co_await loop_.sleep(kRetry);
  }
}

Task<Status> BackingSet::Impl::open() {
  waits_for_ = "the manager, for its backing set";
  SLICE_CO_RETURN_IF_ERROR(co_await begin_run());
  SLICE_CO_RETURN_IF_ERROR(co_await stand_by());
  while (!co_await learn_endpoints()) {
    co_await loop_.sleep(kRetry);
    if (closed_) co_return fail(Errc::kUnavailable, "closed");
  }
  auto set = co_await claim();
  if (!set) co_return fail(std::move(set).error());
  const bool made = set->epoch.value == 1;  // nobody has written anything yet
  owner_ = {.server = seams_.server, .epoch = set->epoch, .instance = run_};
  waits_for_ = "a member of its backing set";
  const MonoTime until = loop_.now() + wire::kBackingSession + kPatience;
  auto somebody = std::make_shared<bool>(false);
  std::vector<Task<Attached>> attaching;
  for (std::uint32_t server : set->members) {
    auto node = std::make_shared<Receiver>();
    node->server = server;
    node->endpoint = endpoints_[server];
    attaching.push_back(attach_at_start(node, made, until, somebody));
  }
  std::vector<Attached> attached = co_await all(std::move(attaching));
  if (!intact_) co_return intact_;
  std::erase_if(attached, [](const Attached& each) { return !each.result; });
  if (attached.empty()) co_return fail(Errc::kUnavailable, "closed");
  // Every member has all that was ever acknowledged. What was not may be on one and not on another: one of
  // them counts, and who has not the very same is filled anew.
  const auto contents = [](const Attached& each) {
    return std::pair(each.result->changed, each.result->applied);
  };
  const auto best =
      std::max_element(attached.begin(), attached.end(),
                       [&](const Attached& a, const Attached& b) { return contents(a) < contents(b); });
  const bool known = best->result->changed.value != 0;
  for (const Attached& each : attached) {
    const bool same = &each == &*best || (known && contents(each) == contents(*best));
    if (!same) {
      lost_[each.node->server] = loop_.now();
      continue;
    }
    each.node->counts = each.node->filled = each.node->confirmed = true;
    nodes_.push_back(each.node);
  }
  if (nodes_.size() < set->members.size() && !co_await set_members(nullptr)) co_return intact_;
  SLICE_CO_RETURN_IF_ERROR(co_await list_files(best->node));
  open_ = true;
  waits_for_.clear();
  members_.set(nodes_.size());
  log_info("backing set of {}: epoch {}, {} of {} members, {} files", seams_.name, owner_.epoch.value,
           nodes_.size(), seams_.copies, files_.size());
  for (const Node& node : nodes_) spawn(renew(shared_from_this(), node));
  spawn(keep_whole(shared_from_this()));
  co_return Status{};
}

Task<Status> BackingSet::Impl::list_files(Node node) {
  wire::BackingListArgs args{.owner = owner_, .behind = "", .after = 0};
  for (;;) {
    auto page = co_await call<wire::BackingListResult>(node, BackingProcedure::kList, args);
    if (!page) co_return fail(page.error(), "list of the backing set");
    if (page->status != BackingStatus::kOk) {
      co_return fail(Errc::kIo, "list of the backing set: {}", wire::backing_status_name(page->status));
    }
    for (wire::BackingFile& file : page->files) {
      args.behind = file.path;
      files_[file.path] = std::make_shared<SetFile>(
          SetFile{.path = file.path, .size = file.size, .allocated = file.allocated});
    }
    if (page->end || page->files.empty()) co_return Status{};
  }
}

bool BackingSet::Impl::holds() const {
  if (!open_ || closed_ || !intact_) return false;
  const MonoTime now = loop_.now_exactly();
  return std::all_of(nodes_.begin(), nodes_.end(),
                     [now](const Node& node) { return !node->counts || node->session_until > now; });
}

Task<void> BackingSet::Impl::close() {
  if (!open_ || closed_ || !intact_) co_return;
  (void)co_await carried_out(send_to(nullptr, {}));
  closed_ = true;
  std::vector<Task<Result<wire::BackingStatusResult>>> letting_go;
  for (const Node& node : nodes_) {
    if (!node->member()) continue;
    letting_go.push_back(
        call<wire::BackingStatusResult>(node, BackingProcedure::kLetGo, wire::BackingOwnerArgs{owner_}));
  }
  co_await all(std::move(letting_go));
}

// ---- the stream of changes ----

storage::Space BackingSet::Impl::space() const {
  storage::Space least{.total_bytes = ~std::uint64_t{0}, .free_bytes = ~std::uint64_t{0}};
  for (const Node& node : nodes_) {
    if (!node->member()) continue;
    least.total_bytes = std::min(least.total_bytes, node->space.total_bytes);
    least.free_bytes = std::min(least.free_bytes, node->space.free_bytes);
  }
  least.free_bytes -= std::min<std::uint64_t>(least.free_bytes, bytes_under_way_ + forming_.bytes());
  // Names are a matter of the members alone.
  least.total_files = least.free_files = ~std::uint32_t{0};
  return least;
}

// What the change does to the file as it is known here, and to a copy of it that is under way.
void BackingSet::Impl::note(SetFile& file, BackingOp op, std::uint64_t offset, std::uint64_t length,
                            std::size_t size) {
  file.last_change = last_ + 1;
  storage::Range touched{};
  switch (op) {
    case BackingOp::kWrite:
      touched = {offset, size};
      if (offset + size > file.size) file.size = offset + size;
      file.allocated += size;
      break;
    case BackingOp::kTruncate:
      touched = {length, ~std::uint64_t{0} - length};
      file.size = length;
      file.allocated = std::min(file.allocated, length);
      break;
    case BackingOp::kPunch:
      touched = {offset, length};
      file.allocated -= std::min(file.allocated, length);
      break;
    case BackingOp::kRemove:
      file.gone = true;
      break;
    default:
      return;
  }
  if (copying_ != nullptr && copying_->file.get() == &file) copying_->written.push_back(touched);
}

std::uint64_t BackingSet::Impl::add(const std::shared_ptr<SetFile>& file, BackingOp op, std::uint64_t offset,
                                    std::uint64_t length, ByteView bytes) {
  // Of a file whose name is another's now nobody will ever read anything again.
  if (file->gone) return last_;
  const wire::BackingChange change{
      .op = op, .path = file->path, .offset = offset, .length = length, .bytes = bytes};
  if (!forming_.takes(change)) seal();
  forming_.add(owner_, change);
  note(*file, op, offset, length, bytes.size());
  if (op == BackingOp::kRemove) files_.erase(file->path);
  changes_.add();
  change_bytes_.add(bytes.size());
  pump_soon();
  return last_ + 1;
}

std::uint64_t BackingSet::Impl::sync_folder(const std::string& folder) {
  const wire::BackingChange change{.op = BackingOp::kSyncFolder, .path = folder};
  if (!forming_.takes(change)) seal();
  forming_.add(owner_, change);
  pump_soon();
  return last_ + 1;
}

std::shared_ptr<SetFile> BackingSet::Impl::create(const std::string& path) {
  auto file = std::make_shared<SetFile>(SetFile{.path = path});
  files_[path] = file;
  add(file, BackingOp::kCreate, 0, 0, {});
  return file;
}

void BackingSet::Impl::rename(const std::shared_ptr<SetFile>& file, const std::string& to) {
  add(file, BackingOp::kRename, 0, 0, as_bytes(to));
  files_.erase(file->path);
  if (auto other = files_.find(to); other != files_.end()) other->second->gone = true;
  file->path = to;
  files_[to] = file;
}

void BackingSet::Impl::pump_soon() {
  if (std::exchange(pump_posted_, true)) return;
  loop_.post([weak = weak_from_this()] {
    if (auto self = weak.lock()) {
      self->pump_posted_ = false;
      self->pump();
    }
  });
}

// One CHANGE of all that came in a round of the loop; where enough are under way, of all that comes until one
// of them is over.
void BackingSet::Impl::pump() {
  if (!forming_.empty() && under_way_.size() < kWindow) seal();
}

void BackingSet::Impl::seal() {
  if (forming_.empty()) return;
  hand_out(forming_.seal(last_ + 1, nullptr));
}

std::uint64_t BackingSet::Impl::send_to(const Node& node, const std::vector<wire::BackingChange>& changes) {
  seal();
  ChangeWriter writer;
  writer.begin(owner_);
  for (const wire::BackingChange& change : changes) writer.add(owner_, change);
  hand_out(writer.seal(last_ + 1, node.get()));
  return last_;
}

void BackingSet::Impl::hand_out(std::shared_ptr<ChangeBatch> batch) {
  last_ = batch->number;
  under_way_[batch->number] = batch;
  bytes_under_way_ += batch->arguments.size();
  calls_.add();
  for (const Node& node : nodes_) {
    if (!node->here()) continue;
    node->outbox.push_back(batch);
    send_more(node);
  }
  settle();
}

void BackingSet::Impl::send_more(const Node& node) {
  while (node->attached && !node->outbox.empty() && node->under_way < kWindow) {
    auto batch = std::move(node->outbox.front());
    node->outbox.pop_front();
    node->sent = batch->number;
    node->unanswered.insert(batch->number);
    ++node->under_way;
    spawn(send(shared_from_this(), node, std::move(batch)));
  }
}

Task<void> BackingSet::Impl::send(std::shared_ptr<Impl> /*stays*/, Node node,
                                  std::shared_ptr<ChangeBatch> batch) {
  while (node->here() && !closed_ && intact_) {
    auto result = co_await internal_call_encoded<wire::BackingChangeResult>(
        seams_.channel, batch->request(owner_, node.get(), node->endpoint, node->filled, kChangeTimeout));
    if (result && result->status == BackingStatus::kOk) {
      node->space = {.total_bytes = result->total_bytes, .free_bytes = result->free_bytes};
      answered(node, *batch);
      break;
    }
    if (!node->here()) break;
    if (result && result->status == BackingStatus::kStale) {
      broken("another owner has been given the set");
      break;
    }
    const std::string why =
        result ? std::string(wire::backing_status_name(result->status)) : result.error().message;
    if (lose(node, why)) break;
    if (result) {
      // It is there, and not able to follow: it was started again, or its disk fails.
      broken(fmt::format("its last member, node {}, answers: {}", node->server, why));
      break;
    }
    co_await loop_.sleep(kRetry);
  }
  --node->under_way;
  send_more(node);
}

void BackingSet::Impl::answered(const Node& node, const ChangeBatch& batch) {
  node->unanswered.erase(batch.number);
  settle();
}

// Ends what all members have carried out.
void BackingSet::Impl::settle() {
  std::vector<OneShot<Status>> ready;
  for (auto at = under_way_.begin(); at != under_way_.end();) {
    const bool over = std::all_of(nodes_.begin(), nodes_.end(), [&at](const Node& node) {
      return !node->counts || (node->sent >= at->first && !node->unanswered.contains(at->first));
    });
    if (!over) {
      ++at;
      continue;
    }
    bytes_under_way_ -= at->second->arguments.size();
    auto [first, last] = waiters_.equal_range(at->first);
    for (auto waiter = first; waiter != last; ++waiter) ready.push_back(waiter->second);
    waiters_.erase(first, last);
    at = under_way_.erase(at);
  }
  while (!wait_for_room_.empty() && bytes_under_way_ + forming_.bytes() < kMostUnderWay) {
    ready.push_back(std::move(wait_for_room_.front()));
    wait_for_room_.pop_front();
  }
  if (!forming_.empty()) pump_soon();
  if (ready.empty()) return;
  loop_.post([ready = std::move(ready)] {
    for (const OneShot<Status>& each : ready) each.set(Status{});
  });
}

Task<Status> BackingSet::Impl::carried_out(std::uint64_t number) {
  if (!intact_) co_return intact_;
  if (closed_) co_return fail(Errc::kUnavailable, "backing set: closed");
  if (number <= last_ && !under_way_.contains(number)) co_return Status{};
  OneShot<Status> done;
  waiters_.emplace(number, done);
  co_return co_await done;
}

Task<Status> BackingSet::Impl::room() {
  if (!intact_) co_return intact_;
  if (closed_) co_return fail(Errc::kUnavailable, "backing set: closed");
  if (bytes_under_way_ + forming_.bytes() < kMostUnderWay) co_return Status{};
  OneShot<Status> done;
  wait_for_room_.push_back(done);
  co_return co_await done;
}

// ---- reading ----

Node BackingSet::Impl::source() const {
  auto found = std::find_if(nodes_.begin(), nodes_.end(), [](const Node& node) { return node->member(); });
  return found == nodes_.end() ? nullptr : *found;
}

Task<Result<std::size_t>> BackingSet::Impl::read_from(Node node, std::shared_ptr<SetFile> file,
                                                      std::uint64_t offset, ByteSpan into) {
  if (file->last_change > last_) seal();
  const wire::BackingReadArgs args{.owner = owner_,
                                   .path = file->path,
                                   .offset = offset,
                                   .length = static_cast<std::uint32_t>(into.size()),
                                   .after = file->last_change};
  auto request = internal_request(node->endpoint, wire::kBackingProgram, BackingProcedure::kRead, args,
                                  kPatience, Duration(0));
  request.long_answer = true;
  auto response = co_await seams_.channel.call(std::move(request));
  if (!response) co_return fail(std::move(response).error());
  wire::BackingReadResult result;
  if (!decode(response->results(), result) || result.bytes.size() > into.size()) {
    co_return fail(Errc::kInvalid, "a reply that does not decode");
  }
  if (result.status == BackingStatus::kStale) broken("another owner has been given the set");
  if (result.status == BackingStatus::kNotFound && file->gone) co_return std::size_t{0};
  if (result.status != BackingStatus::kOk) {
    const bool renamed = result.status == BackingStatus::kNotFound && file->path != args.path;
    co_return fail(renamed ? Errc::kNotFound : Errc::kIo, "{}: {}", args.path,
                   wire::backing_status_name(result.status));
  }
  std::copy(result.bytes.begin(), result.bytes.end(), into.begin());
  co_return result.bytes.size();
}

Task<Result<std::size_t>> BackingSet::Impl::read(std::shared_ptr<SetFile> file, std::uint64_t offset,
                                                 ByteSpan into) {
  for (;;) {
    if (!intact_) co_return fail(intact_.error());
    if (closed_) co_return fail(Errc::kUnavailable, "backing set: closed");
    Node node = source();
    if (node) {
      auto got = co_await read_from(node, file, offset, into);
      if (got) co_return got;
      if (got.error().code == Errc::kNotFound) continue;  // it has another name since it was asked
      if (!lose(node, got.error().message) && got.error().code == Errc::kIo) co_return got;
    }
    co_await loop_.sleep(kRetry);
  }
}

// ---- members ----

std::size_t BackingSet::Impl::count_members() const {
  return static_cast<std::size_t>(
      std::count_if(nodes_.begin(), nodes_.end(), [](const Node& node) { return node->member(); }));
}

Task<void> BackingSet::Impl::renew(std::shared_ptr<Impl> /*stays*/, Node node) {
  while (!node->gone && !closed_ && intact_) {
    const MonoTime asked = loop_.now();
    auto result = co_await call<wire::BackingStatusResult>(node, BackingProcedure::kRenew,
                                                           wire::BackingOwnerArgs{owner_}, kPatience / 2);
    if (result && result->status == BackingStatus::kOk) {
      node->session_until = std::max(node->session_until, asked + wire::kBackingSession - kMargin);
    } else if (result && result->status == BackingStatus::kStale) {
      broken("another owner has been given the set");
    } else if (node->session_until - loop_.now() < wire::kBackingSession - kMargin - kPatience) {
      lose(node, result ? std::string(wire::backing_status_name(result->status)) : result.error().message);
    }
    co_await loop_.sleep(kRenewInterval);
  }
}

bool BackingSet::Impl::lose(const Node& node, const std::string& why) {
  if (!node->here()) return true;
  if (node->confirmed && count_members() == 1) return false;
  log_warning("backing set of {}: node {} does not follow, and is taken out: {}", seams_.name, node->server,
              why);
  if (!node->counts) {
    forget(node);
    return true;
  }
  node->leaving = true;
  node->outbox.clear();
  members_lost_.add();
  spawn(take_out(shared_from_this(), node));
  return true;
}

// Until the manager has it durably nothing is over: the next owner would take that node for a whole one.
Task<void> BackingSet::Impl::take_out(std::shared_ptr<Impl> /*stays*/, Node node) {
  auto lock = co_await changing_members_.lock();
  if (!intact_ || closed_) co_return;
  if (!co_await set_members(nullptr)) co_return;
  lost_[node->server] = loop_.now();
  forget(node);
}

Task<bool> BackingSet::Impl::set_members(const Node* joining) {
  for (;;) {
    wire::BackingMembersArgs args{.owner = owner_, .members = {}};
    for (const Node& node : nodes_) {
      const bool joins = joining != nullptr && node == *joining;
      if (node->member() || (joins && node->here())) args.members.push_back(node->server);
    }
    auto result = co_await seams_.managers.call<wire::BackingMembersResult>(
        seams_.channel, wire::ManagerProcedure::kBackingMembers, args, kPatience);
    if (result && result->refused.empty()) co_return true;
    if (result) {
      broken(fmt::format("the manager refuses: {}", result->refused));
      co_return false;
    }
    co_await loop_.sleep(kRetry);
    if (closed_) co_return false;
  }
}

void BackingSet::Impl::forget(const Node& node) {
  node->gone = true;
  node->outbox.clear();
  std::erase(nodes_, node);
  members_.set(count_members());
  settle();
}

void BackingSet::Impl::broken(const std::string& why) {
  if (!intact_) return;
  const std::string text = fmt::format("the backing set of {} is not its own any more: {}", seams_.name, why);
  log_error("{}", text);
  intact_ = fail(Errc::kIo, "{}", text);
  fail_waiters(intact_.error());
  loop_.post([lost = seams_.lost, text] { lost(text); });
}

void BackingSet::Impl::fail_waiters(const Error& error) {
  std::vector<OneShot<Status>> ready(wait_for_room_.begin(), wait_for_room_.end());
  for (const auto& [number, done] : waiters_) ready.push_back(done);
  waiters_.clear();
  wait_for_room_.clear();
  for (const OneShot<Status>& each : ready) each.set(tl::unexpected(error));
}

// ---- filling ----

Task<void> BackingSet::Impl::keep_whole(std::shared_ptr<Impl> /*stays*/) {
  for (;;) {
    co_await loop_.sleep(kKeepInterval);
    if (closed_ || !intact_) co_return;
    const std::size_t members = count_members();
    Node drained = drained_member();
    if (members >= seams_.copies && !drained) continue;
    // Another one is filled before it goes, where a set may have one more.
    if (drained && (members > seams_.copies || members == wire::kMaxBackingMembers)) {
      log_info("backing set of {}: node {} is drained, and goes", seams_.name, drained->server);
      drained->leaving = true;
      co_await take_out(shared_from_this(), drained);
      continue;
    }
    auto chosen = co_await choose_node();
    if (!chosen || closed_ || !intact_) continue;
    co_await fill(*chosen);
  }
}

Node BackingSet::Impl::drained_member() const {
  auto found = std::find_if(nodes_.begin(), nodes_.end(), [this](const Node& node) {
    return node->member() && seams_.drained(node->server);
  });
  return found == nodes_.end() ? nullptr : *found;
}

Task<void> BackingSet::Impl::fill(std::uint32_t server) {
  auto node = std::make_shared<Receiver>();
  node->server = server;
  node->endpoint = endpoints_[server];
  Status filled = co_await fill_node(node);
  if (filled) {
    members_filled_.add();
    members_.set(count_members());
    lost_.erase(server);
    log_info("backing set of {}: node {} has all, and is a member", seams_.name, server);
  } else if (!closed_ && intact_) {
    log_warning("backing set of {}: node {} is not filled: {}", seams_.name, server, filled.error().message);
    if (!node->counts) forget(node);
  }
}

// One that was a member lacks little, if it comes back soon.
Task<std::optional<std::uint32_t>> BackingSet::Impl::choose_node() {
  (void)co_await learn_endpoints();
  const MonoTime now = loop_.now();
  bool wait = false;
  for (const auto& [server, when] : lost_) {
    if (now - when > kComeBack || seams_.drained(server)) continue;
    wait = true;
    Receiver asked;
    asked.endpoint = endpoints_[server];
    auto answers = co_await internal_call<NoResults>(seams_.channel, asked.endpoint, wire::kBackingProgram,
                                                     BackingProcedure::kNull, NoArguments{}, kPatience / 3);
    if (answers) co_return server;
  }
  if (wait) co_return std::nullopt;
  auto spare = co_await seams_.managers.call<wire::BackingSpareResult>(
      seams_.channel, wire::ManagerProcedure::kBackingSpare, wire::BackingSpareArgs{seams_.server},
      kPatience);
  if (!spare || !spare->found) co_return std::nullopt;
  co_return spare->storage;
}

// It gets every change from now on. What was before is copied file by file, where it differs; what is written
// over meanwhile, it has already.
Task<Status> BackingSet::Impl::fill_node(Node node) {
  seal();
  const std::uint64_t from = last_;
  nodes_.push_back(node);
  auto attached = co_await attach(node, from, false);
  if (!attached) co_return fail(std::move(attached).error());
  if (attached->status != BackingStatus::kOk) {
    co_return fail(Errc::kIo, "{}", wire::backing_status_name(attached->status));
  }
  send_more(node);
  spawn(renew(shared_from_this(), node));
  SLICE_CO_RETURN_IF_ERROR(co_await remove_others(node));
  std::vector<std::shared_ptr<SetFile>> files;
  for (const auto& [path, file] : files_) files.push_back(file);
  for (const auto& file : files) {
    Status filled;
    std::string path;
    do {  // again where it was renamed meanwhile
      path = file->path;
      filled = file->gone ? Status{} : co_await fill_file(node, file);
    } while (!filled && filled.error().code == Errc::kNotFound && file->path != path);
    if (!filled) co_return filled;
  }
  SLICE_CO_RETURN_IF_ERROR(co_await sync_all(node));
  // From here on nothing is over before it is over there, too; what was over before is there already.
  seal();
  node->filled = node->counts = true;
  SLICE_CO_RETURN_IF_ERROR(co_await wait_for(node, send_to(node, {})));
  auto lock = co_await changing_members_.lock();
  if (!node->here()) co_return fail(Errc::kUnavailable, "it was lost meanwhile");
  if (!co_await set_members(&node)) co_return intact_;
  node->confirmed = true;
  co_return Status{};
}

// What an earlier time left there.
Task<Status> BackingSet::Impl::remove_others(Node node) {
  wire::BackingListArgs args{.owner = owner_, .behind = "", .after = node->sent};
  for (;;) {
    auto page = co_await call<wire::BackingListResult>(node, BackingProcedure::kList, args);
    if (!page) co_return fail(page.error(), "list");
    if (page->status != BackingStatus::kOk) {
      co_return fail(Errc::kIo, "list: {}", wire::backing_status_name(page->status));
    }
    std::vector<wire::BackingChange> changes;
    for (const wire::BackingFile& file : page->files) {
      args.behind = file.path;
      if (!files_.contains(file.path)) changes.push_back({.op = BackingOp::kRemove, .path = file.path});
    }
    if (!changes.empty()) send_to(node, changes);
    if (page->end || page->files.empty()) co_return Status{};
  }
}

Task<Result<wire::BackingDigestResult>> BackingSet::Impl::digests(Node node, const SetFile& file,
                                                                  std::uint64_t first) {
  auto result = co_await call<wire::BackingDigestResult>(
      node, BackingProcedure::kDigest,
      wire::BackingDigestArgs{
          .owner = owner_, .path = file.path, .first = first, .count = kDigestsAtOnce, .after = node->sent},
      kDigestTimeout);
  if (result && result->status != BackingStatus::kOk) {
    co_return fail(result->status == BackingStatus::kNotFound ? Errc::kNotFound : Errc::kIo, "digest: {}",
                   wire::backing_status_name(result->status));
  }
  co_return result;
}

Task<Status> BackingSet::Impl::fill_file(Node node, std::shared_ptr<SetFile> file) {
  send_to(node, {{.op = BackingOp::kTruncate, .path = file->path, .length = file->size}});
  for (std::uint64_t first = 0; first * wire::kBackingPiece < file->size; first += kDigestsAtOnce) {
    Node from = source();
    if (!from) co_return fail(Errc::kUnavailable, "no member answers");
    auto wanted = co_await digests(from, *file, first);
    if (file->gone) co_return Status{};
    if (!wanted) co_return fail(std::move(wanted).error());
    auto there = co_await digests(node, *file, first);
    if (file->gone) co_return Status{};
    if (!there) co_return fail(std::move(there).error());
    for (std::uint64_t i = 0; i < wanted->digests.size(); ++i) {
      const bool same = i < there->digests.size() && there->digests[i] == wanted->digests[i];
      if (!same) SLICE_CO_RETURN_IF_ERROR(co_await fill_piece(node, file, first + i));
      if (file->gone) co_return Status{};
    }
  }
  co_return Status{};
}

Task<Status> BackingSet::Impl::fill_piece(Node node, std::shared_ptr<SetFile> file, std::uint64_t number) {
  const std::uint64_t begin = number * wire::kBackingPiece;
  Node from = source();
  if (!from) co_return fail(Errc::kUnavailable, "no member answers");
  Buffer piece(wire::kBackingPiece);
  Copying copying{.file = file, .written = {}};
  copying_ = &copying;
  auto got = co_await read_from(from, file, begin, piece.span());
  copying_ = nullptr;
  if (file->gone) co_return Status{};
  if (!got) co_return fail(std::move(got).error());
  // What was written while this was read, the node has or will have, and this may be older.
  std::vector<wire::BackingChange> changes;
  std::uint64_t at = begin;
  const std::uint64_t end = std::min(begin + *got, file->size);
  std::sort(copying.written.begin(), copying.written.end());
  copying.written.push_back({end, 0});
  for (const storage::Range& written : copying.written) {
    const std::uint64_t until = std::clamp(written.offset, begin, end);
    if (until > at) {
      changes.push_back({.op = BackingOp::kWrite,
                         .path = file->path,
                         .offset = at,
                         .bytes = piece.view().subspan(at - begin, until - at)});
    }
    at = std::max(at, std::min(written.offset + written.length, end));
  }
  filled_bytes_.add(*got);
  co_return co_await wait_for(node, send_to(node, changes));
}

Task<Status> BackingSet::Impl::sync_all(Node node) {
  std::vector<wire::BackingChange> changes;
  std::uint64_t last = 0;
  for (const auto& [path, file] : files_) {
    changes.push_back({.op = BackingOp::kSync, .path = path});
    if (changes.size() < kSyncsAtOnce) continue;
    last = send_to(node, std::exchange(changes, {}));
  }
  changes.push_back({.op = BackingOp::kSyncFolder, .path = ""});
  last = send_to(node, changes);
  co_return co_await wait_for(node, last);
}

Task<Status> BackingSet::Impl::wait_for(Node node, std::uint64_t number) {
  while (!node->has(number)) {
    if (!node->here()) co_return fail(Errc::kUnavailable, "it does not follow");
    if (!intact_) co_return intact_;
    if (closed_) co_return fail(Errc::kUnavailable, "closed");
    co_await loop_.sleep(std::chrono::milliseconds(1));
  }
  co_return Status{};
}

// ---- BackingSet ----

BackingSet::BackingSet(Seams seams) : impl_(std::make_shared<Impl>(std::move(seams))) {}
BackingSet::~BackingSet() {
  impl_->drop();
}

Task<Status> BackingSet::open() {
  return impl_->open();
}
bool BackingSet::is_open() const {
  return impl_->is_open();
}
BackingSet::Standing BackingSet::standing() const {
  return impl_->standing();
}
const std::string& BackingSet::waits_for() const {
  return impl_->waits_for();
}
bool BackingSet::holds() const {
  return impl_->holds();
}
Task<void> BackingSet::close() {
  return impl_->close();
}
const BackingSet::Files& BackingSet::files() const {
  return impl_->files();
}
storage::Space BackingSet::space() const {
  return impl_->space();
}
Status BackingSet::intact() const {
  return impl_->intact();
}
std::uint64_t BackingSet::add(const std::shared_ptr<SetFile>& file, wire::BackingOp op, std::uint64_t offset,
                              std::uint64_t length, ByteView bytes) {
  return impl_->add(file, op, offset, length, bytes);
}
std::uint64_t BackingSet::sync_folder(const std::string& folder) {
  return impl_->sync_folder(folder);
}
std::shared_ptr<SetFile> BackingSet::create(const std::string& path) {
  return impl_->create(path);
}
void BackingSet::rename(const std::shared_ptr<SetFile>& file, const std::string& to) {
  impl_->rename(file, to);
}
Task<Status> BackingSet::carried_out(std::uint64_t number) {
  return impl_->carried_out(number);
}
Task<Status> BackingSet::room() {
  return impl_->room();
}
Task<Result<std::size_t>> BackingSet::read(std::shared_ptr<SetFile> file, std::uint64_t offset,
                                           ByteSpan into) {
  return impl_->read(std::move(file), offset, into);
}

}  // namespace slice::service
