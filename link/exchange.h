// Exchange: the initiator's side of a session of the link: requests that wait, that are outstanding, and that
// are sent again; the handshake, and a new one when the target knows nothing of the session any more.
#ifndef SLICE_LINK_EXCHANGE_H
#define SLICE_LINK_EXCHANGE_H

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "common/loop.h"
#include "common/task.h"
#include "link/frame.h"
#include "link/frame_port.h"
#include "link/initiator_metrics.h"
#include "link/pace.h"
#include "link/randomness.h"

namespace slice::link {

class Exchange {
 public:
  struct Request {
    Op op{};  // kRead, kWrite, kZeroes, kFlush
    bool durable = false;
    bool gives_back = false;  // of kZeroes: their room on disks
    bool urgent = false;      // is done before allow(), and ends with kNoSession where the session does
    std::uint64_t offset = 0;
    std::uint32_t count = 0;  // bytes, at most welcome().largest; 0 for a flush
    ByteView out;             // of a write
    ByteSpan into;            // of a read
  };
  struct Options {
    std::string client, volume;
    std::uint64_t seed = 0;  // Randomness
  };
  class Owner {
   public:
    // A session has begun, welcome() says what it is. Nothing but urgent requests is sent until allow().
    virtual void on_session() = 0;
    // The target refused one for this reason. It is asked again all the same, unless it is closed.
    virtual void on_refused(Code why) = 0;

   protected:
    ~Owner() = default;
  };

  // One loop. All outlive it. `key` is read at each handshake.
  Exchange(Loop& loop, FramePort& port, const Address& target, const Key& key, InitiatorMetrics& metrics,
           Owner& owner, Options options);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Asks for a session, and again until there is one.
  void begin();
  // Takes effect until the session ends.
  void allow();
  // Tells the target; requests end with this code, those that come later as well.
  void close(Code why);

  // How it ended, however long that takes; the data of `request` outlives it. welcome() is then still that of
  // the session that answered.
  Task<Code> perform(Request request);
  // What came in. False: it is of no session and no handshake of this one.
  bool take(const Frame& frame, ByteView bytes);

  const Welcome& welcome() const { return welcome_; }
  // Bytes that a request should have at most, so that some fit the credit and the ports at once.
  std::uint32_t largest() const;

 private:
  struct Job {
    Request request;
    OneShot<Code> ended;
    std::size_t blocks = 1;
    bool outstanding = false, heard = false, again = false;
    std::uint16_t tag = 0;
    std::uint32_t generation = 0;
    BlockMap have;  // of a read: that came; of a write: that the target has
    unsigned tries = 0;
    MonoTime begun, deadline;
  };
  using Jobs = std::list<Job>;

  bool shaking_hands() const { return state_ == State::kShaking; }
  void say_hello();
  bool take_handshake(const Frame& frame, ByteView bytes);
  void answer_ticket(ByteView data);
  void take_welcome(const Frame& frame);
  bool take_nak(const Frame& frame, ByteView bytes);
  void refused(Code why);
  void drop_session();
  Jobs::iterator job_of(const Frame& frame);
  void take_data(Jobs::iterator job, const Frame& frame);
  void take_wack(Jobs::iterator job, const Frame& frame);
  void pump();
  void start(Jobs::iterator job);
  void transmit(Job& job, bool whole);
  void send_blocks(Job& job, bool whole);
  void send(Head head, const Job& job, ByteView data);
  void finish(Jobs::iterator job, Code code);
  bool misses_some(const Job& job) const { return job.have.count() < job.blocks; }
  void look_at(MonoTime when);
  void look();
  void ask_again(Job& job);
  std::size_t window() const;
  std::size_t block_count(const Request& request) const;

  enum class State : std::uint8_t { kIdle, kShaking, kOpen, kClosed };
  Loop& loop_;
  FramePort& port_;
  const Address target_;
  const Key& key_;
  InitiatorMetrics& metrics_;
  Owner& owner_;
  const Options options_;
  Randomness random_;
  State state_ = State::kIdle;
  Code closed_as_ = Code::kIo;

  Key shared_{};  // of this handshake, and the session that comes of it
  Keys handshake_keys_;
  Nonce nonce_{};
  unsigned hellos_ = 0;
  TimerId hello_timer_ = TimerId::kNone;

  std::uint64_t session_ = 0;
  Keys keys_;
  Welcome welcome_;
  bool allowed_ = false;
  std::size_t credit_at_first_ = 0;  // blocks
  Pace pace_;
  std::vector<std::uint32_t> generations_;  // by tag
  std::vector<std::uint16_t> free_tags_;
  std::vector<Jobs::iterator> by_tag_;  // jobs_.end(): free
  Jobs jobs_;                           // in the order that they came
  std::size_t outstanding_ = 0;         // blocks
  MonoTime heard_at_{};
  TimerId timer_ = TimerId::kNone;
  MonoTime timer_at_{};
  bool pumping_ = false;
};

}  // namespace slice::link

#endif  // SLICE_LINK_EXCHANGE_H
