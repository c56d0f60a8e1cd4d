#include "common/whole_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace slice {
namespace {

using ::testing::HasSubstr;

class WholeFileTest : public ::testing::Test {
 protected:
  WholeFileTest() : folder_(::testing::TempDir() + "slice_whole_file_" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~WholeFileTest() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& bytes) const {
    std::ofstream(folder_ + "/file", std::ios::binary | std::ios::trunc) << bytes;
    return folder_ + "/file";
  }
  std::string folder_;
};

TEST_F(WholeFileTest, ReadsAFileUpToItsLimit) {
  for (std::size_t size : {0u, 1u, 65536u, 200'000u}) {
    std::string bytes(size, 'x');
    auto file = read_whole_file(write(bytes), size);
    ASSERT_TRUE(file) << size << ": " << file.error().message;
    EXPECT_EQ(file->bytes, bytes);
    EXPECT_TRUE(S_ISREG(file->mode));
    if (size == 0) continue;
    auto larger = read_whole_file(folder_ + "/file", size - 1);
    ASSERT_FALSE(larger);
    EXPECT_EQ(larger.error().code, Errc::kTooLarge);
  }
}

TEST_F(WholeFileTest, ADirectoryIsNoFile) {
  auto file = read_whole_file(folder_, 100);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, Errc::kInvalid);
  EXPECT_THAT(file.error().message, HasSubstr("is not a file but a directory"));
}

TEST_F(WholeFileTest, SaysWhatTheSystemSays) {
  auto missing = read_whole_file(folder_ + "/none", 100);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::kNotFound);
  auto below = read_whole_file(write("x") + "/below", 100);
  ASSERT_FALSE(below);
  EXPECT_EQ(below.error().code, Errc::kIo);
}

TEST_F(WholeFileTest, TakesWhatDoesNotSayHowLongItIs) {
  auto status = read_whole_file("/proc/self/status", 1 << 20);
  ASSERT_TRUE(status);
  EXPECT_THAT(status->bytes, HasSubstr("VmRSS"));
}

}  // namespace
}  // namespace slice
