// TLS 1.3 over connections, where the configuration names certificates.
//
// Between the members of an ensemble it is under the sessions (rpc/session.h), with a certificate on both
// sides. A certificate is for addresses: the side that connects wants it to have the address that it dialled,
// the other side the address that the connection comes from (docs/formats/session.md,
// docs/operations.md#certificates-for-the-members).
//
// With clients it is what they ask for by AUTH_TLS (RFC 9289; docs/encryption.md). The client wants the
// service's certificate to have the address that it dialled; it may show one of its own, whatever that is
// for, and then it must be one that the authority signed. Who offers application protocols (ALPN) has to
// offer "sunrpc".
#ifndef SLICE_RPC_TLS_H
#define SLICE_RPC_TLS_H

#include <openssl/types.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "common/bytes.h"
#include "common/config.h"
#include "common/result.h"

namespace slice::rpc {

// What became of bytes that were to be written to a socket.
struct Written {
  // kAll: the socket took all that was tried. kBlocked: it is full. kWaits: the peer has to say something
  // first. kBroken: errno says why.
  enum class Outcome { kAll, kBlocked, kBroken, kWaits } outcome = Outcome::kAll;
  std::size_t plain = 0;  // bytes from the front that were taken
};

std::size_t bytes_in(std::span<const iovec> vectors);
// As sendmsg(2) without SIGPIPE and without waiting.
ssize_t send_vectors(int fd, std::span<const iovec> vectors);

class TlsStream;

// This process's certificate, and whom it trusts. Any thread.
class Tls {
 public:
  enum class Peers { kMembers, kClients };
  // kInvalid, with the reason: a file that cannot be read or used, a key that others may read or that is not
  // the certificate's. Between clients and the service the authority may be missing (nobody shows a
  // certificate to it), and a client's certificate (it shows none).
  static Result<std::unique_ptr<Tls>> load(const TlsConfig& files, Peers peers = Peers::kMembers);
  // The same files again: for connections that begin from now on. Those there are end at their next use where
  // their peer's certificate is not trusted any more. After an error everything stays as it was.
  Status reload();
  // Until when its own certificate counts: seconds since 1970; 0 where it has none.
  std::uint64_t ends() const;

  // On a connected socket, which the stream does not close; `address`: the peer's. The Tls outlives it.
  std::unique_ptr<TlsStream> to_server(int fd, IpAddress address) const;
  std::unique_ptr<TlsStream> to_client(int fd, IpAddress address) const;

 private:
  friend class TlsStream;
  using Context = std::shared_ptr<SSL_CTX>;
  Tls(const TlsConfig& files, Peers peers) : files_(files), peers_(peers) {}
  static Result<Context> make(const TlsConfig& files, Peers peers);
  Context context() const;
  std::unique_ptr<TlsStream> stream(int fd, IpAddress address, bool connects) const;

  const TlsConfig files_;
  const Peers peers_;
  mutable std::mutex mutex_;
  Context context_;
  std::atomic<unsigned> loads_ = 0;
};

// One connection. One loop.
class TlsStream {
 public:
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  // As readv(2) of a non-blocking socket. -1 with EPROTO: failure() says why.
  ssize_t read(std::span<const iovec> into);
  // Takes as much as is worth taking now. What the socket has not taken of that is kept: has_to_say().
  Written write(std::span<const iovec> plain);

  // The handshake is over: who had to show a certificate has. What a client finds wrong it has said; of a
  // server that refuses it the client hears later.
  bool established() const { return established_; }
  // It is, and the peer has shown a certificate.
  bool peer_has_certificate() const;
  // There are bytes for the socket, which write() sends first.
  bool has_to_say() const { return out_.size() > out_done_; }
  // Bytes have come that read() would give although the socket has none.
  bool pending() const;
  // The peer's certificate is one that is trusted now.
  bool is_trusted();
  const std::string& failure() const { return failure_; }
  std::size_t memory() const;

 private:
  friend class Tls;
  TlsStream(const Tls& tls, Tls::Context context, int fd, IpAddress address, bool connects);
  bool failed(int result);
  bool take_output();
  bool push(Written& out);
  bool greet(Written& out);
  std::size_t seal(std::span<const iovec> plain, std::size_t skip);

  struct Free {
    void operator()(SSL* ssl) const;
  };
  const Tls& tls_;
  const int fd_;
  unsigned loads_;  // of tls_, when the peer was found trusted
  std::unique_ptr<SSL, Free> ssl_;
  Buffer out_;  // records for the socket
  std::size_t out_done_ = 0;
  Buffer gathered_;  // plain bytes of one record
  bool drained_ = true;
  bool established_ = false;
  std::string failure_;
};

// From the stream, or where it is null, from the socket: as readv(2).
ssize_t read_stream(int fd, TlsStream* stream, std::span<const iovec> into);

}  // namespace slice::rpc

#endif  // SLICE_RPC_TLS_H
