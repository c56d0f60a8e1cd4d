// Frames: what a session's byte stream of RPC records is cut into, so that each piece of it carries a MAC
// (docs/formats/session.md). Sealer makes them, Opener takes them apart. Neither knows of sockets.
#ifndef SLICE_RPC_FRAMES_H
#define SLICE_RPC_FRAMES_H

#include <openssl/types.h>
#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "rpc/key_ring.h"

namespace slice::rpc {

// Under Coverage::kHeads a MAC covers all of a message but the data of a READ or WRITE (rpc/bulk_data.h), and
// data as well where a message is no longer than this, or its data begins no sooner.
inline constexpr std::size_t kCoveredHead = 1024;
inline constexpr std::size_t kFrameHead = 24;          // bytes: two lengths and the MAC
inline constexpr std::size_t kMaxCovered = 64 << 10;   // bytes of one frame
inline constexpr std::size_t kMaxUncovered = 1 << 24;  // likewise

// The keys of one direction of one session.
struct FrameKeys {
  std::array<std::uint8_t, 16> small, large;  // for SipHash-2-4 and for GMAC
};

// The MACs of one direction's frames: SipHash-2-4 of 128 bits, over long frames AES-128-GMAC, which costs
// more to begin and less a byte. Each is over the frame's number, its lengths and its covered bytes.
class FrameMac {
 public:
  explicit FrameMac(const FrameKeys& keys);
  ~FrameMac();
  FrameMac(FrameMac&&) noexcept;
  FrameMac& operator=(FrameMac&&) = delete;

  void begin(std::uint64_t number, std::uint32_t covered, std::uint32_t uncovered);
  void update(ByteView covered);
  std::array<std::uint8_t, 16> finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Where in a stream of records a byte is, as far as coverage needs it.
class MarkTracker {
 public:
  // Whether the next byte is covered under Coverage::kHeads.
  bool covered() const { return mark_bytes_ < 4 || head_left_ > 0; }
  // Passes bytes from the front that are covered like the first, at most `limit`; how many.
  std::size_t pass(ByteView bytes, std::size_t limit);

 private:
  void begin_fragment();
  void look_for_data(ByteView next);

  std::uint8_t mark_[4] = {};
  std::size_t mark_bytes_ = 0;  // 4: within a fragment
  std::size_t head_left_ = 0, rest_left_ = 0;
  bool within_record_ = false;  // behind a fragment that is not the record's last
  // While it is not known where a message's data begins, all of it is head_left_.
  bool looking_ = false;
  std::array<std::uint8_t, kCoveredHead> begin_{};  // its first bytes, begin_bytes_ of which were passed
  std::size_t begin_bytes_ = 0;
};

class Sealer {
 public:
  Sealer(const FrameKeys& keys, Coverage coverage) : mac_(keys), coverage_(coverage) {}
  struct Frame {
    std::array<std::uint8_t, kFrameHead> head;
    std::size_t body = 0;  // bytes of the stream that follow it
  };
  // The next frame, over the front of `plain` behind its first `skip` bytes, of which there must be one at
  // least: the bytes of the stream that no frame has yet.
  Frame seal(std::span<const iovec> plain, std::size_t skip);

 private:
  // False where the frame is full.
  bool take(ByteView piece, std::size_t& covered, std::size_t& uncovered);

  FrameMac mac_;
  Coverage coverage_;
  MarkTracker tracker_;
  std::uint64_t number_ = 0;
  std::vector<ByteView> covered_;  // of the frame that is made
};

class Opener {
 public:
  explicit Opener(const FrameKeys& keys) : mac_(keys) {}
  struct Step {
    std::size_t taken = 0;
    bool plain = false;  // they are bytes of the stream of records; else of a frame's head
  };
  // Takes bytes from the front of `raw`. The first bytes of a covered part are not proven before its last one
  // came: nothing may be done by them until proven().
  Step step(ByteView raw);
  // Bytes that step() would call plain, uncovered, and were put elsewhere; at most uncovered_left().
  void pass_uncovered(std::size_t n) { uncovered_left_ -= n; }

  bool proven() const { return covered_left_ == 0; }
  std::size_t uncovered_left() const { return covered_left_ == 0 ? uncovered_left_ : 0; }
  // The stream is not what the peer sent, or not the peer's: nothing more may be taken.
  bool broken() const { return broken_; }
  // Frames that were proven.
  std::uint64_t frames() const { return number_; }

 private:
  std::size_t take_head(ByteView raw);
  void check();

  FrameMac mac_;
  std::uint64_t number_ = 0;
  std::uint8_t head_[kFrameHead] = {};
  std::size_t head_bytes_ = 0;
  std::size_t covered_left_ = 0, uncovered_left_ = 0;
  bool broken_ = false;
};

// In constant time: how far a forged MAC fits must not show.
bool same_mac(ByteView a, ByteView b);

}  // namespace slice::rpc

#endif  // SLICE_RPC_FRAMES_H
