#include "common/settings.h"

#include "common/export_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace slice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

EnsembleConfig config() {
  EnsembleConfig made;
  made.name = "test";
  made.exports.push_back({.clients = Network::of_v4(0x0a4d0100, 0xffffff00)});
  made.servers.push_back({.name = "manager1", .role = ServerRole::kManager, .data = "/data/manager1"});
  made.servers.push_back({.name = "store1", .role = ServerRole::kStorage, .data = "/data/store1"});
  made.servers.push_back({.name = "proxy1", .role = ServerRole::kProxy, .data = ""});
  return made;
}

TEST(Settings, AreWhatTheFileSays) {
  EnsembleConfig file = config();
  file.volume.copies = 2;
  file.servers[1].reserve_bytes = 7;
  const Settings settings = settings_of(file);
  EXPECT_EQ(settings.generation, SettingsGeneration{0});
  EXPECT_EQ(settings.copies, 2u);
  EXPECT_EQ(settings.exports, file.exports);
  EXPECT_EQ(settings.reserve_of(file.servers[1]), 7u);
  EXPECT_FALSE(settings.reserves.contains("proxy1")) << "it has no data directory";
}

TEST(Settings, TellWhoseExportsCountInATree) {
  Settings settings = settings_of(config());
  settings.exports.push_back({.path = "/a", .clients = Network::of_v4(0x0b000000, 0xff000000)});
  settings.exports.push_back({.path = "/b", .clients = Network::of_v4(0x0b000000, 0xff000000)});
  settings.trees = {{TreeId{1}, {.path = "/a", .above = {}}},
                    {TreeId{2}, {.path = "/a/x", .above = {1}}},
                    {TreeId{3}, {.path = "/c", .above = {}}}};
  EXPECT_EQ(*settings.exported_as(TreeId{}), "/");
  EXPECT_EQ(*settings.exported_as(TreeId{1}), "/a");
  EXPECT_EQ(*settings.exported_as(TreeId{2}), "/a");
  EXPECT_EQ(*settings.exported_as(TreeId{3}), "/");
  EXPECT_EQ(settings.exported_as(TreeId{4}), nullptr);
  EXPECT_THAT(settings.exports_of_no_tree(), ElementsAre("/b"));
  EXPECT_EQ(settings.export_for(TreeId{1}, 0x0b000001), &settings.exports[1]);
  EXPECT_EQ(settings.export_for(TreeId{1}, 0x0a4d0101), nullptr);
  EXPECT_EQ(settings.export_for(TreeId{}, 0x0b000001), nullptr);
  EXPECT_EQ(settings.any_export_for(0x0b000001), &settings.exports[1]);
  settings.trees[TreeId{3}].above = TreeId{3};  // of what does not decode
  EXPECT_EQ(settings.exported_as(TreeId{3}), nullptr);
}

TEST(ExportPath, HasNoEmptyPartsAndNoDots) {
  for (std::string_view good : {"/", "/a", "/a/b", "/.a", "/..."}) EXPECT_TRUE(is_clean_path(good)) << good;
  for (std::string_view bad : {"", "a", "/a/", "//", "/a//b", "/.", "/a/..", "/../a", "./a"})
    EXPECT_FALSE(is_clean_path(bad)) << bad;
}

TEST(ProxyConfig, HasOneAddressOrOneOfEachFamily) {
  const IpAddress six = IpAddress::of_words(0xfd77ull << 48, 1), four = 0x0a4d0001;
  ProxyConfig proxy{.virtual_address = six, .second_address = four};
  EXPECT_THAT(proxy.addresses(), ElementsAre(six, four));
  EXPECT_EQ(proxy.address_of(true), four);
  EXPECT_EQ(proxy.address_of(false), six);
  EXPECT_TRUE(proxy.is_virtual(six) && proxy.is_virtual(four));
  EXPECT_FALSE(proxy.is_virtual(0x0a4d0002) || proxy.is_virtual(IpAddress()));
  EXPECT_EQ(proxy.addresses_text(), "fd77::1 10.77.0.1");
  proxy.second_address = {};
  EXPECT_THAT(proxy.addresses(), ElementsAre(six));
  EXPECT_TRUE(proxy.address_of(true).none());
  EXPECT_FALSE(proxy.is_virtual(IpAddress()));
}

TEST(ParseSize, KnowsBinaryUnitsAlone) {
  EXPECT_EQ(parse_size("0").value(), 0u);
  EXPECT_EQ(parse_size("512").value(), 512u);
  EXPECT_EQ(parse_size("64KiB").value(), 65536u);
  EXPECT_EQ(parse_size("3TiB").value(), 3ull << 40);
  for (std::string_view bad :
       {"", "KiB", "1 KiB", "1kb", "-1", "0x10", "1.5GiB", "18446744073709551615", "16777216TiB"}) {
    EXPECT_FALSE(parse_size(bad)) << bad;
  }
}

// xprtsec=, as exports(5) has it.
TEST(ExportWords, SayHowCallsMayCome) {
  using enum TransportSecurity;
  auto read = [](std::string_view words) {
    ExportConfig out;
    Status good = read_export_options(words, out);
    return good ? std::to_string(out.transports.bits()) : good.error().message;
  };
  EXPECT_EQ(read("rw"), "7") << "however they like";
  EXPECT_EQ(read("xprtsec=none"), "1");
  EXPECT_EQ(read("xprtsec=mtls:tls,ro"), "6");
  EXPECT_EQ(read("xprtsec=tls,xprtsec=mtls"), "4") << "a later word outdoes an earlier one";
  for (const char* wrong : {"xprtsec=", "xprtsec=tls:", "xprtsec=ssl", "xprtsec=tls:mtls:none2"})
    EXPECT_THAT(read(wrong), HasSubstr("none of none, tls, mtls")) << wrong;
  ExportConfig entry;
  EXPECT_TRUE(read_export_options("xprtsec=mtls", entry));
  EXPECT_TRUE(entry.transports.has(kMutualTls));
  EXPECT_FALSE(entry.transports.has(kTls) || entry.transports.has(kNone));
}

// sec=, likewise.
TEST(ExportWords, SayHowUsersMayCome) {
  auto read = [](std::string_view words) {
    ExportConfig out;
    Status good = read_export_options(words, out);
    return good ? std::to_string(out.flavors.bits()) : good.error().message;
  };
  EXPECT_EQ(read("rw"), "1") << "without Kerberos";
  EXPECT_EQ(read("sec=sys"), "1");
  EXPECT_EQ(read("sec=sys:krb5p"), "9");
  EXPECT_EQ(read("sec=krb5i:krb5,ro"), "6");
  EXPECT_THAT(read("sec=sys,ro,sec=krb5,rw"), HasSubstr("say sec= once"));
  for (const char* wrong : {"sec=", "sec=krb5:", "sec=none", "sec=lipkey"})
    EXPECT_THAT(read(wrong), HasSubstr("none of sys, krb5, krb5i, krb5p")) << wrong;
}

TEST(Settings, OfAServerThatTheFileDoesNotListLeaveItsOwnReserve) {
  const EnsembleConfig file = with_members(
      config(), {{"manager1", ServerRole::kManager, 1, 2049}, {"store9", ServerRole::kStorage, 2, 2049}});
  const Settings settings = settings_of(file);
  EXPECT_FALSE(settings.reserves.contains("store9"));
  EXPECT_EQ(settings.reserve_of({.name = "store9", .data = "/d", .reserve_bytes = 5}), 5u);
}

TEST(Settings, DifferencesNameEachKey) {
  const Settings before = settings_of(config());
  EXPECT_THAT(differences(before, before), IsEmpty());
  EnsembleConfig file = config();
  file.exports[0].read_only = true;
  file.volume.export_path = "/volume";
  file.volume.copies = 2;
  file.volume.placement = Placement::kFreeSpace;
  file.log_level = LogLevel::kDebug;
  file.slow_operation_ms = 5;
  file.failover_ms = 0;
  file.limits.calls = 100;
  file.servers[1].reserve_bytes = 1;
  Settings after = settings_of(file);
  after.generation = SettingsGeneration{9};
  EXPECT_THAT(
      differences(before, after),
      ElementsAre("[volume] export", "[[export]]", "[volume] copies", "[volume] placement", "log_level",
                  "slow_operation_ms", "failover_ms", "[limits] calls", "reserve of server 'store1'"));
  after = before;
  after.generation = SettingsGeneration{9};
  EXPECT_THAT(differences(before, after), IsEmpty()) << "a generation is no difference";
}

TEST(Settings, FixedDifferencesNameWhatNoReloadChanges) {
  const EnsembleConfig running = config();
  EnsembleConfig read = config();
  EXPECT_THAT(fixed_differences(running, read, {"manager1"}), IsEmpty());
  read.exports.clear();
  read.volume.copies = 3;
  read.servers[1].reserve_bytes = 1;
  read.servers[1].cache_bytes = 1;  // of another process
  EXPECT_THAT(fixed_differences(running, read, {"manager1"}), IsEmpty());
  read.site_counts[2] = 512;
  read.volume.threshold = 0;
  read.proxy.virtual_address = 5;
  read.network.internal.push_back(Network::of_host(1));
  read.metrics.scrapers.push_back(Network::of_host(1));
  read.ensemble_key = {1};
  read.servers[0].address = 7;
  read.servers[0].metrics_port = 7;
  read.servers[0].cache_bytes = 1;
  read.servers[2].role = ServerRole::kStorage;
  EXPECT_THAT(fixed_differences(running, read, {"manager1"}),
              ElementsAre("key_file", "[volume] threshold", "[sites] storage", "[network] internal",
                          "[metrics] scrapers", "[proxy] virtual_address", "address of server 'manager1'",
                          "metrics_port of server 'manager1'", "cache of server 'manager1'",
                          "role of server 'proxy1'"));
  EXPECT_THAT(fixed_differences(running, read, {"store1"}), ::testing::Contains("cache of server 'store1'"));
  read = config();
  read.servers[1].address = 9;  // slicectl server set
  EXPECT_THAT(fixed_differences(running, read, {"store1"}), IsEmpty());
}

TEST(Settings, NoProbabilityOfMkdirIsAnotherThanZero) {
  EnsembleConfig running = config(), read = config();
  running.volume.mkdir_probability.reset();
  read.volume.mkdir_probability.reset();
  EXPECT_THAT(fixed_differences(running, read, {}), IsEmpty());
  read.volume.mkdir_probability = 0;
  EXPECT_THAT(fixed_differences(running, read, {}), ElementsAre("[volume] mkdir_probability"));
}

TEST(LiveSettings, ReadersSeeTheLastOnes) {
  LiveSettings live(settings_of(config()));
  SettingsReader reader(live);
  EXPECT_NE(reader.now().export_for(TreeId{}, 0x0a4d0101), nullptr);
  const std::shared_ptr<const Settings> old = live.get();
  unsigned told = 0;
  live.watch([&](const Settings& settings) {
    ++told;
    EXPECT_TRUE(settings.exports.empty());
    EXPECT_TRUE(live.get()->exports.empty()) << "they are in force when it is told";
  });
  live.set(Settings{});
  EXPECT_EQ(told, 1u);
  EXPECT_EQ(reader.now().export_for(TreeId{}, 0x0a4d0101), nullptr);
  EXPECT_NE(old->export_for(TreeId{}, 0x0a4d0101), nullptr) << "what somebody holds stays";
}

TEST(LiveSettings, AreReadWhileTheyAreSet) {
  LiveSettings live(Settings{});
  std::atomic<bool> stop = false;
  std::thread other([&] {
    SettingsReader reader(live);
    std::uint64_t last = 0;
    while (!stop) {
      const Settings& now = reader.now();
      EXPECT_GE(now.generation.value, last);
      EXPECT_EQ(now.exports.size(), now.generation.value % 7);
      last = now.generation.value;
    }
  });
  for (std::uint64_t i = 1; i < 2000; ++i) {
    Settings next{.generation = SettingsGeneration{i}};
    next.exports.resize(i % 7);
    live.set(std::move(next));
  }
  stop = true;
  other.join();
}

}  // namespace
}  // namespace slice
