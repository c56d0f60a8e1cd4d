#include "rpc/session.h"

#include <openssl/rand.h>

#include <algorithm>
#include <cerrno>

#include "rpc/derived_key.h"

namespace slice::rpc {
namespace {

// Both greetings: magic, coverage, status, reserved (4 bytes each), key's name or zeros (8), nonce (32), MAC.
constexpr std::size_t kCoverageAt = 4, kStatusAt = 8, kKeyIdAt = 16, kNonceAt = 24, kAnswerMacAt = 56;
constexpr std::size_t kNonceSize = 32, kGreetingSize = 72;
constexpr std::uint32_t kKeyAccepted = 0, kNoSuchKey = 1;

constexpr std::size_t kMaxVectors = 512;  // of one write; UIO_MAXIOV is 1024
constexpr std::size_t kMaxFrames = 64;    // that are made and not written

// A greeting without its MAC.
Buffer greeting(Coverage coverage, std::uint32_t status, const KeyId& key) {
  Buffer out(kGreetingSize);
  std::fill_n(out.data(), kGreetingSize, std::uint8_t{0});
  store_be(out.data(), kSessionMagic);
  store_be(out.data() + kCoverageAt, static_cast<std::uint32_t>(coverage));
  store_be(out.data() + kStatusAt, status);
  std::ranges::copy(key, out.data() + kKeyIdAt);
  if (RAND_bytes(out.data() + kNonceAt, kNonceSize) != 1) std::abort();  // a nonce that repeats is no nonce
  return out;
}

KeyId key_in(const Buffer& greeting) {
  KeyId id;
  std::copy_n(greeting.data() + kKeyIdAt, id.size(), id.begin());
  return id;
}

bool well_formed(const Buffer& greeting) {
  return load_be<std::uint32_t>(greeting.data()) == kSessionMagic &&
         load_be<std::uint32_t>(greeting.data() + kCoverageAt) <= static_cast<std::uint32_t>(Coverage::kAll);
}

Coverage coverage_in(const Buffer& greeting) {
  return static_cast<Coverage>(load_be<std::uint32_t>(greeting.data() + kCoverageAt));
}

std::array<std::uint8_t, 16> answer_mac(const EnsembleKey& key, const Buffer& hello, const Buffer& answer) {
  return derived_key(key, "slice session answer", {hello.view(), answer.view().first(kAnswerMacAt)});
}

}  // namespace

std::unique_ptr<Session> Session::to_server(const KeyRing& keys) {
  std::unique_ptr<Session> made(new Session(keys, true));
  made->say_hello();
  return made;
}

std::unique_ptr<Session> Session::to_client(const KeyRing& keys) {
  return std::unique_ptr<Session>(new Session(keys, false));
}

Session::~Session() = default;

bool Session::peer_is_known() const {
  return state_ == State::kUp && (connects_ || opener_->frames() > 0);
}

void Session::say_hello() {
  const EnsembleKey key = keys_.first();
  key_id_ = key_id(key);
  hello_ = greeting(keys_.coverage(), kKeyAccepted, key_id_);
  to_say_ = hello_.clone();
}

std::size_t Session::greet(ByteView came) {
  Buffer& into = connects_ ? answer_ : hello_;
  const std::size_t n = std::min(came.size(), kGreetingSize - into.size());
  into.append(came.first(n));
  if (into.size() < kGreetingSize) return n;
  if (!well_formed(into)) {
    state_ = State::kForged;
  } else if (connects_) {
    open_answer();
  } else {
    answer();
  }
  return n;
}

void Session::answer() {
  key_id_ = key_in(hello_);
  const auto key = keys_.find(key_id_);
  answer_ =
      greeting(std::max(coverage_in(hello_), keys_.coverage()), key ? kKeyAccepted : kNoSuchKey, key_id_);
  if (key) std::ranges::copy(answer_mac(*key, hello_, answer_), answer_.data() + kAnswerMacAt);
  to_say_ = answer_.clone();
  if (key) {
    begin(*key, coverage_in(answer_));
  } else {
    state_ = State::kUnknownKey;
  }
}

// A refusal carries no MAC: it does no more than an end of the connection would.
void Session::open_answer() {
  if (load_be<std::uint32_t>(answer_.data() + kStatusAt) == kNoSuchKey) {
    state_ = State::kUnknownKey;
    return;
  }
  const auto key = keys_.find(key_id_);
  if (!key) {
    state_ = State::kUnknownKey;
  } else if (!same_mac(answer_mac(*key, hello_, answer_), answer_.view().subspan(kAnswerMacAt)) ||
             coverage_in(answer_) < coverage_in(hello_)) {
    state_ = State::kForged;
  } else {
    begin(*key, coverage_in(answer_));
  }
}

void Session::begin(const EnsembleKey& key, Coverage coverage) {
  auto derive = [&](std::string_view purpose) {
    return derived_key(key, purpose, {hello_.view(), answer_.view()});
  };
  FrameKeys to_server{derive("slice to server, small"), derive("slice to server, large")};
  FrameKeys to_client{derive("slice to client, small"), derive("slice to client, large")};
  sealer_.emplace(connects_ ? to_server : to_client, coverage);
  opener_.emplace(connects_ ? to_client : to_server);
  state_ = State::kUp;
}

// False where nothing can be written behind the greeting now.
bool Session::write_greeting(int fd, Written& out) {
  while (said_ < to_say_.size()) {
    iovec rest{to_say_.data() + said_, to_say_.size() - said_};
    const Written sent = send(fd, {&rest, 1});
    said_ += sent.plain;
    out.outcome = sent.outcome;
    if (sent.outcome != Written::Outcome::kAll) return false;
  }
  if (state_ == State::kUp) return true;
  out.outcome = Written::Outcome::kWaits;
  return false;
}

// Puts all of `plain` into frames, as far as there may be so many.
void Session::seal_some(std::span<const iovec> plain, std::size_t total) {
  while (sealed_ < total && frames_.size() < kMaxFrames) {
    Sealer::Frame made = sealer_->seal(plain, sealed_);
    frames_.push_back({.head = made.head, .body_left = made.body});
    sealed_ += made.body;
  }
}

// The frames' heads between the bytes of their bodies.
void Session::gather(std::span<const iovec> plain) {
  vectors_.clear();
  auto piece = plain.begin();
  std::size_t passed = 0;  // of *piece
  for (Frame& frame : frames_) {
    if (frame.head_done < kFrameHead) {
      vectors_.push_back({frame.head.data() + frame.head_done, kFrameHead - frame.head_done});
    }
    for (std::size_t left = frame.body_left; left > 0;) {
      if (vectors_.size() >= kMaxVectors) return;
      std::size_t n = std::min(left, piece->iov_len - passed);
      if (n > 0) vectors_.push_back({static_cast<std::uint8_t*>(piece->iov_base) + passed, n});
      left -= n;
      passed += n;
      if (passed == piece->iov_len) {
        ++piece;
        passed = 0;
      }
    }
    if (vectors_.size() >= kMaxVectors) return;
  }
}

void Session::wrote(std::size_t n, Written& out) {
  while (n > 0) {
    Frame& frame = frames_.front();
    std::size_t head = std::min(n, kFrameHead - frame.head_done);
    frame.head_done += head;
    n -= head;
    std::size_t body = std::min(n, frame.body_left);
    frame.body_left -= body;
    n -= body;
    out.plain += body;
    sealed_ -= body;
    if (frame.body_left == 0 && frame.head_done == kFrameHead) frames_.pop_front();
  }
}

Written Session::send(int fd, std::span<const iovec> vectors) {
  return stream_ ? stream_->write(vectors) : write_plain(fd, vectors);
}

Written Session::write(int fd, std::span<const iovec> plain) {
  Written out;
  if (!write_greeting(fd, out)) return out;
  const std::size_t total = bytes_in(plain);
  if (total == 0) {
    if (stream_) out.outcome = stream_->write({}).outcome;
    return out;
  }
  seal_some(plain, total);
  gather(plain);
  const Written sent = send(fd, vectors_);
  wrote(sent.plain, out);
  out.outcome = sent.outcome;
  return out;
}

Written write_plain(int fd, std::span<const iovec> plain) {
  Written out;
  const ssize_t n = send_vectors(fd, plain);
  if (n < 0) {
    const bool full = errno == EAGAIN || errno == EWOULDBLOCK;
    out.outcome = full ? Written::Outcome::kBlocked : Written::Outcome::kBroken;
    return out;
  }
  out.plain = static_cast<std::size_t>(n);
  if (out.plain < bytes_in(plain)) out.outcome = Written::Outcome::kBlocked;
  return out;
}

}  // namespace slice::rpc
