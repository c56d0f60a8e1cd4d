#include "block/nbd_replies.h"

#include <sys/uio.h>

#include <utility>

namespace slice::block {
namespace {

constexpr std::size_t kPiecesAtOnce = 64;

void add_held(NbdReplies::Held& sum, const NbdReplies::Held& more) {
  sum.requests += more.requests;
  sum.bytes += more.bytes;
}

}  // namespace

void NbdReplies::push(Buffer bytes, Held held) {
  queue_.push_back({std::move(bytes), held});
}

NbdReplies::Progress NbdReplies::flush(proxy::Stream& to) {
  using Outcome = rpc::Written::Outcome;
  Progress progress;
  while (!queue_.empty() || to.has_to_say()) {
    iovec vectors[kPiecesAtOnce];
    std::size_t used = 0;
    for (Piece& piece : queue_) {
      if (used == kPiecesAtOnce) break;
      const std::size_t skip = used == 0 ? done_ : 0;
      vectors[used++] = {piece.bytes.data() + skip, piece.bytes.size() - skip};
    }
    const rpc::Written written = to.write({vectors, used});
    consume(written.plain, progress);
    if (written.outcome == Outcome::kWaits) return progress;
    if (written.outcome == Outcome::kAll) continue;
    progress.flushed = written.outcome == Outcome::kBlocked ? Flushed::kBlocked : Flushed::kBroken;
    return progress;
  }
  return progress;
}

void NbdReplies::consume(std::size_t written, Progress& progress) {
  progress.bytes += written;
  done_ += written;
  while (!queue_.empty() && done_ >= queue_.front().bytes.size()) {
    done_ -= queue_.front().bytes.size();
    add_held(progress.freed, queue_.front().held);
    queue_.pop_front();
  }
}

NbdReplies::Held NbdReplies::clear() {
  Held freed;
  for (const Piece& piece : queue_) add_held(freed, piece.held);
  queue_.clear();
  done_ = 0;
  return freed;
}

}  // namespace slice::block
