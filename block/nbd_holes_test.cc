// Clients of NBD that ask for holes (metadata contexts, block status).
#include <gtest/gtest.h>

#include "block/testing/nbd_server_fixture.h"

namespace slice::block::testing {
namespace {

using nbd::Command;
using nbd::ErrorNumber;
using nbd::Option;
using nbd::OptionReply;

using NbdHolesTest = NbdServerTest;

TEST_F(NbdHolesTest, ADevicesHolesAreToldToWhoAskedForThem) {
  serve();
  auto client = connect();
  client->greet();
  EXPECT_EQ(client->outcome(Option::kStructuredReply), OptionReply::kAck);
  auto first = open("disk");
  device()->told = {{4096, false}, {8192, true}};
  Buffer right, space, none, other;
  nbd::encode(right, nbd::MetaContextRequest{"disk", {"x:y", "base:allocation"}});
  nbd::encode(space, nbd::MetaContextRequest{"disk", {"base:"}});
  nbd::encode(none, nbd::MetaContextRequest{"disk", {}});
  nbd::encode(other, nbd::MetaContextRequest{"other", {"base:allocation"}});
  for (const Buffer* query : {&right, &space, &none})
    EXPECT_EQ(client->option(Option::kListMetaContext, query->view()).size(), 2u);
  EXPECT_EQ(client->option(Option::kSetMetaContext, space.view()).size(), 1u) << "that is a name space";
  EXPECT_EQ(client->option(Option::kSetMetaContext, none.view()).size(), 1u);
  const auto set = client->option(Option::kSetMetaContext, right.view());
  ASSERT_EQ(set.size(), 2u);
  EXPECT_EQ(set[0].data, std::string("\0\0\0\1base:allocation", 19));
  EXPECT_EQ(client->go("disk"), OptionReply::kAck);
  const auto told = [&](unsigned flags) {
    Buffer out;
    nbd::encode(out, nbd::Request{static_cast<std::uint16_t>(flags), Command::kBlockStatus, 77, 0, 12288});
    client->send(out);
    const auto header = nbd::decode_chunk_header(as_bytes(client->receive(nbd::kChunkHeaderSize)));
    EXPECT_TRUE(header && header->type == nbd::ChunkType::kBlockStatus && header->flags == nbd::kDone &&
                header->cookie == 77);
    return header ? to_hex(as_bytes(client->receive(header->length))) : "";
  };
  EXPECT_EQ(told(0),
            "00000001"
            "00001000"
            "00000000"
            "00002000"
            "00000003");
  EXPECT_EQ(told(nbd::kReqOne),
            "00000001"
            "00001000"
            "00000000");
  EXPECT_EQ(metric("nbd_requests_total{command=\"block_status\"}"), 2u);
  // What was agreed upon is of that export alone.
  auto second = connect();
  second->greet();
  EXPECT_EQ(second->outcome(Option::kStructuredReply), OptionReply::kAck);
  EXPECT_EQ(second->option(Option::kSetMetaContext, right.view()).size(), 2u);
  EXPECT_EQ(second->go("other"), OptionReply::kAck);
  EXPECT_EQ(second->ask(Command::kBlockStatus, 0, 4096).error, ErrorNumber::kInvalid);
}

TEST_F(NbdHolesTest, NoMetaContexts) {
  serve();
  auto client = connect();
  client->greet();
  Buffer request, unknown;
  nbd::encode(request, nbd::MetaContextRequest{"disk", {"base:allocation"}});
  nbd::encode(unknown, nbd::MetaContextRequest{"nothing", {}});
  EXPECT_EQ(client->outcome(Option::kSetMetaContext, request.view()), OptionReply::kInvalid);
  EXPECT_EQ(client->outcome(Option::kStructuredReply), OptionReply::kAck);
  EXPECT_EQ(client->outcome(Option::kStructuredReply), OptionReply::kInvalid) << "again";
  EXPECT_EQ(client->option(Option::kSetMetaContext, request.view()).size(), 1u);
  EXPECT_EQ(client->outcome(Option::kListMetaContext, request.view()), OptionReply::kAck);
  EXPECT_EQ(client->outcome(Option::kListMetaContext, unknown.view()), OptionReply::kUnknownExport);
  EXPECT_EQ(client->outcome(Option::kListMetaContext, request.view().first(9)), OptionReply::kInvalid);
}

}  // namespace
}  // namespace slice::block::testing
