// Settings as they are published, and what a reload says.
#include "wire/settings.h"

#include <gtest/gtest.h>

#include "wire/quota.h"
#include "wire/testing/codec_checks.h"

namespace slice::wire {
namespace {

using wire_tests::check;
using wire_tests::check_message;

TEST(SettingsMessages, Codec) {
  Settings settings{.generation = SettingsGeneration{7},
                    .export_path = "/volume",
                    .exports = {{.clients = Network::of_v4(0x0a4d0000, 0xffff0000),
                                 .read_only = true,
                                 .squash = ExportConfig::Squash::kNone,
                                 .anonymous_uid = 1,
                                 .anonymous_gid = 2,
                                 .secure = false},
                                {.clients = Network::of_v4(0, 0)},
                                {.clients = Network::of_v4(0x0a4d0101, 0xffffffff)}},
                    .copies = 3,
                    .placement = Placement::kFreeSpace,
                    .log_level = LogLevel::kDebug,
                    .slow_operation_ms = 50,
                    .limits = {.connections = 1,
                               .connections_of_address = 2,
                               .memory = 3,
                               .memory_of_address = 4,
                               .calls = 5,
                               .calls_of_address = 6},
                    .reserves = {{"store1", 1ull << 40}, {"dir1", 0}}};
  check_message(SettingsResult{settings});
  rpc::XdrWriter out;
  encode(out, SettingsResult{settings});
  SettingsResult again;
  ASSERT_TRUE(decode(out.view(), again));
  EXPECT_EQ(again.settings, settings);
  EXPECT_EQ(digest(again.settings), digest(settings));
  again.settings.exports[1].secure = false;
  EXPECT_NE(digest(again.settings), digest(settings));
  check_message(SettingsResult{});
  check_message(SettingsNotice{SettingsGeneration{9}});
  check_message(ReloadResult{.refused = "ensemble.toml:3: no",
                             .generation = SettingsGeneration{4},
                             .changed = {"[[export]]", "log_level"},
                             .warnings = {"x"},
                             .late = {"store1"}});
}

TEST(SettingsMessages, VersionsBeforeFailoverReadAllButThat) {
  rpc::XdrWriter before, out;
  encode(before, SettingsResult{Settings{}});
  Settings settings;
  settings.failover_ms = 9000;
  encode(out, SettingsResult{settings});
  EXPECT_EQ(out.size(), before.size() + 8) << "where it is the default, the message is theirs";
  SettingsResult again;
  ASSERT_TRUE(decode(out.view(), again));
  EXPECT_EQ(again.settings, settings);
  ASSERT_TRUE(decode(before.view(), again));
  EXPECT_EQ(again.settings, Settings{});
  EXPECT_NE(digest(settings), digest(Settings{}));
}

TEST(SettingsMessages, TransportsOfExportsStandBehindAllElse) {
  Settings settings{
      .exports = {{.clients = Network::of_v4(0x0a000000, 0xff000000)}, {.clients = Network::of_v4(0, 0)}}};
  rpc::XdrWriter before, out;
  encode(before, SettingsResult{settings});
  settings.exports[1].transports = TransportSecurities::none();
  settings.exports[1].transports.add(TransportSecurity::kMutualTls);
  settings.failover_ms = 9000;
  encode(out, SettingsResult{settings});
  EXPECT_EQ(out.size(), before.size() + 8 + 12) << "where all take everything, the message is as it was";
  SettingsResult again;
  ASSERT_TRUE(decode(out.view(), again));
  EXPECT_EQ(again.settings, settings);
  EXPECT_NE(differences(settings, Settings{.exports = {{.clients = Network::of_v4(0x0a000000, 0xff000000)},
                                                       {.clients = Network::of_v4(0, 0)}}}),
            std::vector<std::string>{});
  for (const auto& [at, value] : {std::pair<std::size_t, std::uint32_t>{4, 0}, {4, 8}, {12, 3}, {16, 3}}) {
    Buffer wrong(out.view());
    store_be(wrong.data() + wrong.size() - at, value);
    EXPECT_FALSE(decode(wrong.view(), again)) << at << " bytes before the end: " << value;
  }
}

TEST(SettingsMessages, FlavorsOfExportsStandBehindAllElse) {
  Settings settings{.exports = {{.clients = Network::of_v4(0x0a000000, 0xff000000)}, {}}};
  rpc::XdrWriter before, out;
  encode(before, SettingsResult{settings});
  settings.exports[0].flavors.add(SecurityFlavor::kKrb5p);
  encode(out, SettingsResult{settings});
  EXPECT_EQ(out.size(), before.size() + 12);
  SettingsResult again;
  ASSERT_TRUE(decode(out.view(), again));
  EXPECT_EQ(again.settings, settings);
  for (const auto& [at, value] : {std::pair<std::size_t, std::uint32_t>{4, 0}, {4, 16}, {8, 1}, {12, 6}}) {
    Buffer wrong(out.view());
    store_be(wrong.data() + wrong.size() - at, value);
    EXPECT_FALSE(decode(wrong.view(), again)) << at << " bytes before the end: " << value;
  }
}

// What is beside IPv4's is told behind all else: servers of versions before would take it for nobody.
TEST(SettingsMessages, ExportsOfIpv6AndOfEverybody) {
  const Network of_v4 = parse_network("0.0.0.0/0").value();
  Settings settings{.exports = {{.clients = of_v4}}};
  rpc::XdrWriter before, out;
  encode(before, SettingsResult{settings});
  settings.exports = {{.clients = parse_network("fd77::/64").value(), .read_only = true},
                      {.clients = of_v4},
                      {.clients = parse_network("::/0").value()},
                      {}};
  encode(out, SettingsResult{settings});
  SettingsResult again;
  ASSERT_TRUE(decode(out.view(), again));
  EXPECT_EQ(again.settings, settings) << "in their order";
  ASSERT_TRUE(decode(before.view(), again));
  EXPECT_EQ(again.settings.exports.at(0).clients, of_v4) << "and not everybody";
  for (const std::size_t at : {4u, 8u, 12u, 28u}) {
    Buffer wrong(out.view());
    store_be(wrong.data() + wrong.size() - at, std::uint32_t{7});
    EXPECT_FALSE(decode(wrong.view(), again)) << at;
  }
}

TEST(SettingsMessages, WhatNoFileMaySayDoesNotDecode) {
  auto decodes = [](auto change) {
    SettingsResult result{Settings{.exports = {{.clients = Network::of_v4(0x0a000000, 0xff000000)}}}};
    change(result.settings);
    rpc::XdrWriter out;
    encode(out, result);
    SettingsResult again;
    return decode(out.view(), again);
  };
  EXPECT_TRUE(decodes([](Settings&) {}));
  EXPECT_FALSE(decodes([](Settings& s) { s.exports[0].clients.address = 0x0a000001; }))
      << "bits behind the mask";
  EXPECT_FALSE(decodes([](Settings& s) {
    s.exports[0].clients = {.address = IpAddress::of_words(0xfd77ull << 48, 1), .bits = 64, .v6 = true};
  })) << "bits behind the prefix";
  EXPECT_FALSE(decodes([](Settings& s) {
    s.exports[0].clients = {.address = IpAddress(0x0a000001), .bits = 128, .v6 = true};
  })) << "IPv4 in IPv6's clothes";
  EXPECT_FALSE(decodes([](Settings& s) { s.exports[0].squash = static_cast<ExportConfig::Squash>(3); }));
  EXPECT_FALSE(decodes([](Settings& s) { s.copies = 0; }));
  EXPECT_FALSE(decodes([](Settings& s) { s.copies = kMaxCopies + 1; }));
  EXPECT_FALSE(decodes([](Settings& s) { s.export_path = "volume"; }));
  EXPECT_FALSE(decodes([](Settings& s) { s.reserves["a/b"] = 1; }));
  EXPECT_FALSE(decodes([](Settings& s) { s.log_level = static_cast<LogLevel>(4); }));
  EXPECT_FALSE(decodes([](Settings& s) { s.slow_operation_ms = kMostSlowOperationMs + 1; }));
  EXPECT_TRUE(decodes([](Settings& s) { s.failover_ms = 0; }));
  EXPECT_FALSE(decodes([](Settings& s) { s.failover_ms = kLeastFailoverMs - 1; }));
  rpc::XdrWriter lies;
  lies.u64(1);
  lies.text("/");
  lies.u32(0x7fffffff);  // exports
  SettingsResult again;
  EXPECT_FALSE(decode(lies.view(), again));
}

}  // namespace
}  // namespace slice::wire
