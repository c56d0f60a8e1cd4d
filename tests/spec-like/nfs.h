// Nfs: NFSv3 calls of one client, typed. A call that is answered JUKEBOX is made anew a little later, as
// kernels do.
#ifndef SLICE_TESTS_SPEC_LIKE_NFS_H
#define SLICE_TESTS_SPEC_LIKE_NFS_H

#include <string>

#include "tests/spec-like/connection.h"
#include "tests/spec-like/file_set.h"

namespace slice::load {

// Which volume, and how to reach it.
struct Target {
  rpc::Endpoint server;
  std::string path = "/";
  std::uint16_t mount_port = 0;  // 0: PORTMAP is asked
  Transport transport = Transport::kTcp;
  std::uint32_t uid = 0, gid = 0;
  double patience = 60;       // seconds
  std::string tls_authority;  // PEM file of who signed the server's certificate: NFS goes through TLS
  std::shared_ptr<const rpc::Tls> tls = nullptr;  // by that file; see load_tls()
};
// Where there is an authority, what it takes to talk to a server that it has signed a certificate for.
Status load_tls(Target& target);

// The root of an export, by MNT.
Task<Result<Handle>> mount_root(rpc::EpollLoop& loop, const Target& target);

template <class Ok>
struct Answer {
  Connection::Reply reply;  // what the views in `ok` point into
  nfs3::Status status = nfs3::Status::kOk;
  Ok ok;
};

class Nfs {
 public:
  Nfs(rpc::EpollLoop& loop, const Target& target);

  // What the server takes in one READ or WRITE, and how fine its times are; asked once, by limits().
  struct Limits {
    std::uint32_t read = 8192, write = 8192, names = 8192;
  };
  Task<Status> ask_limits(const Handle& root);
  const Limits& limits() const { return limits_; }

  // The bytes of a reply. Errors as rpc::Channel::call()'s.
  template <class Args>
  Task<Result<Connection::Reply>> call(nfs3::Procedure procedure, Args args) {
    for (Duration pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
      rpc::XdrWriter out =
          connection_.begin(nfs3::kProgram, nfs3::kVersion, static_cast<std::uint32_t>(procedure));
      nfs3::encode_arguments(out, args);
      auto reply = co_await connection_.call(std::move(out));
      if (!reply || !told_to_wait(*reply)) co_return reply;
      ++told_to_wait_;
      co_await loop_.sleep(pause);
    }
  }

  // The same decoded. kCorrupt: the reply is none that this procedure may have.
  template <class Ok, class Args>
  Task<Result<Answer<Ok>>> ask(nfs3::Procedure procedure, Args args) {
    auto reply = co_await call(procedure, args);
    if (!reply) co_return fail(std::move(reply).error());
    Answer<Ok> answer;
    answer.reply = std::move(*reply);
    rpc::XdrReader in(answer.reply.results());
    if (!nfs3::decode_result(in, answer.status, answer.ok)) {
      co_return fail(Errc::kCorrupt, "a reply of {} bytes that is malformed", answer.reply.results().size());
    }
    co_return answer;
  }

  const Connection::Counters& counters() const { return connection_.counters(); }
  std::uint64_t told_to_wait() const { return told_to_wait_; }

 private:
  static constexpr Duration kFirstPause = std::chrono::milliseconds(10);
  static constexpr Duration kLongestPause = std::chrono::milliseconds(500);

  // Every NFSv3 result begins with its status.
  static bool told_to_wait(const Connection::Reply& reply) {
    return reply.results().size() >= 4 && load_be<std::uint32_t>(reply.results().data()) ==
                                              static_cast<std::uint32_t>(nfs3::Status::kJukebox);
  }

  rpc::EpollLoop& loop_;
  Transport transport_;
  Connection connection_;
  Limits limits_;
  std::uint64_t told_to_wait_ = 0;
};

}  // namespace slice::load

#endif  // SLICE_TESTS_SPEC_LIKE_NFS_H
