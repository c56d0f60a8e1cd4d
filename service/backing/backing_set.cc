#include "service/backing/backing_set.h"

#include "common/log.h"
#include "service/backing/backing_set_impl.h"
#include "storage/durable_file.h"
#include "wire/failover.h"

namespace slice::service {
namespace {

using wire::BackingProcedure;
using wire::BackingStatus;

constexpr const char* kRunFile = "backing.run";
// Of a set that a former owner has: it may let go sooner than it would have to.
constexpr std::uint32_t kHeldRetryMs = 50;
// Changes of the members wait for it.
constexpr Duration kTellPatience = std::chrono::milliseconds(500);
constexpr Duration kRenewInterval = std::chrono::milliseconds(500);

}  // namespace

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
      stale();
      co_return Attached{node, std::nullopt};
    }
    if (status == BackingStatus::kHeld && intact_ && !closed_) {
      co_await loop_.sleep(std::chrono::milliseconds(std::min(result->wait_ms + 1, kHeldRetryMs)));
      continue;
    }
    if (!intact_ || closed_ || (*somebody && loop_.now() >= until)) {
      log_warning("backing set of {}: node {} does not take part: {}", seams_.name, node->server,
                  why(result));
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
    attaching.push_back(attach_at_start(new_node(server, endpoints_[server]), made, until, somebody));
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
  SLICE_CO_RETURN_IF_ERROR(co_await list(best->node, [this](NodePage page) {
    for (const wire::BackingFile& file : page) {
      files_[file.path] = std::make_shared<SetFile>(
          SetFile{.path = file.path, .size = file.size, .allocated = file.allocated});
    }
  }));
  open_ = true;
  write_members();
  waits_for_.clear();
  members_.set(nodes_.size());
  copies_.set(seams_.copies);
  log_info("backing set of {}: epoch {}, {} of {} members, {} files", seams_.name, owner_.epoch.value,
           nodes_.size(), seams_.copies, files_.size());
  for (const Node& node : nodes_) spawn(renew(shared_from_this(), node));
  spawn(keep_whole(shared_from_this()));
  spawn(scrub(shared_from_this()));
  co_return Status{};
}

Task<Status> BackingSet::Impl::list(const Node& node, std::function<void(NodePage)> take) {
  return list_node(seams_.channel, node->endpoint, {.owner = owner_, .behind = "", .after = node->sent},
                   kPatience, std::move(take));
}

bool BackingSet::Impl::holds() const {
  if (!open_ || closed_ || !intact_) return false;
  const MonoTime now = loop_.now_exactly();
  return std::all_of(nodes_.begin(), nodes_.end(),
                     [now](const Node& node) { return !node->counts || node->session_until > now; });
}

Task<bool> BackingSet::Impl::until_holds() {
  if (holds()) co_return true;
  if (!usable()) co_return false;
  OneShot<bool> decided;
  wait_until_it_holds_.push_back(decided);
  co_return co_await decided;
}

void BackingSet::Impl::tell_whether_it_holds() {
  if (wait_until_it_holds_.empty()) return;
  const bool it_does = holds();
  if (!it_does && usable()) return;
  for (const OneShot<bool>& each : std::exchange(wait_until_it_holds_, {})) each.set(it_does);
}

Task<void> BackingSet::Impl::close() {
  if (!open_ || closed_ || !intact_) co_return;
  (void)co_await carried_out(send_to(nullptr, {}));
  closed_ = true;
  tell_whether_it_holds();
  std::vector<Task<Result<wire::BackingStatusResult>>> letting_go;
  for (const Node& node : nodes_) {
    if (!node->member()) continue;
    letting_go.push_back(
        call<wire::BackingStatusResult>(node, BackingProcedure::kLetGo, wire::BackingOwnerArgs{owner_}));
  }
  co_await all(std::move(letting_go));
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
      tell_whether_it_holds();
    } else if (result && result->status == BackingStatus::kStale) {
      stale();
    } else if ((result && result->status == BackingStatus::kLeaving) ||
               node->session_until - loop_.now() < wire::kBackingSession - kMargin - kPatience) {
      lose(node, why(result));
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
  // What is over from now on that node may lack: so it must not count as a member for who goes by the files.
  const std::uint64_t written = write_members();
  const std::vector<Node> all = nodes_;
  for (const Node& other : all) {
    if (other->member()) (void)co_await wait_for(other, written);
  }
  forget(node);
}

std::vector<std::uint32_t> BackingSet::Impl::members_with(const Node* joining) const {
  std::vector<std::uint32_t> members;
  for (const Node& node : nodes_) {
    const bool joins = joining != nullptr && node == *joining;
    if (node->member() || (joins && node->here())) members.push_back(node->server);
  }
  return members;
}

std::uint64_t BackingSet::Impl::write_members() {
  rpc::XdrWriter contents;
  encode(contents, wire::BackingMembersFile{as_the_manager_has_it()});
  const Buffer stored = storage::with_checksum(contents.take());
  const std::shared_ptr<SetFile> file = create(std::string(wire::kBackingMembersNew));
  add(file, wire::BackingOp::kTruncate, 0, 0, {});
  add(file, wire::BackingOp::kWrite, 0, 0, stored.view());
  add(file, wire::BackingOp::kSync, 0, 0, {});
  rename(file, std::string(wire::kBackingMembersFile));
  const std::uint64_t number = sync_folder("");
  seal();
  return number;
}

wire::BackingSet BackingSet::Impl::as_the_manager_has_it() const {
  return {.server = owner_.server,
          .epoch = owner_.epoch,
          .instance = owner_.instance,
          .copies = seams_.copies,
          .change = members_change_,
          .members = members_with(nullptr)};
}

Task<void> BackingSet::Impl::tell_manager() {
  auto lock = co_await changing_members_.lock();
  co_await tell_manager_now();
}

Task<void> BackingSet::Impl::tell_manager_now() {
  // A word of one that is not sure may be an old one.
  if (!holds()) co_return;
  auto told = co_await seams_.managers.call<wire::BackingKeepResult>(
      seams_.channel, wire::ManagerProcedure::kBackingKeep, wire::BackingKeepArgs{as_the_manager_has_it()},
      kTellPatience);
  if (told && !told->refused.empty() && keep_log_.allow())
    log_warning("backing set of {}: the manager does not have it so: {}", seams_.name, told->refused);
}

Task<bool> BackingSet::Impl::set_members(const Node* joining) {
  constexpr int kMostTold = 3;
  constexpr int kMostUnsure = wire::kBackingSession / kRetry;  // a member may be silent for a while
  for (int told = 0, unsure = 0;;) {
    const wire::BackingMembersArgs args{
        .owner = owner_, .change = ++last_members_change_, .members = members_with(joining)};
    auto result = co_await seams_.managers.call<wire::BackingMembersResult>(
        seams_.channel, wire::ManagerProcedure::kBackingMembers, args, kPatience);
    if (result && result->refused.empty()) {
      members_change_ = args.change;
      co_return true;
    }
    if (result) {
      // One that knows of no set has lost its state. An owner that is sure tells it; another may be an old
      // one, and the next run finds out.
      const bool is_known = result->set.epoch != BackingEpoch{};
      const bool sure = holds();
      if (is_known || (sure ? told++ == kMostTold : unsure++ == kMostUnsure)) {
        broken(fmt::format("the manager refuses: {}", result->refused));
        co_return false;
      }
      if (sure) co_await tell_manager_now();
    }
    co_await loop_.sleep(kRetry);
    if (closed_ || !intact_) co_return false;
  }
}

void BackingSet::Impl::forget(const Node& node) {
  node->gone = true;
  node->outbox.clear();
  std::erase(nodes_, node);
  members_.set(count_members());
  settle();
  tell_whether_it_holds();
}

void BackingSet::Impl::broken(const std::string& why) {
  if (!intact_) return;
  const std::string text = fmt::format("the backing set of {} is not its own any more: {}", seams_.name, why);
  log_error("{}", text);
  intact_ = fail(Errc::kIo, "{}", text);
  fail_waiters(intact_.error());
  tell_whether_it_holds();
  loop_.post([lost = seams_.lost, text] { lost(text); });
}

void BackingSet::Impl::fail_waiters(const Error& error) {
  std::vector<OneShot<Status>> ready(wait_for_room_.begin(), wait_for_room_.end());
  for (const auto& [number, done] : waiters_) ready.push_back(done);
  waiters_.clear();
  wait_for_room_.clear();
  for (const OneShot<Status>& each : ready) each.set(tl::unexpected(error));
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
Task<bool> BackingSet::until_holds() {
  return impl_->until_holds();
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
