#include "control/slicectl/birth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <map>

#include "common/testing/temporary_folder.h"
#include "control/slicectl/init_commands.h"
#include "control/slicectl/new_file.h"

namespace slice::slicectl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Result<std::vector<IpAddress>> from_a_book(const std::string& name) {
  static const std::map<std::string, std::vector<IpAddress>> kBook{
      {"alpha", {0x0a4d000b}}, {"beta", {0x0a4d000c}}, {"gamma", {0x0a4d000d}},
      {"again", {0x0a4d000c}}, {"self", {0x7f000101}}, {"two", {0x0a4d000e, 0x0a4d000f}}};
  if (auto address = parse_address(name)) return std::vector{*address};
  auto found = kBook.find(name);
  if (found == kBook.end()) return fail(Errc::kNotFound, "nobody knows it");
  return found->second;
}

Result<Birth> plan(std::vector<std::string> hosts, BirthOptions options = {}) {
  options.hosts = std::move(hosts);
  if (options.virtual_address.empty()) options.virtual_address = "10.77.0.1";
  return plan_birth(options, from_a_book);
}
std::string refusal(std::vector<std::string> hosts, BirthOptions options = {}) {
  auto planned = plan(std::move(hosts), std::move(options));
  if (planned) return "";
  EXPECT_EQ(planned.error().code, Errc::kInvalid);
  return planned.error().message;
}
std::vector<std::string> names_of(const Host& host) {
  std::vector<std::string> names;
  for (const HostServer& server : host.servers) names.push_back(server.name);
  return names;
}
// As every process would read it.
EnsembleConfig read(const Birth& birth) {
  const std::string folder = ::testing::TempDir() + "/birth";
  ::mkdir(folder.c_str(), 0700);
  if (auto written = write_new_file(folder + "/ensemble.key", std::string(32, 'k'), 0600); !written)
    EXPECT_EQ(written.error().code, Errc::kExists);
  auto config = parse_ensemble(configuration_of(birth), folder + "/ensemble.toml");
  EXPECT_TRUE(config) << config.error().message;
  return config.value();
}

TEST(Birth, OneHostHasEveryRole) {
  auto birth = plan({"alpha"});
  ASSERT_TRUE(birth);
  EXPECT_THAT(names_of(birth->hosts[0]),
              ElementsAre("manager1", "dir1", "small1", "coord1", "store1", "proxy1"));
  const EnsembleConfig config = read(*birth);
  EXPECT_EQ(config.volume.copies, 1u);
  EXPECT_EQ(config.find("store1")->data, "/var/lib/slice/store1");
  EXPECT_EQ(config.exports.at(0).clients, Network::of_v4(0x0a4d0000, 0xffffff00));
}

TEST(Birth, ASecondHostHasBytes) {
  auto birth = plan({"alpha", "beta"});
  ASSERT_TRUE(birth);
  EXPECT_EQ(birth->copies, 1u);
  EXPECT_THAT(names_of(birth->hosts[1]), ElementsAre("small2", "store2"));
  EXPECT_EQ(read(*birth).find("store2")->host, "beta");
  EXPECT_EQ(plan({"alpha", "beta"}, {.copies = 2})->copies, 2u);
}

TEST(Birth, OfThreeHostsOneMayFail) {
  auto birth = plan({"alpha", "beta", "files=10.77.0.20"});
  ASSERT_TRUE(birth);
  EXPECT_EQ(birth->copies, 2u);
  EXPECT_THAT(names_of(birth->hosts[0]),
              ElementsAre("manager1", "dir1", "small1", "coord1", "store1", "proxy1"));
  EXPECT_THAT(names_of(birth->hosts[1]), ElementsAre("store2"));
  const EnsembleConfig config = read(*birth);
  EXPECT_EQ(config.find("store3")->host, "files");
  EXPECT_EQ(config.find("store3")->address, 0x0a4d0014u);
  EXPECT_EQ(config.find("store3")->port, 2054);
  EXPECT_EQ(config.warnings.size(), 0u);
}

TEST(Birth, FoldersAndNamesGoToAsManyAsIsSaid) {
  auto birth = plan({"alpha", "beta", "gamma"}, {.storage = {"/srv/a", "/srv/b"}, .directories = 2});
  ASSERT_TRUE(birth);
  EXPECT_THAT(names_of(birth->hosts[1]), ElementsAre("dir2", "small2", "coord2", "store3", "store4"));
  const EnsembleConfig config = read(*birth);
  EXPECT_EQ(config.find("store4")->data, "/srv/b/store4");
  EXPECT_EQ(config.find("store4")->port, 2055);
  const std::string script = script_of(*birth, birth->hosts[1], configuration_of(*birth), "KEY\n");
  EXPECT_THAT(script, HasSubstr("install -d -o slice -g slice -m 700 /srv/b/store4\n"));
  EXPECT_THAT(script, HasSubstr("ReadWritePaths=/srv/b/store4"));
  EXPECT_THAT(script,
              HasSubstr("\nsystemctl enable slice-dird@dir2 slice-smallfiled@small2 slice-coordd@coord2"));
  EXPECT_THAT(script, Not(HasSubstr("slice-proxyd")));
}

TEST(Birth, RefusesHostsThatAreNone) {
  EXPECT_THAT(refusal({}), HasSubstr("at least one"));
  EXPECT_THAT(refusal({"alpha", ""}), HasSubstr("'' is no name of a host"));
  EXPECT_THAT(refusal({"al pha"}), HasSubstr("'al pha' is no name of a host"));
  EXPECT_THAT(refusal({"alpha", "delta"}), HasSubstr("'delta' has no IP address: nobody knows it"));
  EXPECT_THAT(refusal({"alpha", "alpha"}), HasSubstr("'alpha' is named twice"));
  EXPECT_THAT(refusal({"beta", "again"}), HasSubstr("beta and again are one host, 10.77.0.12"));
  EXPECT_THAT(refusal({"self"}), HasSubstr("127.0.1.1 on this machine, where no other host can reach it"));
  EXPECT_THAT(refusal({"self"}), HasSubstr("NAME=ADDRESS"));
  EXPECT_THAT(refusal({"two"}), HasSubstr("several addresses, 10.77.0.14 among them"));
}

TEST(Birth, RefusesWhatCannotBe) {
  EXPECT_THAT(refusal({"alpha"}, {.virtual_address = "10.77.0.11"}),
              HasSubstr("is the address of host alpha"));
  EXPECT_THAT(refusal({"alpha"}, {.virtual_address = "224.0.0.1"}), HasSubstr("--virtual"));
  EXPECT_THAT(refusal({"alpha"}, {.virtual_address = "nobody"}),
              HasSubstr("--virtual: 'nobody' has no IP address"));
  EXPECT_THAT(refusal({"alpha"}, {.clients = "10.77.0.9/16"}), HasSubstr("10.77.0.0/16 is meant"));
  for (const char* text :
       {"10.77.0.0", "10.77.0.0/", "10.77.0.0/33", "10.77.0.0/8x", "10.77/16", "everybody", "fd77::/129"})
    EXPECT_THAT(refusal({"alpha"}, {.clients = text}),
                ::testing::AllOf(HasSubstr("--clients: '"), HasSubstr("' is n")))
        << text;
  EXPECT_THAT(refusal({"alpha", "beta"}, {.copies = 3}), HasSubstr("3 on 2 hosts"));
  EXPECT_THAT(refusal({"alpha"}, {.directories = 2}), HasSubstr("--directories: 1 to 1"));
  EXPECT_THAT(refusal({"alpha"}, {.directories = 0}), HasSubstr("--directories"));
  EXPECT_THAT(refusal({"alpha"}, {.storage = {"srv"}}), HasSubstr("'srv' is no folder for data"));
  EXPECT_THAT(refusal({"alpha"}, {.storage = {"/srv/$(reboot)"}}), HasSubstr("is no folder for data"));
  EXPECT_THAT(refusal({"alpha"}, {.storage = {"/srv/a", "/srv//a"}}), HasSubstr("named twice"));
  EXPECT_THAT(refusal({"alpha"}, {.name = "a\nb"}), HasSubstr("--name"));
  std::vector<std::string> many;
  for (unsigned i = 0; i < 260; ++i) many.push_back(fmt::format("10.78.{}.{}", i / 200, i % 200 + 1));
  EXPECT_THAT(refusal(many), HasSubstr("more than 1023 servers"));
}

class InitTest : public ::testing::Test {
 protected:
  Result<std::string> init(const std::string& hosts, const std::string& folder) {
    cli::Program app("");
    InitCommands commands(app);
    EXPECT_FALSE(app.parse({"init", "--hosts", hosts, "--virtual", "10.77.0.1", "--output", folder}));
    EXPECT_TRUE(commands.parsed());
    return commands.run(Format::kText, from_a_book);
  }
  TemporaryFolder temporary_;
  const std::string& folder_ = temporary_.path();
};

TEST_F(InitTest, WritesWhatEachHostRuns) {
  auto told = init("alpha,beta,gamma", folder_ + "/new");
  ASSERT_TRUE(told) << told.error().message;
  EXPECT_THAT(*told, HasSubstr("ssh root@beta sh -s < " + folder_ + "/new/beta.sh\n"));
  EXPECT_THAT(*told, HasSubstr("hosts to one another: 2049-2054\n"));
  auto config = load_ensemble(folder_ + "/new/ensemble.toml");
  ASSERT_TRUE(config) << config.error().message;
  struct stat info{};
  for (const char* name : {"ensemble.key", "alpha.sh", "gamma.sh"}) {
    ASSERT_EQ(::stat(fmt::format("{}/new/{}", folder_, name).c_str(), &info), 0) << name;
    EXPECT_EQ(info.st_mode & 077, 0u) << name;
  }
}

TEST_F(InitTest, OverwritesNothing) {
  ASSERT_TRUE(init("alpha", folder_));
  auto again = init("alpha", folder_);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Errc::kExists);
  EXPECT_THAT(again.error().message, HasSubstr("is not empty"));
  std::ofstream(folder_ + "/file") << "mine";
  again = init("alpha", folder_ + "/file");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Errc::kExists);
  EXPECT_FALSE(init("alpha", "/nowhere/at/all"));
}

}  // namespace
}  // namespace slice::slicectl
