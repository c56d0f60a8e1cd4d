// What is learned of servers' ways, and doubted. In a network namespace of its own; needs root.
#include "control/xdp/neighbours.h"

#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>

#include "common/bytes.h"
#include "control/xdp/testing/shell.h"

namespace slice::proxy {
namespace {

using testing::run;

// Servers 1 and 2 behind the interface "one", server 3 behind "far".
class NeighboursTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_EQ(::unshare(CLONE_NEWNET), 0) << "root is needed";
    ASSERT_TRUE(
        run("ip link add one type veth peer name one-end && ip link add far type veth peer name far-end && "
            "ip addr add 10.77.9.1/24 dev one && ip addr add 10.77.8.1/24 dev far && "
            "for each in one one-end far far-end; do ip link set $each up || exit 1; done"));
  }
  void SetUp() override {
    ASSERT_TRUE(
        run("ip neigh replace 10.77.9.2 lladdr 02:00:00:00:00:02 dev one nud permanent && "
            "ip neigh replace 10.77.9.3 lladdr 02:00:00:00:00:03 dev one nud permanent && "
            "ip neigh replace 10.77.8.2 lladdr 02:00:00:00:00:04 dev far nud permanent"));
    place(1, 0x0a4d0902);
    place(2, 0x0a4d0903);
    place(3, 0x0a4d0802);
    refresh();
  }
  void place(std::size_t index, IpAddress address) {
    server(index) = {};
    store_be(server(index).ipv4, address.v4());
    server(index).port = 2049;
  }
  slice_server& server(std::size_t index) { return memory_.tables().servers[index]; }
  void refresh() { neighbours_.refresh(memory_.tables()); }

  MemoryTables memory_;
  Neighbours neighbours_;
};

TEST_F(NeighboursTest, AWayIsInterfaceAndAddresses) {
  EXPECT_EQ(server(1).ifindex, ::if_nametoindex("one"));
  EXPECT_EQ(server(1).next_hop_mac[5], 2);
  EXPECT_EQ(server(3).ifindex, ::if_nametoindex("far"));
  EXPECT_EQ(neighbours_.doubts(), "");
}

TEST_F(NeighboursTest, WhatOneServerSharesWithClientsIsDoubtedOfAllBehindThatInterface) {
  server(1).doubts = SLICE_SERVER_SHARED;  // by the program, at a client's request
  refresh();
  EXPECT_EQ(server(2).doubts, SLICE_SERVER_SHARED);
  EXPECT_EQ(server(3).doubts, 0u);
  EXPECT_EQ(neighbours_.doubts(), "clients and servers share: one");
  server(1).doubts = server(2).doubts = 0;  // for good
  refresh();
  EXPECT_EQ(server(1).doubts, SLICE_SERVER_SHARED);
  EXPECT_EQ(neighbours_.doubts(), "clients and servers share: one");
}

TEST_F(NeighboursTest, RepliesFromAnotherAddressAreDoubtedUntilTheWayIsAnother) {
  server(3).doubts = SLICE_SERVER_ASTRAY;
  refresh();
  EXPECT_EQ(server(3).doubts, SLICE_SERVER_ASTRAY);
  EXPECT_EQ(neighbours_.doubts(), "replies come from another address than the way's: server 3");
  ASSERT_TRUE(run("ip neigh replace 10.77.8.2 lladdr 02:00:00:00:00:05 dev far nud permanent"));
  refresh();
  EXPECT_EQ(server(3).doubts, 0u);
  EXPECT_EQ(neighbours_.doubts(), "");
}

TEST_F(NeighboursTest, WithoutAnAddressTheStackForwards) {
  ASSERT_TRUE(run("ip neigh del 10.77.8.2 dev far"));
  refresh();
  EXPECT_EQ(server(3).ifindex, 0u);
}

// One at the link, one behind a router that is known by its link-local address, as routers announce
// themselves.
TEST_F(NeighboursTest, SoItIsOverIpv6) {
  ASSERT_TRUE(
      run("ip address replace fd77::9:1/112 dev one nodad && "
          "ip neigh replace fd77::9:4 lladdr 02:00:00:00:00:14 dev one nud permanent && "
          "ip route replace fd77::a:0/112 via fe80::15 dev far && "
          "ip neigh replace fe80::15 lladdr 02:00:00:00:00:15 dev far nud permanent"));
  memory_.tables().set_endpoint(4, {*parse_address("fd77::9:4"), 2049});
  memory_.tables().set_endpoint(5, {*parse_address("fd77::a:5"), 2049});
  memory_.tables().set_endpoint(6, {*parse_address("fd99::1"), 2049});
  slice_server6* servers = memory_.tables().servers6;
  refresh();
  EXPECT_EQ(servers[4].server.ifindex, ::if_nametoindex("one"));
  EXPECT_EQ(servers[4].server.next_hop_mac[5], 0x14);
  EXPECT_EQ(servers[5].server.ifindex, ::if_nametoindex("far"));
  EXPECT_EQ(servers[5].server.next_hop_mac[5], 0x15);
  EXPECT_EQ(servers[6].server.ifindex, 0u) << "there is no route";
  EXPECT_EQ(server(4).ifindex, 0u);
  servers[4].server.doubts = SLICE_SERVER_SHARED;
  refresh();
  EXPECT_EQ(server(1).doubts, SLICE_SERVER_SHARED) << "behind the same interface";
  memory_.tables().set_endpoint(4, {0x0a4d0902, 2049});
  refresh();
  EXPECT_EQ(servers[4].server.ifindex, 0u);
  EXPECT_EQ(server(4).ifindex, ::if_nametoindex("one"));
}

TEST_F(NeighboursTest, DoubtsOfARunBeforeDoNotCount) {
  server(1).doubts = SLICE_SERVER_SHARED;
  Neighbours fresh;
  fresh.refresh(memory_.tables());
  EXPECT_EQ(server(1).doubts, 0u);
  EXPECT_EQ(fresh.doubts(), "");
}

}  // namespace
}  // namespace slice::proxy
