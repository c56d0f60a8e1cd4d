// What a reply may teach the proxy in user space: what the server says of the file that was asked for.
#include "proxy/calls/reply_patch.h"

#include <gtest/gtest.h>

#include "bpf/shared/reply.h"
#include "proxy/tables/tables.h"
#include "rpc/message.h"
#include "wire/nfs3.h"

namespace slice::proxy {
namespace {

constexpr FileId kMine{7}, kVictim{8};

class ReplyPatch : public ::testing::Test {
 protected:
  ReplyPatch() { tables_.tables().config->attribute_life_ms = 1000; }

  static nfs3::Attributes attributes(FileId file, std::uint64_t size) {
    nfs3::Attributes out;
    out.type = nfs3::FileType::kRegular;
    out.nlink = 1;
    out.size = size;
    out.fileid = file;
    out.rdev_minor = 3;
    out.mtime = out.ctime = {1000, 0};
    return out;
  }
  // Of a WRITE that ended at `end`.
  static nfs3::Attributes room(FileId file, std::uint64_t end) {
    nfs3::Attributes out = attributes(file, 0);
    out.nlink = 0;
    out.used = end;
    out.mtime = {2000, 0};
    return out;
  }
  template <class Result>
  PatchedReply patch(nfs3::Procedure procedure, FileId asked, const Result& result) {
    rpc::XdrWriter out;
    rpc::encode_success(out, Xid{1});
    nfs3::encode_result(out, result);
    reply_ = Buffer(out.view());
    return patch_reply(cache_, {static_cast<std::uint32_t>(procedure), asked, asked_ms_}, reply_.span());
  }
  PatchedReply getattr(FileId asked, const nfs3::Attributes& answer) {
    return patch(nfs3::Procedure::kGetattr, asked, nfs3::GetattrOk{answer});
  }
  PatchedReply write(FileId asked, const nfs3::PostOpAttributes& answer) {
    return patch(nfs3::Procedure::kWrite, asked, nfs3::WriteOk{.wcc = {.after = answer}, .count = 4});
  }

  MemoryTables tables_;
  Metrics metrics_;
  AttributeCache cache_{tables_.tables().attributes, tables_.tables().config, metrics_,
                        [](const slice_eviction&) {}};
  Buffer reply_;
  std::uint32_t asked_ms_ = 0;  // when the next request comes
};

TEST_F(ReplyPatch, TheEndOfAWriteIsTheServersWord) {
  getattr(kMine, attributes(kMine, 10));
  PatchedReply patched = write(kMine, room(kMine, 500));
  ASSERT_NE(patched.fattr, nullptr);
  EXPECT_EQ(slice_be64(patched.fattr + SLICE_FATTR_SIZE), 500u);
  EXPECT_EQ(cache_.size(kMine), 500u);
}

TEST_F(ReplyPatch, RoomOfAnotherFileTeachesNothingAndIsTakenOut) {
  getattr(kVictim, attributes(kVictim, 10));
  PatchedReply patched = write(kVictim, room(kMine, 1ULL << 50));
  EXPECT_EQ(patched.fattr, nullptr);
  EXPECT_TRUE(patched.unknown);
  EXPECT_EQ(patched.size, reply_.size() - SLICE_FATTR_BYTES);
  EXPECT_EQ(cache_.size(kVictim), 10u);
  EXPECT_FALSE(cache_.size(kMine).has_value());
}

// A server that could not leave room has told the directory server, whose earlier answer may still come.
TEST_F(ReplyPatch, AWriteWithoutAttributesOutlastsTheRepliesUnderWay) {
  tables_.tables().config->now_ms = 1000;
  asked_ms_ = 990;
  getattr(kMine, attributes(kMine, 10));
  EXPECT_EQ(cache_.size(kMine), 10u);
  EXPECT_FALSE(write(kMine, std::nullopt).unknown);
  EXPECT_FALSE(cache_.size(kMine).has_value());
  getattr(kMine, attributes(kMine, 10));
  EXPECT_FALSE(cache_.size(kMine).has_value());
  tables_.tables().config->now_ms = asked_ms_ = 1050;
  getattr(kMine, attributes(kMine, 500));
  EXPECT_EQ(cache_.size(kMine), 500u);
}

TEST_F(ReplyPatch, AttributesOfAnotherFileAreNotLearned) {
  getattr(kVictim, attributes(kMine, 10));
  EXPECT_FALSE(cache_.size(kVictim).has_value());
  EXPECT_FALSE(cache_.size(kMine).has_value());
}

// Where a file's changes are told is what its directory server says, not what a handle says.
TEST_F(ReplyPatch, TheDirectorySiteIsTheServersWord) {
  getattr(kMine, attributes(kMine, 10));
  write(kMine, room(kMine, 500));
  auto dirty = cache_.take_all_dirty(SLICE_ATTR_DIRTY, 10);
  ASSERT_EQ(dirty.size(), 1u);
  EXPECT_EQ(dirty[0].directory_site, 3u);
}

}  // namespace
}  // namespace slice::proxy
