#include "rpc/refusals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace slice::rpc {
namespace {

using ::testing::HasSubstr;

class RefusalsTest : public ::testing::Test {
 protected:
  void SetUp() override { ::testing::internal::CaptureStderr(); }
  std::uint64_t counted(std::string_view why) {
    return metrics_
        .counter("access_refused_total", "what was refused for reasons of access, by why", {{"why", why}})
        .value();
  }
  static auto lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

  Metrics metrics_;
  Refusals refusals_{metrics_};
};

TEST_F(RefusalsTest, SayWhoWhyAndWhatWasAsked) {
  refusals_.note(Refused::kPort, {0x0a4d0109, 4011}, "MNT '{}'", "/a");
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      HasSubstr("refused client=10.77.1.9:4011 why=port: its export is secure, and its port is not below "
                "1024; asked: MNT '/a'\n"));
  EXPECT_EQ(counted("port"), 1u);
}

TEST_F(RefusalsTest, OneClientsLinesHideNoOthersAndNoOtherReason) {
  for (int i = 0; i < 1000; ++i) refusals_.note(Refused::kExport, {1, 5}, "a");
  refusals_.note(Refused::kExport, {2, 5}, "b");
  refusals_.note(Refused::kHandle, {1, 5}, "c");
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines(text), 3) << text;
  EXPECT_EQ(counted("export"), 1001u);
}

TEST_F(RefusalsTest, ManyAddressesAreLimitedTogetherAndTakeBoundedMemory) {
  for (std::uint32_t i = 0; i < 100'000; ++i) refusals_.note(Refused::kExport, {i, 5}, "a");
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_LT(lines(text), 100) << text;
  EXPECT_EQ(counted("export"), 100'000u);
}

}  // namespace
}  // namespace slice::rpc
