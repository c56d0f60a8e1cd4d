// Servers with a backing set, and the places where they may run, as the configuration has them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "common/config.h"

namespace slice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ConfigBackingTest : public ::testing::Test {
 protected:
  ConfigBackingTest() : folder_(::testing::TempDir() + "slice_backing_" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ + "/key") << std::string(32, 'k');
    chmod((folder_ + "/key").c_str(), 0600);
  }
  ~ConfigBackingTest() override { std::filesystem::remove_all(folder_); }

  // One server of each role; `keys` are one's more.
  Result<EnsembleConfig> parse(const std::string& role, const std::string& keys) const {
    std::string text =
        "name = \"test\"\nkey_file = \"key\"\n[proxy]\nvirtual_address = \"10.77.0.1\"\n"
        "[[export]]\nclients = \"10.77.0.0/16\"\n";
    int number = 2;
    for (const char* each : {"proxy", "manager", "directory", "small-file", "storage", "coordinator"}) {
      text += fmt::format("[[server]]\nname = \"{0}1\"\nrole = \"{0}\"\naddress = \"10.77.{1}.2\"\n", each,
                          number++);
      if (each != std::string("proxy")) text += fmt::format("data = \"/data/{}\"\n", each);
      if (each == role) text += keys + "\n";
    }
    return parse_ensemble(text, folder_ + "/ensemble.toml");
  }

  std::string folder_;
};

TEST_F(ConfigBackingTest, SaysOnHowManyNodesAndWhere) {
  auto copies = [this](const std::string& keys) {
    auto config = parse("directory", keys);
    EXPECT_TRUE(config) << config.error().message;
    return config ? config->find("directory1")->backing_copies : 99;
  };
  EXPECT_EQ(copies(""), 0u);
  EXPECT_EQ(copies(R"(backing = "local")"), 0u);
  EXPECT_EQ(copies(R"(backing = "replicated")"), 2u);
  EXPECT_EQ(copies("backing = \"replicated\"\nbacking_copies = 3"), 3u);
  auto config = parse("directory", "backing = \"replicated\"\nstandbys = [\"10.77.8.2\"]");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_THAT(config->find("directory1")->places, ElementsAre(0x0a4d0402, 0x0a4d0802));
}

TEST_F(ConfigBackingTest, RefusesWhatCannotBe) {
  const std::string replicated = "backing = \"replicated\"\n";
  struct Case {
    const char* role;
    std::string keys;
    const char* why;
  };
  const Case cases[] = {{"storage", replicated, "only directory servers, small-file servers"},
                        {"directory", "backing = \"both\"", "'both' is none of local, replicated"},
                        {"directory", "backing_copies = 2", "it needs backing"},
                        {"directory", "standbys = []", "it needs backing"},
                        {"directory", replicated + "standbys = [\"10.77.4\"]", "standbys of [[server]]"},
                        {"directory", replicated + "standbys = [\"10.77.4.2\"]", "is said twice"},
                        {"directory", replicated + "backing_copies = 4", "is not between 1 and 3"}};
  for (const Case& each : cases) {
    auto config = parse(each.role, each.keys);
    ASSERT_FALSE(config) << each.keys;
    EXPECT_THAT(config.error().message, HasSubstr(each.why));
  }
}

}  // namespace
}  // namespace slice
