#include "wire/share.h"

#include <gtest/gtest.h>

#include "rpc/xdr.h"

namespace slice::wire {
namespace {

const Sharers kTwo{{3, {0x02, 0, 0, 0, 1, 3}}, {4, {0x02, 0, 0, 0, 1, 0xff}}};

TEST(ShareMessages, AreReadAsTheyWereWritten) {
  rpc::XdrWriter out;
  encode(out, ShareClientsArgs{.server = 3,
                               .run = 0x123456789a,
                               .number = 17,
                               .hardware = {0xfe, 1, 2, 3, 4, 5},
                               .fit = true,
                               .serves = false,
                               .holds = true,
                               .prepared = 99,
                               .heard = true,
                               .follows = kTwo,
                               .peers = {{0x0a4d0102, 789, 2049}}});
  ShareClientsArgs args;
  ASSERT_TRUE(decode(out.view(), args));
  EXPECT_EQ(args.server, 3u);
  EXPECT_EQ(args.run, 0x123456789au);
  EXPECT_EQ(args.number, 17u);
  EXPECT_EQ(args.hardware, (std::array<std::uint8_t, 6>{0xfe, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(args.fit && !args.serves && args.holds);
  EXPECT_EQ(args.prepared, 99u);
  EXPECT_TRUE(args.heard);
  EXPECT_EQ(args.follows, kTwo);
  EXPECT_EQ(args.peers, (std::vector<AddressPeer>{{0x0a4d0102, 789, 2049}}));

  rpc::XdrWriter answer;
  encode(answer, ShareClientsResult{.known = true,
                                    .patience_ms = 2000,
                                    .current = {kTwo[0]},
                                    .wanted = kTwo,
                                    .peers_digest = 7,
                                    .left = {{0x0a4d0103, 65535, 2049}},
                                    .left_ns = 0x123456789abc});
  ShareClientsResult told;
  ASSERT_TRUE(decode(answer.view(), told));
  EXPECT_TRUE(told.known);
  EXPECT_EQ(told.patience_ms, 2000u);
  EXPECT_EQ(told.current, Sharers{kTwo[0]});
  EXPECT_EQ(told.wanted, kTwo);
  EXPECT_EQ(told.peers_digest, 7u);
  EXPECT_EQ(told.left, (std::vector<AddressPeer>{{0x0a4d0103, 65535, 2049}}));
  EXPECT_EQ(told.left_ns, 0x123456789abcu);
}

TEST(ShareMessages, WhatIsCutShortOrTooLongIsNone) {
  rpc::XdrWriter out;
  encode(out, ShareClientsResult{.known = true, .current = kTwo, .wanted = kTwo, .left = {{1, 2, 3}}});
  const ByteView whole = out.view();
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    ShareClientsResult told;
    EXPECT_FALSE(decode(whole.first(bytes), told)) << bytes;
  }
  rpc::XdrWriter many;
  encode(many, ShareClientsResult{.current = Sharers(kMaxSharers + 9), .wanted = {}, .left = {}});
  ShareClientsResult told;
  ASSERT_TRUE(decode(many.view(), told));
  EXPECT_EQ(told.current.size(), kMaxSharers) << "the first ones";
}

TEST(ShareMessages, DigestsTellListsApart) {
  EXPECT_EQ(digest(kTwo), digest(Sharers(kTwo)));
  EXPECT_NE(digest(kTwo), digest(Sharers{kTwo[0]}));
  EXPECT_NE(digest(Sharers{}), 0u);
  Sharers other = kTwo;
  other[1].hardware[5] = 1;
  EXPECT_NE(digest(kTwo), digest(other)) << "an interface was changed";
}

}  // namespace
}  // namespace slice::wire
