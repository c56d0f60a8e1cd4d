#include "tirpc_codec.h"

#include <rpc/rpc.h>
// After rpc.h, which they need.
#include <rpc/pmap_prot.h>
#include <rpc/rpc_msg.h>

namespace slice::tirpc {
namespace {

template <class T, class Codec, class Look>
std::string recode(const std::string& bytes, T& value, Codec codec, Look look) {
  std::string copy = bytes;
  XDR in;
  xdrmem_create(&in, copy.data(), static_cast<u_int>(copy.size()), XDR_DECODE);
  if (!codec(&in, &value) || xdr_getpos(&in) != copy.size()) return "";
  look();
  std::string again(bytes.size() + 64, 0);
  XDR out;
  xdrmem_create(&out, again.data(), static_cast<u_int>(again.size()), XDR_ENCODE);
  if (!codec(&out, &value)) return "";
  again.resize(xdr_getpos(&out));
  return again;
}

}  // namespace

std::string recode_call(const std::string& bytes, Call& call) {
  rpc_msg message{};
  char credential[MAX_AUTH_BYTES], verifier[MAX_AUTH_BYTES];
  message.rm_call.cb_cred.oa_base = credential;
  message.rm_call.cb_verf.oa_base = verifier;
  return recode(bytes, message, xdr_callmsg, [&] {
    const call_body& body = message.rm_call;
    call = {message.rm_xid,
            static_cast<std::uint32_t>(body.cb_prog),
            static_cast<std::uint32_t>(body.cb_vers),
            static_cast<std::uint32_t>(body.cb_proc),
            static_cast<std::uint32_t>(body.cb_cred.oa_flavor),
            body.cb_cred.oa_length};
  });
}

std::string make_portmap_call(const Call& call, std::uint32_t program, std::uint32_t version,
                              std::uint32_t protocol) {
  rpc_msg message{};
  message.rm_xid = call.xid;
  message.rm_direction = CALL;
  message.rm_call.cb_rpcvers = RPC_MSG_VERSION;
  message.rm_call.cb_prog = call.program;
  message.rm_call.cb_vers = call.version;
  message.rm_call.cb_proc = call.procedure;
  pmap mapping{program, version, protocol, 0};
  std::string bytes(256, 0);
  XDR out;
  xdrmem_create(&out, bytes.data(), static_cast<u_int>(bytes.size()), XDR_ENCODE);
  if (!xdr_callmsg(&out, &message) || !xdr_pmap(&out, &mapping)) return "";
  bytes.resize(xdr_getpos(&out));
  return bytes;
}

std::string recode_auth_sys(const std::string& bytes, AuthSys& credential) {
  authunix_parms parms{};
  std::string again = recode(bytes, parms, xdr_authunix_parms, [&] {
    credential.stamp = static_cast<std::uint32_t>(parms.aup_time);
    credential.uid = parms.aup_uid;
    credential.gid = parms.aup_gid;
    credential.machine = parms.aup_machname;
    credential.groups.assign(parms.aup_gids, parms.aup_gids + parms.aup_len);
  });
  xdr_free(reinterpret_cast<xdrproc_t>(xdr_authunix_parms), &parms);
  return again;
}

std::string recode_reply(const std::string& bytes, Reply& reply) {
  rpc_msg message{};
  char verifier[MAX_AUTH_BYTES];
  message.acpted_rply.ar_verf.oa_base = verifier;
  message.acpted_rply.ar_results.proc = reinterpret_cast<xdrproc_t>(xdr_void);
  auto codec = [](XDR* xdrs, rpc_msg* m) { return xdr_replymsg(xdrs, m); };
  return recode(bytes, message, codec, [&] {
    reply.xid = message.rm_xid;
    reply.accepted = message.rm_reply.rp_stat == MSG_ACCEPTED;
    if (reply.accepted) {
      reply.stat = message.acpted_rply.ar_stat;
      if (message.acpted_rply.ar_stat == PROG_MISMATCH) {
        reply.low = static_cast<std::uint32_t>(message.acpted_rply.ar_vers.low);
        reply.high = static_cast<std::uint32_t>(message.acpted_rply.ar_vers.high);
      }
    } else {
      reply.stat = message.rjcted_rply.rj_stat;
      if (message.rjcted_rply.rj_stat == AUTH_ERROR) {
        reply.why = message.rjcted_rply.rj_why;
      } else {
        reply.low = static_cast<std::uint32_t>(message.rjcted_rply.rj_vers.low);
        reply.high = static_cast<std::uint32_t>(message.rjcted_rply.rj_vers.high);
      }
    }
  });
}

std::string recode_portmap_list(const std::string& bytes, std::vector<Mapping>& list) {
  pmaplist* head = nullptr;
  std::string again = recode(bytes, head, xdr_pmaplist, [&] {
    for (pmaplist* each = head; each != nullptr; each = each->pml_next) {
      list.push_back({static_cast<std::uint32_t>(each->pml_map.pm_prog),
                      static_cast<std::uint32_t>(each->pml_map.pm_vers),
                      static_cast<std::uint32_t>(each->pml_map.pm_prot),
                      static_cast<std::uint32_t>(each->pml_map.pm_port)});
    }
  });
  xdr_free(reinterpret_cast<xdrproc_t>(xdr_pmaplist), &head);
  return again;
}

}  // namespace slice::tirpc
