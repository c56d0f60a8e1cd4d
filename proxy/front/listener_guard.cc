#include "proxy/front/listener_guard.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <utility>

#include "common/log.h"
#include "common/rights.h"

namespace slice::proxy {
namespace {

constexpr const char* kGuardArgument = "--guard-listeners";
constexpr int kChannel = 3;                    // where the guard finds its first proxy
constexpr std::size_t kSocketsAMessage = 250;  // SCM_MAX_FD is 253
constexpr int kPatienceMs = 1000;
constexpr std::size_t kMaxWaiting = 8;
constexpr auto kAfterStop = std::chrono::seconds(3);  // a clean stop may be a restart

struct UnixName {
  sockaddr_un address{};
  socklen_t size = 0;
};

UnixName guard_name(rpc::Endpoint at) {
  UnixName name;
  name.address.sun_family = AF_UNIX;
  std::string text = "slice-proxyd " + rpc::to_string(at);
  std::memcpy(name.address.sun_path + 1, text.data(), text.size());  // a zero first: abstract
  name.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return name;
}

// Anybody may take an abstract name, or connect to it.
bool is_ours(int channel) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(channel, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == 0 || peer.uid == ::geteuid();
}

bool send_message(int channel, GuardWord word, std::span<const int> sockets) {
  auto byte = static_cast<std::uint8_t>(word);
  iovec piece{&byte, 1};
  alignas(cmsghdr) std::array<std::uint8_t, CMSG_SPACE(kSocketsAMessage * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (!sockets.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(sockets.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sockets.size_bytes());
    std::memcpy(CMSG_DATA(header), sockets.data(), sockets.size_bytes());
  }
  ssize_t sent = 0;
  do sent = ::sendmsg(channel, &message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent == 1;
}

void take_descriptors(msghdr& message, std::vector<int>& into) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    std::size_t before = into.size();
    into.resize(before + count);
    std::memcpy(into.data() + before, CMSG_DATA(c), count * sizeof(int));
  }
}

// Nothing at the end, and where the message makes no sense.
std::optional<GuardWord> receive_message(int channel, std::vector<int>& sockets) {
  std::uint8_t byte = 0;
  iovec piece{&byte, 1};
  alignas(cmsghdr) std::array<std::uint8_t, CMSG_SPACE(kSocketsAMessage * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got = 0;
  do got = ::recvmsg(channel, &message, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got < 0) return std::nullopt;
  take_descriptors(message, sockets);
  if (got != 1 || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) return std::nullopt;
  auto word = static_cast<GuardWord>(byte);
  if (word != GuardWord::kMore && word != GuardWord::kLast && word != GuardWord::kEnd) return std::nullopt;
  return word;
}

// The guard's process: one thread that waits in poll().
class Guard {
 public:
  Guard(rpc::Endpoint at, std::chrono::milliseconds keep) : at_(at), keep_(keep) {}
  int run();

 private:
  bool listen();
  void wait();
  void take_newcomer();
  void hear_holder();
  void lose_holder(std::chrono::milliseconds keep);
  void next_holder();

  const rpc::Endpoint at_;
  const std::chrono::milliseconds keep_;
  int name_ = -1;
  int holder_ = kChannel;  // the channel to the proxy that serves; -1: it is gone
  bool hears_holder_ = false, hears_newcomer_ = false;
  std::deque<int> newcomers_;  // proxies that have been started meanwhile
  std::vector<int> kept_;
  std::chrono::steady_clock::time_point alone_until_;
};

bool Guard::listen() {
  name_ = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  UnixName name = guard_name(at_);
  return name_ >= 0 && ::bind(name_, reinterpret_cast<sockaddr*>(&name.address), name.size) == 0 &&
         ::listen(name_, static_cast<int>(kMaxWaiting)) == 0;
}

void Guard::wait() {
  std::array<pollfd, 2> fds{pollfd{name_, POLLIN, 0}, pollfd{holder_, POLLIN, 0}};
  int limit = -1;
  if (holder_ < 0) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(alone_until_ -
                                                                      std::chrono::steady_clock::now());
    limit = static_cast<int>(std::max<std::int64_t>(0, left.count() + 1));
  }
  bool any = ::poll(fds.data(), holder_ < 0 ? 1 : 2, limit) > 0;
  hears_newcomer_ = any && fds[0].revents != 0;
  hears_holder_ = any && holder_ >= 0 && fds[1].revents != 0;
}

void Guard::take_newcomer() {
  int channel = ::accept4(name_, nullptr, nullptr, SOCK_CLOEXEC);
  if (channel < 0) return;
  if (!is_ours(channel) || newcomers_.size() >= kMaxWaiting) {
    log_warning("refused a connection of another user, or one too many");
    ::close(channel);
    return;
  }
  limit_waiting(channel, kPatienceMs);
  newcomers_.push_back(channel);
}

void Guard::hear_holder() {
  auto told = receive_sockets(holder_);
  if (!told) return lose_holder(keep_);
  if (told->word == GuardWord::kEnd)
    return lose_holder(std::min<std::chrono::milliseconds>(keep_, kAfterStop));
  close_all(kept_);
  kept_ = std::move(told->sockets);
}

void Guard::lose_holder(std::chrono::milliseconds keep) {
  ::close(holder_);
  holder_ = -1;
  alone_until_ = std::chrono::steady_clock::now() + keep;
  log_info("the proxy is gone: sockets={} are kept for {} ms", kept_.size(), keep.count());
}

// One that has given up waiting is noticed by its channel's end.
void Guard::next_holder() {
  while (holder_ < 0 && !newcomers_.empty()) {
    holder_ = newcomers_.front();
    newcomers_.pop_front();
    if (!send_sockets(holder_, kept_)) ::close(std::exchange(holder_, -1));
  }
}

int Guard::run() {
  if (!listen()) {
    log_warning("no guard of listening sockets: {}", std::strerror(errno));
    return 1;
  }
  limit_waiting(holder_, kPatienceMs);
  while (true) {
    wait();
    // First: who was killed and is back at once must not find itself in its own way.
    if (hears_holder_) hear_holder();
    if (hears_newcomer_) take_newcomer();
    next_holder();
    if (holder_ < 0 && std::chrono::steady_clock::now() >= alone_until_) break;
  }
  log_info("no proxy has come for the listening sockets of {}: closed", rpc::to_string(at_));
  return 0;
}

}  // namespace

bool send_sockets(int channel, std::span<const int> sockets) {
  while (sockets.size() > kSocketsAMessage) {
    if (!send_message(channel, GuardWord::kMore, sockets.first(kSocketsAMessage))) return false;
    sockets = sockets.subspan(kSocketsAMessage);
  }
  return send_message(channel, GuardWord::kLast, sockets);
}

bool send_end(int channel) {
  return send_message(channel, GuardWord::kEnd, {});
}

std::optional<GuardMessage> receive_sockets(int channel) {
  GuardMessage told;
  std::optional<GuardWord> word;
  do word = receive_message(channel, told.sockets);
  while (word == GuardWord::kMore);
  if (!word || *word == GuardWord::kEnd) close_all(told.sockets);
  if (!word) return std::nullopt;
  told.word = *word;
  return told;
}

void limit_waiting(int channel, int milliseconds) {
  timeval time{.tv_sec = milliseconds / 1000, .tv_usec = milliseconds % 1000 * 1000};
  ::setsockopt(channel, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
  ::setsockopt(channel, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
}

void close_all(std::vector<int>& sockets) {
  for (int fd : sockets) ::close(fd);
  sockets.clear();
}

int connect_to_guard(rpc::Endpoint at) {
  int channel = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (channel < 0) return -1;
  UnixName name = guard_name(at);
  if (::connect(channel, reinterpret_cast<sockaddr*>(&name.address), name.size) == 0) {
    if (is_ours(channel)) return channel;
    log_warning("another user has the name of the guard of {}", rpc::to_string(at));
  }
  ::close(channel);
  return -1;
}

int start_guard(rpc::Endpoint at, int keep_milliseconds, int& pid) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return -1;
  // At its place already it would keep its close-on-exec flag.
  int far = ::fcntl(ends[1], F_DUPFD_CLOEXEC, kChannel + 1);
  ::close(ends[1]);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, far, kChannel);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
  std::string program = "slice-proxyd", argument = kGuardArgument, endpoint = rpc::to_string(at),
              keep = std::to_string(keep_milliseconds);
  std::array<char*, 5> words{program.data(), argument.data(), endpoint.data(), keep.data(), nullptr};
  int error = ::posix_spawn(&pid, "/proc/self/exe", &files, &attributes, words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  ::close(far);
  if (error == 0) return ends[0];
  ::close(ends[0]);
  errno = error;
  return -1;
}

std::optional<int> run_guard(int argc, char** argv) {
  if (argc != 4 || std::strcmp(argv[1], kGuardArgument) != 0) return std::nullopt;
  auto at = rpc::parse_endpoint(argv[2]);
  unsigned keep = 0;
  const char* end = argv[3] + std::strlen(argv[3]);
  if (!at || std::from_chars(argv[3], end, keep).ptr != end) return 2;
  // Whatever was open where it was started: a lock that it held would keep the next process out.
  ::close_range(kChannel + 1, ~0u, 0);
  configure_log("guard of " + rpc::to_string(*at), LogLevel::kInfo);
  ::prctl(PR_SET_NAME, "slice-guard", 0, 0, 0);
  std::signal(SIGINT, SIG_IGN);
  keep_capabilities({});  // its work needs none, and it lives long
  return Guard(*at, std::chrono::milliseconds(keep)).run();
}

}  // namespace slice::proxy
