#include "rpc/session_reader.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace slice::rpc {
namespace {

constexpr std::uint8_t kTlsHandshake = 22;  // RFC 8446 section 5.1; as a record's mark it announces 369 MB
constexpr std::string_view kFromOutside = "a session from outside of the networks that members are in";

}  // namespace

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

// Looks at the first byte, and begins TLS where it is one of that. As recv(2), 1 where to go on.
ssize_t SessionReader::peek(int fd) {
  std::uint8_t first = 0;
  const ssize_t n = ::recv(fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
  if (n <= 0 || first != kTlsHandshake) return n;
  if (!may_be_member_) {
    refused_ = kFromOutside;
    errno = EPROTO;
    return -1;
  }
  tls_ = keys_->tls()->to_client(fd, peer_);
  return n;
}

ssize_t SessionReader::read(int fd, std::span<const iovec> into) {
  if (undecided_ && !tls_ && first_.empty() && keys_->tls() != nullptr) {
    if (ssize_t n = peek(fd); n <= 0) return n;
  }
  return read_stream(fd, stream(), into);
}

std::string_view SessionReader::refusal() const {
  return refused_.empty() && over_tls() ? std::string_view(stream()->failure()) : refused_;
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
  const bool member = load_be<std::uint32_t>(first_.data()) == kSessionMagic;
  if (member && !may_be_member_) {
    refused_ = kFromOutside;
  } else if (member && keys_->tls() != nullptr && !tls_) {
    refused_ = "a session without TLS";
  } else if (!member && tls_) {
    refused_ = "TLS without a session";
  }
  if (!refused_.empty()) return false;
  if (member) {
    session_ = Session::to_client(*keys_);
    session_->over(std::move(tls_));
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
         (session_ && session_->state() == Session::State::kGreeting) || tls_ != nullptr;
}

}  // namespace slice::rpc
