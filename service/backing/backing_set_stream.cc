// The stream of changes that all members of a backing set get, and reading.
#include "common/log.h"
#include "service/backing/backing_set_impl.h"

namespace slice::service {
namespace {

using wire::BackingOp;
using wire::BackingProcedure;
using wire::BackingStatus;

constexpr std::size_t kWindow = 8;  // CHANGE calls under way to one node
// Of a CHANGE, whose syncs a busy disk may take long for: that a node is silent is noticed by its session.
constexpr Duration kChangeTimeout = std::chrono::seconds(10);

}  // namespace

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
  const std::uint64_t was = file.size;
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
  for (Watched* each : watched_) each->note(file, touched);
  // The piece that was the last one may be longer now.
  const std::uint64_t first = std::min(touched.offset, was) / wire::kBackingPiece;
  const std::uint64_t end = touched.offset + touched.length;
  file.agreed.erase(file.agreed.lower_bound(first),
                    file.agreed.lower_bound((end + wire::kBackingPiece - 1) / wire::kBackingPiece));
}

// At the end of all.
void BackingSet::Impl::append(const wire::BackingChange& change) {
  if (!forming_.takes(change)) seal();
  forming_.add(owner_, change);
  pump_soon();
}

std::uint64_t BackingSet::Impl::add(const std::shared_ptr<SetFile>& file, BackingOp op, std::uint64_t offset,
                                    std::uint64_t length, ByteView bytes) {
  // Of a file whose name is another's now nobody will ever read anything again.
  if (file->gone) return last_;
  const wire::BackingChange change{
      .op = op, .path = file->path, .offset = offset, .length = length, .bytes = bytes};
  append(change);
  note(*file, op, offset, length, bytes.size());
  if (op == BackingOp::kRemove) files_.erase(file->path);
  changes_.add();
  change_bytes_.add(bytes.size());
  return last_ + 1;
}

std::uint64_t BackingSet::Impl::sync_folder(const std::string& folder) {
  append({.op = BackingOp::kSyncFolder, .path = folder});
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
  for (const wire::BackingChange& change : changes) {
    if (!writer.takes(change)) hand_out(writer.seal(last_ + 1, node.get()));
    writer.add(owner_, change);
  }
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
      stale();
      break;
    }
    // Where one before it has not come yet, that one decides on the node.
    const bool early =
        result && result->status == BackingStatus::kGap && *node->unanswered.begin() < batch->number;
    if (!early && lose(node, why(result))) break;
    const bool leaving = result && result->status == BackingStatus::kLeaving;
    if (result && !early && !leaving) {
      // It is there, and not able to follow: it was started again, or its disk fails.
      broken(fmt::format("its last member, node {}, answers: {}", node->server, why(result)));
      break;
    }
    if (!early && silent_log_.allow())
      log_warning(
          "backing set of {}: its last member, node {}, does not take a change, and is asked again: {}",
          seams_.name, node->server, why(result));
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

Status BackingSet::Impl::usable() const {
  if (!intact_) return intact_;
  if (closed_) return fail(Errc::kUnavailable, "backing set: closed");
  return {};
}

Task<Status> BackingSet::Impl::carried_out(std::uint64_t number) {
  SLICE_CO_RETURN_IF_ERROR(usable());
  if (number <= last_ && !under_way_.contains(number)) co_return Status{};
  OneShot<Status> done;
  waiters_.emplace(number, done);
  co_return co_await done;
}

Task<Status> BackingSet::Impl::room() {
  SLICE_CO_RETURN_IF_ERROR(usable());
  if (bytes_under_way_ + forming_.bytes() < kMostUnderWay) co_return Status{};
  OneShot<Status> done;
  wait_for_room_.push_back(done);
  co_return co_await done;
}

// ---- reading ----

BackingSet::Impl::Node BackingSet::Impl::source() const {
  std::vector<Node> members;
  std::copy_if(nodes_.begin(), nodes_.end(), std::back_inserter(members),
               [](const Node& node) { return node->member(); });
  // Each run begins with another one: where a copy is damaged so that the server does not start, it does by
  // the next one.
  return members.empty() ? nullptr : members[owner_.epoch.value % members.size()];
}

Task<Result<std::size_t>> BackingSet::Impl::read_from(Node node, std::shared_ptr<SetFile> file,
                                                      std::uint64_t offset, ByteSpan into) {
  if (file->last_change > last_) seal();
  const wire::BackingReadArgs args{
      .owner = owner_, .path = file->path, .offset = offset, .after = file->last_change};
  auto got = co_await read_at_node(seams_.channel, node->endpoint, args, kPatience, into);
  if (!got) co_return fail(std::move(got).error());
  if (got->status == BackingStatus::kStale) stale();
  if (got->status == BackingStatus::kNotFound && file->gone) co_return std::size_t{0};
  if (got->status != BackingStatus::kOk) {
    const bool renamed = got->status == BackingStatus::kNotFound && file->path != args.path;
    co_return fail(renamed ? Errc::kNotFound : Errc::kIo, "{}: {}", args.path,
                   wire::backing_status_name(got->status));
  }
  co_return got->bytes;
}

Task<Result<std::size_t>> BackingSet::Impl::read(std::shared_ptr<SetFile> file, std::uint64_t offset,
                                                 ByteSpan into) {
  for (;;) {
    SLICE_CO_RETURN_IF_ERROR(usable());
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

}  // namespace slice::service
