// FakeServer: what a data server has, as a test says.
#ifndef SLICE_FSCK_TESTING_FAKE_SERVER_H
#define SLICE_FSCK_TESTING_FAKE_SERVER_H

#include <algorithm>
#include <functional>
#include <map>

#include "service/object_source.h"

namespace slice::fsck {

class FakeServer : public service::ObjectSource {
 public:
  using ObjectSource::ObjectSource;
  Task<Result<wire::ObjectListResult>> list(wire::ObjectListArgs args) override {
    if (silent) co_return fail(Errc::kTimedOut, "{} does not answer", server().name);
    wire::ObjectListResult result;
    for (const auto& [file, stat] : objects) {
      const wire::ObjectName name{args.after.volume, file, wire::ObjectKind::kFile};
      if (name <= args.after) continue;
      result.end = result.objects.size() < args.limit;
      if (!result.end) break;
      result.objects.push_back(name);
    }
    co_return result;
  }
  Task<Result<wire::ObjectStatResult>> stat(wire::ObjectName object) override {
    ++stats;
    if (between) between(object.fileid);
    auto found = objects.find(object.fileid);
    if (found == objects.end())
      co_return wire::ObjectStatResult{.status = nfs3::Status::kNoEnt, .extents = {}};
    co_return found->second;
  }
  // It has these bytes of the file.
  void has(FileId file, std::uint64_t offset, std::uint64_t length) {
    wire::ObjectStatResult& stat = objects[file];
    stat.end = std::max(stat.end, offset + length);
    stat.allocated += length;
    stat.extents.push_back({offset, length, 0});
  }

  std::map<FileId, wire::ObjectStatResult> objects;
  bool silent = false;
  unsigned stats = 0;
  std::function<void(FileId)> between;
};

}  // namespace slice::fsck

#endif  // SLICE_FSCK_TESTING_FAKE_SERVER_H
