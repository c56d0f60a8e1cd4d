#include "tests/sim/streams.h"

#include <algorithm>
#include <cerrno>
#include <deque>

#include "rpc/call.h"

namespace slice::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kWindow = 192 << 10;  // bytes that an end takes before they are read
constexpr std::size_t kMaxRecord = (1 << 20) + 8192;
constexpr Duration kSynAgain = 1s, kRetransmission = 200ms;
constexpr Duration kReconnect = 100ms;

void tamper_behind_mark(const SimNetwork& network, rpc::Endpoint from, rpc::Endpoint to, Buffer& record) {
  Buffer message(record.view().subspan(rpc::kRecordMark));
  network.tamper(from, to, message);
  std::copy_n(message.data(), message.size(), record.data() + rpc::kRecordMark);
}

}  // namespace

// One of the two ends: `side` is 0 for who connected. What belongs to both is in Connection.
struct SimStreams::Connection {
  struct Side {
    rpc::Endpoint at;
    ProcessLoop* loop = nullptr;
    proxy::Stream::Handler handler;
    std::uint32_t wanted = 0;
    bool poked = false;
    bool closed = false;  // by its owner
    bool dead = false;    // its process is
    bool eof = false;     // the other end has closed
    int error = 0;
    std::deque<std::uint8_t> inbox;
    std::size_t under_way = 0;                  // bytes to it that are not read
    std::deque<std::optional<Buffer>> to_come;  // to it: bytes, or the end; in order
    bool full = false;                          // the other end waits for room here
  };
  std::uint64_t number = 0;
  bool up = false;
  bool breaking = false;  // nothing that is written now comes through any more
  std::array<Side, 2> side;
};

class SimStreams::End : public proxy::Stream {
 public:
  End(SimStreams& streams, std::shared_ptr<Connection> connection, int side)
      : streams_(streams), connection_(std::move(connection)), side_(side) {}
  ~End() override { streams_.close(connection_, side_); }

  void watch(std::uint32_t wanted, Handler ready) override {
    self().handler = std::move(ready);
    change(wanted);
  }
  void change(std::uint32_t wanted) override {
    self().wanted = wanted;
    streams_.poke(connection_, side_);
  }
  int connect_error() override { return self().error; }
  ssize_t read(ByteSpan into) override { return streams_.read(connection_, side_, into); }
  rpc::Written write(std::span<const iovec> bytes) override {
    return streams_.write(connection_, side_, bytes);
  }

 private:
  Connection::Side& self() { return connection_->side[static_cast<std::size_t>(side_)]; }

  SimStreams& streams_;
  std::shared_ptr<Connection> connection_;
  const int side_;
};

Duration SimStreams::delay() {
  return random_.between(20us, random_.chance(0.9) ? 300us : 5ms);
}

// Now and then as few as one.
std::size_t SimStreams::cut(std::size_t bytes) {
  if (faults_.most_cut == 0 || bytes < 2 || random_.chance(0.7)) return bytes;
  return 1 + random_.below(std::min(bytes, faults_.most_cut));
}

void SimStreams::listen(rpc::Endpoint at, ProcessLoop& loop, Accept accept) {
  listeners_[at] = {.loop = &loop, .accept = std::move(accept), .host_is_gone = false};
}

std::unique_ptr<proxy::Stream> SimStreams::connect(ProcessLoop& loop, rpc::Endpoint from, rpc::Endpoint to) {
  auto connection = std::make_shared<Connection>();
  connection->number = ++connections_;
  connection->side[0].at = from;
  connection->side[0].loop = &loop;
  connection->side[1].at = to;
  std::erase_if(open_, [](const auto& each) { return each.expired(); });
  open_.push_back(connection);
  loop_.after(delay(), [this, connection] { try_to_connect(connection); });
  return std::make_unique<End>(*this, connection, 0);
}

void SimStreams::try_to_connect(const std::shared_ptr<Connection>& connection) {
  auto& [client, server] = connection->side;
  if (client.closed || client.dead) return;
  Listener& listener = listeners_[server.at];
  if (listener.host_is_gone || !network_.reachable(client.at, server.at)) {
    loop_.after(kSynAgain, [this, connection] { try_to_connect(connection); });
  } else if (listener.loop == nullptr) {
    break_later(connection, 0, ECONNREFUSED);
  } else {
    established(connection, listener);
  }
}

void SimStreams::established(const std::shared_ptr<Connection>& connection, Listener& listener) {
  auto& [client, server] = connection->side;
  trace_.note("stream {}: {} -> {}", connection->number, to_string(client.at), to_string(server.at));
  server.loop = listener.loop;
  connection->up = true;
  auto end = std::make_shared<std::unique_ptr<proxy::Stream>>(std::make_unique<End>(*this, connection, 1));
  listener.loop->post([accept = listener.accept, end, peer = client.at] { accept(std::move(*end), peer); });
  loop_.after(delay(), [this, connection] { poke(connection, 0); });
}

void SimStreams::die(const ProcessLoop& loop, bool silent) {
  for (auto& [at, listener] : listeners_) {
    if (listener.loop == &loop) listener = {.loop = nullptr, .accept = nullptr, .host_is_gone = silent};
  }
  for (const auto& weak : open_) {
    auto connection = weak.lock();
    if (connection == nullptr) continue;
    for (int side : {0, 1}) {
      Connection::Side& self = connection->side[static_cast<std::size_t>(side)];
      if (self.loop != &loop || self.dead) continue;
      self.dead = true;
      if (!silent) break_later(connection, 1 - side, ECONNRESET);
    }
  }
}

std::uint32_t SimStreams::ready(const Connection& connection, int side) const {
  const Connection::Side& self = connection.side[static_cast<std::size_t>(side)];
  const Connection::Side& other = connection.side[static_cast<std::size_t>(1 - side)];
  std::uint32_t bits = 0;
  if (self.error != 0) bits |= proxy::Stream::kReadable | proxy::Stream::kWritable | EPOLLERR;
  if (!connection.up) return self.error != 0 ? bits & (self.wanted | proxy::Stream::kEnded) : 0;
  if (!self.inbox.empty() || self.eof) bits |= proxy::Stream::kReadable;
  if (other.under_way < kWindow) bits |= proxy::Stream::kWritable;
  return bits & (self.wanted | proxy::Stream::kEnded);
}

// Tells an end what it is ready for, as long as it is.
void SimStreams::poke(const std::shared_ptr<Connection>& connection, int side) {
  Connection::Side& self = connection->side[static_cast<std::size_t>(side)];
  if (self.poked || self.closed || self.dead || self.loop == nullptr || !self.handler) return;
  if (ready(*connection, side) == 0) return;
  self.poked = true;
  self.loop->after(1us, [this, connection, side] {
    Connection::Side& now = connection->side[static_cast<std::size_t>(side)];
    now.poked = false;
    std::uint32_t bits = ready(*connection, side);
    if (now.closed || bits == 0) return;
    proxy::Stream::Handler handler = now.handler;  // which may destroy the stream
    handler(bits);
    poke(connection, side);
  });
}

void SimStreams::break_later(const std::shared_ptr<Connection>& connection, int side, int error) {
  loop_.after(delay(), [this, connection, side, error] {
    Connection::Side& self = connection->side[static_cast<std::size_t>(side)];
    const Connection::Side& other = connection->side[static_cast<std::size_t>(1 - side)];
    if (self.closed || self.dead || self.error != 0) return;
    if (!network_.reachable(self.at, other.at)) {
      loop_.after(kRetransmission, [this, connection, side, error] { break_later(connection, side, error); });
      return;
    }
    trace_.note("stream {}: broken for {}", connection->number, to_string(self.at));
    self.error = error;
    self.inbox.clear();
    self.to_come.clear();
    poke(connection, side);
  });
}

void SimStreams::break_off(const std::shared_ptr<Connection>& connection) {
  connection->breaking = true;
  break_later(connection, 0, ECONNRESET);
  break_later(connection, 1, ECONNRESET);
}

rpc::Written SimStreams::write(const std::shared_ptr<Connection>& connection, int side,
                               std::span<const iovec> bytes) {
  using Outcome = rpc::Written::Outcome;
  Connection::Side& self = connection->side[static_cast<std::size_t>(side)];
  Connection::Side& other = connection->side[static_cast<std::size_t>(1 - side)];
  rpc::Written done;
  if (self.error != 0 || self.dead) {
    errno = self.error != 0 ? self.error : EPIPE;
    done.outcome = Outcome::kBroken;
    return done;
  }
  std::size_t total = 0;
  for (const iovec& each : bytes) total += each.iov_len;
  std::size_t room = other.under_way < kWindow ? kWindow - other.under_way : 0;
  std::size_t n = std::min(cut(total), room);
  Buffer copy;
  for (const iovec& each : bytes) {
    std::size_t some = std::min(each.iov_len, n - copy.size());
    copy.append({static_cast<const std::uint8_t*>(each.iov_base), some});
  }
  done.plain = n;
  done.outcome = n < total ? Outcome::kBlocked : Outcome::kAll;
  if (n == 0) return done;
  if (connection->breaking) return done;
  other.under_way += n;
  if (random_.chance(faults_.breaks)) {
    copy.resize(random_.below(n + 1));
    send(connection, side, std::move(copy));
    break_off(connection);
    return done;
  }
  send(connection, side, std::move(copy));
  return done;
}

void SimStreams::send(const std::shared_ptr<Connection>& connection, int side, std::optional<Buffer> bytes) {
  connection->side[static_cast<std::size_t>(1 - side)].to_come.push_back(std::move(bytes));
  loop_.after(delay(), [this, connection, side] { deliver(connection, side); });
}

// The first of what is on its way from `side`.
void SimStreams::deliver(const std::shared_ptr<Connection>& connection, int side) {
  Connection::Side& from = connection->side[static_cast<std::size_t>(side)];
  Connection::Side& to = connection->side[static_cast<std::size_t>(1 - side)];
  if (to.to_come.empty() || to.error != 0) return;
  bool gone = to.dead && listeners_[to.at].host_is_gone;
  if (gone || !network_.reachable(from.at, to.at)) {
    if (!from.closed && !from.dead)
      loop_.after(kRetransmission, [this, connection, side] { deliver(connection, side); });
    return;
  }
  std::optional<Buffer> bytes = std::move(to.to_come.front());
  to.to_come.pop_front();
  if (to.dead || to.closed) {
    if (bytes) break_later(connection, side, ECONNRESET);
    return;
  }
  if (bytes) {
    to.inbox.insert(to.inbox.end(), bytes->data(), bytes->data() + bytes->size());
  } else {
    to.eof = true;
  }
  poke(connection, 1 - side);
}

ssize_t SimStreams::read(const std::shared_ptr<Connection>& connection, int side, ByteSpan into) {
  Connection::Side& self = connection->side[static_cast<std::size_t>(side)];
  if (self.inbox.empty()) {
    if (self.error == 0 && self.eof) return 0;
    errno = self.error != 0 ? self.error : EAGAIN;
    return -1;
  }
  std::size_t n = cut(std::min(into.size(), self.inbox.size()));
  std::copy_n(self.inbox.begin(), n, into.begin());
  self.inbox.erase(self.inbox.begin(), self.inbox.begin() + static_cast<std::ptrdiff_t>(n));
  self.under_way -= std::min(n, self.under_way);
  loop_.after(delay(), [this, connection, side] { poke(connection, 1 - side); });  // there is room
  return static_cast<ssize_t>(n);
}

void SimStreams::close(const std::shared_ptr<Connection>& connection, int side) {
  Connection::Side& self = connection->side[static_cast<std::size_t>(side)];
  if (std::exchange(self.closed, true) || self.dead) return;
  self.handler = nullptr;
  if (!connection->up || self.error != 0) return;
  if (!self.inbox.empty()) return break_later(connection, 1 - side, ECONNRESET);
  send(connection, side, std::nullopt);
}

// ---- servers ----

struct StreamServer::Client {
  std::unique_ptr<proxy::Stream> stream;
  rpc::Endpoint peer;
  rpc::RecordReader reader{kMaxRecord};
  Buffer out;
  std::size_t written = 0;

  void flush() {
    if (stream == nullptr) return;
    while (written < out.size()) {
      const iovec rest{out.data() + written, out.size() - written};
      rpc::Written done = stream->write({&rest, 1});
      written += done.plain;
      if (done.outcome == rpc::Written::Outcome::kBroken) return stream.reset();
      if (done.outcome != rpc::Written::Outcome::kAll) break;
    }
    bool blocked = written < out.size();
    if (!blocked) {
      out = Buffer();
      written = 0;
    }
    stream->change(proxy::Stream::kReadable | (blocked ? proxy::Stream::kWritable : 0u));
  }
};

void StreamServer::take(std::unique_ptr<proxy::Stream> connection, rpc::Endpoint peer) {
  auto client = std::make_shared<Client>();
  client->stream = std::move(connection);
  client->peer = peer;
  client->stream->watch(proxy::Stream::kReadable,
                        [this, client](std::uint32_t ready) { serve(*this, client, ready); });
}

void StreamServer::serve(StreamServer& self, const std::shared_ptr<Client>& client, std::uint32_t ready) {
  if ((ready & proxy::Stream::kWritable) != 0) client->flush();
  std::uint8_t bytes[16384];
  while (client->stream != nullptr && self.loop_.alive()) {
    ssize_t n = client->stream->read(bytes);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) return client->stream.reset();
    client->reader.give({bytes, static_cast<std::size_t>(n)});
    Buffer record;
    while (self.loop_.alive() && client->reader.next(record)) {
      self.network_.tamper(client->peer, self.self_, record);
      spawn(answer(self, client, std::move(record)));
    }
    if (client->reader.broken()) return client->stream.reset();
  }
}

Task<void> StreamServer::answer(StreamServer& self, std::shared_ptr<Client> client, Buffer record) {
  auto reply = co_await self.dispatcher_.dispatch(std::move(record), client->peer, rpc::kRecordMark,
                                                  {.member = self.network_.is_member(client->peer)});
  if (!reply || client->stream == nullptr || !self.loop_.alive()) co_return;
  tamper_behind_mark(self.network_, self.self_, client->peer, *reply);
  rpc::mark_record(*reply);
  client->out.append(reply->view());
  client->flush();
}

// ---- clients ----

StreamChannel::StreamChannel(ProcessLoop& loop, SimStreams& streams, SimNetwork& network, rpc::Endpoint self,
                             std::uint32_t first_xid, std::function<rpc::Endpoint()> target)
    : loop_(loop),
      streams_(streams),
      network_(network),
      self_(self),
      next_xid_(first_xid),
      target_(std::move(target)),
      reader_(kMaxRecord) {}

StreamChannel::~StreamChannel() = default;

void StreamChannel::connect() {
  if (stream_ != nullptr || retrying_) return;
  peer_ = target_();
  ++connections_;
  reader_ = rpc::RecordReader(kMaxRecord);
  out_ = Buffer();
  written_ = 0;
  up_ = false;
  stream_ = streams_.connect(loop_, self_, peer_);
  stream_->watch(proxy::Stream::kWritable, [this](std::uint32_t ready) { on_ready(ready); });
}

void StreamChannel::on_broken() {
  stream_.reset();
  up_ = false;
  retrying_ = true;
  loop_.after(kReconnect, [this] {
    retrying_ = false;
    if (!pending_.empty()) connect();
  });
}

void StreamChannel::on_ready(std::uint32_t ready) {
  if (!up_) {
    if (stream_->connect_error() != 0) return on_broken();
    up_ = true;
    for (const auto& [xid, pending] : pending_) send(pending);
    return flush();
  }
  if ((ready & proxy::Stream::kWritable) != 0) flush();
  if (stream_ != nullptr && (ready & (proxy::Stream::kReadable | proxy::Stream::kEnded)) != 0) read();
}

void StreamChannel::send(const Pending& pending) {
  out_.append(pending.record.view());
}

void StreamChannel::flush() {
  while (written_ < out_.size()) {
    const iovec rest{out_.data() + written_, out_.size() - written_};
    rpc::Written done = stream_->write({&rest, 1});
    written_ += done.plain;
    if (done.outcome == rpc::Written::Outcome::kBroken) return on_broken();
    if (done.outcome != rpc::Written::Outcome::kAll) break;
  }
  bool blocked = written_ < out_.size();
  if (!blocked) {
    out_ = Buffer();
    written_ = 0;
  }
  stream_->change(proxy::Stream::kReadable | (blocked ? proxy::Stream::kWritable : 0u));
}

void StreamChannel::read() {
  std::uint8_t bytes[16384];
  while (stream_ != nullptr) {
    ssize_t n = stream_->read(bytes);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) return on_broken();
    heard_at_ = loop_.now();
    reader_.give({bytes, static_cast<std::size_t>(n)});
    Buffer record;
    while (reader_.next(record)) {
      network_.tamper(peer_, self_, record);
      if (record.size() < 4) continue;
      auto found = pending_.find(load_be<std::uint32_t>(record.data()));
      if (found == pending_.end()) continue;
      auto answer = found->second.answer;
      pending_.erase(found);
      answer.set(std::move(record));
    }
    if (reader_.broken()) return on_broken();
  }
}

// A connection that says nothing for long while answers are due is given up, as kernel clients do (RPC's
// major time-out and TCP keepalives together).
Task<Result<rpc::Response>> StreamChannel::call(rpc::Request request) {
  constexpr Duration kMute = 10s;
  std::uint32_t xid = next_xid_++;
  Buffer record = rpc::encode_request(request, Xid{xid}, rpc::Caller{}, rpc::kRecordMark);
  tamper_behind_mark(network_, self_, peer_, record);
  rpc::mark_record(record);
  Pending& pending = pending_[xid];
  pending.record = std::move(record);
  OneShot<std::optional<Buffer>> answer = pending.answer;
  MonoTime deadline = loop_.now() + request.timeout;
  if (up_) {
    send(pending);
    flush();
  }
  connect();
  std::optional<Buffer> reply;
  while (loop_.now() < deadline) {
    MonoTime asked = loop_.now();
    TimerId timer = loop_.at(std::min(deadline, asked + kMute), [answer] { answer.set(std::nullopt); });
    reply = co_await answer;
    loop_.cancel(timer);
    if (reply) co_return rpc::open_response(std::move(*reply), 0);
    if (stream_ != nullptr && heard_at_ <= asked && loop_.now() - asked >= kMute) on_broken();
    auto found = pending_.find(xid);
    if (found == pending_.end()) break;
    found->second.answer = answer = {};
  }
  pending_.erase(xid);
  co_return fail(Errc::kTimedOut, "no answer from {}", to_string(peer_));
}

}  // namespace slice::sim
