#include "tests/cluster/client/nfs_connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>
#include <utility>

namespace slice::client {

namespace {

constexpr std::size_t kReceiveChunk = 256 * 1024;
constexpr double kReconnectPause = 0.1;  // seconds
constexpr std::uint32_t kLastFragment = 0x80000000;

void put_word(std::string& to, std::uint32_t value) {
  const std::uint32_t wire = htonl(value);
  to.append(reinterpret_cast<const char*>(&wire), sizeof wire);
}

std::uint32_t word_at(std::string_view from, std::size_t offset) {
  std::uint32_t wire = 0;
  std::memcpy(&wire, from.data() + offset, sizeof wire);
  return ntohl(wire);
}

// The call header of RFC 5531 with an AUTH_SYS credential.
void put_header(std::string& to, std::uint32_t xid, std::uint32_t program, std::uint32_t version,
                std::uint32_t procedure, const Credential& who) {
  static constexpr std::string_view kMachine = "test";
  for (std::uint32_t word : {xid, 0U, 2U, program, version, procedure, 1U}) put_word(to, word);
  put_word(to, static_cast<std::uint32_t>(4 + 4 + kMachine.size() + 4 * (3 + who.groups.size())));
  put_word(to, 0);  // stamp
  put_word(to, kMachine.size());
  to.append(kMachine);
  put_word(to, who.user);
  put_word(to, who.group);
  put_word(to, static_cast<std::uint32_t>(who.groups.size()));
  for (std::uint32_t group : who.groups) put_word(to, group);
  put_word(to, 0);  // verifier AUTH_NONE
  put_word(to, 0);
}

// The offset of the results in a reply, or an error.
std::size_t results_of(std::string_view reply, std::string& error) {
  if (reply.size() < 24 || word_at(reply, 4) != 1) {
    error = "a record that is no reply";
  } else if (word_at(reply, 8) != 0) {
    error =
        "RPC denied with " + std::to_string(word_at(reply, 12)) + "/" + std::to_string(word_at(reply, 16));
  } else {
    const std::size_t verifier = (word_at(reply, 16) + 3) & ~3U;
    if (reply.size() < 24 + verifier) {
      error = "a truncated reply";
    } else if (word_at(reply, 20 + verifier) != 0) {
      error = "RPC accepted with status " + std::to_string(word_at(reply, 20 + verifier));
    }
    return 24 + verifier;
  }
  return 0;
}

// Of a server, from its numeric address of either family.
class ServerAddress {
 public:
  ServerAddress(const std::string& host, std::uint16_t port) {
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found_) != 0) {
      throw RpcError("not a numeric address: " + host);
    }
  }
  ~ServerAddress() { freeaddrinfo(found_); }
  ServerAddress(const ServerAddress&) = delete;
  ServerAddress& operator=(const ServerAddress&) = delete;
  const addrinfo* operator->() const { return found_; }

 private:
  addrinfo* found_ = nullptr;
};

// The library's bindresvport() knows IPv4 alone.
void bind_reserved_port(int socket, int family) {
  if (family == AF_INET) {
    bindresvport(socket, nullptr);
    return;
  }
  constexpr unsigned kFirst = 600, kPorts = 424;
  const unsigned start = std::random_device{}();
  for (unsigned i = 0; i < kPorts; ++i) {
    sockaddr_in6 own{};
    own.sin6_family = AF_INET6;
    own.sin6_port = htons(static_cast<std::uint16_t>(kFirst + (start + i) % kPorts));
    if (bind(socket, reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0 || errno != EADDRINUSE) return;
  }
}

}  // namespace

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

NfsConnection::NfsConnection(ConnectionOptions options)
    : options_(std::move(options)), last_xid_(std::random_device{}() & 0x7fffffff), received_(kReceiveChunk) {
  open_socket();
}

NfsConnection::~NfsConnection() {
  if (socket_ >= 0) close(socket_);
}

void NfsConnection::open_socket() {
  const bool tcp = options_.transport == Transport::kTcp;
  const ServerAddress address(options_.server, options_.port);
  socket_ = socket(address->ai_family, (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket_ < 0) throw RpcError("no socket");
  const int one = 1, room = 4 << 20;
  if (tcp) {
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  } else {
    setsockopt(socket_, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
    setsockopt(socket_, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
  }
  // As kernels do: "secure" exports take no other ports. Where there is none, any will do.
  if (geteuid() == 0) bind_reserved_port(socket_, address->ai_family);
  connected_ = !tcp;
  if (connect(socket_, address->ai_addr, address->ai_addrlen) != 0 && errno != EINPROGRESS) {
    lose_connection();
  }
  heard_at_ = now();
}

// TCP: closes, forgets what was half sent or received, and has everything pending sent again on the next
// connection.
void NfsConnection::lose_connection() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
  connected_ = false;
  connect_at_ = now() + kReconnectPause;
  ++counters_.reconnects;
  in_.clear();
  taken_ = 0;
  fragments_.clear();
  out_.clear();
  sent_ = 0;
  for (const auto& [xid, call] : pending_) out_ += call.record;
  counters_.resent += pending_.size();
}

void NfsConnection::call_raw(std::uint32_t program, std::uint32_t version, std::uint32_t procedure,
                             std::string_view arguments, RawDone done, std::uint32_t xid) {
  if (xid == 0) xid = next_xid();
  Pending call;
  const bool tcp = options_.transport == Transport::kTcp;
  call.record.reserve(arguments.size() + 128);
  if (tcp) put_word(call.record, 0);
  put_header(call.record, xid, program, version, procedure, options_.credential);
  call.record.append(arguments);
  if (tcp) {
    const std::uint32_t mark = htonl(kLastFragment | static_cast<std::uint32_t>(call.record.size() - 4));
    std::memcpy(call.record.data(), &mark, sizeof mark);
  }
  call.program = program;
  call.procedure = procedure;
  call.done = std::move(done);
  call.started = now();
  call.pause = options_.resend_after;
  call.resend_at = call.started + call.pause;
  const auto [place, fresh] = pending_.emplace(xid, std::move(call));
  if (!fresh) throw RpcError("an xid that is in use");
  send_record(place->second.record);
}

void NfsConnection::send_record(const std::string& record) {
  if (options_.transport == Transport::kUdp) {
    // A full socket buffer or a refused port is a lost datagram: it is sent again later.
    (void)!send(socket_, record.data(), record.size(), 0);
    return;
  }
  std::size_t done = 0;
  if (connected_ && sent_ == out_.size()) {
    const ssize_t part = send(socket_, record.data(), record.size(), MSG_NOSIGNAL);
    if (part < 0 && errno != EAGAIN) return lose_connection();  // which queues the record, being pending
    done = static_cast<std::size_t>(std::max<ssize_t>(part, 0));
  }
  out_.append(record, done);
}

void NfsConnection::flush() {
  while (sent_ < out_.size()) {
    const ssize_t part = send(socket_, out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
    if (part < 0) {
      if (errno != EAGAIN) lose_connection();
      return;
    }
    sent_ += static_cast<std::size_t>(part);
  }
  out_.clear();
  sent_ = 0;
}

void NfsConnection::run_once(double seconds) {
  if (socket_ < 0) {
    const double wait = std::min(connect_at_ - now(), seconds);
    if (wait > 0) std::this_thread::sleep_for(std::chrono::duration<double>(wait));
    if (now() >= connect_at_) open_socket();
    resend_late();
    return;
  }
  pollfd entry{socket_, POLLIN, 0};
  if (options_.transport == Transport::kTcp && (!connected_ || sent_ < out_.size())) entry.events |= POLLOUT;
  const int ready = poll(&entry, 1, static_cast<int>(seconds * 1000));
  if (ready > 0) {
    if (!connected_ && (entry.revents & (POLLOUT | POLLERR | POLLHUP)) != 0) {
      int error = 0;
      socklen_t size = sizeof error;
      getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &size);
      if (error != 0) return lose_connection();
      connected_ = true;
    }
    if ((entry.revents & (POLLIN | POLLHUP | POLLERR)) != 0) receive();
    if (socket_ >= 0 && connected_ && sent_ < out_.size()) flush();
  }
  resend_late();
}

void NfsConnection::receive() {
  if (options_.transport == Transport::kUdp) {
    for (;;) {
      auto record = std::make_shared<std::string>(65536, '\0');
      const ssize_t size = recv(socket_, record->data(), record->size(), 0);
      if (size < 0) return;
      record->resize(static_cast<std::size_t>(size));
      take_reply(std::move(record));
    }
  }
  for (;;) {
    const ssize_t size = recv(socket_, received_.data(), received_.size(), 0);
    if (size == 0 || (size < 0 && errno != EAGAIN)) return lose_connection();
    if (size < 0) break;
    heard_at_ = now();
    in_.append(received_.data(), static_cast<std::size_t>(size));
    if (!take_stream()) return lose_connection();
    if (static_cast<std::size_t>(size) < received_.size()) break;
  }
}

// Takes whole records off what has come in. False when a length cannot be right.
bool NfsConnection::take_stream() {
  while (in_.size() - taken_ >= 4) {
    const std::uint32_t mark = word_at(in_, taken_);
    const std::size_t size = mark & ~kLastFragment;
    if (size > 2 * kLargestRecord) return false;
    if (in_.size() - taken_ < 4 + size) break;
    fragments_.append(in_, taken_ + 4, size);
    taken_ += 4 + size;
    if ((mark & kLastFragment) != 0) take_reply(std::make_shared<std::string>(std::exchange(fragments_, {})));
  }
  in_.erase(0, taken_);
  taken_ = 0;
  return true;
}

void NfsConnection::take_reply(std::shared_ptr<std::string> record) {
  if (record->size() < 4) return;
  const auto found = pending_.find(word_at(*record, 0));
  if (found == pending_.end()) return;  // a second answer to a call that was sent twice
  const RawDone done = std::move(found->second.done);
  counters_.longest_wait = std::max(counters_.longest_wait, now() - found->second.started);
  pending_.erase(found);
  std::string error;
  const std::size_t offset = results_of(*record, error);
  done(std::move(record), offset, error);
}

// Sends again what waits too long, and gives up what waited longer than the patience.
void NfsConnection::resend_late() {
  const double time = now();
  if (time - resend_checked_ < 0.05) return;
  resend_checked_ = time;
  std::vector<std::uint32_t> given_up;
  for (auto& [xid, call] : pending_) {
    if (time - call.started > options_.patience) {
      given_up.push_back(xid);
    } else if (options_.transport == Transport::kUdp && time >= call.resend_at) {
      call.pause = std::min(call.pause * 2, 4.0);
      call.resend_at = time + call.pause;
      ++counters_.resent;
      send_record(call.record);
    }
  }
  for (std::uint32_t xid : given_up) {
    const Pending call = std::move(pending_.at(xid));
    pending_.erase(xid);
    call.done(nullptr, 0,
              "no answer within " + std::to_string(static_cast<int>(options_.patience)) + " s to procedure " +
                  std::to_string(call.procedure) + " of program " + std::to_string(call.program) +
                  ", sent in " + std::to_string(call.record.size()) + " bytes");
  }
  if (options_.transport == Transport::kTcp && socket_ >= 0 && !pending_.empty() &&
      time - heard_at_ > 15 * options_.resend_after) {
    const bool all_young = std::all_of(pending_.begin(), pending_.end(), [&](const auto& entry) {
      return time - entry.second.started < 15 * options_.resend_after;
    });
    if (!all_young) lose_connection();
  }
}

std::uint32_t codec_nothing(ZDR*, Nothing*) {
  return 1;
}

diropargs3 in_folder(const Handle& folder, const char* name) {
  return {folder.raw(), const_cast<char*>(name)};
}

sattr3 no_attributes() {
  sattr3 attributes;
  std::memset(&attributes, 0, sizeof attributes);
  return attributes;
}

sattr3 with_mode(std::uint32_t mode) {
  sattr3 attributes = no_attributes();
  attributes.mode.set_it = 1;
  attributes.mode.set_mode3_u.mode = mode;
  return attributes;
}

sattr3 with_size(std::uint64_t size) {
  sattr3 attributes = no_attributes();
  attributes.size.set_it = 1;
  attributes.size.set_size3_u.size = size;
  return attributes;
}

WRITE3args write_arguments(const Handle& file, std::uint64_t offset, std::string_view bytes,
                           stable_how stable) {
  WRITE3args arguments;
  arguments.file = file.raw();
  arguments.offset = offset;
  arguments.count = static_cast<count3>(bytes.size());
  arguments.stable = stable;
  arguments.data.data_len = static_cast<u_int>(bytes.size());
  arguments.data.data_val = const_cast<char*>(bytes.data());
  return arguments;
}

READ3args read_arguments(const Handle& file, std::uint64_t offset, std::uint32_t count) {
  return {file.raw(), offset, count};
}

CREATE3args create_arguments(const Handle& folder, const char* name, createmode3 mode, std::uint32_t bits) {
  CREATE3args arguments;
  std::memset(&arguments, 0, sizeof arguments);
  arguments.where = in_folder(folder, name);
  arguments.how.mode = mode;
  if (mode != EXCLUSIVE) arguments.how.createhow3_u.obj_attributes = with_mode(bits);
  return arguments;
}

const char* status_name(nfsstat3 status) {
  switch (static_cast<int>(status)) {
    case 0:
      return "OK";
    case 1:
      return "PERM";
    case 2:
      return "NOENT";
    case 5:
      return "IO";
    case 13:
      return "ACCES";
    case 17:
      return "EXIST";
    case 20:
      return "NOTDIR";
    case 21:
      return "ISDIR";
    case 22:
      return "INVAL";
    case 27:
      return "FBIG";
    case 28:
      return "NOSPC";
    case 63:
      return "NAMETOOLONG";
    case 66:
      return "NOTEMPTY";
    case 70:
      return "STALE";
    case 10001:
      return "BADHANDLE";
    case 10002:
      return "NOT_SYNC";
    case 10003:
      return "BAD_COOKIE";
    case 10004:
      return "NOTSUPP";
    case 10005:
      return "TOOSMALL";
    case 10006:
      return "SERVERFAULT";
    case 10007:
      return "BADTYPE";
    case 10008:
      return "JUKEBOX";
    default:
      return "another status";
  }
}

Handle mount_root(const ConnectionOptions& options, std::uint16_t mount_port, const std::string& path) {
  ConnectionOptions to_mount = options;
  to_mount.port = mount_port;
  NfsConnection connection(to_mount);
  const auto answer = connection.call(kMnt, const_cast<char*>(path.c_str()));
  if ((*answer)->fhs_status != MNT3_OK) {
    throw RpcError("MNT of " + path + " answers " + std::to_string((*answer)->fhs_status));
  }
  const fhandle3& handle = (*answer)->mountres3_u.mountinfo.fhandle;
  return Handle(std::string(handle.fhandle3_val, handle.fhandle3_len));
}

}  // namespace slice::client
