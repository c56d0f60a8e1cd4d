#include <set>

#include "dirserver/testing/fixture.h"

namespace slice::dirserver::testing {
namespace {

class ReaddirTest : public DirectoryFixture {
 protected:
  Handle filled(int count) {
    Handle directory = mkdir(root(), "d").handle;
    for (int i = 0; i < count; ++i) create(directory, "file-" + std::to_string(i));
    return directory;
  }
};

TEST_F(ReaddirTest, ListsEverythingOnceWhateverThePageSize) {
  Handle directory = filled(300);
  std::vector<std::string> all = names(directory, 60000);
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), 300u);
  EXPECT_EQ(all.size(), 300u);
  for (std::uint32_t count : {200, 333, 1000, 4096}) EXPECT_EQ(names(directory, count), all) << count;
}

TEST_F(ReaddirTest, DotAndDotDotComeFirst) {
  Handle directory = filled(0);
  Page page = readdir(directory, 0, {});
  ASSERT_EQ(page.entries.size(), 2u);
  EXPECT_EQ(page.entries[0].name, ".");
  EXPECT_EQ(page.entries[0].fileid, attributes(directory).fileid);
  EXPECT_EQ(page.entries[1].name, "..");
  EXPECT_EQ(page.entries[1].fileid, FileId{1});
  EXPECT_TRUE(page.eof);
  Page rest = readdir(directory, page.entries[0].cookie, page.verifier);
  ASSERT_EQ(rest.entries.size(), 1u);
  EXPECT_EQ(rest.entries[0].name, "..");
}

TEST_F(ReaddirTest, NoReplyIsLargerThanAsked) {
  Handle directory = filled(300);
  for (std::uint32_t count = 100; count < 3000; count += 7) {
    Page page = readdir(directory, 0, {}, count);
    if (page.status == NfsStatus::kTooSmall) continue;
    EXPECT_LE(page.bytes, count + 4);  // count is of the result behind the status word
    EXPECT_FALSE(page.entries.empty());
  }
  EXPECT_EQ(readdir(directory, 0, {}, 64).status, NfsStatus::kTooSmall);
  EXPECT_EQ(readdir(directory, 0, {}, 0).status, NfsStatus::kTooSmall);
}

TEST_F(ReaddirTest, AReplyToWhoAskedOverUdpFitsADatagram) {
  Handle directory = mkdir(root(), "d").handle;
  for (int i = 0; i < 300; ++i) create(directory, std::to_string(i) + std::string(240, 'n'));
  Page over_tcp = readdir(directory, 0, {}, ~0u);
  EXPECT_GT(over_tcp.bytes, 60'000u);
  datagrams_ = true;
  for (const Page& page : {readdir(directory, 0, {}, ~0u), readdirplus(directory, 0, {}, ~0u, ~0u)}) {
    EXPECT_EQ(page.status, NfsStatus::kOk);
    EXPECT_LE(page.bytes, nfs3::kMaxUdpTransfer + 4);
    EXPECT_FALSE(page.eof);
  }
}

TEST_F(ReaddirTest, CookiesOutliveInsertsRemovalsAndRestarts) {
  Handle directory = filled(200);
  std::vector<std::string> before = names(directory);
  Page first = readdir(directory, 0, {}, 2000);
  std::uint64_t cookie = first.entries.back().cookie;
  std::size_t seen = first.entries.size() - 2;
  for (int i = 0; i < 100; ++i) create(directory, "new-" + std::to_string(i));
  remove(directory, first.entries.back().name);  // the very entry of the cookie
  remove(directory, before[100]);
  restart();
  std::vector<std::string> rest;
  for (Page page = first; !page.eof;) {
    page = readdir(directory, cookie, page.verifier, 1000);
    ASSERT_EQ(page.status, NfsStatus::kOk);
    for (const Listed& entry : page.entries) rest.push_back(entry.name);
    cookie = page.entries.back().cookie;
  }
  // Every old name behind the cookie that is still there comes exactly once, and none before it.
  std::vector<std::string> old_rest;
  for (const std::string& name : rest) {
    if (name.starts_with("file-")) old_rest.push_back(name);
  }
  std::vector<std::string> expected(before.begin() + static_cast<std::ptrdiff_t>(seen), before.end());
  std::erase(expected, before[100]);
  EXPECT_EQ(old_rest, expected);
}

TEST_F(ReaddirTest, TheVerifierIsSetAndChecked) {
  Handle directory = filled(20);
  Page page = readdir(directory, 0, {}, 400);
  EXPECT_NE(page.verifier, nfs3::CookieVerifier{});
  EXPECT_EQ(readdir(directory, page.entries.back().cookie, {}).status, NfsStatus::kBadCookie);
  EXPECT_EQ(readdir(directory, page.entries.back().cookie, page.verifier).status, NfsStatus::kOk);
  EXPECT_EQ(readdir(directory, ~std::uint64_t{0}, page.verifier).status, NfsStatus::kBadCookie);
}

TEST_F(ReaddirTest, NeedsAReadableDirectory) {
  EXPECT_EQ(readdir(create(root(), "f").handle, 0, {}).status, NfsStatus::kNotDir);
  Handle closed = mkdir(root(), "closed", {}, 0711).handle;
  EXPECT_EQ(readdir(closed, 0, {}, 4096, {.uid = 4, .gid = 4}).status, NfsStatus::kAcces);
  EXPECT_EQ(readdir(closed, 0, {}).status, NfsStatus::kOk);
}

TEST_F(ReaddirTest, NamesOfOnePositionAreAllListed) {
  // As if sixteen names had one hash: written to the store as the format says.
  Made directory = mkdir(root(), "d");
  NameBucket bucket;
  for (int i = 0; i < 16; ++i) {
    auto handle = *handles_.open(create(root(), "f" + std::to_string(i)).handle);
    ASSERT_TRUE(bucket.insert("same-" + std::to_string(i), target_of(handle)));
  }
  auto handle = *handles_.open(directory.handle);
  EXPECT_FALSE(bucket.insert("one too many", target_of(handle)));
  storage::WriteBatch batch;
  batch.put(name_key(handle.directory_site, handle.fileid, Position{5}), encode(bucket));
  ASSERT_TRUE(store().apply(batch).has_value());
  for (std::uint32_t count : {190, 300, 1000}) EXPECT_EQ(names(directory.handle, count).size(), 16u);
}

// Listings of few names are kept; of 512 and more, read from the store.
TEST_F(ReaddirTest, FollowsEveryChangeOfNamesWhateverTheirNumber) {
  Handle directory = mkdir(root(), "d").handle, other = mkdir(root(), "other").handle;
  std::set<std::string> expected;
  auto listed = [&] {
    std::vector<std::string> all = names(directory, 4096);
    return std::set<std::string>(all.begin(), all.end());
  };
  for (int i = 0; i < 530; ++i) {
    expected.insert("n" + std::to_string(i));
    create(directory, "n" + std::to_string(i));
    if (i < 3 || i > 505) ASSERT_EQ(listed(), expected) << i;
  }
  for (int i = 0; i < 530; ++i) {
    expected.erase("n" + std::to_string(i));
    ASSERT_EQ(remove(directory, "n" + std::to_string(i)), NfsStatus::kOk);
    if (i < 30 || i > 525) ASSERT_EQ(listed(), expected) << i;
  }
  create(directory, "a");
  EXPECT_EQ(listed(), std::set<std::string>{"a"});
  ASSERT_EQ(rename(directory, "a", directory, "b"), NfsStatus::kOk);
  EXPECT_EQ(listed(), std::set<std::string>{"b"});
  ASSERT_EQ(rename(directory, "b", other, "b"), NfsStatus::kOk);
  EXPECT_EQ(listed(), std::set<std::string>{});
  EXPECT_EQ(names(other), std::vector<std::string>{"b"});
}

// Under name hashing a directory's names are on all sites, and a listing walks them.
class HashedReaddirTest : public DirectoryFixture {
 protected:
  static EnsembleConfig hashed() {
    EnsembleConfig config = test_config();
    config.volume.policy = VolumeConfig::NamePolicy::kNameHashing;
    return config;
  }
  HashedReaddirTest() : DirectoryFixture(hashed()) {}
};

TEST_F(HashedReaddirTest, WalksAllSites) {
  std::set<std::string> expected;
  std::set<std::uint32_t> sites;
  for (int i = 0; i < 200; ++i) {
    std::string name = "name-" + std::to_string(i);
    auto handle = *handles_.open(create(root(), name).handle);
    EXPECT_EQ(handle.directory_site, tables_.get()->name_site(nfs3::Procedure::kLookup, SiteId{0},
                                                              tables_.get()->name_hash(FileId{1}, name)));
    sites.insert(handle.directory_site.value);
    expected.insert(name);
  }
  EXPECT_GT(sites.size(), 32u);
  std::vector<std::string> all = names(root(), 500);
  EXPECT_EQ(all.size(), 200u);
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()), expected);
  EXPECT_EQ(names(root(), 3000), all);
  // The proxy finds the site to ask in the cookie.
  for (const Listed& entry : readdir(root(), 0, {}, 60000).entries) {
    if (entry.cookie > kCookieOfDotDot) EXPECT_TRUE(sites.contains(decode_cookie(entry.cookie).site.value));
  }
  EXPECT_EQ(rmdir(root(), "name-1"), NfsStatus::kNotDir);
  Handle d = mkdir(root(), "d").handle;
  create(d, "x");
  EXPECT_EQ(rmdir(root(), "d"), NfsStatus::kNotEmpty);
}

}  // namespace
}  // namespace slice::dirserver::testing
