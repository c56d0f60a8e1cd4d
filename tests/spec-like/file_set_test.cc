// What the generator knows of its files, and the checks that hold replies against it.
#include "tests/spec-like/file_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/spec-like/checks.h"

namespace slice::load {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::uint8_t> bytes_of(const File& file, std::uint64_t offset, std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  fill(file, offset, bytes);
  return bytes;
}

File file_of(std::uint64_t size) {
  File file;
  file.key = 77;
  file.size = size;
  file.renew(0, size);
  return file;
}

TEST(Content, IsTheSameHoweverItIsCut) {
  const File file = file_of(50'000);
  const auto whole = bytes_of(file, 0, 50'000);
  sim::Random random(1);
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t at = random.below(50'000);
    const std::size_t size = random.below(50'000 - at) + 1;
    const auto part = bytes_of(file, at, size);
    ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(at)));
    ASSERT_FALSE(first_difference(file, at, part));
  }
}

TEST(Content, EveryChangedByteIsFoundWhereItIs) {
  const File file = file_of(20'000);
  auto bytes = bytes_of(file, 3, 19'000);
  for (std::size_t at = 0; at < bytes.size(); at += 7) {
    bytes[at] ^= 0x10;
    ASSERT_EQ(first_difference(file, 3, bytes), 3 + at);
    bytes[at] ^= 0x10;
  }
}

TEST(Content, DiffersByFileOffsetAndVersion) {
  File file = file_of(3 * kBlock), other = file;
  other.key = 78;
  const auto before = bytes_of(file, 0, 3 * kBlock);
  EXPECT_EQ(first_difference(other, 0, before), 0u);
  EXPECT_TRUE(first_difference(file, kBlock, ByteView(before).first(kBlock)));
  file.renew(kBlock, kBlock);
  EXPECT_EQ(first_difference(file, 0, before), kBlock);
  EXPECT_FALSE(first_difference(file, 2 * kBlock, ByteView(before).subspan(2 * kBlock)));
}

class FileSetTest : public ::testing::Test {
 protected:
  FileSetTest() {
    directory.name = "d0";
    directory.fileid = FileId{5};
  }
  void put(const std::string& name, std::uint64_t fileid) {
    files.begin_change(directory, name);
    files.end_change(directory, name, FileId{fileid});
  }
  void take(const std::string& name) {
    files.begin_change(directory, name);
    files.end_change(directory, name, std::nullopt);
  }
  File& make(bool temporary) {
    File& file = files.new_file(0, 100, temporary);
    file.handle = Handle::of(as_bytes("handle"));
    files.made(file);
    files.release(file);
    return file;
  }

  FileSet files{1, 0.1};
  Directory& directory = files.directories().emplace_back();
};

TEST_F(FileSetTest, AListingThatIsRightIsAccepted) {
  put("f1", 1);
  put("f2", 2);
  Listing listing(files, directory);
  EXPECT_THAT(listing.take(".", FileId{5}), IsEmpty());
  EXPECT_THAT(listing.take("..", FileId{9}), IsEmpty());
  EXPECT_THAT(listing.take("f2", FileId{2}), IsEmpty());
  EXPECT_THAT(listing.take("f1", FileId{1}), IsEmpty());
  EXPECT_THAT(listing.end(), IsEmpty());
}

TEST_F(FileSetTest, AListingThatIsWrongIsNot) {
  put("f1", 1);
  put("f2", 2);
  take("f2");
  put("f3", 3);
  Listing listing(files, directory);
  EXPECT_THAT(listing.take("f2", FileId{2}), HasSubstr("f2, which is not there"));
  EXPECT_THAT(listing.take("f3", FileId{4}), HasSubstr("fileid 4, which is 3"));
  EXPECT_THAT(listing.take("f3", FileId{3}), HasSubstr("twice"));
  EXPECT_THAT(listing.take(".", FileId{6}), HasSubstr("lists ."));
  EXPECT_THAT(listing.end(), HasSubstr("f1"));
}

TEST_F(FileSetTest, WhatChangesDuringAListingMayBeSeenOrNot) {
  put("f1", 1);
  put("f2", 2);
  Listing seen(files, directory), unseen(files, directory);
  take("f1");
  put("f3", 3);
  files.begin_change(directory, "f2");
  EXPECT_THAT(seen.take("f1", FileId{1}), IsEmpty());
  EXPECT_THAT(seen.take("f2", FileId{2}), IsEmpty());
  EXPECT_THAT(seen.take("f3", FileId{3}), IsEmpty());
  EXPECT_THAT(seen.end(), IsEmpty());
  EXPECT_THAT(unseen.end(), IsEmpty());
}

TEST_F(FileSetTest, NamesThatWereRemovedAreForgottenAfterTheLastListing) {
  put("f1", 1);
  {
    Listing listing(files, directory);
    take("f1");
    EXPECT_EQ(directory.names.size(), 1u);
  }
  EXPECT_THAT(directory.names, IsEmpty());
}

TEST_F(FileSetTest, TheWorkingSetIsItsShare) {
  for (int i = 0; i < 1000; ++i) make(false);
  EXPECT_NEAR(static_cast<double>(files.active()), 100, 2);
  EXPECT_EQ(files.files(), 1000u);
}

TEST_F(FileSetTest, AFileThatIsChangedIsUsedByNobodyElse) {
  File& file = make(true);
  EXPECT_EQ(files.pick(false), &file);
  EXPECT_EQ(files.pick(false), &file);
  EXPECT_EQ(files.pick(true), nullptr);
  files.release(file);
  files.release(file);
  EXPECT_EQ(files.pick_temporary(), &file);
  EXPECT_EQ(files.pick(false), nullptr);
  files.release(file);
  files.forget(file);
  EXPECT_EQ(files.pick(false), nullptr);
  EXPECT_EQ(files.files(), 0u);
}

TEST_F(FileSetTest, AFileThatMayLoseBytesIsUsedByOneAtATime) {
  File& file = make(true);
  file.dirty = true;
  EXPECT_EQ(files.pick(false), &file);
  EXPECT_EQ(files.pick(false), nullptr);
  files.release(file);
  file.dirty = false;
  EXPECT_EQ(files.pick(false), &file);
  EXPECT_EQ(files.pick(false), &file);
}

TEST_F(FileSetTest, FilesThatGoAndComeLeaveTheListsWhole) {
  std::vector<File*> there;
  for (int i = 0; i < 2000; ++i) {
    if (there.size() < 10 || files.random().chance(0.5)) {
      there.push_back(&make(true));
    } else {
      const std::size_t at = files.random().below(there.size());
      files.forget(*there[at]);
      there.erase(there.begin() + static_cast<std::ptrdiff_t>(at));
    }
    ASSERT_EQ(files.active(), there.size());
    File* picked = files.pick_temporary();
    ASSERT_TRUE(std::count(there.begin(), there.end(), picked));
    files.release(*picked);
  }
}

TEST(Checks, AttributesThatAreWrongAreNamed) {
  const Expected expected{.fileid = FileId{3}, .size = 10, .mode = 0644};
  const nfs3::Attributes right{.mode = 0100644, .nlink = 1, .size = 10, .fileid = FileId{3}};
  EXPECT_THAT(check_attributes(right, expected), IsEmpty());
  const auto wrong = [&](auto change) {
    nfs3::Attributes attributes = right;
    change(attributes);
    return check_attributes(attributes, expected);
  };
  EXPECT_THAT(wrong([](auto& a) { a.type = nfs3::FileType::kDirectory; }), HasSubstr("type 2"));
  EXPECT_THAT(wrong([](auto& a) { a.fileid = FileId{4}; }), HasSubstr("fileid 4"));
  EXPECT_THAT(wrong([](auto& a) { a.size = 11; }), HasSubstr("size 11, which is 10"));
  EXPECT_THAT(wrong([](auto& a) { a.mode = 0600; }), HasSubstr("mode 600"));
  EXPECT_THAT(wrong([](auto& a) { a.nlink = 0; }), HasSubstr("no link"));
  EXPECT_THAT(wrong([](auto& a) { a.mtime.nanoseconds = 1'000'000'000; }), HasSubstr("billion"));
}

TEST(Checks, ReadsThatAreWrongAreNamed) {
  const File file = file_of(10'000);
  const auto all = bytes_of(file, 0, 10'000);
  const auto answer = [&](std::uint64_t at, std::uint32_t count, bool eof) {
    return nfs3::ReadOk{.count = count, .eof = eof, .data = ByteView(all).subspan(at, count)};
  };
  EXPECT_THAT(check_read(file, 0, 8192, answer(0, 8192, false)), IsEmpty());
  EXPECT_THAT(check_read(file, 8192, 8192, answer(8192, 1808, true)), IsEmpty());
  EXPECT_THAT(check_read(file, 0, 8192, answer(0, 4096, false)), IsEmpty());  // a short answer is allowed
  EXPECT_THAT(check_read(file, 10'000, 100, answer(10'000, 0, true)), IsEmpty());
  EXPECT_THAT(check_read(file, 8192, 8192, answer(8192, 1808, false)), HasSubstr("not the end"));
  EXPECT_THAT(check_read(file, 0, 8192, answer(0, 8192, true)), HasSubstr("the end"));
  EXPECT_THAT(check_read(file, 0, 8192, answer(0, 0, false)), HasSubstr("gives none"));
  EXPECT_THAT(check_read(file, 0, 100, answer(0, 200, false)), HasSubstr("gives 200"));
  EXPECT_THAT(check_read(file, 0, 100, answer(1, 100, false)), HasSubstr("wrong byte at 0"));
}

TEST(Checks, AccessIsWithinWhatWasAskedAndHasWhatTheOwnerNeeds) {
  EXPECT_THAT(check_access(3, 3, 1), IsEmpty());
  EXPECT_THAT(check_access(7, 3, 1), HasSubstr("grants 0x7"));
  EXPECT_THAT(check_access(2, 3, 1), HasSubstr("not 0x1"));
}

}  // namespace
}  // namespace slice::load
