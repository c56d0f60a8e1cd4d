// RPC headers, AUTH_SYS and PORTMAP, ours against libtirpc's XDR: what we encode, it decodes to the same
// values and encodes to the same bytes, and what it encodes, we decode.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rpc/message.h"
#include "tests/interop/tirpc_codec.h"
#include "wire/portmap2.h"

namespace slice {
namespace {

using rpc::XdrWriter;

std::string text(const XdrWriter& out) {
  return std::string(as_text(out.view()));
}

TEST(Tirpc, CallHeaderWithAuthSys) {
  XdrWriter credential;
  rpc::encode_auth_sys(credential, {77, "machine", 1000, 100, {5, 6, 7}});
  std::string body = text(credential).substr(8);
  XdrWriter ours;
  rpc::encode_call(ours, {.xid = Xid{0xdeadbeef},
                          .program = 100003,
                          .version = 3,
                          .procedure = 21,
                          .credential_flavor = rpc::kAuthSys,
                          .credential = as_bytes(body)});
  tirpc::Call call;
  EXPECT_EQ(tirpc::recode_call(text(ours), call), text(ours));
  EXPECT_EQ(call.xid, 0xdeadbeefu);
  EXPECT_EQ(call.program, 100003u);
  EXPECT_EQ(call.version, 3u);
  EXPECT_EQ(call.procedure, 21u);
  EXPECT_EQ(call.flavor, 1u);
  EXPECT_EQ(call.credential_length, body.size());

  tirpc::AuthSys theirs;
  EXPECT_EQ(tirpc::recode_auth_sys(body, theirs), body);
  EXPECT_EQ(theirs.stamp, 77u);
  EXPECT_EQ(theirs.machine, "machine");
  EXPECT_EQ(theirs.uid, 1000u);
  EXPECT_EQ(theirs.gid, 100u);
  EXPECT_EQ(theirs.groups, (std::vector<std::uint32_t>{5, 6, 7}));
}

TEST(Tirpc, TheirCallIsOurs) {
  std::string bytes =
      tirpc::make_portmap_call({.xid = 42, .program = 100000, .version = 2, .procedure = 3}, 100003, 3, 6);
  auto call = rpc::decode_call(as_bytes(bytes));
  ASSERT_TRUE(call);
  EXPECT_EQ(call->xid, Xid{42});
  EXPECT_EQ(call->program, portmap2::kProgram);
  EXPECT_EQ(call->procedure, 3u);
  portmap2::Mapping mapping;
  ASSERT_TRUE(decode(call->arguments, mapping));
  EXPECT_EQ(mapping, (portmap2::Mapping{100003, 3, portmap2::kTcp, 0}));
}

TEST(Tirpc, RepliesOfEveryKind) {
  auto recode = [](const XdrWriter& ours) {
    tirpc::Reply reply;
    EXPECT_EQ(to_hex(as_bytes(tirpc::recode_reply(text(ours), reply))), to_hex(ours.view()));
    EXPECT_EQ(reply.xid, 9u);
    return reply;
  };
  XdrWriter success;
  rpc::encode_success(success, Xid{9});
  EXPECT_TRUE(recode(success).accepted);
  for (auto stat : {rpc::AcceptStat::kProgramUnavailable, rpc::AcceptStat::kProcedureUnavailable,
                    rpc::AcceptStat::kGarbageArguments, rpc::AcceptStat::kSystemError}) {
    XdrWriter error;
    rpc::encode_error(error, Xid{9}, stat);
    tirpc::Reply reply = recode(error);
    EXPECT_TRUE(reply.accepted);
    EXPECT_EQ(reply.stat, static_cast<std::uint32_t>(stat));
  }
  XdrWriter mismatch;
  rpc::encode_error(mismatch, Xid{9}, rpc::AcceptStat::kProgramMismatch, 2, 4);
  EXPECT_EQ(recode(mismatch).low, 2u);
  EXPECT_EQ(recode(mismatch).high, 4u);
  XdrWriter auth;
  rpc::encode_auth_error(auth, Xid{9}, rpc::AuthStat::kTooWeak);
  EXPECT_FALSE(recode(auth).accepted);
  EXPECT_EQ(recode(auth).stat, 1u);
  EXPECT_EQ(recode(auth).why, 5u);
  XdrWriter version;
  rpc::encode_rpc_mismatch(version, Xid{9});
  EXPECT_EQ(recode(version).stat, 0u);
  EXPECT_EQ(recode(version).high, 2u);
}

TEST(Tirpc, PortmapList) {
  XdrWriter ours;
  encode(ours, std::vector<portmap2::Mapping>{{100003, 3, portmap2::kTcp, 2049},
                                              {100005, 3, portmap2::kUdp, 20048}});
  std::vector<tirpc::Mapping> list;
  EXPECT_EQ(tirpc::recode_portmap_list(text(ours), list), text(ours));
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].port, 2049u);
  EXPECT_EQ(list[1].protocol, 17u);
}

}  // namespace
}  // namespace slice
