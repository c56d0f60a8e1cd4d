// Session: how two processes of one ensemble know, on one TCP connection, that what comes is from the other,
// is whole, in order, and was sent on this connection (docs/formats/session.md). The one that connects says
// hello, the other answers; from then on both directions are frames (rpc/frames.h) under keys of this
// connection alone. One session, one loop.
#ifndef SLICE_RPC_SESSION_H
#define SLICE_RPC_SESSION_H

#include <sys/uio.h>

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/bytes.h"
#include "rpc/frames.h"
#include "rpc/key_ring.h"
#include "rpc/tls.h"

namespace slice::rpc {

// The first bytes of a hello. As a record mark they would announce 1.4 GB, which no server takes.
inline constexpr std::uint32_t kSessionMagic = 0x534c5331;  // "SLS1"

class Session {
 public:
  // The side that connects: says hello with the ring's first key. The ring outlives the session.
  static std::unique_ptr<Session> to_server(const KeyRing& keys);
  // The side that was connected to.
  static std::unique_ptr<Session> to_client(const KeyRing& keys);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  enum class State {
    kGreeting,    // hello or answer are still to come; no record can leave
    kUp,          //
    kUnknownKey,  // the peer has no such key, as it says
    kForged       // what came is not what the peer sent, or the peer has not the key that it named
  };
  State state() const { return state_; }
  bool over() const { return state_ == State::kUnknownKey || state_ == State::kForged; }
  // The peer has shown that it has the key, by something that cannot have been recorded.
  bool peer_is_known() const;
  // The key that the session is under is one of the ring's still, and the peer's certificate is trusted
  // still. Of a session that is up.
  bool key_is_valid() const { return keys_.find(key_id_).has_value() && (!stream_ || stream_->is_trusted()); }

  // All bytes go through TLS: before anything is written or read, or where the hello came over it.
  void over(std::unique_ptr<TlsStream> stream) { stream_ = std::move(stream); }
  TlsStream* stream() const { return stream_.get(); }  // null: bytes go as they are
  // As readv(2); TlsStream::read().
  ssize_t read(int fd, std::span<const iovec> into) const { return read_stream(fd, stream(), into); }

  // Writes to the socket what there is to say for the session itself, then `plain`: the stream of records
  // from its first byte that was not written yet. What was given before stays at its front, unchanged:
  // sealed() bytes of it lie in frames already. kAll: the socket took all that was tried; if that was not all
  // of `plain`, call again with the rest. kWaits: the peer's answer has to come first, or the session is
  // over. kBroken: errno says why.
  Written write(int fd, std::span<const iovec> plain);
  std::size_t sealed() const { return sealed_; }
  // Some of one's own greeting is not written, or of what TLS made of something.
  bool has_to_say() const { return said_ < to_say_.size() || (stream_ && stream_->has_to_say()); }

  // Takes bytes of the peer's greeting from the front of what came; how many. Only while kGreeting. There may
  // be something to write then.
  std::size_t greet(ByteView came);
  // What comes after the greeting; null before.
  Opener* opener() { return opener_ ? &*opener_ : nullptr; }
  // The opener has found that it is broken.
  void forged() { state_ = State::kForged; }

 private:
  struct Keys;
  Session(const KeyRing& keys, bool connects) : keys_(keys), connects_(connects) {}
  void say_hello();
  void answer();
  void refuse();
  void open_answer();
  void begin(const EnsembleKey& key, Coverage coverage);
  void seal_some(std::span<const iovec> plain, std::size_t total);
  void gather(std::span<const iovec> plain);
  void wrote(std::size_t n, Written& out);
  bool write_greeting(int fd, Written& out);
  Written send(int fd, std::span<const iovec> vectors);

  struct Frame {
    std::array<std::uint8_t, kFrameHead> head;
    std::size_t head_done = 0;
    std::size_t body_left = 0;
  };

  const KeyRing& keys_;
  const bool connects_;
  std::unique_ptr<TlsStream> stream_;
  State state_ = State::kGreeting;
  KeyId key_id_{};
  Buffer hello_, answer_;  // as far as they came or were made
  Buffer to_say_;          // bytes of one's own greeting
  std::size_t said_ = 0;   // of to_say_
  std::optional<Sealer> sealer_;
  std::optional<Opener> opener_;
  std::deque<Frame> frames_;    // made, and not wholly written
  std::size_t sealed_ = 0;      // bytes of the stream in them that are not written
  std::vector<iovec> vectors_;  // of one write
};

// Writes plain bytes, as Session::write() does without a session.
Written write_plain(int fd, std::span<const iovec> plain);

}  // namespace slice::rpc

#endif  // SLICE_RPC_SESSION_H
