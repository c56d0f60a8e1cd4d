#include "control/manager/configuration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/version.h"

namespace slice::manager {
namespace {

using ::testing::HasSubstr;

class ConfigurationTest : public ::testing::Test {
 protected:
  ConfigurationTest() : folder_(::testing::TempDir() + "slice_configuration_" + std::to_string(::getpid())) {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ + "/key") << std::string(32, 'k');
    ::chmod((folder_ + "/key").c_str(), 0600);
    text_ =
        "name = \"test\"\nkey_file = \"key\"\n[proxy]\nvirtual_address = \"10.77.0.1\"\n"
        "[[export]]\nclients = \"10.77.0.0/16\"\n";
    unsigned leg = 2;
    for (const char* role : {"manager", "directory", "small-file", "storage", "coordinator", "proxy"}) {
      text_ +=
          fmt::format("[[server]]\nname = \"{0}\"\nrole = \"{0}\"\naddress = \"10.77.{1}.2\"\n", role, leg++);
      if (role != std::string_view("proxy")) text_ += fmt::format("data = \"/data/{}\"\n", role);
    }
    config_.path = folder_ + "/ensemble.toml";
    write(text_);
  }
  ~ConfigurationTest() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& text) const { std::ofstream(config_.path, std::ios::trunc) << text; }

  const std::string folder_;
  std::string text_;
  EnsembleConfig config_;
};

TEST_F(ConfigurationTest, IsTheFileAsItIs) {
  const wire::ConfigurationResult given = give_configuration(config_, WallTime{7});
  EXPECT_EQ(given.refused, "");
  EXPECT_EQ(given.text, text_);
  EXPECT_EQ(given.version, kVersion);
  EXPECT_EQ(given.now_ns, 7u);
}

TEST_F(ConfigurationTest, IsRefusedWhereNoProcessWouldStartWithIt) {
  write(text_ + "nonsense\n");
  wire::ConfigurationResult given = give_configuration(config_, WallTime{7});
  EXPECT_THAT(given.refused, HasSubstr("ensemble.toml:"));
  EXPECT_EQ(given.text, "");
  std::filesystem::remove(config_.path);
  given = give_configuration(config_, WallTime{7});
  EXPECT_THAT(given.refused, HasSubstr(config_.path));
  EXPECT_EQ(given.text, "");
}

}  // namespace
}  // namespace slice::manager
