#include "wire/rpcbind4.h"

#include <gtest/gtest.h>

#include "wire/testing/codec_checks.h"

namespace slice::rpcbind4 {
namespace {

// rpcb of RFC 1833 section 2.1, byte for byte.
TEST(Rpcbind4, Bytes) {
  rpc::XdrWriter out;
  encode(out,
         Registration{.program = 100003, .version = 3, .netid = "tcp6", .address = "::.8.1", .owner = "x"});
  EXPECT_EQ(to_hex(out.view()),
            "000186a300000003000000047463703600000006"
            "3a3a2e382e310000"
            "0000000178000000");
  Registration back;
  ASSERT_TRUE(decode(out.view(), back));
  EXPECT_EQ(back.netid, "tcp6");
  EXPECT_EQ(back.address, "::.8.1");
  for (std::size_t cut = 0; cut < out.size(); ++cut) EXPECT_FALSE(decode(out.view().first(cut), back));
}

TEST(Rpcbind4, UniversalAddresses) {
  for (const char* text : {"10.77.0.1.8.1", "fd77::1.8.1", "0.0.0.0.0.111", "::1.255.255"}) {
    const auto parsed = parse_universal_address(text);
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(universal_address(*parsed), text);
  }
  EXPECT_EQ(parse_universal_address("fd77::1.8.1")->port, 2049);
  for (const char* text :
       {"", "8.1", "10.77.0.1", "10.77.0.1.8.256", "fd77::1.8", "fd77::1.8.1.", "fd77::1.8.-1"})
    EXPECT_FALSE(parse_universal_address(text)) << text;
}

TEST(Rpcbind4, Netids) {
  for (const bool tcp : {true, false}) {
    for (const bool v4 : {true, false}) EXPECT_EQ(transport_of(netid(tcp, v4)), (Transport{tcp, v4}));
  }
  EXPECT_EQ(netid(false, false), "udp6");
  EXPECT_FALSE(transport_of("local") || transport_of(""));
}

TEST(Rpcbind4, ADumpIsNoLongerThanItMayBe) {
  std::vector<Registration> all(
      3, Registration{.program = 1, .version = 2, .netid = "udp", .address = "a", .owner = "o"});
  rpc::XdrWriter out;
  encode(out, all);
  std::vector<Registration> back;
  ASSERT_TRUE(decode(out.view(), back));
  EXPECT_EQ(back, all);
  all.resize(kMaxRegistrations + 5);
  rpc::XdrWriter most;
  encode(most, all);
  ASSERT_TRUE(decode(most.view(), back));
  EXPECT_EQ(back.size(), kMaxRegistrations);
}

}  // namespace
}  // namespace slice::rpcbind4
