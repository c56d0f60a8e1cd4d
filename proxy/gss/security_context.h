// SecurityContext: what a client and this proxy share since a user has shown a ticket (RFC 2743
// section 1.1.3), and ContextAcceptor, who makes one. Kerberos' are kerberos.h's; tests have others.
#ifndef SLICE_PROXY_GSS_SECURITY_CONTEXT_H
#define SLICE_PROXY_GSS_SECURITY_CONTEXT_H

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/bytes.h"
#include "common/loop.h"
#include "rpc/auth.h"

namespace slice::proxy {

// May be used by one thread at a time.
class SecurityContext {
 public:
  SecurityContext() = default;
  SecurityContext(const SecurityContext&) = delete;
  SecurityContext& operator=(const SecurityContext&) = delete;
  virtual ~SecurityContext() = default;

  // Whether the peer made this checksum of these bytes (GSS_VerifyMIC).
  virtual bool verify(ByteView bytes, ByteView checksum) = 0;
  // The bytes of an encrypted token; nothing where the peer did not make it, or did not encrypt it.
  virtual std::optional<Buffer> unwrap(ByteView token) = 0;
  // A checksum, and an encrypted token, for the peer; nothing where none can be had.
  virtual std::optional<Buffer> checksum(ByteView bytes) = 0;
  virtual std::optional<Buffer> wrap(ByteView bytes) = 0;
};

struct Accepted {
  std::unique_ptr<SecurityContext> context;  // null: refused
  std::uint32_t major = 0, minor = 0;        // of GSS-API, for the client
  Buffer token;                              // for the client; may be there with a refusal
  std::string why;                           // it was refused, or the user is nobody
  std::string principal;
  rpc::AuthSys user;  // by this host's accounts; kNoUser: none
  Duration lifetime{};
};

class ContextAcceptor {
 public:
  virtual ~ContextAcceptor() = default;
  // On any one thread; may wait, for a service of names.
  virtual Accepted accept(ByteView token) = 0;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_GSS_SECURITY_CONTEXT_H
