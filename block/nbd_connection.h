// NbdConnection: one client of an NbdServer: its bytes, in what state it is, and what it holds. What it says
// is looked at in nbd_handshake.h and nbd_transmission.h.
//
// Requests run at once and are answered as they end. One is taken when there is room for it (NbdOptions);
// until then nothing is read. A request has its place until the client has taken the reply.
#ifndef SLICE_BLOCK_NBD_CONNECTION_H
#define SLICE_BLOCK_NBD_CONNECTION_H

#include <memory>
#include <string>

#include "block/byte_stage.h"
#include "block/nbd_handshake.h"
#include "block/nbd_replies.h"
#include "block/nbd_shared.h"
#include "block/nbd_transmission.h"

namespace slice::block {

class NbdConnection final : public std::enable_shared_from_this<NbdConnection>, private ByteBudget::User {
 public:
  // `peer`: none of a unix socket.
  NbdConnection(std::shared_ptr<NbdShared> shared, std::unique_ptr<proxy::Stream> stream, rpc::Endpoint peer);

  void start();
  // Requests under way go on, and keep the device until they have ended; nobody hears of them.
  void close(std::string_view why);
  // Takes no more requests, and ends when the client has the replies to those under way, or does not take
  // them.
  void finish();
  // Closes it, counted, and told.
  void refuse(NbdRefusal why, std::string_view text = {});
  void end(NbdEnd why);

  void flush();
  bool in_handshake() const { return stream_ != nullptr && terms_ == nullptr && state_ != State::kEnding; }
  // It holds what others could use, and has moved no byte since.
  bool stands_still(MonoTime since) const;

 private:
  enum class State : std::uint8_t {
    kFlags,       // the client's are to come
    kOption,      // an option's header is to come
    kOptionData,  //
    kAnswering,   // the option
    kTls,         // it begins when the client has been told
    kRequest,     // a request is to come
    kSkip,        // data that is of no use is to come
    kRoom,        // the request waits for it
    kData,        // of the write is to come
    kEnding,      // the connection ends when all has been answered
  };

  void on_event(std::uint32_t ready);
  // Through TLS, without a certificate where one is wanted.
  bool shows_too_little() const;
  void read();
  bool wants_bytes() const;
  void watch();
  void consume();
  bool step();

  bool take_flags();
  bool take_option();
  bool take_option_data();
  static Task<void> serve_option(std::shared_ptr<NbdConnection> self, nbd::Option option, Buffer data);
  void answered(NbdHandshake::Answer answer);
  void begin_transmission();
  void begin_tls();

  bool take_request();
  bool take_room();
  bool take_data();
  bool skip();
  void begin_request();
  static Task<void> serve(std::shared_ptr<NbdConnection> self, std::shared_ptr<const NbdTerms> terms,
                          nbd::Request request, Buffer data);
  void answer(const nbd::Request& request, NbdReply reply, std::size_t held);
  void say_farewell();

  void send(Buffer bytes, NbdReplies::Held held);
  void free(const NbdReplies::Held& held);
  void on_room() override;
  void go_on();
  void set_deadline(Duration after, NbdRefusal why);
  void close_broken();
  std::string peer_text() const;

  const std::shared_ptr<NbdShared> shared_;
  std::unique_ptr<proxy::Stream> stream_;  // null: closed
  const rpc::Endpoint peer_;
  State state_ = State::kFlags;
  std::uint32_t watched_ = 0;
  TimerId deadline_ = TimerId::kNone;
  MonoTime moved_{};  // when a byte came or went

  ByteStage stage_;  // less than one message, where more is read
  bool consuming_ = false;
  bool discards_ = false;  // kEnding, and what still comes is of no use
  std::uint64_t to_skip_ = 0;

  NbdHandshake handshake_;
  nbd::OptionHeader option_;
  std::size_t options_ = 0;  // that came

  std::shared_ptr<const NbdTerms> terms_;  // null: still in the handshake
  nbd::Request request_;                   // that is to be begun
  nbd::ErrorNumber verdict_{};             // on it
  std::size_t needed_ = 0;                 // bytes of its data that will be held
  Buffer data_;
  std::size_t data_done_ = 0;
  std::size_t requests_ = 0;  // begun, whose reply the client has not taken

  NbdReplies replies_;
  bool dirty_ = false;    // to be written at the end of the round
  bool blocked_ = false;  // the socket takes no more now
};

}  // namespace slice::block

#endif  // SLICE_BLOCK_NBD_CONNECTION_H
