#include "control/xdp/reverse_path.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace slice::proxy {
namespace {

class ReversePath : public testing::Test {
 protected:
  ReversePath() : folder_(std::filesystem::path(testing::TempDir()) / "reverse-path") {
    std::filesystem::remove_all(folder_);
  }
  ~ReversePath() override { std::filesystem::remove_all(folder_); }

  void set(const std::string& interface, int rp_filter, int forwarding) {
    std::filesystem::create_directories(folder_ / interface);
    std::ofstream(folder_ / interface / "rp_filter") << rp_filter << "\n";
    std::ofstream(folder_ / interface / "forwarding") << forwarding << "\n";
  }
  std::string warnings(bool xdp = true) {
    return reverse_path_warnings({"eth0", "eth1", "gone"}, xdp, folder_.string());
  }

  std::filesystem::path folder_;
};

TEST_F(ReversePath, TheLargerSettingCounts) {
  set("all", 0, 1);
  set("eth0", 1, 1);
  set("eth1", 0, 1);
  EXPECT_EQ(warnings(), "rp_filter is not 1: eth1=0");
  set("eth0", 0, 1);
  EXPECT_EQ(warnings(), "rp_filter is not 1: eth0=0 eth1=0");
  set("all", 1, 1);
  EXPECT_EQ(warnings(), "");
}

// 2 is the loose filter, which lets in what comes from where any interface's route leads back to.
// Distributions set it for each interface, and a strict setting for all does not overrule it.
TEST_F(ReversePath, ALooseFilterIsNotEnough) {
  set("all", 1, 1);
  set("eth0", 2, 1);
  set("eth1", 1, 1);
  EXPECT_EQ(warnings(), "rp_filter is not 1: eth0=2");
  set("all", 2, 1);
  EXPECT_EQ(warnings(), "rp_filter is not 1: eth0=2 eth1=2");
}

TEST_F(ReversePath, WithoutForwardingTheProgramCannotAskTheRoutes) {
  set("all", 0, 1);
  set("eth0", 0, 1);
  set("eth1", 1, 0);
  EXPECT_EQ(warnings(), "rp_filter is not 1: eth0=0; does not forward: eth1");
  EXPECT_EQ(warnings(false), "rp_filter is not 1: eth0=0");
}

TEST_F(ReversePath, SoItIsOverIpv6) {
  set("eth0", 0, 1);
  set("eth1", 0, 1);
  EXPECT_EQ(ipv6_warnings({"eth0", "eth1", "gone"}, folder_.string()), "");
  set("eth1", 0, 0);
  EXPECT_EQ(ipv6_warnings({"eth0", "eth1", "gone"}, folder_.string()), "does not forward IPv6: eth1");
}

// Either would make clients take this host for the one that has the address.
TEST_F(ReversePath, AnAddressAtTheLoopbackInterfaceMustNotBeTold) {
  const auto set_arp = [this](const std::string& interface, int ignore, int announce) {
    std::filesystem::create_directories(folder_ / interface);
    std::ofstream(folder_ / interface / "arp_ignore") << ignore << "\n";
    std::ofstream(folder_ / interface / "arp_announce") << announce << "\n";
  };
  const auto arp = [this] { return arp_warnings("eth0", folder_.string()); };
  set_arp("all", 0, 0);
  set_arp("eth0", 0, 0);
  EXPECT_EQ(arp(), "net.ipv4.conf.eth0.arp_ignore is 0, not 1, net.ipv4.conf.eth0.arp_announce is 0, not 2");
  set_arp("eth0", 1, 1);
  EXPECT_EQ(arp(), "net.ipv4.conf.eth0.arp_announce is 1, not 2");
  set_arp("all", 0, 2);
  EXPECT_EQ(arp(), "");
  set_arp("eth0", 2, 2);
  EXPECT_EQ(arp(), "");
  set_arp("eth0", 8, 2);
  EXPECT_EQ(arp(), "net.ipv4.conf.eth0.arp_ignore is 8, not 1") << "it would not answer for its own either";
}

}  // namespace
}  // namespace slice::proxy
