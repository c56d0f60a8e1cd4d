// libtirpc's XDR behind plain types: its headers and ours have the same names (rpc/xdr.h), so they never meet
// in one source file. Each function decodes `bytes`, tells what it saw, and encodes it again; "" where
// libtirpc refuses.
#ifndef SLICE_TESTS_INTEROP_TIRPC_CODEC_H
#define SLICE_TESTS_INTEROP_TIRPC_CODEC_H

#include <cstdint>
#include <string>
#include <vector>

namespace slice::tirpc {

struct Call {
  std::uint32_t xid = 0, program = 0, version = 0, procedure = 0, flavor = 0, credential_length = 0;
};
std::string recode_call(const std::string& bytes, Call& call);
// A call header without credential, followed by a PORTMAP mapping.
std::string make_portmap_call(const Call& call, std::uint32_t program, std::uint32_t version,
                              std::uint32_t protocol);

struct AuthSys {
  std::uint32_t stamp = 0, uid = 0, gid = 0;
  std::string machine;
  std::vector<std::uint32_t> groups;
};
std::string recode_auth_sys(const std::string& bytes, AuthSys& credential);

struct Reply {
  std::uint32_t xid = 0;
  bool accepted = false;
  std::uint32_t stat = 0;  // accept_stat or reject_stat
  std::uint32_t why = 0;   // auth_stat
  std::uint32_t low = 0, high = 0;
};
std::string recode_reply(const std::string& bytes, Reply& reply);

struct Mapping {
  std::uint32_t program = 0, version = 0, protocol = 0, port = 0;
};
std::string recode_portmap_list(const std::string& bytes, std::vector<Mapping>& list);

}  // namespace slice::tirpc

#endif  // SLICE_TESTS_INTEROP_TIRPC_CODEC_H
