// SessionReader: from what comes over a connection to whole records, with a session or without: what
// RecordReader is to a stream of records. It is used as that is (rpc/record.h).
#ifndef SLICE_RPC_SESSION_READER_H
#define SLICE_RPC_SESSION_READER_H

#include <memory>

#include "rpc/record.h"
#include "rpc/session.h"

namespace slice::rpc {

class SessionReader {
 public:
  // Of the side that connects. `session`: null for none.
  explicit SessionReader(std::size_t max_record, std::unique_ptr<Session> session = nullptr)
      : records_(max_record), undecided_(false), session_(std::move(session)) {}
  // Of the side that was connected to, by `peer`: the first bytes tell whether there is to be TLS, and a
  // session. `keys` outlive it; null where nobody is a member. `may_be_member`: else both are refused.
  SessionReader(std::size_t max_record, const KeyRing* keys, bool may_be_member, IpAddress peer = {})
      : records_(max_record),
        keys_(keys),
        peer_(peer),
        undecided_(keys != nullptr),
        may_be_member_(may_be_member) {}

  // As readv(2) of the connection's socket; -1 with EPROTO: refusal() says why.
  ssize_t read(int fd, std::span<const iovec> into);
  // Bytes have come that read() would give although the socket has none.
  bool pending() const { return stream() != nullptr && stream()->pending(); }

  void trust_marks(bool on) { records_.trust_marks(on); }
  ByteSpan direct();
  void give_direct(std::size_t n);
  std::size_t room_behind() const { return records_.room_behind(); }
  void give(ByteView chunk) { raw_ = chunk; }
  bool next(Buffer& record);

  // Null where there is none, or it is not known yet.
  Session* session() { return session_.get(); }
  // Why somebody who began TLS or a session may not; empty: nobody did.
  std::string_view refusal() const;
  bool over_tls() const { return stream() != nullptr; }
  // Nothing more can be taken: there is a refusal(), a record is too long, or the session is over, as
  // session() tells.
  bool broken() const { return !refused_.empty() || records_.broken() || (session_ && session_->over()); }
  std::size_t memory() const {
    return records_.memory() + memory_of(kept_) + memory_of(giving_) + (over_tls() ? stream()->memory() : 0);
  }
  bool within_record() const;

 private:
  static constexpr std::size_t kMagicBytes = 4;
  static constexpr std::size_t kWorthDirect = 4096;

  TlsStream* stream() const { return session_ ? session_->stream() : tls_.get(); }
  ssize_t peek(int fd);
  bool advance();
  bool decide();
  bool open_some();

  RecordReader records_;
  const KeyRing* keys_ = nullptr;
  IpAddress peer_;
  bool undecided_;
  bool may_be_member_ = true;
  std::string_view refused_;
  std::unique_ptr<TlsStream> tls_;  // until there is a session
  std::unique_ptr<Session> session_;
  ByteView raw_;          // not looked at yet
  Buffer first_;          // bytes of a connection about which it is not decided
  Buffer kept_, giving_;  // of a frame that is not proven; of one that was just now
};

}  // namespace slice::rpc

#endif  // SLICE_RPC_SESSION_READER_H
