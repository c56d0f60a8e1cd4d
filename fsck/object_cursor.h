// ObjectCursor: the files that one data server has something of, one after the other.
#ifndef SLICE_FSCK_OBJECT_CURSOR_H
#define SLICE_FSCK_OBJECT_CURSOR_H

#include <algorithm>
#include <optional>
#include <vector>

#include "service/object_source.h"

namespace slice::fsck {

class ObjectCursor {
 public:
  // Those behind `after`, by fileID. `source` outlives it.
  ObjectCursor(service::ObjectSource& source, VolumeId volume, FileId after = {})
      : source_(source), after_{volume, after, wire::ObjectKind::kStore} {}
  service::ObjectSource& source() { return source_; }
  // The next one; nothing at the end. Errors: those of the source.
  Task<Result<std::optional<FileId>>> at() {
    while (page_.empty() && !end_) {
      auto listed = co_await source_.list({after_, kPage});
      if (!listed) co_return fail(std::move(listed).error());
      for (const wire::ObjectName& name : listed->objects) {
        if (name.volume == after_.volume && name.kind == wire::ObjectKind::kFile)
          page_.push_back(name.fileid);
      }
      end_ = listed->end || listed->objects.empty();
      if (!listed->objects.empty()) after_ = listed->objects.back();
      std::reverse(page_.begin(), page_.end());
    }
    co_return page_.empty() ? std::nullopt : std::optional(page_.back());
  }
  void next() { page_.pop_back(); }

 private:
  static constexpr std::uint32_t kPage = 1000;

  service::ObjectSource& source_;
  wire::ObjectName after_;
  std::vector<FileId> page_;  // the first one last
  bool end_ = false;
};

}  // namespace slice::fsck

#endif  // SLICE_FSCK_OBJECT_CURSOR_H
