// The parts of a client's proxy; the whole one is for the suite `client-proxy`, with a kernel client.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "control/clientd/kept_routes.h"
#include "control/clientd/mount_words.h"
#include "control/clientd/mounts.h"
#include "control/clientd/place.h"

namespace slice::clientd {
namespace {

using ::testing::HasSubstr;

Result<MountWords> parse(std::vector<std::string> words) {
  return parse_mount(words);
}
std::string refused(std::vector<std::string> words) {
  auto parsed = parse(std::move(words));
  return parsed ? "" : parsed.error().message;
}

TEST(ServerText, SaysPortsWhereTheyAreNotTheUsual) {
  for (const char* text : {"10.0.0.1", "10.0.0.1:2050", "10.0.0.1:2049:635", "10.0.0.1:1:65535", "fd77::1",
                           "[fd77::1]:2050", "[fd77::1]:2049:635"}) {
    auto server = parse_server(text);
    ASSERT_TRUE(server) << text;
    EXPECT_EQ(to_string(*server), text);
  }
  for (const char* text : {"", "host", "10.0.0", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:65536", "10.0.0.1:1:",
                           "10.0.0.1:1:2:3", "10.0.0.1:2049x", "[fd77::1]", "[fd77::1]:", "[10.0.0.1]:2050",
                           "fd77::1:x", "[fd77::1", "[]:2049", "[fd77::1]2049"}) {
    EXPECT_FALSE(parse_server(text)) << text;
  }
}

TEST(MountSlice, MountsFromTheProxyOfThisHost) {
  auto words =
      parse({"server:/some/path", "/mnt", "-rv", "-o", "noatime,port=2050,nolock,vers=3,rsize=65536"});
  ASSERT_TRUE(words) << words.error().message;
  EXPECT_EQ(words->host, "server");
  EXPECT_EQ(words->server.port, 2050);
  words->server.address = 0x0a000001;
  EXPECT_EQ(mount_command(*words, 40123),
            (std::vector<std::string>{
                "mount", "-i", "-t", "nfs", "-rv", "-o",
                "vers=3,proto=tcp,nolock,addr=127.0.0.1,port=40123,mountvers=3,mountproto=tcp,"
                "mountaddr=10.0.0.1,mountport=20048,noatime,rsize=65536",
                "server:/some/path", "/mnt"}));
}

TEST(MountSlice, MountsByIpv6) {
  auto words = parse({"[fd77::1]:/a:/b", "/mnt", "-o", "proto=tcp6"});
  ASSERT_TRUE(words) << words.error().message;
  EXPECT_EQ(words->host, "fd77::1");
  EXPECT_EQ(words->path, "/a:/b");
  EXPECT_EQ(words->v6, true);
  words->server.address = parse_address("fd77::1").value();
  EXPECT_EQ(mount_command(*words, 40123),
            (std::vector<std::string>{
                "mount", "-i", "-t", "nfs", "-o",
                "vers=3,proto=tcp,nolock,addr=127.0.0.1,port=40123,mountvers=3,mountproto=tcp6,"
                "mountaddr=fd77::1,mountport=20048",
                "[fd77::1]:/a:/b", "/mnt"}));
  EXPECT_THAT(refused({"fd77::1:/", "/mnt"}), HasSubstr("[ADDRESS]:/PATH"));
  EXPECT_THAT(refused({"[]:/", "/mnt"}), HasSubstr("[ADDRESS]:/PATH"));
  EXPECT_THAT(refused({"[fd77::1]:/", "/mnt", "-o", "proto=tcp6,mountproto=tcp"}), HasSubstr("other family"));
}

TEST(MountSlice, SaysWhatCannotBeKept) {
  EXPECT_THAT(refused({"server:/", "/mnt", "-o", "lock"}),
              HasSubstr("locks hold among programs of this host"));
  EXPECT_THAT(refused({"server:/", "/mnt", "-o", "ro,vers=4.2"}), HasSubstr("NFSv3"));
  EXPECT_THAT(refused({"server:/", "/mnt", "-o", "proto=udp"}), HasSubstr("only tcp"));
  EXPECT_THAT(refused({"server:/", "/mnt", "-o", "xprtsec=tls"}), HasSubstr("in clear"));
  EXPECT_THAT(refused({"server:/", "/mnt", "-oaddr=10.0.0.2"}), HasSubstr("leave it off"));
  EXPECT_THAT(refused({"server:/", "/mnt", "-o", "port=70000"}), HasSubstr("no port"));
  EXPECT_THAT(refused({"server:/", "/mnt", "-o", "port=2049:635"}), HasSubstr("no port"));
  EXPECT_THAT(refused({"server", "/mnt"}), HasSubstr("SERVER:/PATH"));
  EXPECT_THAT(refused({"server:/"}), HasSubstr("usage"));
  EXPECT_THAT(refused({"server:/", "/mnt", "-x"}), HasSubstr("no such flag"));
  EXPECT_THAT(refused({"server:/", "/mnt", "-o"}), HasSubstr("lacks its value"));
}

constexpr std::string_view kMounts =
    "22 26 0:20 / /proc rw - proc proc rw\n"
    "90 26 0:55 / /mnt rw,noatime shared:3 - nfs 10.0.0.1:/ "
    "rw,vers=3,proto=tcp,port=40123,mountaddr=10.0.0.1,"
    "mountport=20048,local_lock=all,addr=127.0.0.1\n"
    "91 26 0:56 / /b rw - nfs 10.0.0.1:/ rw,vers=3,port=40124,addr=10.0.0.1\n";

TEST(Mounts, AreThoseFromThePortOfThisHost) {
  EXPECT_TRUE(has_mount(kMounts, 40123));
  EXPECT_FALSE(has_mount(kMounts, 40124)) << "another host's";
  EXPECT_FALSE(has_mount(kMounts, 4012));
  EXPECT_FALSE(has_mount("", 40123));
  EXPECT_FALSE(has_mount("90 26 0:55 / /mnt rw - nfs", 40123));
}

TEST(Mounts, AConnectionCountsWhileItIsOpen) {
  constexpr std::string_view kTable =
      "  sl  local_address rem_address   st tx_queue rx_queue\n"
      "   0: 0100007F:9CBB 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0\n"
      "   1: 0100007F:9CBB 0100007F:0384 01 00000000:00000000 00:00000000 00000000     0\n"
      "   2: 0100007F:0385 0100007F:9CBC 01 00000000:00000000 00:00000000 00000000     0\n"
      "   3: 0100007F:9CBD 0100007F:0386 06 00000000:00000000 03:00000000 00000000     0\n";
  EXPECT_TRUE(has_connection(kTable, 0x9cbb));
  EXPECT_FALSE(has_connection(kTable, 0x9cbc)) << "that is the other end";
  EXPECT_FALSE(has_connection(kTable, 0x9cbd)) << "over";
  EXPECT_FALSE(has_connection("   1: 0100007F:9CBB 0100", 0x9cbb));
}

TEST(Mounts, OfThisHostAreLookedThrough) {
  EXPECT_FALSE(in_use(9));  // nobody's: every file there is read nevertheless
}

class PlaceTest : public ::testing::Test {
 protected:
  PlaceTest() : folder_(std::filesystem::temp_directory_path() / fmt::format("slice-place-{}", ::getpid())) {}
  ~PlaceTest() override { std::filesystem::remove_all(folder_); }
  Place place() const { return Place::open(folder_, *parse_server("10.0.0.1")).value(); }
  const std::filesystem::path folder_;
};

TEST_F(PlaceTest, ThePortIsKept) {
  const auto port = place().port();
  ASSERT_TRUE(port);
  EXPECT_EQ(place().port().value(), *port);
  std::filesystem::resize_file(folder_ / "10.0.0.1.port", 0);
  EXPECT_TRUE(place().port()) << "damaged: another one is chosen";
}

TEST_F(PlaceTest, RoutesAreKeptWhole) {
  wire::Routes routes{.generation = Generation{7}, .changed = true, .volume = 3};
  routes.servers = {{0x0a000001, 2049}, {0x0a000002, 2049}};
  for (auto& sites : routes.sites) sites = {0, 1};
  const auto file = place().routes();
  EXPECT_EQ(kept_routes(file).error().code, Errc::kNotFound);
  ASSERT_TRUE(keep_routes(file, routes));
  routes.generation = Generation{8};
  ASSERT_TRUE(keep_routes(file, routes)) << "in place of the others";
  const auto kept = kept_routes(file);
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_EQ(kept->generation, Generation{8});
  EXPECT_EQ(kept->servers, routes.servers);
  const auto size = std::filesystem::file_size(file);
  for (std::uintmax_t less = 1; less <= size; less += 3) {
    std::filesystem::resize_file(file, size - less);
    EXPECT_EQ(kept_routes(file).error().code, Errc::kCorrupt) << less;
  }
  EXPECT_EQ(keep_routes("/proc/no-such-folder/routes", routes).error().code, Errc::kIo);
}

TEST_F(PlaceTest, OneProxyRunsAtATime) {
  EXPECT_FALSE(place().is_served());
  {
    auto serving = place().serve();
    ASSERT_TRUE(serving);
    EXPECT_TRUE(place().is_served());
    EXPECT_FALSE(place().serve());
  }
  EXPECT_FALSE(place().is_served());
  EXPECT_TRUE(place().serve());
}

TEST_F(PlaceTest, AProxyDoesNotEndWhileAMountIsBeingMade) {
  {
    auto one = place().mounting();
    auto other = place().mounting();
    EXPECT_TRUE(one && other);
    EXPECT_FALSE(place().ending());
  }
  EXPECT_TRUE(place().ending());
}

}  // namespace
}  // namespace slice::clientd
