// Kerberos' security contexts, by MIT's GSS-API, and users by this host's accounts.
#ifndef SLICE_PROXY_GSS_KERBEROS_H
#define SLICE_PROXY_GSS_KERBEROS_H

#include "common/result.h"
#include "proxy/gss/security_context.h"

namespace slice::proxy {

// Takes tickets for any principal that the keytab, a file, has a key of: it is read again for each. kInvalid,
// with the reason, where it cannot be read, has no key, or is everybody's to read.
Result<std::unique_ptr<ContextAcceptor>> make_kerberos_acceptor(const std::string& keytab);

// The account of that name on this host, with its groups, as many as a credential has room for; kNoUser where
// there is none.
rpc::AuthSys user_of_account(const std::string& name);

}  // namespace slice::proxy

#endif  // SLICE_PROXY_GSS_KERBEROS_H
