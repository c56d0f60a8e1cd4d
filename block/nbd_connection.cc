#include "block/nbd_connection.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/log.h"

namespace slice::block {
namespace {

constexpr std::size_t kStage = 32 << 10;  // bytes
constexpr int kReadsARound = 4;           // of one connection, so that others get their turn
// Of an option that is looked at: a name, and what is asked about it.
constexpr std::size_t kLongestOption = nbd::kLongestName + 1024;
static_assert(kLongestOption + nbd::kOptionHeaderSize < kStage);

}  // namespace

NbdConnection::NbdConnection(std::shared_ptr<NbdShared> shared, std::unique_ptr<proxy::Stream> stream,
                             rpc::Endpoint peer)
    : shared_(std::move(shared)),
      stream_(std::move(stream)),
      peer_(peer),
      moved_(shared_->loop.now()),
      stage_(kStage),
      handshake_(shared_->devices, {.offers_tls = shared_->options.tls != nullptr,
                                    .wants_tls = shared_->options.only_tls && !peer.address.none(),
                                    .longest = shared_->longest}) {}

void NbdConnection::start() {
  Buffer greeting;
  nbd::encode_greeting(greeting, NbdHandshake::kFlags);
  send(std::move(greeting), {});
  set_deadline(shared_->options.handshake, NbdRefusal::kSlow);
  watched_ = proxy::Stream::kReadable;
  stream_->watch(watched_, [this](std::uint32_t ready) { on_event(ready); });
}

void NbdConnection::set_deadline(Duration after, NbdRefusal why) {
  shared_->loop.cancel(deadline_);
  deadline_ = shared_->loop.after(after, [weak = weak_from_this(), why] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->in_handshake() ? self->refuse(why) : self->close("it did not take its last replies in time");
  });
}

void NbdConnection::close(std::string_view why) {
  if (stream_ == nullptr) return;
  const auto self = shared_from_this();  // the list may have the last reference
  if (terms_ != nullptr && shared_->metrics.may_log(NbdLine::kEnded)) {
    log_info("the connection of a block client of '{}' ended: {} from={}", short_name(terms_->name), why,
             peer_text());
  }
  stream_.reset();
  shared_->loop.cancel(deadline_);
  shared_->budget.leave(*this);
  if (state_ == State::kData) free({1, needed_});
  state_ = State::kEnding;
  data_ = {};
  free(replies_.clear());
  terms_.reset();
  (void)handshake_.take_device();
  shared_->closed(self);
}

void NbdConnection::finish() {
  if (in_handshake()) return close("the server ends");
  if (stream_ == nullptr || state_ == State::kEnding) return;
  if (state_ == State::kData) free({1, needed_});
  data_ = {};
  shared_->budget.leave(*this);
  discards_ = true;  // closed with bytes unread, the kernel would take back what was written
  say_farewell();
  watch();
}

void NbdConnection::refuse(NbdRefusal why, std::string_view text) {
  if (stream_ == nullptr) return;
  const auto self = shared_from_this();
  shared_->refused(why, peer_text(), text);
  close(text_of(why));
}

void NbdConnection::end(NbdEnd why) {
  if (stream_ == nullptr) return;
  shared_->metrics.count(why);
  close(why == NbdEnd::kStalled ? "others waited for what it held, and it stood still" : "malformed request");
}

void NbdConnection::close_broken() {
  const bool by_tls = errno == EPROTO && stream_->tls() != nullptr;
  if (!by_tls) return close(std::strerror(errno));
  const std::string why = stream_->tls()->failure();
  in_handshake() ? refuse(NbdRefusal::kTls, why) : close(why);
}

std::string NbdConnection::peer_text() const {
  return peer_.address.none() ? "a unix socket" : rpc::to_string(peer_);
}

bool NbdConnection::stands_still(MonoTime since) const {
  const bool waits_for_peer = blocked_ || state_ == State::kData;
  return stream_ != nullptr && waits_for_peer && moved_ < since && shared_->budget.holds_common(*this);
}

void NbdConnection::on_event(std::uint32_t ready) {
  const auto self = shared_from_this();
  if ((ready & proxy::Stream::kWritable) != 0) flush();
  if ((ready & proxy::Stream::kReadable) != 0) read();
  if ((ready & proxy::Stream::kEnded) != 0) return close("the client ended it");
  watch();
}

bool NbdConnection::wants_bytes() const {
  switch (state_) {
    case State::kAnswering:
    case State::kTls:
    case State::kRoom:
      return false;
    case State::kEnding:
      return discards_;
    case State::kOption:
      return replies_.empty();  // each option waits for the reply to the one before
    default:
      return true;
  }
}

void NbdConnection::watch() {
  if (stream_ == nullptr) return;
  const std::uint32_t wanted =
      (wants_bytes() ? proxy::Stream::kReadable : 0u) | (blocked_ ? proxy::Stream::kWritable : 0u);
  if (wanted == watched_) return;
  watched_ = wanted;
  stream_->change(wanted);
}

// What comes through TLS has been decrypted, so the handshake is over.
bool NbdConnection::shows_too_little() const {
  const rpc::TlsStream* tls = stream_->tls();
  return shared_->options.certificates && tls != nullptr && !tls->peer_has_certificate();
}

// The data of a write goes right to where the device gets it, but for what came with its header.
void NbdConnection::read() {
  for (int i = 0; i < kReadsARound && stream_ != nullptr && wants_bytes(); ++i) {
    const bool direct = state_ == State::kData && stage_.size() == 0;
    const ByteSpan into = direct ? data_.span().subspan(data_done_) : stage_.room();
    const ssize_t n = stream_->read(into);
    if (n == 0) return close("the client ended it");
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      return close_broken();
    }
    moved_ = shared_->loop.now();
    if (shows_too_little()) return refuse(NbdRefusal::kTls, "it has shown no certificate");
    if (direct) {
      data_done_ += static_cast<std::size_t>(n);
    } else {
      stage_.came(static_cast<std::size_t>(n));
    }
    consume();
    if (static_cast<std::size_t>(n) < into.size()) break;
  }
  if (stream_ != nullptr && stream_->has_to_say()) send({}, {});
}

void NbdConnection::consume() {
  if (consuming_) return;  // a request that ended at once
  consuming_ = true;
  while (stream_ != nullptr && step()) {
  }
  consuming_ = false;
}

// False: more bytes, room, or an end of something has to come first.
bool NbdConnection::step() {
  switch (state_) {
    case State::kFlags:
      return take_flags();
    case State::kOption:
      return take_option();
    case State::kOptionData:
      return take_option_data();
    case State::kRequest:
      return take_request();
    case State::kSkip:
      return skip();
    case State::kRoom:
      return take_room();
    case State::kData:
      return take_data();
    case State::kEnding:
      stage_.clear();
      return false;
    case State::kAnswering:
    case State::kTls:
      return false;
  }
  return false;
}

bool NbdConnection::skip() {
  to_skip_ -= stage_.take_up_to(to_skip_).size();
  if (to_skip_ > 0) return false;
  if (terms_ != nullptr) {
    state_ = State::kRoom;
    return true;
  }
  state_ = State::kAnswering;
  NbdHandshake::Answer too_big{.refused = NbdRefusal::kMalformed, .told = "too long an option"};
  nbd::encode_option_reply(too_big.bytes, option_.option, nbd::OptionReply::kTooBig, "too long an option");
  answered(std::move(too_big));
  return true;
}

bool NbdConnection::take_flags() {
  const ByteView bytes = stage_.take(nbd::kClientFlagsSize);
  if (bytes.empty()) return false;
  state_ = State::kOption;
  if (!handshake_.take_flags(nbd::decode_client_flags(bytes)))
    refuse(NbdRefusal::kMalformed, "not flags of fixed newstyle");
  return true;
}

bool NbdConnection::take_option() {
  if (!replies_.empty()) return false;
  const ByteView bytes = stage_.take(nbd::kOptionHeaderSize);
  if (bytes.empty()) return false;
  const auto header = nbd::decode_option_header(bytes);
  if (!header) {
    refuse(NbdRefusal::kMalformed, "no option where one has to be");
    return false;
  }
  if (++options_ > shared_->options.options) {
    refuse(NbdRefusal::kTooMany);
    return false;
  }
  option_ = *header;
  state_ = State::kOptionData;
  if (option_.length > kLongestOption && option_.option == nbd::Option::kExportName) {
    refuse(NbdRefusal::kMalformed, "too long a name");
  } else if (option_.length > kLongestOption) {
    to_skip_ = option_.length;
    state_ = State::kSkip;
  }
  return true;
}

bool NbdConnection::take_option_data() {
  if (stage_.size() < option_.length) return false;
  state_ = State::kAnswering;
  spawn(serve_option(shared_from_this(), option_.option, Buffer(stage_.take(option_.length))));
  return true;
}

Task<void> NbdConnection::serve_option(std::shared_ptr<NbdConnection> self, nbd::Option option, Buffer data) {
  self->answered(co_await self->handshake_.answer(option, std::move(data)));
}

void NbdConnection::answered(NbdHandshake::Answer answer) {
  if (stream_ == nullptr) {
    (void)handshake_.take_device();
    return;
  }
  if (answer.refused) shared_->refused(*answer.refused, peer_text(), answer.told);
  if (!answer.bytes.empty()) send(std::move(answer.bytes), {});
  switch (answer.next) {
    case NbdHandshake::Next::kOption:
      state_ = State::kOption;
      break;
    case NbdHandshake::Next::kTls:
      state_ = State::kTls;
      break;
    case NbdHandshake::Next::kTransmission:
      begin_transmission();
      break;
    case NbdHandshake::Next::kEnd:
      say_farewell();
      break;
  }
  go_on();
}

void NbdConnection::begin_transmission() {
  shared_->loop.cancel(std::exchange(deadline_, TimerId::kNone));
  terms_ = std::make_shared<const NbdTerms>(NbdTerms{.device = handshake_.take_device(),
                                                     .name = handshake_.name(),
                                                     .structured = handshake_.structured(),
                                                     .allocation = handshake_.allocation(),
                                                     .longest = shared_->longest});
  state_ = State::kRequest;
  if (shared_->metrics.may_log(NbdLine::kOpened)) {
    log_info("a block client opened '{}'{} from={}", short_name(terms_->name),
             stream_->tls() != nullptr ? " over TLS" : "", peer_text());
  }
}

// Somebody between could put options of his own before the client's first encrypted ones.
void NbdConnection::begin_tls() {
  if (stage_.size() > 0) return refuse(NbdRefusal::kTls, "it went on in clear where TLS was to begin");
  stream_->begin_tls(*shared_->options.tls, peer_.address);
  handshake_.tls_began();
  state_ = State::kOption;
}

bool NbdConnection::take_request() {
  const ByteView bytes = stage_.take(nbd::kRequestSize);
  if (bytes.empty()) return false;
  const auto request = nbd::decode_request(bytes);
  if (!request) {
    end(NbdEnd::kMalformed);
    return false;
  }
  if (request->command == nbd::Command::kDisconnect) {
    say_farewell();
    return false;
  }
  shared_->metrics.count(request->command);
  request_ = *request;
  verdict_ = judge(request_, *terms_);
  const bool good = verdict_ == nbd::ErrorNumber::kNone;
  needed_ = good ? data_of(request_) : 0;
  to_skip_ = !good && request_.command == nbd::Command::kWrite ? request_.length : 0;
  state_ = to_skip_ > 0 ? State::kSkip : State::kRoom;
  return true;
}

bool NbdConnection::take_room() {
  const NbdOptions& limits = shared_->options;
  if (requests_ >= limits.requests || held() + needed_ > limits.connection_bytes) return false;
  if (!shared_->budget.take(*this, needed_)) {
    shared_->look_later();
    return false;
  }
  ++requests_;
  data_ = {};
  data_done_ = 0;
  if (request_.command == nbd::Command::kWrite && needed_ > 0) {
    data_.resize(needed_);
    state_ = State::kData;
  } else {
    begin_request();
  }
  return true;
}

bool NbdConnection::take_data() {
  const ByteView came = stage_.take_up_to(data_.size() - data_done_);
  if (!came.empty()) std::memcpy(data_.data() + data_done_, came.data(), came.size());
  data_done_ += came.size();
  if (data_done_ < data_.size()) return false;
  begin_request();
  return true;
}

void NbdConnection::begin_request() {
  state_ = State::kRequest;
  if (verdict_ != nbd::ErrorNumber::kNone) {
    return answer(request_, {encode_reply(request_, terms_->structured, verdict_), verdict_}, needed_);
  }
  spawn(serve(shared_from_this(), terms_, request_, std::move(data_)));
}

Task<void> NbdConnection::serve(std::shared_ptr<NbdConnection> self, std::shared_ptr<const NbdTerms> terms,
                                nbd::Request request, Buffer data) {
  const std::size_t held = data_of(request);
  NbdReply reply = co_await execute(std::move(terms), request, std::move(data));
  self->answer(request, std::move(reply), held);
}

// What was written is with the device; what was read is held until the client has it.
void NbdConnection::answer(const nbd::Request& request, NbdReply reply, std::size_t held) {
  shared_->count(request, reply, peer_text());
  if (stream_ == nullptr) return free({1, held});
  const bool keeps = request.command == nbd::Command::kRead;
  if (!keeps) free({0, held});
  send(std::move(reply.bytes), {1, keeps ? held : 0});
  if (!keeps) go_on();
}

void NbdConnection::say_farewell() {
  state_ = State::kEnding;
  stage_.clear();
  set_deadline(shared_->options.patience, NbdRefusal::kSlow);
  send({}, {});
}

// None: the stream itself has something to say, or is to be looked at.
void NbdConnection::send(Buffer bytes, NbdReplies::Held held) {
  if (!bytes.empty()) replies_.push(std::move(bytes), held);
  if (dirty_ || blocked_) return;
  dirty_ = true;
  shared_->flush_later(shared_from_this());
}

void NbdConnection::flush() {
  dirty_ = false;
  if (stream_ == nullptr) return;
  const auto self = shared_from_this();
  const NbdReplies::Progress progress = replies_.flush(*stream_);
  if (progress.bytes > 0) moved_ = shared_->loop.now();
  if (progress.flushed == NbdReplies::Flushed::kBroken) {
    const int error = errno;
    free(progress.freed);
    errno = error;
    return close_broken();
  }
  blocked_ = progress.flushed == NbdReplies::Flushed::kBlocked;
  free(progress.freed);
  if (state_ == State::kTls && replies_.empty()) begin_tls();
  if (state_ == State::kEnding && requests_ == 0 && replies_.empty() && !blocked_) return close("farewell");
  go_on();
}

void NbdConnection::free(const NbdReplies::Held& held) {
  assert(requests_ >= held.requests);
  requests_ -= held.requests;
  if (held.bytes > 0) shared_->budget.give_back(*this, held.bytes);
}

void NbdConnection::on_room() {
  go_on();
}

void NbdConnection::go_on() {
  const auto self = shared_from_this();
  consume();
  watch();
}

}  // namespace slice::block
