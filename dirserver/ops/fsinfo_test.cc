#include "dirserver/testing/fixture.h"

namespace slice::dirserver::testing {
namespace {

using FsinfoTest = DirectoryFixture;

TEST_F(FsinfoTest, SaysWhatReadAndWriteAccept) {
  nfs3::FsinfoOk ok;
  ASSERT_EQ(call(Procedure::kFsinfo, nfs3::HandleView(root()), ok), NfsStatus::kOk);
  EXPECT_EQ(ok.rtmax, nfs3::kMaxTransfer);
  EXPECT_EQ(ok.wtmax, nfs3::kMaxTransfer);
  EXPECT_EQ(ok.max_file_size, (std::uint64_t{1} << 63) - 1);
  EXPECT_EQ(ok.time_delta, (nfs3::Time{0, 1}));
  EXPECT_TRUE(ok.attributes.has_value());
}

TEST_F(FsinfoTest, OfAnyObjectWithItsAttributes) {
  nfs3::FsinfoOk ok;
  Handle file = create(root(), "f").handle;
  ASSERT_EQ(call(Procedure::kFsinfo, nfs3::HandleView(file), ok), NfsStatus::kOk);
  ASSERT_TRUE(ok.attributes.has_value());
  EXPECT_EQ(ok.attributes->fileid, attributes(file).fileid);
}

TEST_F(FsinfoTest, RefusesForgedAndStaleHandles) {
  nfs3::FsinfoOk ok;
  Handle forged = root();
  forged[50] ^= 0x80;
  EXPECT_EQ(call(Procedure::kFsinfo, nfs3::HandleView(forged), ok), NfsStatus::kBadHandle);
  Handle file = create(root(), "f").handle;
  ASSERT_EQ(remove(root(), "f"), NfsStatus::kOk);
  EXPECT_EQ(call(Procedure::kFsinfo, nfs3::HandleView(file), ok), NfsStatus::kStale);
}

}  // namespace
}  // namespace slice::dirserver::testing
