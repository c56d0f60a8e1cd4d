// Copies are compared, slowly and again and again: what a disk has lost is found, and made anew, while
// another node still has it.
#include <algorithm>

#include "common/log.h"
#include "service/backing/backing_set_impl.h"

namespace slice::service {
namespace {

using wire::BackingOp;

constexpr std::uint32_t kPiecesAtOnce = 4;
constexpr Duration kPauseOfPiece = std::chrono::milliseconds(63);  // so 16 MiB/s at most
constexpr Duration kPauseOfFile = std::chrono::milliseconds(1);
// From one pass to the next: so many times what it has taken.
constexpr int kPauseOfPass = 20;
constexpr Duration kShortestPause = std::chrono::seconds(10);
constexpr Duration kLongestPause = std::chrono::hours(24);

// What more than half of them have.
std::optional<std::uint32_t> of_most(const std::vector<std::optional<std::uint32_t>>& digests) {
  for (const auto& each : digests) {
    const auto same = std::count(digests.begin(), digests.end(), each);
    if (each && static_cast<std::size_t>(same) * 2 > digests.size()) return each;
  }
  return std::nullopt;
}

}  // namespace

Task<void> BackingSet::Impl::scrub(std::shared_ptr<Impl> /*stays*/) {
  while (usable()) {
    const MonoTime begun = loop_.now();
    if (auto differing = co_await scrub_pass()) {
      differing_.set(*differing);
      scrub_passes_.add();
    }
    const Duration pause =
        std::clamp<Duration>((loop_.now() - begun) * kPauseOfPass, kShortestPause, kLongestPause);
    for (const MonoTime end = loop_.now() + pause; usable() && loop_.now() < end;)
      co_await loop_.sleep(std::min<Duration>(kShortestPause, end - loop_.now()));
  }
}

Task<std::optional<std::uint64_t>> BackingSet::Impl::scrub_pass() {
  std::vector<std::shared_ptr<SetFile>> files;
  for (const auto& [path, file] : files_) files.push_back(file);
  std::uint64_t differing = 0;
  for (const auto& file : files) {
    const auto more = [&file](std::uint64_t first) {
      return first == 0 || first * wire::kBackingPiece < file->size;
    };
    for (std::uint64_t first = 0; !file->gone && more(first); first += kPiecesAtOnce) {
      const auto pieces = std::min<std::uint64_t>(kPiecesAtOnce, file->size / wire::kBackingPiece);
      co_await loop_.sleep(kPauseOfFile + kPauseOfPiece * static_cast<int>(pieces));
      if (!usable()) co_return std::nullopt;
      differing += co_await scrub_pieces(file, first);
    }
  }
  co_return differing;
}

// How many pieces differ of which it is not known who has them right.
Task<std::uint64_t> BackingSet::Impl::scrub_pieces(std::shared_ptr<SetFile> file, std::uint64_t first) {
  std::vector<Node> members;
  for (const Node& node : nodes_) {
    if (node->member()) members.push_back(node);
  }
  if (members.size() < 2) co_return 0;
  seal();
  // Digests of what is written meanwhile are of different times.
  Watched watched(*this, file);
  std::vector<Task<Result<wire::BackingDigestResult>>> asking;
  for (const Node& node : members) asking.push_back(digests(node, *file, first, kPiecesAtOnce, last_));
  const auto results = co_await all(std::move(asking));
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (results[i]) scrubbed_bytes_.add(results[i]->digests.size() * wire::kBackingPiece);
    if (results[i] || file->gone || !members[i]->here() || !usable()) continue;
    if (results[i].error().code == Errc::kIo)
      lose(members[i], fmt::format("{}: {}", file->path, results[i].error().message));
  }
  const bool all_have =
      std::all_of(results.begin(), results.end(), [](const auto& each) { return each.has_value(); });
  if (!all_have || file->gone) co_return 0;
  if (!watched.any()) cut_longer(file, members, results);
  std::uint64_t differing = 0;
  const std::uint64_t pieces = (file->size + wire::kBackingPiece - 1) / wire::kBackingPiece;
  for (std::uint64_t piece = first; piece < std::min(first + kPiecesAtOnce, pieces); ++piece) {
    if (file->gone || watched.touches(piece * wire::kBackingPiece, wire::kBackingPiece)) continue;
    std::vector<std::optional<std::uint32_t>> found;
    for (const auto& each : results) {
      const std::size_t at = piece - first;
      found.push_back(at < each->digests.size() ? std::optional(each->digests[at]) : std::nullopt);
    }
    if (!co_await compare(file, piece, members, found)) ++differing;
  }
  co_return differing;
}

// What is behind a file's end would be in it as soon as it grows.
void BackingSet::Impl::cut_longer(const std::shared_ptr<SetFile>& file, const std::vector<Node>& members,
                                  const std::vector<Result<wire::BackingDigestResult>>& found) {
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (found[i]->size <= file->size) continue;
    damaged_.add();
    log_error(
        "backing set of {}: the copy of {} on node {} is damaged: it has {} bytes, and should have {}: cut",
        seams_.name, file->path, members[i]->server, found[i]->size, file->size);
    send_to(members[i], {{.op = BackingOp::kTruncate, .path = file->path, .length = file->size}});
  }
}

// False: they differ, and none is known to be right.
Task<bool> BackingSet::Impl::compare(std::shared_ptr<SetFile> file, std::uint64_t piece,
                                     const std::vector<Node>& members,
                                     std::vector<std::optional<std::uint32_t>> found) {
  if (found.front() && std::count(found.begin(), found.end(), found.front()) == std::ssize(found)) {
    file->agreed[piece] = *found.front();
    co_return true;
  }
  // As they were when all had the same, and nothing was written since; else as most have them.
  std::optional<std::uint32_t> right;
  const auto before = file->agreed.find(piece);
  if (before != file->agreed.end() && std::count(found.begin(), found.end(), before->second) > 0)
    right = before->second;
  if (!right) right = of_most(found);
  std::string have;
  for (std::size_t i = 0; i < members.size(); ++i)
    have += fmt::format("{}node {}: {}", i == 0 ? "" : ", ", members[i]->server,
                        found[i] ? fmt::format("{:08x}", *found[i]) : "nothing");
  if (!right) {
    log_error(
        "backing set of {}: copies of {} differ in bytes from {} on, and which is right is not known: {}",
        seams_.name, file->path, piece * wire::kBackingPiece, have);
    co_return false;
  }
  const Node good =
      members[static_cast<std::size_t>(std::find(found.begin(), found.end(), right) - found.begin())];
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (found[i] == right) continue;
    damaged_.add();
    log_error("backing set of {}: the copy of {} on node {} is damaged in bytes from {} on: made anew ({})",
              seams_.name, file->path, members[i]->server, piece * wire::kBackingPiece, have);
    if (Status mended = co_await mend(members[i], good, file, piece); !mended)
      log_error("backing set of {}: it is not: {}", seams_.name, mended.error().message);
  }
  co_return true;
}

Task<Status> BackingSet::Impl::mend(Node node, Node from, std::shared_ptr<SetFile> file,
                                    std::uint64_t piece) {
  send_to(node, {{.op = BackingOp::kTruncate, .path = file->path, .length = file->size}});
  SLICE_CO_RETURN_IF_ERROR(co_await fill_piece(node, from, file, piece));
  if (file->gone) co_return Status{};
  co_return co_await wait_for(node, send_to(node, {{.op = BackingOp::kSync, .path = file->path}}));
}

}  // namespace slice::service
