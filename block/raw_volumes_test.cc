// Over a directory server that is a map.
#include "block/raw_volumes.h"

#include <map>

#include "bpf/shared/file_handle.h"
#include "service/testing/service_fixture.h"
#include "wire/nfs3_readdir.h"

namespace slice::block {
namespace {

using nfs3::Procedure;
using nfs3::Status;

class FakeDirectory : public rpc::Program {
 public:
  explicit FakeDirectory(const routing::HandleCodec& codec) : codec_(codec) {}
  std::uint32_t number() const override { return nfs3::kProgram; }
  std::uint32_t version() const override { return nfs3::kVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override {
    EXPECT_TRUE(call.internal);
    switch (static_cast<Procedure>(call.procedure)) {
      case Procedure::kLookup:
        co_return look_up(call, results);
      case Procedure::kGetattr:
        nfs3::encode_result(results, nfs3::GetattrOk{attributes});
        co_return rpc::Outcome::kReply;
      case Procedure::kSetattr:
        co_return set(call, results);
      case Procedure::kReaddir:
        co_return list(call, results);
      default:
        co_return rpc::Outcome::kNoProcedure;
    }
  }
  // (fileID of the directory, name)
  std::map<std::pair<std::uint64_t, std::string>, routing::FileHandle> names;
  nfs3::Attributes attributes;
  unsigned busy = 0;     // so many LOOKUPs are answered that they are to come again
  unsigned changes = 0;  // by others, between the next looks and the SETATTRs behind them
  bool keeps_epoch = false;

 private:
  rpc::Outcome look_up(const rpc::Call& call, rpc::XdrWriter& results) {
    nfs3::DirOpArgs args;
    EXPECT_TRUE(nfs3::decode_arguments(call.arguments, args));
    const auto directory = codec_.open(args.directory);
    const auto found = names.find({directory ? directory->fileid.value : 0, std::string(args.name)});
    if (busy > 0 || found == names.end()) {
      const bool again = busy > 0;
      busy -= again ? 1 : 0;
      nfs3::encode_failure(results, Procedure::kLookup, again ? Status::kJukebox : Status::kNoEnt);
      return rpc::Outcome::kReply;
    }
    const auto bytes = codec_.mint(found->second);
    nfs3::encode_result(results, nfs3::LookupOk{.object = bytes});
    return rpc::Outcome::kReply;
  }
  rpc::Outcome set(const rpc::Call& call, rpc::XdrWriter& results) {
    nfs3::SetattrArgs args;
    EXPECT_TRUE(nfs3::decode_arguments(call.arguments, args));
    if (changes > 0) {
      --changes;
      ++attributes.ctime.seconds;
      attributes.size += 4096;
    }
    if (!args.guard || *args.guard != attributes.ctime) {
      nfs3::encode_failure(results, Procedure::kSetattr, Status::kNotSync);
      return rpc::Outcome::kReply;
    }
    EXPECT_EQ(args.attributes.size, attributes.size);
    if (!keeps_epoch) ++attributes.rdev_major;
    ++attributes.ctime.seconds;
    nfs3::encode_result(results, Status::kOk, nfs3::WccData{.before = {}, .after = attributes});
    return rpc::Outcome::kReply;
  }
  // Two names an answer.
  rpc::Outcome list(const rpc::Call& call, rpc::XdrWriter& results) {
    nfs3::ReaddirArgs args;
    EXPECT_TRUE(nfs3::decode_arguments(call.arguments, args));
    nfs3::EntryListWriter out(results, false, std::nullopt, {}, {.maxcount = args.count});
    const std::vector<std::string> all{".", "..", "zeta", "alpha", "beta"};
    std::uint64_t at = args.cookie;
    for (int i = 0; i < 2 && at < all.size(); ++i, ++at)
      out.add({.fileid = FileId{at + 1}, .name = all[at], .cookie = at + 1, .attributes = {}, .handle = {}});
    out.finish(at == all.size());
    return rpc::Outcome::kReply;
  }

  const routing::HandleCodec& codec_;
};

class RawVolumesTest : public service::testing::ServiceFixture {
 protected:
  RawVolumesTest() : ServiceFixture("dir1") {
    serve("dir1", directory);
    const routing::FileHandle folder{
        .type = nfs3::FileType::kDirectory, .fileid = FileId{10}, .tree = kTreeOfVolumes};
    auto own = folder, data = folder;
    own.fileid = FileId{11};
    data.fileid = FileId{12};
    data.type = nfs3::FileType::kRegular;
    data.flags = SLICE_HANDLE_BLOCK_MAPPED;
    data.cell_key = 99;
    directory.names = {{{1, ".volumes"}, folder}, {{10, "disk"}, own}, {{11, "data"}, data}};
    directory.attributes.size = begin_of_volume(config_, data.stripe_shift) + (1 << 20);
    directory.attributes.rdev_major = 4;
  }
  routing::FileHandle& data() { return directory.names.at({11, "data"}); }

  FakeDirectory directory{handles_};
  service::Names names{loop_, network_, config_, tables_.get(), std::chrono::seconds(5)};
  RawVolumes volumes{config_, names};
};

TEST_F(RawVolumesTest, IsFoundWithItsSize) {
  directory.busy = 2;
  const auto volume = run(volumes.find("disk"));
  ASSERT_TRUE(volume) << volume.error().message;
  EXPECT_EQ(volume->size(), 1u << 20);
  EXPECT_EQ(volume->epoch(), Epoch{4});
  EXPECT_GE(volume->begin, config_.volume.threshold) << "storage nodes alone have its bytes";
  EXPECT_EQ(volume->begin % (1u << data().stripe_shift), 0u);
  EXPECT_EQ(routing::epoch_of_opener(volume->file.handle), std::nullopt);
}

TEST_F(RawVolumesTest, WhoOpensItHasTheNextEpochInItsHandle) {
  const auto volume = run(volumes.open("disk"));
  ASSERT_TRUE(volume) << volume.error().message;
  const auto handle = handles_.open(volume->file.bytes);
  ASSERT_TRUE(handle);
  EXPECT_EQ(routing::epoch_of_opener(*handle), Epoch{5});
  EXPECT_EQ(handle->fileid, FileId{12});
  EXPECT_EQ(routing::epoch_of_opener(run(volumes.open("disk"))->file.handle), Epoch{6});
}

// Else an opening would undo it.
TEST_F(RawVolumesTest, AnotherSizeMeanwhileIsLookedAtAgain) {
  directory.changes = 1;
  const auto volume = run(volumes.open("disk"));
  ASSERT_TRUE(volume) << volume.error().message;
  EXPECT_EQ(volume->size(), (1u << 20) + 4096);
  directory.changes = 100;
  EXPECT_EQ(run(volumes.open("disk")).error().code, Errc::kStale) << "not for ever";
}

TEST_F(RawVolumesTest, AnEpochThatStaysOpensNothing) {
  directory.keeps_epoch = true;
  EXPECT_FALSE(run(volumes.open("disk")));
}

TEST_F(RawVolumesTest, WhatIsNoVolumeIsNotOpened) {
  EXPECT_EQ(run(volumes.find("other")).error().code, Errc::kNotFound);
  for (const char* wrong : {"", ".", "..", ".hidden", "a/b", "a b", "\xff"}) {
    EXPECT_EQ(run(volumes.find(wrong)).error().code, Errc::kInvalid) << wrong;
  }
  EXPECT_EQ(run(volumes.find(std::string(65, 'a'))).error().code, Errc::kInvalid);
  data().flags = 0;
  EXPECT_EQ(run(volumes.open("disk")).error().code, Errc::kInvalid) << "nobody would keep former openers out";
  data().flags = SLICE_HANDLE_MIRRORED;
  EXPECT_TRUE(run(volumes.find("disk")));
  data().tree = TreeId{3};
  EXPECT_EQ(run(volumes.open("disk")).error().code, Errc::kInvalid) << "NFS clients may have it";
  directory.names.erase({11, "data"});
  EXPECT_EQ(run(volumes.find("disk")).error().code, Errc::kNotFound) << "its making was cut off";
}

TEST_F(RawVolumesTest, ListsAllNamesInOrder) {
  EXPECT_EQ(run(volumes.names()).value(), (std::vector<std::string>{"alpha", "beta", "zeta"}));
  directory.names.clear();
  EXPECT_TRUE(run(volumes.names())->empty()) << "nobody has made one yet";
}

}  // namespace
}  // namespace slice::block
