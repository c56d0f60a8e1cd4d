// Nodes that are filled until they have all that the set has.
#include "common/log.h"
#include "service/backing/backing_set_impl.h"

namespace slice::service {
namespace {

using wire::BackingOp;
using wire::BackingProcedure;
using wire::BackingStatus;

constexpr Duration kKeepInterval = std::chrono::seconds(1);
constexpr unsigned kTellEach = 5;  // of those intervals
// For so long a member that was taken out may come back before another node is filled in its place.
constexpr Duration kComeBack = std::chrono::seconds(30);
constexpr std::uint32_t kDigestsAtOnce = 64;  // so that a node answers within seconds
constexpr Duration kDigestTimeout = std::chrono::seconds(20);
constexpr std::size_t kSyncsAtOnce = 500;

}  // namespace

// ---- filling ----

Task<void> BackingSet::Impl::keep_whole(std::shared_ptr<Impl> /*stays*/) {
  for (unsigned round = 1;; ++round) {
    co_await loop_.sleep(kKeepInterval);
    if (closed_ || !intact_) co_return;
    if (round % kTellEach == 0) co_await tell_manager();
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

BackingSet::Impl::Node BackingSet::Impl::drained_member() const {
  auto found = std::find_if(nodes_.begin(), nodes_.end(), [this](const Node& node) {
    return node->member() && seams_.drained(node->server);
  });
  return found == nodes_.end() ? nullptr : *found;
}

Task<void> BackingSet::Impl::fill(std::uint32_t server) {
  Node node = new_node(server, endpoints_[server]);
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
    auto answers =
        co_await internal_call<NoResults>(seams_.channel, endpoints_[server], wire::kBackingProgram,
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
    co_return fail(Errc::kIo, "{}", why(attached));
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
  write_members();
  co_return Status{};
}

// What an earlier time left there.
Task<Status> BackingSet::Impl::remove_others(Node node) {
  return list(node, [this, node](NodePage page) {
    std::vector<wire::BackingChange> changes;
    for (const wire::BackingFile& file : page) {
      if (!files_.contains(file.path)) changes.push_back({.op = BackingOp::kRemove, .path = file.path});
    }
    if (!changes.empty()) send_to(node, changes);
  });
}

Task<Result<wire::BackingDigestResult>> BackingSet::Impl::digests(Node node, const SetFile& file,
                                                                  std::uint64_t first, std::uint32_t count,
                                                                  std::uint64_t after) {
  auto result = co_await call<wire::BackingDigestResult>(
      node, BackingProcedure::kDigest,
      wire::BackingDigestArgs{
          .owner = owner_, .path = file.path, .first = first, .count = count, .after = after},
      kDigestTimeout);
  if (result && result->status != BackingStatus::kOk) {
    co_return fail(result->status == BackingStatus::kNotFound ? Errc::kNotFound : Errc::kIo, "digest: {}",
                   why(result));
  }
  co_return result;
}

Task<Status> BackingSet::Impl::fill_file(Node node, std::shared_ptr<SetFile> file) {
  send_to(node, {{.op = BackingOp::kTruncate, .path = file->path, .length = file->size}});
  for (std::uint64_t first = 0; first * wire::kBackingPiece < file->size; first += kDigestsAtOnce) {
    Node from = source();
    if (!from) co_return fail(Errc::kUnavailable, "no member answers");
    auto wanted = co_await digests(from, *file, first, kDigestsAtOnce, from->sent);
    if (file->gone) co_return Status{};
    if (!wanted) co_return fail(std::move(wanted).error());
    auto there = co_await digests(node, *file, first, kDigestsAtOnce, node->sent);
    if (file->gone) co_return Status{};
    if (!there) co_return fail(std::move(there).error());
    for (std::uint64_t i = 0; i < wanted->digests.size(); ++i) {
      const bool same = i < there->digests.size() && there->digests[i] == wanted->digests[i];
      if (same) continue;
      from = source();
      if (!from) co_return fail(Errc::kUnavailable, "no member answers");
      SLICE_CO_RETURN_IF_ERROR(co_await fill_piece(node, from, file, first + i));
      if (file->gone) co_return Status{};
    }
  }
  co_return Status{};
}

Task<Status> BackingSet::Impl::fill_piece(Node node, Node from, std::shared_ptr<SetFile> file,
                                          std::uint64_t number) {
  const std::uint64_t begin = number * wire::kBackingPiece;
  Buffer piece(wire::kBackingPiece);
  std::vector<storage::Range> meanwhile;
  const auto read = [&]() -> Task<Result<std::size_t>> {
    const Watched watched(*this, file);
    auto bytes = co_await read_from(from, file, begin, piece.span());
    meanwhile = watched.written();
    co_return bytes;
  };
  auto got = co_await read();
  if (file->gone) co_return Status{};
  if (!got) co_return fail(std::move(got).error());
  // What was written while this was read, the node has or will have, and this may be older.
  std::vector<wire::BackingChange> changes;
  std::uint64_t at = begin;
  const std::uint64_t end = std::min(begin + *got, file->size);
  std::sort(meanwhile.begin(), meanwhile.end());
  meanwhile.push_back({end, 0});
  for (const storage::Range& written : meanwhile) {
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
  for (const auto& [path, file] : files_) {
    changes.push_back({.op = BackingOp::kSync, .path = path});
    if (changes.size() == kSyncsAtOnce) send_to(node, std::exchange(changes, {}));
  }
  changes.push_back({.op = BackingOp::kSyncFolder, .path = ""});
  co_return co_await wait_for(node, send_to(node, changes));
}

Task<Status> BackingSet::Impl::wait_for(Node node, std::uint64_t number) {
  while (!node->has(number)) {
    if (!node->here()) co_return fail(Errc::kUnavailable, "it does not follow");
    SLICE_CO_RETURN_IF_ERROR(usable());
    co_await loop_.sleep(std::chrono::milliseconds(1));
  }
  co_return Status{};
}

}  // namespace slice::service
