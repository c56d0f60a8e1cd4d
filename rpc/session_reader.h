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
  // Of the side that was connected to: the first bytes tell whether there is to be a session. `keys` outlive
  // it; null where nobody is a member. `may_be_member`: else a hello is refused.
  SessionReader(std::size_t max_record, const KeyRing* keys, bool may_be_member)
      : records_(max_record), keys_(keys), undecided_(keys != nullptr), may_be_member_(may_be_member) {}

  void trust_marks(bool on) { records_.trust_marks(on); }
  ByteSpan direct();
  void give_direct(std::size_t n);
  std::size_t room_behind() const { return records_.room_behind(); }
  void give(ByteView chunk) { raw_ = chunk; }
  bool next(Buffer& record);

  // Null where there is none, or it is not known yet.
  Session* session() { return session_.get(); }
  // Somebody said hello who may not.
  bool refused() const { return refused_; }
  // Nothing more can be taken: refused(), a record is too long, or the session is over, as session() tells.
  bool broken() const { return refused_ || records_.broken() || (session_ && session_->over()); }
  std::size_t memory() const { return records_.memory() + memory_of(kept_) + memory_of(giving_); }
  bool within_record() const;

 private:
  static constexpr std::size_t kMagicBytes = 4;
  static constexpr std::size_t kWorthDirect = 4096;

  bool advance();
  bool decide();
  bool open_some();

  RecordReader records_;
  const KeyRing* keys_ = nullptr;
  bool undecided_;
  bool may_be_member_ = true;
  bool refused_ = false;
  std::unique_ptr<Session> session_;
  ByteView raw_;          // not looked at yet
  Buffer first_;          // bytes of a connection about which it is not decided
  Buffer kept_, giving_;  // of a frame that is not proven; of one that was just now
};

}  // namespace slice::rpc

#endif  // SLICE_RPC_SESSION_READER_H
