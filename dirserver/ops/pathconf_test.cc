#include "dirserver/testing/fixture.h"

namespace slice::dirserver::testing {
namespace {

using PathconfTest = DirectoryFixture;

TEST_F(PathconfTest, SaysWhatNamesMayBe) {
  nfs3::PathconfOk ok;
  ASSERT_EQ(call(Procedure::kPathconf, nfs3::HandleView(create(root(), "f").handle), ok), NfsStatus::kOk);
  EXPECT_EQ(ok.name_max, 255u);
  EXPECT_TRUE(ok.no_trunc && ok.case_preserving && ok.chown_restricted);
  EXPECT_FALSE(ok.case_insensitive);
}

TEST_F(PathconfTest, OfAnyObjectWithItsAttributes) {
  nfs3::PathconfOk ok;
  Handle file = create(root(), "f").handle;
  ASSERT_EQ(call(Procedure::kPathconf, nfs3::HandleView(file), ok), NfsStatus::kOk);
  ASSERT_TRUE(ok.attributes.has_value());
  EXPECT_EQ(ok.attributes->fileid, attributes(file).fileid);
}

TEST_F(PathconfTest, RefusesForgedAndStaleHandles) {
  nfs3::PathconfOk ok;
  Handle forged = root();
  forged[50] ^= 0x80;
  EXPECT_EQ(call(Procedure::kPathconf, nfs3::HandleView(forged), ok), NfsStatus::kBadHandle);
  Handle file = create(root(), "f").handle;
  ASSERT_EQ(remove(root(), "f"), NfsStatus::kOk);
  EXPECT_EQ(call(Procedure::kPathconf, nfs3::HandleView(file), ok), NfsStatus::kStale);
}

}  // namespace
}  // namespace slice::dirserver::testing
