#include "rpc/session_reader.h"

#include <algorithm>
#include <utility>

namespace slice::rpc {

// Only where no frame's head can be among the bytes, and nothing is to be proven about them.
ByteSpan SessionReader::direct() {
  if (undecided_) return {};
  if (!session_) return records_.direct();
  if (session_->opener() == nullptr) return {};
  const std::size_t bytes = session_->opener()->uncovered_left();
  if (bytes < kWorthDirect) return {};
  ByteSpan place = records_.direct();
  return place.first(std::min(place.size(), bytes));
}

void SessionReader::give_direct(std::size_t n) {
  records_.give_direct(n);
  if (session_) session_->opener()->pass_uncovered(n);
}

bool SessionReader::next(Buffer& record) {
  do {
    if (records_.next(record)) return true;
  } while (!broken() && !raw_.empty() && advance());
  return false;
}

// Takes some of what came; false where that is over.
bool SessionReader::advance() {
  if (undecided_) return decide();
  if (!session_) {
    records_.give(std::exchange(raw_, {}));
    return true;
  }
  if (session_->state() == Session::State::kGreeting) {
    raw_ = raw_.subspan(session_->greet(raw_));
    return !session_->over();
  }
  return open_some();
}

bool SessionReader::decide() {
  const std::size_t n = std::min(raw_.size(), kMagicBytes - first_.size());
  first_.append(raw_.first(n));
  raw_ = raw_.subspan(n);
  if (first_.size() < kMagicBytes) return false;
  undecided_ = false;
  if (load_be<std::uint32_t>(first_.data()) == kSessionMagic) {
    refused_ = !may_be_member_;
    if (refused_) return false;
    session_ = Session::to_client(*keys_);
    session_->greet(first_.view());
  } else {
    records_.give(first_.view());
  }
  return true;
}

bool SessionReader::open_some() {
  Opener& opener = *session_->opener();
  const Opener::Step step = opener.step(raw_);
  const ByteView piece = raw_.first(step.taken);
  raw_ = raw_.subspan(step.taken);
  if (opener.broken()) {
    session_->forged();
    return false;
  }
  if (!step.plain) return true;
  if (!opener.proven()) {
    kept_.append(piece);
  } else if (kept_.size() > 0) {
    kept_.append(piece);
    giving_ = std::exchange(kept_, Buffer());
    records_.give(giving_.view());
  } else {
    records_.give(piece);
  }
  return true;
}

bool SessionReader::within_record() const {
  return records_.within_record() || first_.size() % kMagicBytes != 0 || kept_.size() > 0 ||
         (session_ && session_->state() == Session::State::kGreeting);
}

}  // namespace slice::rpc
