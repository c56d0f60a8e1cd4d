#include "service/places.h"

#include <gtest/gtest.h>

namespace slice::service {
namespace {

TEST(Places, AServerIsAtTheOneThatThisHostHas) {
  ServerConfig server{.name = "dir1", .address = 10, .backing_copies = 2, .places = {10, 20, 30}};
  ASSERT_TRUE(choose_place(server, {1, 20, 30}));
  EXPECT_EQ(server.address, 20u);
  ASSERT_TRUE(choose_place(server, {10, 20}));
  EXPECT_EQ(server.address, 20u) << "it is served there, and that is here";
  Status nowhere = choose_place(server, {1});
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, Errc::kInvalid);
  EXPECT_EQ(nowhere.error().message,
            "server 'dir1' may run at 0.0.0.10:2049, 0.0.0.20:2049, 0.0.0.30:2049: this host has none of "
            "these addresses");
}

TEST(Places, OneOfOnePlaceIsWhereItIsToldToBe) {
  ServerConfig server{.name = "dir1", .address = 10, .places = {5}};
  ASSERT_TRUE(choose_place(server, {1}));
  EXPECT_EQ(server.address, 10u);
}

TEST(Places, ThisHostHasItself) {
  EXPECT_TRUE(addresses_of_this_host().contains(0x7f000001));
}

}  // namespace
}  // namespace slice::service
