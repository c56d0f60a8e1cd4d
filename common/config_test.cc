#include "common/config.h"

#include "common/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace slice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A whole, good configuration; the tests change one thing at a time in it. Line numbers matter.
constexpr std::string_view kGood = R"(name = "test"
key_file = "key"
[volume]
threshold = "64KiB"
stripe_unit = "32KiB"
name_policy = "name-hashing"
name_hash = "siphash13"
root_mode = "1777"
[sites]
storage = 256
[proxy]
virtual_address = "10.77.0.1"
xdp = "generic"
[[export]]
clients = "10.77.1.0/24"
access = "ro"
squash = "all"
anonymous_uid = 99
[[export]]
clients = "10.77.2.7"
[[server]]
name = "proxy1"
role = "proxy"
address = "10.77.2.1"
[[server]]
name = "manager1"
role = "manager"
address = "10.77.3.2"
data = "/data/manager1"
[[server]]
name = "dir1"
role = "directory"
address = "10.77.4.2"
data = "/data/dir1"
cache = "1GiB"
[[server]]
name = "small1"
role = "small-file"
address = "10.77.5.2"
data = "/data/small1"
[[server]]
name = "store1"
role = "storage"
address = "10.77.6.2"
port = 3049
data = "/data/store1"
reserve = 1048576
[[server]]
name = "coord1"
role = "coordinator"
address = "10.77.7.2"
data = "/data/coord1"
)";

class ConfigTest : public ::testing::Test {
 protected:
  ConfigTest() : folder_(::testing::TempDir() + "slice_config_" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
    write_key(std::string(32, 'k'), 0600);
  }
  ~ConfigTest() override { std::filesystem::remove_all(folder_); }

  void write_key(const std::string& secret, mode_t mode) {
    std::ofstream(folder_ + "/key", std::ios::binary | std::ios::trunc) << secret;
    chmod((folder_ + "/key").c_str(), mode);
  }
  std::string path() const { return folder_ + "/ensemble.toml"; }
  void write_key_as(const std::string& file) const { std::filesystem::copy_file(folder_ + "/key", file); }
  Result<EnsembleConfig> parse(std::string_view text) const { return parse_ensemble(text, path()); }
  // kGood with its first `from` replaced by `to`.
  static std::string with(std::string_view from, std::string_view to) {
    std::string text(kGood);
    std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  }

  std::string folder_;
};

TEST_F(ConfigTest, ReadsEveryKey) {
  auto config = parse(kGood);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->name, "test");
  EXPECT_EQ(config->volume.id, VolumeId{1});
  EXPECT_EQ(config->volume.threshold, 65536u);
  EXPECT_EQ(config->volume.stripe_shift, 15u);
  EXPECT_EQ(config->volume.policy, VolumeConfig::NamePolicy::kNameHashing);
  EXPECT_EQ(config->volume.hash, VolumeConfig::NameHash::kSipHash13);
  EXPECT_EQ(config->volume.root_mode, 01777u);
  EXPECT_EQ(config->volume.mkdir_probability, std::nullopt);
  EXPECT_THAT(config->site_counts, ElementsAre(64, 64, 256, 64));
  EXPECT_EQ(config->proxy.virtual_address, 0x0a4d0001u);
  EXPECT_EQ(config->proxy.xdp, ProxyConfig::Xdp::kGeneric);
  ASSERT_EQ(config->exports.size(), 2u);
  EXPECT_EQ(config->exports[0].clients, Network::of_v4(0x0a4d0100, 0xffffff00));
  EXPECT_TRUE(config->exports[0].read_only);
  EXPECT_EQ(config->exports[0].squash, ExportConfig::Squash::kAll);
  EXPECT_EQ(config->exports[0].anonymous_uid, 99u);
  EXPECT_EQ(config->exports[1].clients.prefix(), 32u);
  EXPECT_EQ(config->exports[1].squash, ExportConfig::Squash::kRoot);
  ASSERT_EQ(config->servers.size(), 6u);
  EXPECT_EQ(config->servers[2].cache_bytes, 1u << 30);
  EXPECT_EQ(config->servers[4].index, 4u);
  EXPECT_EQ(config->servers[4].port, 3049);
  EXPECT_EQ(config->servers[4].reserve_bytes, 1048576u);
  EXPECT_EQ(config->find("coord1")->role, ServerRole::kCoordinator);
  EXPECT_EQ(config->find("coord2"), nullptr);
  EXPECT_EQ(config->first(ServerRole::kManager)->name, "manager1");
  EXPECT_THAT(config->warnings, IsEmpty());
}

TEST_F(ConfigTest, TakesAnyCharactersInComments) {
  EXPECT_TRUE(parse(with("[volume]", "[volume] # r\xc3\xb6te \"\n# \xe2\x82\xac")));
  EXPECT_FALSE(parse(with(R"("test")", "\"a#\xc3\xb6\"")));
}

TEST_F(ConfigTest, AnEmulatedDiskHasDefaultsAndIsOffWithoutOne) {
  EXPECT_FALSE(parse(kGood).value().find("store1")->emulated_disk);
  auto config = parse(with("reserve = 1048576", "emulated_disk = { arms = 4, transfer = \"8MiB\" }"));
  ASSERT_TRUE(config) << config.error().message;
  const auto& disk = config->find("store1")->emulated_disk;
  ASSERT_TRUE(disk);
  EXPECT_EQ(disk->arms, 4u);
  EXPECT_EQ(disk->access_us, 8000u);
  EXPECT_EQ(disk->bytes_per_second, 8u << 20);
  EXPECT_EQ(disk->memory_bytes, 64u << 20);
}

TEST_F(ConfigTest, LimitsOfClientsAreTheFrontsUnlessTheyAreGiven) {
  EXPECT_EQ(parse(kGood).value().limits, ClientLimits{});
  EXPECT_EQ(parse(kGood).value().log_level, LogLevel::kInfo);
  EXPECT_EQ(parse(kGood).value().log_format, LogFormat::kText);
  EXPECT_EQ(parse(kGood).value().spin_us, 0u);
  EXPECT_EQ(parse("spin_us = 50\n" + std::string(kGood)).value().spin_us, 50u);
  EXPECT_FALSE(parse("spin_us = 1001\n" + std::string(kGood)));
  EXPECT_EQ(parse(kGood).value().failover_ms, 2000u);
  EXPECT_EQ(parse("failover_ms = 0\n" + std::string(kGood)).value().failover_ms, 0u);
  EXPECT_EQ(parse("failover_ms = 1500\n" + std::string(kGood)).value().failover_ms, 1500u);
  for (const char* wrong : {"1499", "3600001", "-1"})
    EXPECT_FALSE(parse(std::string("failover_ms = ") + wrong + "\n" + std::string(kGood))) << wrong;
  EXPECT_EQ(parse("log_format = \"json\"\n" + std::string(kGood)).value().log_format, LogFormat::kJson);
  auto config = parse(with("[sites]", "[limits]\nmemory = \"1GiB\"\ncalls_of_address = 64\n[sites]"));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->limits, (ClientLimits{.memory = 1ull << 30, .calls_of_address = 64}));
  EXPECT_EQ(parse("log_level = \"debug\"\n" + std::string(kGood)).value().log_level, LogLevel::kDebug);
  for (const char* wrong : {"memory = \"32MiB\"", "memory_of_address = 1", "connections = 0", "calls = 15",
                            "connections_of_address = -1", "calls = 2000000000000"}) {
    auto refused = parse(with("[sites]", fmt::format("[limits]\n{}\n[sites]", wrong)));
    ASSERT_FALSE(refused) << wrong;
    EXPECT_THAT(refused.error().message, HasSubstr("ensemble.toml:10: ")) << wrong;
  }
}

TEST_F(ConfigTest, LoadsAFile) {
  std::ofstream(path()) << kGood;
  auto config = load_ensemble(path());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->path, path());
  auto missing = load_ensemble(folder_ + "/none.toml");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("No such file"));
  auto directory = load_ensemble(folder_);
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().code, Errc::kInvalid);
  EXPECT_THAT(directory.error().message,
              HasSubstr(folder_ + ": cannot be read: is not a file but a directory"));
}

TEST_F(ConfigTest, DerivesDifferentKeysFromTheKeyFileAndTheVolume) {
  auto one = parse(kGood).value();
  auto same = parse(kGood).value();
  EXPECT_EQ(one.ensemble_key, same.ensemble_key);
  EXPECT_NE(one.ensemble_key, one.handle_key);
  EXPECT_NE(one.handle_key, one.name_key);
  auto other_volume = parse(with("[volume]", "[volume]\nid = 2")).value();
  EXPECT_EQ(one.ensemble_key, other_volume.ensemble_key);
  EXPECT_NE(one.handle_key, other_volume.handle_key);
  write_key(std::string(32, 'x'), 0600);
  EXPECT_NE(one.ensemble_key, parse(kGood).value().ensemble_key);
}

TEST_F(ConfigTest, RefusesAKeyThatOthersMayRead) {
  for (mode_t mode : {0644, 0640, 0604, 0620, 0601}) {
    write_key(std::string(32, 'k'), mode);
    auto config = parse(kGood);
    ASSERT_FALSE(config) << mode;
    EXPECT_THAT(config.error().message, HasSubstr("ensemble.toml:2: key_file"));
    EXPECT_THAT(config.error().message, HasSubstr("chmod 600 " + folder_ + "/key"));
  }
  write_key(std::string(32, 'k'), 0400);
  EXPECT_TRUE(parse(kGood));
}

TEST_F(ConfigTest, WarnsOfExportsThatMakeOthersRoot) {
  auto warnings = [&](std::string_view from, std::string_view to) {
    return parse(with(from, to)).value().warnings;
  };
  EXPECT_THAT(warnings("anonymous_uid = 99", "anonymous_uid = 0"),
              ElementsAre(HasSubstr("ensemble.toml:14: [[export]] makes those whom it squashes root")));
  EXPECT_THAT(warnings("anonymous_uid = 99", "anonymous_uid = 0\nanonymous_gid = 0"),
              ElementsAre(HasSubstr("anonymous_uid = 0"), HasSubstr("anonymous_gid = 0")));
  constexpr std::string_view kSecond = R"(clients = "10.77.2.7")";
  EXPECT_THAT(warnings(kSecond, "clients = \"0.0.0.0/0\"\nsquash = \"none\""),
              ElementsAre(HasSubstr("ensemble.toml:19: [[export]] lets root of every host change")));
  EXPECT_THAT(warnings(kSecond, "clients = \"0.0.0.0/0\"\nsquash = \"none\"\naccess = \"ro\""),
              ElementsAre(HasSubstr("ensemble.toml:19: [[export]] lets root of every host read everything")));
  EXPECT_THAT(warnings(kSecond, "clients = \"0.0.0.0/0\""), IsEmpty());
  EXPECT_THAT(warnings(kSecond, "clients = \"10.0.0.0/8\"\nsquash = \"none\"\nanonymous_uid = 0"), IsEmpty());
}

TEST_F(ConfigTest, AnExportThatIsForNobodyIsToldOf) {
  auto config = parse(with(R"(clients = "10.77.2.7")", R"(clients = ["10.77.2.7", "10.77.1.128/25", "*"])"));
  EXPECT_THAT(config->warnings,
              ElementsAre(HasSubstr("ensemble.toml:19: [[export]] is for nobody: its clients "
                                    "10.77.1.128/25 are those of an entry before it")));
}

TEST_F(ConfigTest, AnExportMaySpeakAsExportsDoes) {
  auto config =
      parse(with("clients = \"10.77.2.7\"",
                 "clients = [\"10.77.2.7\", \"10.78.0.0/255.255.0.0\", \"*\"]\n"
                 "options = \"rw,no_root_squash,ro,sync,no_subtree_check,anonuid=7,anongid=8,insecure\""));
  ASSERT_TRUE(config) << config.error().message;
  ASSERT_EQ(config->exports.size(), 4u);
  const ExportConfig wanted{.clients = Network::of_v4(0x0a4d0207, 0xffffffff),
                            .read_only = true,
                            .squash = ExportConfig::Squash::kNone,
                            .anonymous_uid = 7,
                            .anonymous_gid = 8,
                            .secure = false};
  EXPECT_EQ(config->exports[1], wanted);
  EXPECT_EQ(config->exports[2].clients, Network::of_v4(0x0a4e0000, 0xffff0000));
  EXPECT_TRUE(config->exports[3].clients.is_everybody());
  EXPECT_EQ(config->exports[3].squash, ExportConfig::Squash::kNone);
}

TEST_F(ConfigTest, AddressesOfEitherFamily) {
  const IpAddress six = parse_address("fd77::1").value(), four = 0x0a4d0001;
  for (const auto& [text, wanted] : {std::pair(R"("fd77::1")", std::vector{six}),
                                     std::pair(R"(["fd77::1", "10.77.0.1"])", std::vector{six, four})}) {
    auto config = parse(with(R"("10.77.0.1")", text));
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(config->proxy.addresses(), wanted);
  }
  EXPECT_EQ(parse(with("10.77.1.0/24", "fd77::/64"))->exports[0].clients, parse_network("fd77::/64").value());
}

TEST_F(ConfigTest, AnExportIsSecureUnlessItSaysOtherwise) {
  auto config = parse(with("anonymous_uid = 99", "secure = false")).value();
  EXPECT_FALSE(config.exports[0].secure);
  EXPECT_TRUE(config.exports[0].takes_port(40000));
  EXPECT_TRUE(config.exports[1].takes_port(1023));
  EXPECT_FALSE(config.exports[1].takes_port(1024));
  const Settings settings = settings_of(config);
  EXPECT_EQ(settings.any_export_for(0x0a4d0107), &settings.exports[0]);
  EXPECT_EQ(settings.any_export_for(0x0a4d0207), &settings.exports[1]);
  EXPECT_EQ(settings.any_export_for(0x0a4d0208), nullptr);
}

TEST_F(ConfigTest, AnExportMayWantMoreOfConnections) {
  auto config = parse(with("anonymous_uid = 99", "xprtsec = [\"none\", \"mtls\"]\nsec = \"sys\"")).value();
  EXPECT_EQ(config.exports[0].transports.bits(), 5u);
  EXPECT_EQ(config.exports[0].flavors.bits(), 1u);
}

// [network] with these lines, before [volume].
class NetworkTest : public ConfigTest {
 protected:
  Result<EnsembleConfig> network(const std::string& lines) {
    return parse(with("[volume]", "[network]\n" + lines + "\n[volume]"));
  }
  void write(const std::string& name, std::string_view secret, mode_t mode = 0600) {
    std::ofstream(folder_ + "/" + name, std::ios::trunc) << secret;
    ASSERT_EQ(::chmod((folder_ + "/" + name).c_str(), mode), 0);
  }
};

TEST_F(NetworkTest, WithoutItMembersAreAnywhereAndUseTheEnsemblesKey) {
  auto config = parse(kGood).value();
  EXPECT_TRUE(config.network.session_keys.empty());
  EXPECT_TRUE(config.network.takes(0x01020304));
  EXPECT_FALSE(config.network.cover_all);
}

TEST_F(NetworkTest, SessionKeysAreReadAndReadAgain) {
  write("one", std::string(20, '1'));
  write("two", "");
  auto config = network("session_keys = [\"one\", \"two\"]\ncover = \"all\"").value();
  ASSERT_EQ(config.network.session_keys.size(), 1u);
  EXPECT_NE(config.network.session_keys[0], config.ensemble_key);
  EXPECT_TRUE(config.network.cover_all);
  write("two", std::string(20, '2'));
  auto both = read_session_keys(config).value();
  EXPECT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0], config.network.session_keys[0]);
  write("one", std::string(20, '2'));
  write("two", "");
  EXPECT_EQ(read_session_keys(config).value(), std::vector{both[1]});
  write("one", "");
  EXPECT_FALSE(read_session_keys(config));
  write("one", "short");
  EXPECT_FALSE(read_session_keys(config));
  write("one", std::string(20, '1'), 0640);
  EXPECT_THAT(read_session_keys(config).error().message, HasSubstr("chmod 600"));
}

TEST_F(NetworkTest, FilesOfTlsAreAllOrNone) {
  EXPECT_FALSE(parse(kGood)->network.tls.used());
  auto config =
      network("tls_certificate = \"{name}.crt\"\ntls_key = \"/k/{name}{name}\"\ntls_authority = \"ca\"")
          .value();
  const TlsConfig tls = config.network.tls.of("store1");
  EXPECT_TRUE(tls.used());
  EXPECT_EQ(tls.certificate, folder_ + "/store1.crt");
  EXPECT_EQ(tls.key, "/k/store1store1");
  EXPECT_EQ(tls.authority, folder_ + "/ca");
  EXPECT_EQ(tls.revoked, "");
  for (const char* some :
       {"tls_certificate = \"a\"", "tls_key = \"a\"\ntls_authority = \"b\"", "tls_revoked = \"a\""}) {
    EXPECT_THAT(network(some).error().message, HasSubstr("belong together")) << some;
  }
}

TEST_F(NetworkTest, RefusesWhatCannotBeMeant) {
  EXPECT_THAT(network("session_keys = [\"none\"]").error().message, HasSubstr("No such file"));
  EXPECT_THAT(network("cover = \"some\"").error().message, HasSubstr("cover"));
  EXPECT_THAT(network("internal = [\"10.77.0.0/99\"]").error().message, HasSubstr("is no network"));
  EXPECT_THAT(network("internal = [\"10.77.3.0/24\"]").error().message,
              HasSubstr("is in no network of [network] internal"));
  auto config = network("internal = [\"10.77.0.0/16\", \"10.9.0.7\"]").value();
  EXPECT_TRUE(config.network.takes(0x0a4dffff));
  EXPECT_TRUE(config.network.takes(0x0a090007));
  EXPECT_FALSE(config.network.takes(0x0a090008));
}

TEST_F(ConfigTest, RefusesAShortKeyFile) {
  write_key("short", 0600);
  auto config = parse(kGood);
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message, HasSubstr("ensemble.toml:2: key_file"));
  EXPECT_THAT(config.error().message, HasSubstr("holds 5 bytes"));
}

TEST_F(ConfigTest, TheSampleOfTheLocalEnsembleIsGood) {
  std::ifstream in(std::string(SLICE_SOURCE_FOLDER) + "/deploy/local/ensemble.toml");
  std::string text{std::istreambuf_iterator<char>(in), {}};
  for (std::size_t at = text.find("@RUN@"); at != std::string::npos; at = text.find("@RUN@")) {
    text.replace(at, 5, folder_);
  }
  write_key_as(folder_ + "/ensemble.key");
  auto config = parse(text);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->volume.threshold, 65536u);
}

struct Bad {
  std::string_view from, to;  // the change to kGood
  int line;                   // where the refusal must point to
  std::string_view reason;    // and what it must say
};

TEST_F(ConfigTest, RefusesWithFileLineAndReason) {
  const std::vector<Bad> kBad = {
      {"anonymous_uid = 99", R"(xprtsec = "tls")", 14, "TLS needs [proxy] tls_certificate and tls_key"},
      {"anonymous_uid = 99", R"(xprtsec = "ssl")", 18, "'ssl' is none of none, tls, mtls"},
      {R"(xdp = "generic")", R"(tls_key = "k")", 11, "tls_certificate and tls_key belong together"},
      {R"(xdp = "generic")", "tls_certificate = \"c\"\ntls_key = \"k\"\ntls_revoked = \"r\"", 15,
       "without a tls_authority nobody"},
      {R"(name = "test")", "name = ", 1, "value"},
      {R"(name = "test")", "", 1, "the ensemble lacks 'name'"},
      {R"(name = "test")", "name = 7", 1, "a string is expected"},
      {R"(name = "test")", R"(nmae = "test")", 1, "lacks 'name'"},
      {R"(key_file = "key")", "", 1, "lacks 'key_file'"},
      {R"(key_file = "key")", R"(key_file = "nokey")", 2, "No such file"},
      {R"(key_file = "key")", R"(key_file = ".")", 2, "is not a file"},
      {R"(key_file = "key")", R"(key_file = "")", 2, "a path is expected"},
      {"[volume]", "[metrics]\nscrapers = []\n[volume]", 4, "who may read the metrics is expected"},
      {"[volume]", "[metrics]\nport = 9\n[volume]", 3, "who may read the metrics is expected"},
      {"[volume]", "[metrics]\nscrapers = [\"10.0.0.0/99\"]\n[volume]", 4, "is no network"},
      {"[volume]", "[metrics]\nscrapers = [\"0.0.0.0/0\"]\nport = 0\n[volume]", 5,
       "0 is not between 1 and 65535"},
      {"[volume]", "[metrics]\nscrapers = [\"0.0.0.0/0\"]\nclients = 5000\n[volume]", 5,
       "5000 is not between 0 and 4096"},
      {"[volume]", "[metrics]\nscrapers = [\"0.0.0.0/0\"]\nporrt = 1\n[volume]", 5,
       "[metrics] knows no key 'porrt'"},
      {"[volume]", "[metrics]\nscrapers = [\"0.0.0.0/0\"]\nport = 2049\n[volume]", 24,
       "the metrics of server 'proxy1' are at 10.77.2.1:2049, where 'proxy1' serves"},
      {"[volume]", "colour = 1\n[volume]", 3, "the ensemble knows no key 'colour'"},
      {"[volume]", "[volume]\nid = 0", 4, "0 is not between 1 and"},
      {"[volume]", "[volume]\nid = -1", 4, "-1 is not between"},
      {"[volume]", "[volume]\nexport = \"data\"", 4, "an absolute path"},
      {"[volume]", "[volume]\nexport = \"/../..\"", 4, "'/../..' has '..' in it"},
      {"[volume]", "[volume]\nexport = \"/a/..\"", 4, "has '..' in it"},
      {"[volume]", "[volume]\ntreshold = 0", 4, "knows no key 'treshold'; did you mean 'threshold'?"},
      {"[volume]", "[volume]\nsize = 1", 4, "[volume] knows no key 'size'"},
      {"[volume]", "[volume]\nmkdir_probability = 1.5", 4, "a number from 0 to 1"},
      {R"("64KiB")", R"("64KB")", 4, "'64KB' is not a size"},
      {R"("64KiB")", R"("60KiB")", 4, "not a multiple of 8KiB"},
      {R"("64KiB")", R"("16MiB")", 4, "over 8MiB"},
      {R"("64KiB")", "true", 4, "a string is expected"},
      {R"("64KiB")", "-1", 4, "-1 is not between"},
      {R"("64KiB")", R"("99999999999TiB")", 4, "too large"},
      {R"("32KiB")", R"("33KiB")", 5, "not a power of two"},
      {R"("32KiB")", R"("4KiB")", 5, "not a power of two from 8KiB"},
      {R"("name-hashing")", R"("hashing")", 6, "'hashing' is none of mkdir-switching, name-hashing"},
      {R"("siphash13")", R"("sha1")", 7, "none of md5, siphash13"},
      {R"("1777")", R"("1787")", 8, "an octal mode"},
      {R"("1777")", R"("17777")", 8, "an octal mode"},
      {"storage = 256", "storage = 100", 10, "100 is not a power of two"},
      {"storage = 256", "storage = 8192", 10, "8192 is not between 1 and 4096"},
      {"storage = 256", "proxy = 2", 10, "[sites] knows no key 'proxy'"},
      {R"("10.77.0.1")", R"("10.77.0")", 12, "'10.77.0' is not an IP address"},
      {R"("10.77.0.1")", R"("0.0.0.0")", 12, "not the address of one host"},
      {R"("10.77.0.1")", R"("224.0.0.1")", 12, "not the address of one host"},
      {R"(virtual_address = "10.77.0.1")", "", 11, "[proxy] lacks 'virtual_address'"},
      {R"("generic")", R"("fast")", 13, "'fast' is none of auto, native, generic, off"},
      {R"(xdp = "generic")", "nfs_port = 70000", 13, "70000 is not between 1 and 65535"},
      {R"(xdp = "generic")", "mount_port = 2049", 13, "is nfs_port as well"},
      {R"(xdp = "generic")", "bpf_folder = \"x\"", 13, "an absolute path"},
      {R"(xdp = "generic")", "interfaces = \"eth0\"", 13, "an array of strings is expected"},
      {R"(xdp = "generic")", "interfaces = [\"eth0\", 7]", 13, "an array of strings is expected"},
      {R"(xdp = "generic")", "interfaces = [\"a-name-that-is-too-long\"]", 13, "is no name of an interface"},
      {R"(xdp = "generic")", "address_interface = \"lo\"", 13, "is no name of an interface"},
      {R"(xdp = "generic")", "address_interface = \"\"", 13, "is no name of an interface"},
      {R"(xdp = "generic")", "address_patience_ms = 1000", 13, "1000 is not between 1800 and 60000"},
      {"10.77.1.0/24", "10.77.1.0/33", 15, "is no network"},
      {"10.77.1.0/24", "10.77.1.0/", 15, "is no network"},
      {"10.77.1.0/24", "10.77.1.1/24", 15, "10.77.1.0/24 is meant"},
      {"10.77.1.0/24", "client.example", 15, "not an IP address"},
      {"10.77.1.0/24", "10.77.1.0/255.0.255.0", 15, "is no network"},
      {"10.77.1.0/24", "10.77.1.0/255.255.0.0", 15, "10.77.0.0/16 is meant"},
      {"10.77.1.0/24", "@staff", 15, "'@staff' is a netgroup"},
      {"10.77.1.0/24", "*.example.org", 15, "is a pattern of names"},
      {"10.77.1.0/24", "2001:db8::1/32", 15, "2001:db8::/32 is meant"},
      {"10.77.1.0/24", "2001:db8::/129", 15, "is no network"},
      {R"("10.77.0.1")", R"("fe80::1")", 12, "not the address of one host"},
      {R"("10.77.0.1")", R"(["10.77.0.1", "10.77.0.9"])", 12, "one of IPv4 and one of IPv6"},
      {R"("10.77.1.0/24")", "[]", 15, "clients of [[export]]: one at least is expected"},
      {R"("10.77.1.0/24")", "[7]", 15, "an array of strings is expected"},
      {R"(access = "ro")", R"(options = "ro")", 17,
       "squash of [[export]]: say it in options, or all of it in keys"},
      {R"(clients = "10.77.2.7")", "clients = \"10.77.2.7\"\noptions = \"async\"", 21, "take the word out"},
      {R"(clients = "10.77.2.7")", "clients = \"10.77.2.7\"\noptions = \"sec=krb5p\"", 19, "Kerberos needs"},
      {R"(clients = "10.77.2.7")", "clients = \"10.77.2.7\"\noptions = \"no_rot_squash\"", 21,
       "did you mean 'no_root_squash'?"},
      {R"(clients = "10.77.2.7")", "clients = \"10.77.2.7\"\noptions = \"anonuid=x\"", 21,
       "'anonuid=x': a number from 0"},
      {R"(clients = "10.77.2.7")", "clients = \"10.77.2.7\"\noptions = \"anonuid=4294967296\"", 21,
       "a number from 0"},
      {R"(clients = "10.77.2.7")", "clients = \"10.77.2.7\"\noptions = \"\"", 21,
       "'' is no option of exports(5)"},
      {R"(clients = "10.77.2.7")", "clients = \"10.77.2.7\"\noptions = \"rw,\"", 21, "'' is no option"},
      {R"(clients = "10.77.2.7")", "clients = \"10.77.2.7\"\noptions = \"fsid=7\"", 21,
       "an identity of its own"},
      {R"("ro")", R"("r")", 16, "none of rw, ro"},
      {R"("all")", R"("some")", 17, "none of root, all, none"},
      {"anonymous_uid = 99", "anonymous_uid = 4294967296", 18, "not between"},
      {"anonymous_uid = 99", "secure = \"no\"", 18, "secure of [[export]]: true or false is expected"},
      {"anonymous_uid = 99", "uid = 99", 18, "[[export]] knows no key 'uid'"},
      {R"("proxy1")", R"("proxy 1")", 22, "'proxy 1' is not 1 to 63"},
      {R"(role = "proxy")", R"(role = "router")", 23, "'router' is none of directory, small-file"},
      {R"(address = "10.77.2.1")", "", 21, "[[server]] lacks 'address'"},
      {R"(address = "10.77.2.1")", R"(address = "10.77.0.1")", 21, "listens on the virtual address"},
      {R"(address = "10.77.2.1")", "address = \"10.77.2.1\"\ndata = \"/x\"", 25, "keeps nothing on disk"},
      {R"(address = "10.77.3.2")", R"(address = "10.77.2.1")", 25,
       "has the endpoint 10.77.2.1:2049 of 'proxy1'"},
      {R"("manager1")", R"("proxy1")", 25, "was named at line 21 before"},
      {R"("/data/manager1")", R"("data")", 29, "'data' is not an absolute path"},
      {R"(data = "/data/manager1")", "", 25, "[[server]] lacks 'data'"},
      {R"(role = "directory")", R"(role = "storage")", 52, "no server has the role 'directory'"},
      {R"(role = "directory")", R"(role = "manager")", 52, "no server has the role 'directory'"},
      {R"(cache = "1GiB")", R"(cache = "1KiB")", 35, "less than 1MiB"},
      {R"(port = 3049)", R"(port = "3049")", 45, "a whole number"},
      {R"(reserve = 1048576)", "reserve = 1.5", 47, "a string is expected"},
      {R"(reserve = 1048576)", "reserves = 1", 47, "[[server]] knows no key 'reserves'"},
      {R"(cache = "1GiB")", "emulated_disk = {}", 35, "only storage and small-file servers"},
      {R"(reserve = 1048576)", "emulated_disk = 8", 47, "a table, [emulated_disk], is expected"},
      {R"(reserve = 1048576)", "emulated_disk = { arms = 0 }", 47, "arms of emulated_disk: 0 is not between"},
      {R"(reserve = 1048576)", "emulated_disk = { access_us = 2000000 }", 47, "is not between 0 and 1000000"},
      {R"(reserve = 1048576)", "emulated_disk = { transfer = \"1KiB\" }", 47, "less than 64KiB a second"},
      {R"(reserve = 1048576)", "emulated_disk = { memory = 8192 }", 47, "memory of emulated_disk: less"},
      {R"(reserve = 1048576)", "emulated_disk = { seek = 8 }", 47, "emulated_disk knows no key 'seek'"},
      {"storage = 256", "storage = 256\nstorage = 256", 11, "storage"},
      {R"("ro")", "\"r\xc3\xb6\"", 16, "beyond ASCII"},
      {"[volume]", "\xef\xbb\x9f = 1\n[volume]", 3, "beyond ASCII"},
      {"[proxy]", "[=]", 11, "a table's name is expected"},
      {"[proxy]", "[proxies]", 1, "lacks '[proxy]'"},
  };
  for (const Bad& bad : kBad) {
    auto config = parse(with(bad.from, bad.to));
    ASSERT_FALSE(config) << bad.from << " -> " << bad.to;
    EXPECT_EQ(config.error().code, Errc::kInvalid);
    EXPECT_THAT(config.error().message, HasSubstr(fmt::format("{}:{}: ", path(), bad.line)))
        << bad.from << " -> " << bad.to;
    EXPECT_THAT(config.error().message, HasSubstr(std::string(bad.reason)));
  }
}

class MetricsConfigTest : public ConfigTest {
 protected:
  static std::string replaced(std::string text, std::string_view from, std::string_view to) {
    std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  }
  // Of a file with [metrics], and small1 at the address of dir1 with these keys.
  Result<EnsembleConfig> shared(const std::string& keys) {
    std::string text = "key_file = \"key\"\n[metrics]\nscrapers = [\"10.77.9.0/24\"]\n";
    std::string whole = replaced(std::string(kGood), "key_file = \"key\"\n", text);
    return parse(replaced(whole, "address = \"10.77.5.2\"", "address = \"10.77.4.2\"\n" + keys));
  }
};

TEST_F(MetricsConfigTest, AreServedWhereTheTableIsThere) {
  auto config = parse(kGood).value();
  EXPECT_FALSE(config.metrics.served);
  EXPECT_FALSE(config.metrics.takes(0x0a4d0907));
  config = shared("port = 2050\nmetrics_port = 10050").value();
  EXPECT_TRUE(config.metrics.served);
  EXPECT_EQ(config.metrics.clients, 0u);
  EXPECT_EQ(config.metrics_port_of(*config.find("dir1")), 10049);
  EXPECT_EQ(config.metrics_port_of(*config.find("small1")), 10050);
  EXPECT_TRUE(config.metrics.takes(0x0a4d0907));
  EXPECT_FALSE(config.metrics.takes(0x0a4d0807));
}

TEST_F(MetricsConfigTest, EndpointsAreUnique) {
  EXPECT_THAT(
      shared("port = 2050").error().message,
      HasSubstr(
          "the metrics of servers 'dir1' and 'small1' are both at 10.77.4.2:10049: give one a metrics_port"));
  EXPECT_THAT(shared("port = 10049\nmetrics_port = 10050").error().message,
              HasSubstr("server 'small1' has the endpoint 10.77.4.2:10049 of the metrics of 'dir1'"));
  EXPECT_THAT(shared("port = 2050\nmetrics_port = 2049").error().message,
              HasSubstr("the metrics of server 'small1' are at 10.77.4.2:2049, where 'dir1' serves"));
  EXPECT_THAT(parse(with("role = \"proxy\"", "role = \"proxy\"\nmetrics_port = 1")).error().message,
              HasSubstr("metrics_port of server 'proxy1': there is no [metrics]"));
}

TEST_F(ConfigTest, RefusesServersThatShareADataDirectoryOfOneHost) {
  std::string text = with(R"(address = "10.77.4.2")", "address = \"10.77.3.2\"\nport = 2050");
  std::size_t at = text.find("/data/dir1");
  text.replace(at, 10, "/data/./manager1");
  auto config = parse(text);
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message, HasSubstr("ensemble.toml:30: server 'dir1' has the data directory of"));
}

TEST_F(ConfigTest, ServersAreTheMembersInTheirOrder) {
  EnsembleConfig config = parse(kGood).value();
  const ServerConfig was = *config.find("store1");
  std::vector<Member> members{{"new1", ServerRole::kStorage, 0x0a4d6302, 2050}};
  for (auto server = config.servers.rbegin(); server != config.servers.rend(); ++server) {
    if (server->role != ServerRole::kProxy)
      members.push_back({server->name, server->role, server->address.v4() + 7, 99});
  }
  EnsembleConfig known = with_members(config, members);
  ASSERT_EQ(known.servers.size(), config.servers.size() + 1);
  for (std::uint32_t i = 0; i < known.servers.size(); ++i) EXPECT_EQ(known.servers[i].index, i);
  for (std::size_t i = 0; i < members.size(); ++i) EXPECT_EQ(known.servers[i].name, members[i].name);
  EXPECT_EQ(known.servers[0].data, "/var/lib/slice/new1");
  EXPECT_EQ(known.servers[0].port, 2050);
  const ServerConfig& store = *known.find("store1");
  EXPECT_EQ(store.data, was.data);
  EXPECT_EQ(store.cache_bytes, was.cache_bytes);
  EXPECT_EQ(store.address, was.address.v4() + 7);
  EXPECT_EQ(known.servers.back().role, ServerRole::kProxy) << "of the file alone";
}

TEST_F(ConfigTest, WhatWasRemovedKeepsItsPlaceAndIsNobody) {
  const EnsembleConfig config = parse(kGood).value();
  const std::uint32_t index = config.find("store1")->index;
  std::vector<Member> members;
  for (const ServerConfig& server : config.servers)
    members.push_back({server.name, server.role, server.address, server.port});
  members[index] = {.name = "store1", .role = ServerRole::kRemoved};
  EnsembleConfig known = with_members(config, members);
  ASSERT_EQ(known.servers.size(), config.servers.size()) << "the file's is not numbered on";
  EXPECT_EQ(known.servers[index].role, ServerRole::kRemoved);
  EXPECT_EQ(known.servers[index].data, "");
  EXPECT_EQ(known.find("store1"), nullptr);
  EXPECT_TRUE(known.has_removed("store1"));
  EXPECT_FALSE(known.has_removed("dir1"));
  // It is added again: what the file says of it counts for the new one.
  members.push_back({"store1", ServerRole::kStorage, 0x0a4d6302, 2050});
  known = with_members(config, members);
  ASSERT_NE(known.find("store1"), nullptr);
  EXPECT_EQ(known.find("store1")->index, members.size() - 1);
  EXPECT_EQ(known.find("store1")->data, config.find("store1")->data);
}

TEST_F(ConfigTest, ServersHaveWeightsHostsAndRacks) {
  const std::string name = "name = \"store1\"";
  EnsembleConfig config =
      parse(with(name, name + "\nweight = \"4TiB\"\nhost = \"h1\"\nrack = \"left\"")).value();
  EXPECT_EQ(config.find("store1")->weight, 4ULL << 40);
  EXPECT_EQ(config.find("store1")->host, "h1");
  EXPECT_EQ(config.find("store1")->rack, "left");
  EXPECT_EQ(config.find("dir1")->weight, 0u);
  EXPECT_EQ(config.find("dir1")->host, "");
  EXPECT_EQ(parse(with(name, name + "\nweight = 3"))->find("store1")->weight, 3u);
  for (const char* bad : {"weight = 0", "weight = \"much\"", "host = \"\"", "rack = \"a b\"", "rack = 7"})
    EXPECT_FALSE(parse(with(name, name + "\n" + bad))) << bad;
}

TEST_F(ConfigTest, RefusesTheSecondManager) {
  std::string text(kGood);
  text += "[[server]]\nname = \"m2\"\nrole = \"manager\"\naddress = \"10.77.9.2\"\ndata = \"/data/m2\"\n";
  auto config = parse(text);
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message, HasSubstr("more than one server has the role 'manager'"));
}

constexpr std::string_view kSecondManager =
    "[[server]]\nname = \"m2\"\nrole = \"manager\"\naddress = \"10.77.9.2\"\ndata = \"/data/m2\"\n";

TEST_F(ConfigTest, ManagersThatShareTheirStateMayBeMany) {
  const std::string text = std::string(kGood) + std::string(kSecondManager) + R"(
[managers]
etcd = ["https://10.77.9.3:2379", "https://etcd-2.example:2379"]
etcd_user = "etcd.user"
etcd_tls_authority = "/etc/etcd/ca.pem"
lease_seconds = 3
)";
  auto config = parse(text);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->count(ServerRole::kManager), 2u);
  EXPECT_TRUE(config->managers.shared());
  EXPECT_EQ(config->managers.etcd.at(1), "https://etcd-2.example:2379");
  EXPECT_EQ(config->managers.etcd_prefix, "/slice/" + config->name);
  EXPECT_TRUE(config->managers.etcd_user.ends_with("/etcd.user"));
  EXPECT_TRUE(config->managers.etcd_user.starts_with("/"));
  EXPECT_EQ(config->managers.lease_s, 3u);
  EXPECT_TRUE(config->warnings.empty());
  EXPECT_FALSE(parse(std::string(kGood))->managers.shared());
}

TEST_F(ConfigTest, RefusesManagersThatCannotShare) {
  const std::pair<const char*, const char*> bad[] = {
      {"etcd = []", "the URLs of 1 to 9 members"},
      {"etcd = [\"10.77.9.3:2379\"]", "is not https://HOST:PORT"},
      {"etcd = [\"http://10.77.9.3\"]", "is not https://HOST:PORT"},
      {"etcd = [\"http://10.77.9.3:2379/v3\"]", "is not https://HOST:PORT"},
      {"etcd = [\"http://a@b:2379\"]", "is not https://HOST:PORT"},
      {"etcd = [\"http://a:0\"]", "is not https://HOST:PORT"},
      {"etcd = [\"http://a:2379\", \"http://a:2379\"]", "is there twice"},
      {"etcd = [\"http://a:2379\"]\netcd_tls_authority = \"ca\"", "all members are https://"},
      {"etcd = [\"https://a:2379\"]\netcd_tls_key = \"key\"", "belong together"},
      {"etcd = [\"http://a:2379\"]\netcd_prefix = \"slice\"", "'/', and 1 to 254 bytes"},
      {"etcd = [\"http://a:2379\"]\nlease_seconds = 0", "0 is not between 1 and 60"},
      {"etcd = [\"http://a:2379\"]\nlease = 4", "lease"},
  };
  for (const auto& [lines, why] : bad) {
    auto config = parse(std::string(kGood) + "[managers]\n" + lines + "\n");
    ASSERT_FALSE(config) << lines;
    EXPECT_THAT(config.error().message, HasSubstr(why)) << lines;
  }
  auto warned = parse(std::string(kGood) + "[managers]\netcd = [\"http://a:2379\"]\netcd_user = \"u\"\n");
  ASSERT_TRUE(warned);
  EXPECT_THAT(warned->warnings.at(0), HasSubstr("whoever listens on the way has the password"));
}

TEST_F(ConfigTest, NeverCrashesOnACutOrMangledFile) {
  for (std::size_t length = 0; length < kGood.size(); ++length) {
    auto cut = parse(kGood.substr(0, length));
    if (cut) continue;
    EXPECT_THAT(cut.error().message, HasSubstr("ensemble.toml:"));
  }
  for (std::size_t at = 0; at < kGood.size(); ++at) {
    for (char c : {'[', '"', '\0', '=', '\n'}) {
      std::string text(kGood);
      text[at] = c;
      [[maybe_unused]] auto result = parse(text);
    }
  }
}

}  // namespace
}  // namespace slice
