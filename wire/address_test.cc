#include "wire/address.h"

#include <gtest/gtest.h>

#include "rpc/xdr.h"

namespace slice::wire {
namespace {

TEST(AddressMessages, AreReadAsTheyWereWritten) {
  rpc::XdrWriter out;
  encode(out, HoldAddressArgs{.server = 3,
                              .ready = true,
                              .holds = true,
                              .run = 0x123456789a,
                              .number = 17,
                              .wanted = 7,
                              .peers = {{0x0a4d0102, 789, 2049}}});
  HoldAddressArgs args;
  ASSERT_TRUE(decode(out.view(), args));
  EXPECT_EQ(args.server, 3u);
  EXPECT_TRUE(args.ready && args.holds);
  EXPECT_EQ(args.run, 0x123456789au);
  EXPECT_EQ(args.number, 17u);
  EXPECT_EQ(args.wanted, 7u);
  EXPECT_EQ(args.peers, (std::vector<AddressPeer>{{0x0a4d0102, 789, 2049}}));

  rpc::XdrWriter answer;
  const HoldAddressResult told{.known = true,
                               .holder = 3,
                               .patience_ms = 2000,
                               .askers = {{.server = 3, .ready = true, .holds = true, .age_ms = 12},
                                          {.server = 4, .ready = true, .holds = false, .age_ms = 250}},
                               .peers_digest = 99,
                               .peers = {{0x0a4d0102, 789, 2049}, {0x0a4d0103, 65535, 20048}},
                               .refused = "it is no proxy"};
  encode(answer, told);
  HoldAddressResult result;
  ASSERT_TRUE(decode(answer.view(), result));
  EXPECT_TRUE(result.known);
  EXPECT_EQ(result.holder, 3u);
  EXPECT_EQ(result.patience_ms, 2000u);
  EXPECT_EQ(result.askers, told.askers);
  EXPECT_EQ(result.peers_digest, 99u);
  EXPECT_EQ(result.peers, told.peers);
  EXPECT_NE(digest(result.peers), digest(args.peers));
  EXPECT_EQ(result.refused, told.refused);
}

TEST(AddressMessages, AreRefusedWhereBytesAreMissingOrTooMany) {
  rpc::XdrWriter out;
  encode(out,
         HoldAddressResult{
             .known = true, .holder = 1, .patience_ms = 1, .askers = {{}}, .peers = {{}}, .refused = ""});
  const ByteView whole = out.view();
  HoldAddressResult result;
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(decode(whole.first(size), result)) << size;
  rpc::XdrWriter many;
  many.boolean(true);
  many.u32(0);
  many.u32(0);
  many.u32(0xffffffff);  // askers
  EXPECT_FALSE(decode(many.view(), result));
}

}  // namespace
}  // namespace slice::wire
