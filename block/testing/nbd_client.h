// A client of NBD over a socket of its own, driven by the same loop as the server; and devices in memory.
#ifndef SLICE_BLOCK_TESTING_NBD_CLIENT_H
#define SLICE_BLOCK_TESTING_NBD_CLIENT_H

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "block/device.h"
#include "block/nbd.h"
#include "rpc/bound_socket.h"
#include "rpc/epoll_loop.h"
#include "rpc/tls.h"

namespace slice::block::testing {

using namespace std::chrono_literals;

// Operations end at once, or where `holds` says so when they are released.
class MemoryDevice : public Device {
 public:
  explicit MemoryDevice(std::size_t size) : bytes(size) { ++alive; }
  ~MemoryDevice() override { --alive; }

  std::uint64_t size() const override { return bytes.size(); }
  Task<Status> read(std::uint64_t offset, ByteSpan into) override {
    co_await turn();
    if (failure) co_return fail(*failure, "read");
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), into.size(), into.begin());
    co_return Status();
  }
  Task<Status> write(std::uint64_t offset, Buffer data, bool durable) override {
    co_await turn();
    if (failure) co_return fail(*failure, "write");
    std::copy_n(data.data(), data.size(), bytes.begin() + static_cast<std::ptrdiff_t>(offset));
    durable_changes += durable ? 1 : 0;
    co_return Status();
  }
  Task<Status> write_zeroes(std::uint64_t offset, std::uint64_t length, bool durable, Room room) override {
    co_await turn();
    if (failure) co_return fail(*failure, "write_zeroes");
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), length, std::uint8_t{0});
    given_back += room == Room::kGivenBack ? length : 0;
    durable_changes += durable ? 1 : 0;
    co_return Status();
  }
  Task<Status> flush() override {
    co_await turn();
    if (failure) co_return fail(*failure, "flush");
    ++flushes;
    co_return Status();
  }
  bool knows_holes() const override { return !told.empty(); }
  Task<Result<std::vector<Extent>>> extents(std::uint64_t, std::uint64_t) override {
    co_await turn();
    if (failure) co_return fail(*failure, "extents");
    co_return told;
  }

  // The operation that began at this place among those that are held.
  void release(std::size_t index) {
    const OneShot<bool> one = held.at(index);
    held.erase(held.begin() + static_cast<std::ptrdiff_t>(index));
    one.set(true);
  }
  void release_all() {
    while (!held.empty()) release(0);
  }

  static inline int alive = 0;
  std::vector<std::uint8_t> bytes;
  std::vector<Extent> told;  // of its extents, whatever is asked; none: it knows no holes
  std::optional<Errc> failure;
  bool holds = false;
  std::deque<OneShot<bool>> held;
  int flushes = 0, durable_changes = 0;
  std::uint64_t given_back = 0;  // bytes

 private:
  Task<void> turn() {
    if (!holds) co_return;
    held.emplace_back();
    const OneShot<bool> own = held.back();
    (void)co_await own;
  }
};

class MemoryDevices : public Devices {
 public:
  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (const auto& [name, size] : sizes) all.push_back(name);
    return all;
  }
  Task<Result<std::shared_ptr<Device>>> open(std::string name) override {
    ++opens;
    if (holds) (void)co_await release;
    if (failure) co_return fail(*failure, "open");
    const auto found = sizes.find(name);
    if (found == sizes.end()) co_return fail(Errc::kNotFound, "no device '{}'", name);
    auto device = last[name].lock();
    if (device == nullptr) {
      device = std::make_shared<MemoryDevice>(found->second);
      last[name] = device;
    }
    co_return device;
  }

  std::map<std::string, std::size_t> sizes;  // bytes, by name
  std::map<std::string, std::weak_ptr<MemoryDevice>> last;
  std::optional<Errc> failure;
  bool holds = false;
  OneShot<bool> release;
  int opens = 0;
};

inline std::string pattern(std::size_t size, unsigned seed) {
  std::string text(size, 0);
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>((i * 7 + i / 251 + seed) & 0xff);
  return text;
}

class NbdClient {
 public:
  struct OptionAnswer {
    nbd::OptionReply type{};
    std::string data;
  };
  struct Reply {
    std::uint64_t cookie = 0;
    nbd::ErrorNumber error{};
    std::string data;
    bool structured = false;
  };

  // `reads`: what comes is taken from the socket by itself.
  NbdClient(rpc::EpollLoop& loop, rpc::Endpoint to, bool reads = true, int receive_buffer = 0)
      : NbdClient(loop, ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), reads) {
    if (receive_buffer > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    const rpc::SocketAddress at(to);
    EXPECT_EQ(::connect(fd_, at.get(), at.length()), 0);
    begin();
  }
  NbdClient(rpc::EpollLoop& loop, const std::string& path)
      : NbdClient(loop, ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), true) {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::copy(path.begin(), path.end(), at.sun_path);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
    begin();
  }
  ~NbdClient() {
    if (reads_) loop_.unwatch(fd_);
    ::close(fd_);
  }
  NbdClient(const NbdClient&) = delete;
  NbdClient& operator=(const NbdClient&) = delete;

  // False where the server has closed, or takes nothing for a while.
  bool send(ByteView bytes) {
    const auto unsaid = [&] { return !bytes.empty() || (tls_ != nullptr && tls_->has_to_say()); };
    for (int tries = 0; unsaid() && tries < 500 && !closed_;) {
      const ssize_t n = write(bytes);
      if (n < 0 && errno != EAGAIN) return false;
      if (n < 0) {
        ++tries;
        loop_.run_until([] { return false; }, 1ms);
        continue;
      }
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
    return !unsaid();
  }
  bool send(const Buffer& bytes) { return send(bytes.view()); }
  // Of what came the next bytes; fewer where no more come.
  std::string receive(std::size_t bytes) {
    loop_.run_until([&] { return in_.size() >= bytes || closed_; }, 5s);
    std::string taken = in_.substr(0, bytes);
    in_.erase(0, taken.size());
    return taken;
  }
  bool closes() {
    return loop_.run_until([this] { return closed_; }, 5s);
  }
  bool closed() const { return closed_; }
  std::size_t came() const { return in_.size(); }
  // Takes what is there now, of one that does not read by itself.
  void take() { on_readable(); }

  void greet(std::uint32_t flags = nbd::kFixedNewstyle | nbd::kNoZeroes) {
    EXPECT_EQ(receive(nbd::kGreetingSize).size(), nbd::kGreetingSize);
    Buffer out(4);
    store_be(out.data(), flags);
    send(out);
  }
  void send_option(nbd::Option option, ByteView data = {}) {
    Buffer out;
    nbd::encode(out, nbd::OptionHeader{option, static_cast<std::uint32_t>(data.size())});
    out.append(data);
    send(out);
  }
  std::vector<OptionAnswer> option(nbd::Option option, ByteView data = {}) {
    send_option(option, data);
    std::vector<OptionAnswer> all;
    while (true) {
      const auto header = nbd::decode_option_reply_header(as_bytes(receive(nbd::kOptionReplyHeaderSize)));
      if (!header) return all;
      EXPECT_EQ(header->option, option);
      all.push_back({header->type, receive(header->length)});
      if (header->type == nbd::OptionReply::kAck ||
          (static_cast<std::uint32_t>(header->type) & nbd::kErrorReplies) != 0)
        return all;
    }
  }
  // How it ended.
  nbd::OptionReply outcome(nbd::Option which, ByteView data = {}) {
    const auto all = option(which, data);
    return all.empty() ? nbd::OptionReply{} : all.back().type;
  }
  static Buffer export_request(std::string_view name, std::vector<nbd::Info> wanted = {}) {
    Buffer out;
    nbd::encode(out, nbd::ExportRequest{name, std::move(wanted)});
    return out;
  }
  nbd::OptionReply go(std::string_view name) {
    return outcome(nbd::Option::kGo, export_request(name).view());
  }
  // Greets, and has the device then.
  void open(std::string_view name, bool structured = false) {
    greet();
    if (structured) {
      EXPECT_EQ(outcome(nbd::Option::kStructuredReply), nbd::OptionReply::kAck);
    }
    EXPECT_EQ(go(name), nbd::OptionReply::kAck);
  }

  std::uint64_t request(nbd::Command command, std::uint64_t offset, std::uint32_t length, unsigned flags = 0,
                        std::string_view data = {}) {
    const std::uint64_t cookie = ++cookies_;
    if (command == nbd::Command::kRead) reading_[cookie] = length;
    Buffer out;
    nbd::encode(out, nbd::Request{.flags = static_cast<std::uint16_t>(flags),
                                  .command = command,
                                  .cookie = cookie,
                                  .offset = offset,
                                  .length = length});
    out.append(as_bytes(data));
    send(out);
    return cookie;
  }
  // The next one; nothing of it where the connection has ended, or nothing comes.
  Reply reply() {
    const std::string head = receive(nbd::kSimpleReplySize);
    if (const auto simple = nbd::decode_simple_reply(as_bytes(head))) {
      Reply reply{.cookie = simple->cookie, .error = simple->error, .data = ""};
      const auto found = reading_.find(simple->cookie);
      if (found != reading_.end() && simple->error == nbd::ErrorNumber::kNone)
        reply.data = receive(found->second);
      return reply;
    }
    const std::string whole = head + receive(nbd::kChunkHeaderSize - nbd::kSimpleReplySize);
    const auto chunk = nbd::decode_chunk_header(as_bytes(whole));
    if (!chunk) return {};
    EXPECT_EQ(chunk->flags, nbd::kDone);
    Reply reply{.cookie = chunk->cookie, .data = receive(chunk->length), .structured = true};
    if (chunk->type == nbd::ChunkType::kError) {
      const auto error = nbd::decode_error_chunk(as_bytes(reply.data));
      EXPECT_TRUE(error);
      if (error) reply.error = error->error;
    } else if (chunk->type == nbd::ChunkType::kOffsetData) {
      reply.data.erase(0, sizeof(std::uint64_t));
    }
    return reply;
  }
  Reply ask(nbd::Command command, std::uint64_t offset, std::uint32_t length, unsigned flags = 0,
            std::string_view data = {}) {
    const std::uint64_t cookie = request(command, offset, length, flags, data);
    Reply answer = reply();
    EXPECT_EQ(answer.cookie, cookie);
    return answer;
  }
  nbd::ErrorNumber write(std::uint64_t offset, std::string_view data, unsigned flags = 0) {
    return ask(nbd::Command::kWrite, offset, static_cast<std::uint32_t>(data.size()), flags, data).error;
  }

  // What was agreed upon before has to be agreed upon again.
  void begin_tls(const rpc::Tls& as) { tls_ = as.to_server(fd_, IpAddress(0x7f000001)); }

 private:
  NbdClient(rpc::EpollLoop& loop, int fd, bool reads) : loop_(loop), fd_(fd), reads_(reads) {}
  void begin() {
    ::fcntl(fd_, F_SETFL, O_NONBLOCK);
    if (reads_) loop_.watch(fd_, EPOLLIN, [this](std::uint32_t) { on_readable(); });
  }
  ssize_t write(ByteView bytes) {
    if (tls_ == nullptr) return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    const iovec one{const_cast<std::uint8_t*>(bytes.data()), bytes.size()};
    const rpc::Written written = tls_->write({&one, 1});
    if (written.plain > 0) return static_cast<ssize_t>(written.plain);
    if (written.outcome != rpc::Written::Outcome::kBroken) errno = EAGAIN;
    return -1;
  }
  void on_readable() {
    std::string bytes(256 << 10, 0);
    while (!closed_) {
      const iovec one{bytes.data(), bytes.size()};
      const ssize_t n =
          tls_ != nullptr ? tls_->read({&one, 1}) : ::recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (n < 0 && errno == EAGAIN) return;
      if (n <= 0) {
        closed_ = true;
        if (std::exchange(reads_, false)) loop_.unwatch(fd_);
        return;
      }
      in_.append(bytes, 0, static_cast<std::size_t>(n));
    }
  }

  rpc::EpollLoop& loop_;
  const int fd_;
  bool reads_;
  bool closed_ = false;
  std::string in_;
  std::uint64_t cookies_ = 0x1122334455660000;
  std::map<std::uint64_t, std::uint32_t> reading_;  // lengths, by cookie
  std::unique_ptr<rpc::TlsStream> tls_;
};

}  // namespace slice::block::testing

#endif  // SLICE_BLOCK_TESTING_NBD_CLIENT_H
