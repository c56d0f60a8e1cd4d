#include "control/slicectl/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "rpc/call.h"
#include "service/testing/service_fixture.h"

namespace slice::slicectl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A host that has dir1 and the proxy, and is as it should be.
class DoctorTest : public service::testing::ServiceFixture {
 protected:
  DoctorTest() : ServiceFixture("dir1") {
    config_.path = "/etc/slice/ensemble.toml";
    config_.key_file = "/etc/slice/ensemble.key";
    config_.proxy.xdp = ProxyConfig::Xdp::kAuto;
    host_.kernel = "6.1.0-18-amd64";
    host_.addresses = {{config_.find("dir1")->address, "eth0"},
                       {config_.find("proxy1")->address, "eth0"},
                       {config_.proxy.virtual_address, "lo"}};
    host_.interfaces = {"eth0"};
    host_.settings = {
        {"net.core.rmem_max", 8 << 20}, {"net.core.wmem_max", 8 << 20}, {"net.ipv4.ip_forward", 1}};
    host_.key_file = {.there = true, .mode = 0600, .owner = "slice"};
    host_.data["dir1"] = {.file = {.there = true, .mode = 0700, .owner = "slice"},
                          .is_folder = true,
                          .file_system = "ext4",
                          .free_bytes = 60ull << 30,
                          .total_bytes = 100ull << 30};
    heard_.members.emplace();
    for (const ServerConfig& each : config_.servers) {
      HeardServer server{.entry = {.server = each.index,
                                   .role = static_cast<wire::Role>(each.role),
                                   .endpoint = {each.address, each.port},
                                   .name = each.name}};
      server.about = {.name = each.name, .shared = wire::shared_keys(config_)};
      server.inexact = std::chrono::microseconds(200);
      heard_.servers.push_back(std::move(server));
    }
  }
  HeardServer& own(const std::string& name) { return heard_.servers.at(config_.find(name)->index); }
  // "LEVEL NAME: what" of each that is not good.
  std::vector<std::string> found() const {
    std::vector<std::string> found;
    for (const Check& each : diagnose(config_, host_, heard_)) {
      if (each.level == HealthLevel::kOk) continue;
      EXPECT_NE(each.cure, "") << each.name;
      found.push_back(fmt::format("{} {}: {}", each.level == HealthLevel::kError ? "error" : "warning",
                                  each.name, each.what));
    }
    return found;
  }
  void listen(bool tcp, IpAddress address, std::uint16_t port, const std::string& program) {
    host_.listeners.push_back({tcp, address, port, program});
  }

  HostFacts host_;
  Heard heard_;
};

TEST_F(DoctorTest, FindsNothingWhereAllIsWell) {
  EXPECT_THAT(found(), IsEmpty());
  const auto checks = diagnose(config_, host_, heard_);
  EXPECT_TRUE(all_good(checks));
  const std::string text = render_checks(checks, Format::kText);
  EXPECT_THAT(text, HasSubstr("ok       key: the same as the manager's\n"));
  EXPECT_THAT(text, HasSubstr("ok       servers: of this host: dir1 proxy1\n"));
  EXPECT_THAT(text, HasSubstr("TCP 10.77.2.2:2049 is free\n"));
  EXPECT_EQ(nlohmann::json::parse(render_checks(checks, Format::kJson))["errors"], 0);
}

TEST_F(DoctorTest, SaysWhatIsWrongWithAConfiguration) {
  const auto checks = diagnose(Error{Errc::kInvalid, "/etc/slice/ensemble.toml:3: no"});
  EXPECT_FALSE(all_good(checks));
  EXPECT_EQ(render_checks(checks, Format::kText),
            "error    configuration: /etc/slice/ensemble.toml:3: no. Cure: docs/configuration.md\n");
  config_.warnings = {"no export is secure"};
  EXPECT_THAT(found(), ElementsAre("warning configuration: no export is secure"));
}

TEST_F(DoctorTest, LooksWhetherTheServersMayReadTheKey) {
  host_.key_file.owner = "root";
  EXPECT_THAT(found(),
              ElementsAre(HasSubstr("error key-file: /etc/slice/ensemble.key: mode 0600, owner root, "
                                    "and the data directory of dir1 is slice's")));
  host_.data["dir1"].file.owner = "root";
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(DoctorTest, ComparesKeysAndConfigurations) {
  EnsembleConfig other = config_;
  other.site_counts[2] = 512;
  own("store1").about->shared = wire::shared_keys(other);
  EXPECT_THAT(found(), ElementsAre("error same-configuration: store1 runs with another ensemble.toml: "
                                   "[sites] storage (512, here 1024)"));
  own("store1").about->shared = wire::shared_keys(config_);
  heard_.members.reset();
  heard_.manager_silence = Error{Errc::kTimedOut, "no answer"};
  EXPECT_THAT(found(), ElementsAre(HasSubstr("warning key: not compared")));
  heard_.manager_silence = rpc::other_key();
  EXPECT_THAT(found(), ElementsAre("error key: this host's key differs from the manager's"));
}

TEST_F(DoctorTest, SaysWhoLeadsOfSeveralManagersAndHowTheirEtcdIs) {
  config_.managers.etcd = {"http://a:2379", "http://b:2379"};
  for (HeardServer& each : heard_.servers) each.about->shared = wire::shared_keys(config_);
  wire::LeaderResult& said = own("manager1").leader.emplace();
  said = {.leads = true,
          .leader = "manager1",
          .trouble = "",
          .places = {{"http://a:2379", ""}, {"http://b:2379", ""}}};
  EXPECT_THAT(found(), IsEmpty());
  const std::string text = render_checks(diagnose(config_, host_, heard_), Format::kText);
  EXPECT_THAT(text, HasSubstr("ok       managers: manager1 of 1 leads\n"));
  EXPECT_THAT(text, HasSubstr("ok       etcd: 2 members are well\n"));
  said.places[1].trouble = "no answer";
  EXPECT_THAT(found(), ElementsAre("warning etcd: http://b:2379: no answer"));
  said = {.trouble = "its disk is full", .places = {}};
  EXPECT_THAT(found(), ElementsAre("error managers: none of 1 leads: its disk is full"));
}

TEST_F(DoctorTest, ComparesTheClockAndSaysHowExactly) {
  own("manager1").ahead_ns = 3'200'000'000;
  EXPECT_THAT(found(), ElementsAre("error clock: 3200.0 ms behind manager1's, to within 0.2 ms"));
  own("manager1").inexact = std::chrono::seconds(3);
  EXPECT_THAT(found(), IsEmpty()) << "it may be right";
}

TEST_F(DoctorTest, NamesWhoHasAPort) {
  const std::uint32_t address = config_.find("dir1")->address.v4();
  listen(true, address, 2049, "slice-dird");
  listen(false, address + 1, 2049, "somebody");
  listen(true, 0, config_.proxy.portmap_port, "rpcbind");
  EXPECT_THAT(found(), IsEmpty());
  listen(true, 0, config_.proxy.mount_port, "rpc.mountd");
  listen(false, 0, 2049, "");
  EXPECT_THAT(found(),
              ElementsAre(HasSubstr("dir1 UDP 10.77.2.2:2049 is the kernel's"), HasSubstr("proxy1 UDP"),
                          HasSubstr("the virtual address TCP 10.77.0.1:20048 is rpc.mountd's"),
                          HasSubstr("the virtual address UDP 10.77.0.1:2049 is the kernel's")));
}

TEST_F(DoctorTest, LooksAtDataDirectories) {
  FolderFacts& folder = host_.data["dir1"];
  folder.free_bytes = 5ull << 30;
  EXPECT_THAT(found(), ElementsAre(HasSubstr("warning data-directory: ")));
  folder.free_bytes = 1;
  EXPECT_THAT(found(), ElementsAre(HasSubstr("less than its reserve of 64.0 MiB")));
  folder.free_bytes = 60ull << 30;
  folder.file_system = "tmpfs";
  EXPECT_THAT(found(), ElementsAre(HasSubstr("gone after a power cut")));
  folder.file_system = "xfs";
  folder.file.mode = 0500;
  EXPECT_THAT(found(), ElementsAre(HasSubstr("its owner may not write")));
  folder.is_folder = false;
  EXPECT_THAT(found(), ElementsAre(HasSubstr("is not a directory")));
  folder = {};
  EXPECT_THAT(found(), IsEmpty()) << "the first start makes it";
}

TEST_F(DoctorTest, LooksWhereAProxyPutsTheAddressByItself) {
  config_.proxy.address_interface = "eth0";
  host_.arp = "net.ipv4.conf.eth0.arp_ignore is 0, not 1";
  EXPECT_THAT(found(), ElementsAre(HasSubstr("10.77.0.1 is at lo, and the proxy is to put it at eth0")));
  config_.servers.push_back(*config_.find("proxy1"));
  config_.servers.back().name = "proxy2";
  EXPECT_THAT(found(), ::testing::Contains(HasSubstr("warning sysctl: a proxy here shares no clients with "
                                                     "others: net.ipv4.conf.eth0.arp_ignore is 0")));
  config_.servers.pop_back();
  host_.arp.clear();
  EXPECT_THAT(found(), IsEmpty()) << "it serves a part of the clients";
  host_.addresses[config_.proxy.virtual_address] = "eth0";
  EXPECT_THAT(found(), IsEmpty());
  host_.addresses.erase(config_.proxy.virtual_address);
  EXPECT_THAT(found(), IsEmpty()) << "another has it";
  config_.proxy.address_interface = "eth7";
  EXPECT_THAT(found(), ElementsAre(HasSubstr("eth7 is no interface")));
}

TEST_F(DoctorTest, LooksAtWhatAProxyNeeds) {
  host_.addresses.erase(config_.proxy.virtual_address);
  host_.settings = {{"net.core.rmem_max", 212992}, {"net.ipv4.ip_forward", 0}};
  host_.reverse_path = "rp_filter is not 1: eth0=2";
  host_.kernel = "5.10.0";
  host_.xdp_refused = "Operation not permitted";
  EXPECT_THAT(found(),
              ElementsAre(HasSubstr("warning sysctl: net.core.rmem_max = 212992"),
                          HasSubstr("error virtual-address: 10.77.0.1 is at no interface"),
                          HasSubstr("warning sysctl: rp_filter is not 1: eth0=2"),
                          HasSubstr("warning kernel: 5.10.0: refuses"),
                          HasSubstr("warning xdp: this process may not load an XDP program: Operation"),
                          HasSubstr("warning sysctl: net.ipv4.ip_forward = 0")));
  config_.proxy.xdp = ProxyConfig::Xdp::kNative;
  host_.native_xdp["eth0"] = false;
  EXPECT_THAT(found(), ::testing::Contains("error xdp: eth0: its driver takes no native programs"));
  config_.proxy.xdp = ProxyConfig::Xdp::kOff;
  EXPECT_THAT(found(), ::testing::SizeIs(3)) << "kernel and forwarding matter to XDP alone";
  host_.addresses.erase(config_.find("proxy1")->address);
  EXPECT_THAT(found(), ElementsAre(HasSubstr("net.core.rmem_max"))) << "this is no proxy's host";
}

TEST_F(DoctorTest, KnowsKernelsThatWereNotTried) {
  host_.kernel = "5.19.3";
  EXPECT_THAT(found(), ElementsAre(HasSubstr("warning kernel: 5.19.3: the XDP program was not tried")));
  host_.kernel = "10.0";
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(DoctorTest, NamesWhoIsNotReached) {
  own("store2").silence = Error{Errc::kTimedOut, "no answer"};
  own("store2").about.reset();
  EXPECT_THAT(found(), ElementsAre(HasSubstr("error reachable: store2: no answer")));
}

TEST_F(DoctorTest, SaysWhereNoServerIsOfThisHost) {
  host_.addresses.clear();
  EXPECT_THAT(found(), ElementsAre(HasSubstr("warning servers: no server of the ensemble")));
}

TEST(ParseSockets, ReadsLinesOfBothFamilies) {
  const auto sockets = parse_sockets(
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
      "   0: 0203000A:0801 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0\n"
      "   1: 0100007F:0CEA 0100007F:0801 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0\n"
      "   2: 00000000000000000000000000000000:006F 00000000000000000000000000000000:0000 0A "
      "00000000:00000000 00:00000000 00000000     0        0 4713 1 0\n"
      "   3: 000080FE000000000000000000000000:006F 00000000000000000000000000000000:0000 0A "
      "00000000:00000000 00:00000000 00000000     0        0 4714 1 0\n"
      "half a line\n   3: zz:0 0 0 0 0 0 0 0 0\n");
  ASSERT_EQ(sockets.size(), 4u);
  EXPECT_EQ(address_text(sockets[3].address), "fe80::");
  EXPECT_EQ(sockets[0].address, 0x0a000302u);
  EXPECT_EQ(sockets[0].port, 2049);
  EXPECT_EQ(sockets[0].inode, 4711u);
  EXPECT_TRUE(sockets[0].listens);
  EXPECT_FALSE(sockets[1].listens);
  EXPECT_EQ(sockets[2].address, 0u);
  EXPECT_EQ(sockets[2].port, 111);
}

TEST(LookAtHost, SeesThisHost) {
  const HostFacts facts = look_at_host(service::testing::sample_config());
  EXPECT_NE(facts.kernel, "");
  EXPECT_TRUE(facts.addresses.empty() || !facts.addresses.begin()->second.empty());
}

}  // namespace
}  // namespace slice::slicectl
