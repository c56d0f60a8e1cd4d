#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "rpc/server_internal.h"

namespace slice::rpc {
namespace {

constexpr int kReadsARound = 4;  // of one connection, so that others get their turn

}  // namespace

TcpConnection::TcpConnection(ServerShared& server, int fd, Endpoint peer)
    : server_(server),
      fd_(fd),
      peer_(peer),
      reader_(server.options.max_record, server.options.keys, server.may_be_member(peer), peer.address) {}

Admission::Member::Standing TcpConnection::standing() const {
  return {.within_record = reader_.within_record(), .unread = !queue_.empty()};
}

void TcpConnection::on_end(std::string_view why) {
  log_debug("closed the connection of {}: {}", to_string(peer_), why);
  close();
}

TcpConnection::~TcpConnection() {
  if (fd_ >= 0) ::close(fd_);
}

void TcpConnection::start() {
  reader_.trust_marks(peer());
  interest_ = EPOLLIN;
  server_.loop.watch(fd_, interest_, [this](std::uint32_t events) { on_events(events); });
}

void TcpConnection::close() {
  if (fd_ < 0) return;
  auto self = shared_from_this();  // the server's set may hold the last reference
  server_.loop.unwatch(fd_);
  ::close(std::exchange(fd_, -1));
  queue_.clear();
  held_.clear();
  held_memory_ = 0;
  reader_ = SessionReader(server_.options.max_record);
  count_memory();
  leave();
  if (server_.open) server_.closed(self);
}

void TcpConnection::on_events(std::uint32_t events) {
  auto self = shared_from_this();
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
    close();  // nothing can be answered any more
    return;
  }
  if ((events & EPOLLOUT) != 0) flush();
  if (fd_ >= 0 && (events & EPOLLIN) != 0) {
    for (int i = 0; i < kReadsARound && fd_ >= 0 && may_take() && read_some(); ++i) {
    }
    again_ = false;
  }
  if (fd_ >= 0) update_interest();
}

bool TcpConnection::read_some() {
  ByteSpan direct = reader_.direct();
  ByteSpan scratch = server_.scratch();
  scratch = scratch.first(std::min(scratch.size(), reader_.room_behind()));
  iovec into[2] = {{direct.data(), direct.size()}, {scratch.data(), scratch.size()}};
  bool has_direct = !direct.empty();
  ssize_t n = reader_.read(fd_, std::span<const iovec>(into).subspan(has_direct ? 0 : 1));
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    count_memory();
    return false;
  }
  if (n <= 0) {
    n < 0 && errno == EPROTO ? unreadable() : close();
    return false;
  }
  auto got = static_cast<std::size_t>(n);
  received(got);
  std::size_t to_direct = std::min(got, direct.size());
  if (to_direct > 0) reader_.give_direct(to_direct);
  reader_.give(scratch.first(got - to_direct));
  take_records();
  count_memory();
  return got == direct.size() + scratch.size();
}

// Everything that was read is taken out of the scratch; records over the limits wait in held_.
void TcpConnection::take_records() {
  Buffer record;
  while (fd_ >= 0 && reader_.next(record)) {
    if (!member_) greeted();
    if (held_.empty() && may_take()) {
      spawn(serve(shared_from_this(), server_.shared_from_this(), std::move(record)));
    } else {
      held_memory_ += memory_of(record) + sizeof record;
      held_.push_back(std::move(record));
    }
  }
  if (fd_ >= 0 && has_session() && reader_.session()->has_to_say()) flush();
  if (fd_ >= 0 && reader_.broken()) unreadable();
}

void TcpConnection::unreadable() {
  Session* session = reader_.session();
  if (!reader_.refusal().empty()) {
    server_.sessions_refused.add();
    server_.refusals.note(Refused::kSession, peer_, "a session: {}{}", reader_.over_tls() ? "TLS: " : "",
                          reader_.refusal());
  } else if (session != nullptr && session->state() == Session::State::kUnknownKey) {
    server_.sessions_refused.add();
    server_.refusals.note(Refused::kSession, peer_, "a session under a key that is not this host's");
  } else if (session != nullptr && session->over()) {
    server_.sessions_forged.add();
    server_.refusals.note(Refused::kForged, peer_, "to go on with its session");
  } else {
    server_.connections_broken.add();
    if (server_.log_limits.allow(ServerLine::kRecordTooLong)) {
      log_warning("closed a connection: a record over {} bytes from={}", server_.options.max_record,
                  to_string(peer_));
    }
  }
  close();
}

bool TcpConnection::key_is_valid() {
  return has_session() && reader_.session()->key_is_valid();
}

// What the reader, the queue and the held records have: counted where it changes.
void TcpConnection::count_memory() {
  std::size_t now = reader_.memory() + queue_.memory() + held_memory_;
  std::size_t before = std::exchange(counted_, now);
  if (now > before) hold(now - before);
  if (now < before) release(before - now);
}

Task<void> TcpConnection::serve(std::shared_ptr<TcpConnection> self, std::shared_ptr<ServerShared> server,
                                Buffer record) {
  std::size_t memory = memory_of(record) + kCallMemory;
  self->call_begins();
  self->hold(memory);
  std::optional<Buffer> reply = co_await server->dispatcher.dispatch(std::move(record), self->peer_,
                                                                     kRecordMark, {.member = self->member_});
  self->call_ends();
  self->release(memory);
  if (reply) self->send(std::move(*reply));
}

// A record came. Over a session it is from somebody who has the key, and means what it declares.
void TcpConnection::greeted() {
  if (!has_session()) return;
  member_ = true;
  server_.sessions_total.add();
  sealed_call_came();
  reader_.trust_marks(true);
}

void TcpConnection::send(Buffer reply) {
  if (fd_ < 0) return;
  mark_record(reply);
  queue_.push(std::move(reply));
  count_memory();
  if (dirty_ || blocked_) return;
  dirty_ = true;
  server_.flush_later(shared_from_this());
}

void TcpConnection::flush() {
  dirty_ = false;
  if (fd_ < 0) return;
  std::size_t before = queue_.bytes();
  SendQueue::Flush result = queue_.flush(fd_, reader_.session());
  sent(before - queue_.bytes());
  count_memory();
  if (result == SendQueue::Flush::kBroken) {
    close();
    return;
  }
  blocked_ = result == SendQueue::Flush::kBlocked;
  update_interest();
}

void TcpConnection::resume() {
  if (fd_ < 0 || resuming_) return;  // a call that ends at once comes back here
  resuming_ = true;
  auto self = shared_from_this();
  while (fd_ >= 0 && !held_.empty() && may_take()) {
    Buffer record = std::move(held_.front());
    held_.pop_front();
    held_memory_ -= memory_of(record) + sizeof record;
    count_memory();
    spawn(serve(self, server_.shared_from_this(), std::move(record)));
  }
  resuming_ = false;
  if (fd_ >= 0) update_interest();
}

void TcpConnection::update_interest() {
  bool take = held_.empty() && may_take();
  if (!take) wait();
  if (take && reader_.pending() && !std::exchange(again_, true)) {
    server_.loop.post([weak = weak_from_this()] {
      if (auto self = weak.lock(); self && self->fd_ >= 0) self->on_events(EPOLLIN);
    });
  }
  std::uint32_t wanted = (take ? EPOLLIN : 0u) | (blocked_ ? EPOLLOUT : 0u);
  if (wanted == interest_) return;
  interest_ = wanted;
  server_.loop.change(fd_, interest_);
}

}  // namespace slice::rpc
