#include "service/data_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace slice::service {
namespace {

using ::testing::HasSubstr;

class DataDirectoryTest : public ::testing::Test {
 protected:
  DataDirectoryTest() : root_(::testing::TempDir() + "slice_data_" + std::to_string(::getpid())) {
    server_.name = "store1";
    server_.role = ServerRole::kStorage;
    server_.data = root_ + "/a/store1";
  }
  ~DataDirectoryTest() override { std::filesystem::remove_all(root_); }
  Result<DataDirectory> claim() const { return DataDirectory::claim(server_, VolumeId{7}, 3); }
  std::string format() const {
    std::ifstream in(server_.data + "/FORMAT");
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void refused(Errc code, std::string_view reason) const {
    auto data = claim();
    ASSERT_FALSE(data);
    EXPECT_EQ(data.error().code, code);
    EXPECT_THAT(data.error().message, HasSubstr(std::string(reason)));
    EXPECT_THAT(data.error().message, HasSubstr(server_.data));
  }

  std::string root_;
  ServerConfig server_;
};

TEST_F(DataDirectoryTest, MakesAndMarksANewOneAndKnowsItAgain) {
  {
    auto data = claim();
    ASSERT_TRUE(data) << data.error().message;
    EXPECT_TRUE(data->is_new());
    EXPECT_FALSE(data->served());
    EXPECT_GT(data->free_bytes(), 0u);
    EXPECT_EQ(format(), "format 3\nrole storage\nvolume 7\nserver store1\n");
    auto mode = std::filesystem::status(server_.data).permissions();
    EXPECT_EQ(mode, std::filesystem::perms::owner_all);
  }
  for (const char* name : {"tables.copy", "tables.copy.new", "ownership", "ownership.new", "FORMAT.new"}) {
    std::ofstream(server_.data + "/" + name) << "x";
    EXPECT_FALSE(claim()->served()) << name << " is there before anything is stored";
  }
  std::ofstream(server_.data + "/object") << "bytes";
  auto again = claim();
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_FALSE(again->is_new());
  EXPECT_TRUE(again->served());
}

TEST_F(DataDirectoryTest, LetsOneProcessInAtATime) {
  {
    auto first = claim();
    ASSERT_TRUE(first);
    refused(Errc::kExists, "in use by another process");
  }
  EXPECT_TRUE(claim());
}

TEST_F(DataDirectoryTest, RefusesAnotherServersRolesVolumesAndFormats) {
  ASSERT_TRUE(claim());
  ServerConfig good = server_;
  server_.name = "store2";
  refused(Errc::kInvalid, "FORMAT says 'format 3 role storage volume 7 server store1 '");
  server_ = good;
  server_.role = ServerRole::kSmallFile;
  refused(Errc::kInvalid, "but 'format 3 role small-file volume 7 server store1 ' is expected");
  server_ = good;
  EXPECT_EQ(DataDirectory::claim(server_, VolumeId{8}, 3).error().code, Errc::kInvalid);
  EXPECT_EQ(DataDirectory::claim(server_, VolumeId{7}, 4).error().code, Errc::kInvalid);
  EXPECT_TRUE(claim());
}

TEST_F(DataDirectoryTest, RefusesAFolderOfSomethingElse) {
  std::filesystem::create_directories(server_.data);
  std::ofstream(server_.data + "/precious") << "x";
  refused(Errc::kInvalid, "has files but no FORMAT");
  EXPECT_EQ(format(), "");
}

TEST_F(DataDirectoryTest, GoesOnWhereAFirstStartWasInterrupted) {
  std::filesystem::create_directories(server_.data + "/lost+found");
  std::ofstream(server_.data + "/FORMAT.new") << "form";
  auto data = claim();
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_TRUE(data->is_new());
}

TEST_F(DataDirectoryTest, RefusesOneThatIsOnlyHalfFilled) {
  {
    auto data = claim();
    ASSERT_TRUE(data->begin_filling());
    std::ofstream(server_.data + "/half") << "of it";
  }
  refused(Errc::kInvalid, "empty it and begin again");
  std::filesystem::remove_all(server_.data);
  {
    auto data = claim();
    ASSERT_TRUE(data->begin_filling());
    std::ofstream(server_.data + "/all") << "of it";
    ASSERT_TRUE(data->end_filling());
  }
  EXPECT_TRUE(claim()->served());
}

TEST_F(DataDirectoryTest, RefusesADamagedFormatWithoutEchoingControlCharacters) {
  std::filesystem::create_directories(server_.data);
  std::ofstream(server_.data + "/FORMAT") << "\033[31m" << std::string(2000, 'x');
  auto data = claim();
  ASSERT_FALSE(data);
  EXPECT_EQ(data.error().code, Errc::kInvalid);
  EXPECT_EQ(data.error().message.find('\033'), std::string::npos);
  EXPECT_LT(data.error().message.size(), 1000u);
}

TEST_F(DataDirectoryTest, SaysWhyAFolderCannotBeMade) {
  std::filesystem::create_directories(root_);
  std::ofstream(root_ + "/a") << "a file";
  refused(Errc::kIo, "");
}

}  // namespace
}  // namespace slice::service
