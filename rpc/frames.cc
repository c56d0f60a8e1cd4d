#include "rpc/frames.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <optional>

#include "rpc/bulk_data.h"
#include "rpc/message.h"
#include "rpc/siphash.h"

namespace slice::rpc {
namespace {

constexpr std::size_t kMacAt = 8, kMacSize = 16;
constexpr std::uint32_t kLarge = 2048;  // covered bytes from which GMAC is the cheaper one

struct FreeContext {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};

}  // namespace

struct FrameMac::State {
  FrameKeys keys;
  std::optional<SipHash128> small;                          // of the frame under way
  std::unique_ptr<EVP_CIPHER_CTX, FreeContext> large = {};  // made for the first long one
  bool is_large = false;

  void begin_large(std::uint64_t number) {
    std::uint8_t iv[12] = {};
    store_be(iv + 4, number);
    if (large) {
      EVP_EncryptInit_ex(large.get(), nullptr, nullptr, nullptr, iv);
      return;
    }
    large.reset(EVP_CIPHER_CTX_new());
    EVP_EncryptInit_ex(large.get(), EVP_aes_128_gcm(), nullptr, keys.large.data(), iv);
  }
  void update(ByteView bytes) {
    if (!is_large) return small->update(bytes);
    int unused = 0;
    EVP_EncryptUpdate(large.get(), nullptr, &unused, bytes.data(), static_cast<int>(bytes.size()));
  }
};

FrameMac::FrameMac(const FrameKeys& keys) : state_(std::make_unique<State>(State{keys, {}})) {}
FrameMac::~FrameMac() = default;
FrameMac::FrameMac(FrameMac&&) noexcept = default;

void FrameMac::begin(std::uint64_t number, std::uint32_t covered, std::uint32_t uncovered) {
  state_->is_large = covered >= kLarge;
  if (state_->is_large) {
    state_->begin_large(number);
  } else {
    state_->small.emplace(state_->keys.small);
  }
  std::uint8_t head[16];
  store_be(head, number);
  store_be(head + 8, covered);
  store_be(head + 12, uncovered);
  state_->update(head);
}

void FrameMac::update(ByteView covered) {
  state_->update(covered);
}

std::array<std::uint8_t, 16> FrameMac::finish() {
  if (!state_->is_large) return state_->small->finish();
  std::array<std::uint8_t, kMacSize> mac;
  int unused = 0;
  EVP_EncryptFinal_ex(state_->large.get(), mac.data(), &unused);
  EVP_CIPHER_CTX_ctrl(state_->large.get(), EVP_CTRL_AEAD_GET_TAG, kMacSize, mac.data());
  return mac;
}

void MarkTracker::begin_fragment() {
  const auto mark = load_be<std::uint32_t>(mark_);
  const bool last = (mark & kLastFragment) != 0;
  head_left_ = mark & ~kLastFragment;
  rest_left_ = 0;
  begin_bytes_ = 0;
  looking_ = last && !within_record_ && head_left_ > kCoveredHead;
  within_record_ = !last;
}

void MarkTracker::look_for_data(ByteView next) {
  const std::size_t more = std::min(next.size(), begin_.size() - begin_bytes_);
  ByteView first = next.first(more);
  if (begin_bytes_ > 0 || more < begin_.size()) {
    std::copy_n(next.data(), more, begin_.data() + begin_bytes_);
    first = ByteView(begin_).first(begin_bytes_ + more);
  }
  const std::size_t size = begin_bytes_ + head_left_;
  const std::optional<std::size_t> before = bytes_before_data(first, size);
  looking_ = !before && first.size() < begin_.size();
  if (!before) return;
  rest_left_ = size - std::max(*before, begin_bytes_);
  head_left_ -= rest_left_;
}

std::size_t MarkTracker::pass(ByteView bytes, std::size_t limit) {
  const bool first = covered();
  std::size_t passed = 0;
  limit = std::min(limit, bytes.size());
  while (passed < limit && covered() == first) {
    std::size_t left = limit - passed;
    if (mark_bytes_ < sizeof mark_) {
      mark_[mark_bytes_++] = bytes[passed++];
      if (mark_bytes_ == sizeof mark_) begin_fragment();
    } else {
      if (looking_) look_for_data(bytes.subspan(passed));
      if (covered() != first) break;
      std::size_t& part = head_left_ > 0 ? head_left_ : rest_left_;
      std::size_t n = std::min(left, part);
      if (looking_) begin_bytes_ += n;
      part -= n;
      passed += n;
    }
    if (mark_bytes_ == sizeof mark_ && head_left_ == 0 && rest_left_ == 0) mark_bytes_ = 0;
  }
  return passed;
}

bool Sealer::take(ByteView piece, std::size_t& covered, std::size_t& uncovered) {
  while (!piece.empty()) {
    const bool cover = coverage_ == Coverage::kAll || tracker_.covered();
    if (cover && uncovered > 0) return false;
    std::size_t& part = cover ? covered : uncovered;
    const std::size_t room = (cover ? kMaxCovered : kMaxUncovered) - part;
    if (room == 0) return false;
    const std::size_t n =
        coverage_ == Coverage::kAll ? std::min(room, piece.size()) : tracker_.pass(piece, room);
    if (cover) covered_.push_back(piece.first(n));
    part += n;
    piece = piece.subspan(n);
  }
  return true;
}

Sealer::Frame Sealer::seal(std::span<const iovec> plain, std::size_t skip) {
  covered_.clear();
  std::size_t covered = 0, uncovered = 0;
  for (const iovec& each : plain) {
    ByteView piece{static_cast<const std::uint8_t*>(each.iov_base), each.iov_len};
    if (skip >= piece.size()) {
      skip -= piece.size();
      continue;
    }
    if (!take(piece.subspan(std::exchange(skip, 0)), covered, uncovered)) break;
  }
  Frame frame{.head = {}, .body = covered + uncovered};
  store_be(frame.head.data(), static_cast<std::uint32_t>(covered));
  store_be(frame.head.data() + 4, static_cast<std::uint32_t>(uncovered));
  mac_.begin(number_++, static_cast<std::uint32_t>(covered), static_cast<std::uint32_t>(uncovered));
  for (ByteView piece : covered_) mac_.update(piece);
  std::ranges::copy(mac_.finish(), frame.head.data() + kMacAt);
  return frame;
}

std::size_t Opener::take_head(ByteView raw) {
  std::size_t n = std::min(raw.size(), kFrameHead - head_bytes_);
  std::copy_n(raw.data(), n, head_ + head_bytes_);
  head_bytes_ += n;
  if (head_bytes_ < kFrameHead) return n;
  head_bytes_ = 0;
  auto covered = load_be<std::uint32_t>(head_);
  auto uncovered = load_be<std::uint32_t>(head_ + 4);
  if (covered > kMaxCovered || uncovered > kMaxUncovered || covered + uncovered == 0) {
    broken_ = true;
    return n;
  }
  mac_.begin(number_, covered, uncovered);
  covered_left_ = covered;
  uncovered_left_ = uncovered;
  if (covered == 0) check();
  return n;
}

void Opener::check() {
  if (same_mac(mac_.finish(), ByteView(head_).subspan(kMacAt))) {
    ++number_;
  } else {
    broken_ = true;
  }
}

Opener::Step Opener::step(ByteView raw) {
  if (broken_ || raw.empty()) return {};
  if (covered_left_ == 0 && uncovered_left_ == 0) return {take_head(raw), false};
  std::size_t& part = covered_left_ > 0 ? covered_left_ : uncovered_left_;
  const bool covered = covered_left_ > 0;
  const std::size_t n = std::min(raw.size(), part);
  part -= n;
  if (!covered) return {n, true};
  mac_.update(raw.first(n));
  if (covered_left_ == 0) check();
  return {n, true};
}

bool same_mac(ByteView a, ByteView b) {
  return a.size() == kMacSize && b.size() == kMacSize && CRYPTO_memcmp(a.data(), b.data(), kMacSize) == 0;
}

}  // namespace slice::rpc
