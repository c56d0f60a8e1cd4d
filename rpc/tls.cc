#include "rpc/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "common/whole_file.h"

namespace slice::rpc {
namespace {

constexpr std::size_t kRecord = 16 << 10;         // plain bytes of a TLS record, at most
constexpr std::size_t kReadAhead = 64 << 10;      // bytes
constexpr std::size_t kWorthSending = 256 << 10;  // bytes for the socket, before it is asked to take them
constexpr std::size_t kStreamMemory = 96 << 10;   // bytes: what OpenSSL has for a connection, about
constexpr std::size_t kMaxFile = 1 << 20;

using Bio = std::unique_ptr<BIO, decltype(&BIO_free_all)>;

Bio bio_over(const std::string& bytes) {
  return {BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())), &BIO_free_all};
}

// The first thing that OpenSSL has to complain about.
std::string complaint() {
  const unsigned long error = ERR_peek_error();
  const char* reason = error != 0 ? ERR_reason_error_string(error) : nullptr;
  return reason != nullptr ? reason : "it cannot be used";
}

int no_password(char*, int, int, void*) {
  return 0;
}

Result<WholeFile> read_file(const std::string& path) {
  auto file = read_whole_file(path, kMaxFile);
  if (!file) return fail(Errc::kInvalid, "'{}': {}", path, file.error().message);
  return file;
}

Status use_key(SSL_CTX* context, const std::string& path) {
  auto file = read_file(path);
  if (!file) return fail(std::move(file).error());
  if ((file->mode & (S_IRWXG | S_IRWXO)) != 0) {
    return fail(Errc::kInvalid, "'{0}' is open to others than its owner (mode {1:04o}): chmod 600 {0}", path,
                file->mode & 07777);
  }
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      PEM_read_bio_PrivateKey(bio_over(file->bytes).get(), nullptr, no_password, nullptr), &EVP_PKEY_free);
  if (key == nullptr) return fail(Errc::kInvalid, "'{}': {}", path, complaint());
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1) {
    return fail(Errc::kInvalid, "'{}' is not the key of the certificate: {}", path, complaint());
  }
  return {};
}

Status use_revoked(X509_STORE* store, const std::string& path) {
  auto file = read_file(path);
  if (!file) return fail(std::move(file).error());
  Bio bio = bio_over(file->bytes);
  int lists = 0;
  while (X509_CRL* list = PEM_read_bio_X509_CRL(bio.get(), nullptr, nullptr, nullptr)) {
    lists += X509_STORE_add_crl(store, list);
    X509_CRL_free(list);
  }
  if (lists == 0) return fail(Errc::kInvalid, "'{}' holds no list of revoked certificates", path);
  ERR_clear_error();  // the end of the file
  X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
  return {};
}

}  // namespace

std::size_t bytes_in(std::span<const iovec> vectors) {
  std::size_t bytes = 0;
  for (const iovec& each : vectors) bytes += each.iov_len;
  return bytes;
}

ssize_t send_vectors(int fd, std::span<const iovec> vectors) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(vectors.data());
  message.msg_iovlen = vectors.size();
  ssize_t n = 0;
  do {
    n = ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  return n;
}

namespace {

// RFC 9289 section 4.1: the name of RPC among application protocols, as ALPN has it.
constexpr std::array<unsigned char, 7> kProtocol{6, 's', 'u', 'n', 'r', 'p', 'c'};

// Called where the peer has offered some.
int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* length, const unsigned char* offered,
                    unsigned int bytes, void*) {
  const int found = SSL_select_next_proto(const_cast<unsigned char**>(chosen), length, kProtocol.data(),
                                          kProtocol.size(), offered, bytes);
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

}  // namespace

Result<Tls::Context> Tls::make(const TlsConfig& files, Peers peers) {
  ERR_clear_error();
  Context context(SSL_CTX_new(TLS_method()), &SSL_CTX_free);
  if (context == nullptr) return fail(Errc::kIo, "TLS: {}", complaint());
  SSL_CTX* to = context.get();
  SSL_CTX_set_min_proto_version(to, TLS1_3_VERSION);
  SSL_CTX_set_ciphersuites(to, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256");
  if (peers == Peers::kMembers) {
    SSL_CTX_set_verify(to, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  } else {
    SSL_CTX_set_verify(to, files.authority.empty() ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_alpn_protos(to, kProtocol.data(), kProtocol.size());
    SSL_CTX_set_alpn_select_cb(to, choose_protocol, nullptr);
  }
  // Nothing is resumed: each connection looks at the peer's certificate.
  SSL_CTX_set_session_cache_mode(to, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(to, 0);
  SSL_CTX_set_read_ahead(to, 1);
  SSL_CTX_set_default_read_buffer_len(to, kReadAhead);
  if (files.used()) {
    if (SSL_CTX_use_certificate_chain_file(to, files.certificate.c_str()) != 1) {
      return fail(Errc::kInvalid, "'{}': {}", files.certificate, complaint());
    }
    SLICE_RETURN_IF_ERROR(use_key(to, files.key));
  }
  X509_STORE* store = SSL_CTX_get_cert_store(to);
  if (!files.authority.empty() && X509_STORE_load_file(store, files.authority.c_str()) != 1) {
    return fail(Errc::kInvalid, "'{}': {}", files.authority, complaint());
  }
  if (!files.revoked.empty()) SLICE_RETURN_IF_ERROR(use_revoked(store, files.revoked));
  return context;
}

Result<std::unique_ptr<Tls>> Tls::load(const TlsConfig& files, Peers peers) {
  std::unique_ptr<Tls> made(new Tls(files, peers));
  SLICE_RETURN_IF_ERROR(made->reload());
  return made;
}

Status Tls::reload() {
  auto made = make(files_, peers_);
  if (!made) return fail(std::move(made).error(), "TLS");
  std::lock_guard lock(mutex_);
  context_ = std::move(*made);
  ++loads_;
  return {};
}

std::uint64_t Tls::ends() const {
  const X509* own = SSL_CTX_get0_certificate(context().get());
  tm when{};
  if (own == nullptr || ASN1_TIME_to_tm(X509_get0_notAfter(own), &when) != 1) return 0;
  return static_cast<std::uint64_t>(std::max<time_t>(::timegm(&when), 0));
}

Tls::Context Tls::context() const {
  std::lock_guard lock(mutex_);
  return context_;
}

std::unique_ptr<TlsStream> Tls::stream(int fd, IpAddress address, bool connects) const {
  return std::unique_ptr<TlsStream>(new TlsStream(*this, context(), fd, address, connects));
}
std::unique_ptr<TlsStream> Tls::to_server(int fd, IpAddress address) const {
  return stream(fd, address, true);
}
std::unique_ptr<TlsStream> Tls::to_client(int fd, IpAddress address) const {
  return stream(fd, address, false);
}

void TlsStream::Free::operator()(SSL* ssl) const {
  SSL_free(ssl);
}

TlsStream::TlsStream(const Tls& tls, Tls::Context context, int fd, IpAddress address, bool connects)
    : tls_(tls), fd_(fd), loads_(tls.loads_.load()), ssl_(SSL_new(context.get())) {
  if (ssl_ == nullptr) std::abort();  // no memory
  if (connects || tls.peers_ == Tls::Peers::kMembers) {
    const AddressBytes bytes(address);
    X509_VERIFY_PARAM_set1_ip(SSL_get0_param(ssl_.get()), bytes.data(), bytes.size());
  }
  SSL_set0_rbio(ssl_.get(), BIO_new_socket(fd, BIO_NOCLOSE));
  SSL_set0_wbio(ssl_.get(), BIO_new(BIO_s_mem()));
  connects ? SSL_set_connect_state(ssl_.get()) : SSL_set_accept_state(ssl_.get());
}

TlsStream::~TlsStream() = default;

bool TlsStream::peer_has_certificate() const {
  return established_ && SSL_get0_peer_certificate(ssl_.get()) != nullptr;
}

bool TlsStream::pending() const {
  return !drained_ && SSL_has_pending(ssl_.get()) == 1;
}

std::size_t TlsStream::memory() const {
  return kStreamMemory + out_.size();
}

// Whether the connection cannot go on; errno is set where it can or cannot.
bool TlsStream::failed(int result) {
  const int system = errno;
  const int error = SSL_get_error(ssl_.get(), result);
  errno = EAGAIN;
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return false;
  const long verified = SSL_get_verify_result(ssl_.get());
  const bool ended =
      error == SSL_ERROR_ZERO_RETURN ||
      (error == SSL_ERROR_SSL && ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING);
  if (verified != X509_V_OK) {
    failure_ = X509_verify_cert_error_string(verified);
  } else if (error == SSL_ERROR_SYSCALL && system != 0) {
    failure_ = std::strerror(system);
  } else {
    failure_ = ended ? "the peer ended the connection" : complaint();
  }
  errno = ended && established() ? ECONNRESET : EPROTO;
  return true;
}

// What OpenSSL has to say goes behind what the socket has not taken.
bool TlsStream::take_output() {
  BIO* from = SSL_get_wbio(ssl_.get());
  const std::size_t more = BIO_ctrl_pending(from);
  if (more == 0) return true;
  if (out_done_ == out_.size()) {
    out_.clear();
    out_done_ = 0;
  }
  const std::size_t at = out_.size();
  out_.resize(at + more);
  return BIO_read(from, out_.data() + at, static_cast<int>(more)) == static_cast<int>(more);
}

// False where not all of it was taken, as `out` says.
bool TlsStream::push(Written& out) {
  take_output();
  while (has_to_say()) {
    iovec rest{out_.data() + out_done_, out_.size() - out_done_};
    const ssize_t n = send_vectors(fd_, {&rest, 1});
    if (n < 0) {
      const bool full = errno == EAGAIN || errno == EWOULDBLOCK;
      out.outcome = full ? Written::Outcome::kBlocked : Written::Outcome::kBroken;
      return false;
    }
    out_done_ += static_cast<std::size_t>(n);
  }
  return true;
}

// False where there is nothing to be written behind the handshake yet.
bool TlsStream::greet(Written& out) {
  if (established()) return true;
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  established_ = result == 1;
  const bool over = result != 1 && failed(result);
  if (!push(out)) return false;  // an alert, too
  if (over) {
    errno = EPROTO;
    out.outcome = Written::Outcome::kBroken;
  } else if (result != 1) {
    out.outcome = Written::Outcome::kWaits;
  }
  return result == 1;
}

// One record of the bytes behind the first `skip`: how many they were; 0 after an error.
std::size_t TlsStream::seal(std::span<const iovec> plain, std::size_t skip) {
  gathered_.clear();
  for (const iovec& each : plain) {
    if (skip >= each.iov_len) {
      skip -= each.iov_len;
      continue;
    }
    ByteView piece(static_cast<const std::uint8_t*>(each.iov_base) + skip, each.iov_len - skip);
    skip = 0;
    gathered_.append(piece.first(std::min(piece.size(), kRecord - gathered_.size())));
    if (gathered_.size() == kRecord) break;
  }
  std::size_t n = 0;
  const int result = SSL_write_ex(ssl_.get(), gathered_.data(), gathered_.size(), &n);
  if (result != 1) failed(result);
  return result == 1 ? n : 0;
}

Written TlsStream::write(std::span<const iovec> plain) {
  Written out;
  if (!push(out) || !greet(out)) return out;
  if (!is_trusted()) {
    errno = EPROTO;
    out.outcome = Written::Outcome::kBroken;
    return out;
  }
  ERR_clear_error();
  const std::size_t all = bytes_in(plain);
  while (out.plain < all) {
    const std::size_t n = seal(plain, out.plain);
    if (n == 0) {
      out.outcome = Written::Outcome::kBroken;
      return out;
    }
    out.plain += n;
    take_output();
    if (out_.size() - out_done_ >= kWorthSending && !push(out)) return out;
  }
  push(out);
  return out;
}

ssize_t TlsStream::read(std::span<const iovec> into) {
  std::size_t got = 0;
  int result = 1;
  errno = 0;
  ERR_clear_error();
  drained_ = false;
  if (established() && !is_trusted()) {
    errno = EPROTO;
    return -1;
  }
  for (const iovec& each : into) {
    auto* to = static_cast<std::uint8_t*>(each.iov_base);
    for (std::size_t done = 0, n = 0; done < each.iov_len && result == 1; done += n) {
      n = 0;
      result = SSL_read_ex(ssl_.get(), to + done, each.iov_len - done, &n);
      got += n;
    }
  }
  established_ = established_ || SSL_is_init_finished(ssl_.get()) == 1;
  const bool over = result != 1 && failed(result);
  const int error = errno;
  drained_ = result != 1;
  Written ignored;
  push(ignored);
  errno = error;
  if (got > 0) return static_cast<ssize_t>(got);
  return over && error == ECONNRESET ? 0 : -1;
}

ssize_t read_stream(int fd, TlsStream* stream, std::span<const iovec> into) {
  return stream != nullptr ? stream->read(into) : ::readv(fd, into.data(), static_cast<int>(into.size()));
}

// Looks again where files were loaded since.
bool TlsStream::is_trusted() {
  const unsigned loads = tls_.loads_.load(std::memory_order_relaxed);
  if (loads == loads_ || !established()) return true;
  const Tls::Context context = tls_.context();
  X509* peer = SSL_get0_peer_certificate(ssl_.get());
  if (peer == nullptr && tls_.peers_ == Tls::Peers::kClients) return true;
  std::unique_ptr<X509_STORE_CTX, decltype(&X509_STORE_CTX_free)> check(X509_STORE_CTX_new(),
                                                                        &X509_STORE_CTX_free);
  const bool good = peer != nullptr && check != nullptr &&
                    X509_STORE_CTX_init(check.get(), SSL_CTX_get_cert_store(context.get()), peer,
                                        SSL_get_peer_cert_chain(ssl_.get())) == 1 &&
                    X509_verify_cert(check.get()) == 1;
  if (good) {
    loads_ = loads;
  } else {
    failure_ =
        X509_verify_cert_error_string(check ? X509_STORE_CTX_get_error(check.get()) : X509_V_ERR_OUT_OF_MEM);
  }
  return good;
}

}  // namespace slice::rpc
