#include "common/ip_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace slice {
namespace {

using ::testing::HasSubstr;

IpAddress address(std::string_view text) {
  const auto parsed = parse_address(text);
  EXPECT_TRUE(parsed) << text;
  return parsed.value_or(IpAddress());
}
Network network(std::string_view text) {
  const auto parsed = parse_network(text);
  EXPECT_TRUE(parsed) << text << (parsed ? "" : parsed.error().message);
  return parsed.value_or(Network{});
}

TEST(IpAddress, TextOfEitherFamily) {
  for (const char* text : {"10.77.2.2", "0.0.0.0", "255.255.255.255", "::1", "fd77::2",
                           "2001:db8:0:1:1:1:1:1", "fe80::1", "64:ff9b::a4d:101"}) {
    EXPECT_EQ(address_text(address(text)), text);
  }
  EXPECT_EQ(address_text(address("FD77:0::0002")), "fd77::2");
  for (const char* text : {"", "10.77.2", "10.77.2.256", "010.1.1.1", "1", "fd77", "fd77:::1", "[::1]",
                           "fe80::1%eth0", "::ffff:1.2.3.4.5", "10.77.2.2 "}) {
    EXPECT_FALSE(parse_address(text)) << text;
  }
}

TEST(IpAddress, OfIpv4IsOneHoweverItCame) {
  EXPECT_EQ(address("::ffff:10.77.2.2"), IpAddress(0x0a4d0202));
  EXPECT_EQ(address("::ffff:10.77.2.2"), address("10.77.2.2"));
  EXPECT_TRUE(address("10.77.2.2").is_v4());
  EXPECT_EQ(address("10.77.2.2").v4(), 0x0a4d0202u);
  EXPECT_EQ(IpAddress::of_bytes(address("10.77.2.2").bytes().data(), 16), address("10.77.2.2"));
  EXPECT_EQ(IpAddress::of_bytes(address("fd77::2").bytes().data(), 16), address("fd77::2"));
  for (const char* text : {"10.77.2.2", "fd77::2"}) {
    const AddressBytes bytes(address(text));
    EXPECT_EQ(bytes.size(), address(text).is_v4() ? 4u : 16u);
    EXPECT_EQ(IpAddress::of_bytes(bytes.data(), bytes.size()), address(text));
  }
  EXPECT_EQ(address("fd77::2").v4(), 0u);
  EXPECT_TRUE(address("::").none() && address("0.0.0.0").none() && address("::ffff:0.0.0.0").none());
  EXPECT_FALSE(address("::10.77.2.2").is_v4()) << "compatible is not mapped";
}

TEST(IpAddress, WordSaysThatOneOfIpv6Follows) {
  EXPECT_EQ(address("10.77.2.2").word(), 0x0a4d0202u);
  EXPECT_EQ(address("fd77::2").word(), IpAddress::kNotV4);
  EXPECT_EQ(IpAddress().word(), 0u);
}

TEST(IpAddress, OfOneHost) {
  for (const char* text : {"10.77.2.2", "127.0.0.1", "::1", "fd77::2", "2001:db8::1"})
    EXPECT_TRUE(address(text).is_host()) << text;
  for (const char* text :
       {"0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "240.0.0.1", "ff02::1", "fe80::1", "febf::1"})
    EXPECT_FALSE(address(text).is_host()) << text;
  EXPECT_TRUE(address("127.3.2.1").is_loopback() && address("::1").is_loopback());
  EXPECT_FALSE(address("fd77::1").is_loopback() || address("128.0.0.1").is_loopback());
}

TEST(Network, HasWhatItsBitsSay) {
  EXPECT_TRUE(network("10.77.0.0/16").has(address("10.77.255.1")));
  EXPECT_TRUE(network("10.77.0.0/255.255.0.0").has(address("::ffff:10.77.255.1")));
  EXPECT_FALSE(network("10.77.0.0/16").has(address("10.78.0.1")));
  EXPECT_FALSE(network("10.77.0.0/16").has(address("fd77::1")));
  EXPECT_TRUE(network("10.77.1.1").has(address("10.77.1.1")));
  EXPECT_FALSE(network("10.77.1.1").has(address("10.77.1.2")));
  EXPECT_TRUE(network("fd77:1::/64").has(address("fd77:1::ffff:1")));
  EXPECT_FALSE(network("fd77:1::/64").has(address("fd77:1:0:1::1")));
  EXPECT_TRUE(network("fd77::80/121").has(address("fd77::ff")));
  EXPECT_FALSE(network("fd77::80/121").has(address("fd77::7f")));
  EXPECT_TRUE(network("::1").has(address("::1")));
}

// Of either family all are not of the other.
TEST(Network, EverybodyIsOfBothFamilies) {
  const IpAddress four = address("10.77.1.1"), six = address("fd77::1");
  EXPECT_TRUE(Network{}.has(four) && Network{}.has(six));
  EXPECT_TRUE(network("0.0.0.0/0").has(four) && !network("0.0.0.0/0").has(six));
  EXPECT_TRUE(network("::/0").has(six) && !network("::/0").has(four));
  EXPECT_TRUE(Network{}.has_all_of(network("::/0")) && Network{}.has_all_of(network("10.0.0.0/8")));
  EXPECT_FALSE(network("::/0").has_all_of(network("10.0.0.0/8")));
  EXPECT_FALSE(network("::/0").has_all_of(Network{}));
  EXPECT_TRUE(network("::/0").has_all_of(network("fd77::/16")));
  EXPECT_TRUE(network("0.0.0.0/0").has_all_of(network("10.0.0.0/8")));
  EXPECT_FALSE(network("10.0.0.0/8").has_all_of(network("0.0.0.0/0")));
  EXPECT_EQ(Network::of_v4(0x0a4d0000, 0xffff0000), network("10.77.0.0/16"));
  EXPECT_EQ(Network::of_host(six), network("fd77::1"));
}

TEST(Network, Text) {
  for (const char* text :
       {"10.77.0.0/16", "0.0.0.0/0", "10.77.1.1/32", "::/0", "fd77::/64", "::1/128", "0.0.0.0/8"})
    EXPECT_EQ(network_text(network(text)), text);
  EXPECT_EQ(network_text(network("10.77.0.0/255.255.0.0")), "10.77.0.0/16");
  EXPECT_EQ(network_text(Network{}), "*");
}

TEST(Network, RefusesWhatIsNone) {
  for (const char* text : {"10.77.0.0/33", "10.77.0.0/", "10.77.0.0/255.0.255.0", "fd77::/129",
                           "fd77::/ffff::", "10.77.0.0/-1", "/16", "client.example", "::/96x"})
    EXPECT_FALSE(parse_network(text)) << text;
  EXPECT_THAT(parse_network("10.77.1.0/16").error().message, HasSubstr("10.77.0.0/16 is meant"));
  EXPECT_THAT(parse_network("fd77::1/64").error().message, HasSubstr("fd77::/64 is meant"));
  EXPECT_FALSE((Network{.address = address("fd77::1"), .bits = 64, .v6 = true}).valid());
  EXPECT_FALSE((Network{.address = address("10.77.1.1"), .bits = 128, .v6 = true}).valid());
  EXPECT_FALSE((Network{.address = address("fd77::1"), .bits = 128, .v6 = false}).valid());
}

}  // namespace
}  // namespace slice
