// FakeAuthority: the authority program of a directory server over a map, for tests of data servers. Files are
// made by add(); FETCH and MERGE follow wire/authority.h.
#ifndef SLICE_SERVICE_TESTING_FAKE_AUTHORITY_H
#define SLICE_SERVICE_TESTING_FAKE_AUTHORITY_H

#include <algorithm>
#include <map>

#include "routing/file_handle.h"
#include "rpc/dispatcher.h"
#include "wire/authority.h"
#include "wire/quota.h"

namespace slice::service::testing {

class FakeAuthority : public rpc::Program {
 public:
  struct File {
    nfs3::Attributes attributes;
    bool striped = false;
  };

  FakeAuthority(Loop& loop, const routing::HandleCodec& handles) : loop_(loop), handles_(handles) {}

  // A regular file of mode 0644 that belongs to 1000:1000; change it by file().
  routing::FileHandle add(FileId id) {
    const routing::FileHandle handle = handle_of(id);
    nfs3::Attributes attributes;
    attributes.mode = 0644;
    attributes.nlink = 1;
    attributes.uid = attributes.gid = 1000;
    attributes.fileid = id;
    files_[id] = {attributes, false};
    return handle;
  }
  File& file(FileId id) { return files_.at(id); }
  nfs3::Attributes& attributes(FileId id) { return file(id).attributes; }
  void remove(FileId id) { files_.erase(id); }
  // What the directory server does of a SETATTR of size before and after the data is cut.
  void truncate(FileId id, std::uint64_t size) {
    file(id).attributes.size = size;
    ++file(id).attributes.rdev_major;
  }
  // While true, FETCH waits, as it does during a truncation.
  bool truncating = false;
  std::uint8_t flags = 0;  // of the handles that HANDLES tells
  // How long a MERGE takes.
  Duration merge_delay{0};

  std::uint64_t room = 0;  // that owners and groups have left, whoever they are

  unsigned fetches = 0, striped_fetches = 0, merges = 0;  // merges: of files
  wire::FileMerge last_merge;                             // its handle is not kept

  std::uint32_t number() const override { return wire::kAuthorityProgram; }
  std::uint32_t version() const override { return wire::kInternalVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override {
    if (!call.internal) co_return rpc::Outcome::kDenied;
    switch (static_cast<wire::AuthorityProcedure>(call.procedure)) {
      case wire::AuthorityProcedure::kFetch:
        co_return co_await fetch(call, results);
      case wire::AuthorityProcedure::kMerge:
        co_return co_await merge(call, results);
      case wire::AuthorityProcedure::kHandles:
        co_return handles_of(call, results);
      case wire::AuthorityProcedure::kRoom:
        co_return room_for(call, results);
      default:
        co_return rpc::Outcome::kNoProcedure;
    }
  }

 private:
  rpc::Outcome room_for(const rpc::Call& call, rpc::XdrWriter& results) const {
    wire::RoomArgs args;
    if (!decode(call.arguments, args)) return rpc::Outcome::kGarbage;
    const std::uint64_t left = room > args.held ? room - args.held : 0;
    encode(results, wire::RoomResult{.promised = left >= args.needed ? args.needed : 0});
    return rpc::Outcome::kReply;
  }
  File* find(ByteView bytes) {
    auto opened = handles_.open(bytes);
    auto found = opened ? files_.find(opened->fileid) : files_.end();
    return found == files_.end() ? nullptr : &found->second;
  }
  static wire::FetchResult told(const File* file) {
    wire::FetchResult result;
    result.status = file == nullptr ? nfs3::Status::kStale : nfs3::Status::kOk;
    if (file != nullptr) {
      result.attributes = file->attributes;
      result.striped = file->striped;
    }
    return result;
  }
  Task<rpc::Outcome> fetch(const rpc::Call& call, rpc::XdrWriter& results) {
    wire::FetchArgs args;
    if (!decode(call.arguments, args)) co_return rpc::Outcome::kGarbage;
    ++fetches;
    while (truncating) co_await loop_.sleep(std::chrono::milliseconds(1));
    File* file = find(args.handle);
    if (args.with_striped) {
      ++striped_fetches;
      if (file != nullptr) file->striped = true;
    }
    encode(results, told(file));
    co_return rpc::Outcome::kReply;
  }
  rpc::Outcome handles_of(const rpc::Call& call, rpc::XdrWriter& results) {
    wire::HandlesArgs args;
    if (!decode(call.arguments, args)) return rpc::Outcome::kGarbage;
    wire::HandlesResult result;
    for (FileId id : args.files) {
      auto& known = result.files.emplace_back();
      if (!files_.contains(id)) continue;
      routing::FileHandle told = handle_of(id);
      told.flags = flags;
      known = {handles_.mint(told), files_.at(id).attributes.size};
    }
    encode(results, result);
    return rpc::Outcome::kReply;
  }
  static routing::FileHandle handle_of(FileId id) {
    routing::FileHandle handle;
    handle.fileid = id;
    handle.directory_site = SiteId{0};
    return handle;
  }
  Task<rpc::Outcome> merge(const rpc::Call& call, rpc::XdrWriter& results) {
    wire::MergeArgs args;
    if (!decode(call.arguments, args)) co_return rpc::Outcome::kGarbage;
    if (merge_delay > Duration(0)) co_await loop_.sleep(merge_delay);
    wire::MergeResult result;
    for (const wire::FileMerge& each : args.files) result.files.push_back(merge(each));
    encode(results, result);
    co_return rpc::Outcome::kReply;
  }
  wire::FetchResult merge(const wire::FileMerge& merge) {
    ++merges;
    File* file = find(merge.handle);
    last_merge = merge;
    last_merge.handle = {};
    if (file != nullptr) {
      nfs3::Attributes& attributes = file->attributes;
      if (merge.epoch.value >= attributes.rdev_major) attributes.size = std::max(attributes.size, merge.size);
      if (merge.mtime && *merge.mtime > attributes.mtime) attributes.mtime = attributes.ctime = *merge.mtime;
      if (merge.atime) attributes.atime = std::max(attributes.atime, *merge.atime);
    }
    return told(file);
  }

  Loop& loop_;
  const routing::HandleCodec& handles_;
  std::map<FileId, File> files_;
};

}  // namespace slice::service::testing

#endif  // SLICE_SERVICE_TESTING_FAKE_AUTHORITY_H
