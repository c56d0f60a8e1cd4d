// Members: what the manager says of all processes of the ensemble, for those here who want to know how much
// room and how many objects others have. One loop.
#ifndef SLICE_DIRSERVER_BACKGROUND_MEMBERS_H
#define SLICE_DIRSERVER_BACKGROUND_MEMBERS_H

#include <optional>
#include <vector>

#include "service/context.h"
#include "service/managers.h"
#include "wire/manager.h"

namespace slice::dirserver {

class Members {
 public:
  static constexpr Duration kMaxAge = std::chrono::seconds(1);

  explicit Members(service::ServiceContext& context) : context_(context), managers_(context.config) {}

  // As the manager said last, at most kMaxAge before the call before this one; empty before it ever answered.
  // Where that is old it is asked again meanwhile.
  const std::vector<wire::Member>& get();
  // Waits for its first answer, within a second.
  Task<void> first();
  // Grows with every answer; 0: there was none.
  std::uint64_t version() const { return version_; }

 private:
  Task<void> ask();

  service::ServiceContext& context_;
  service::Managers managers_;
  std::vector<wire::Member> members_;
  std::uint64_t version_ = 0;
  bool asking_ = false;
  std::optional<MonoTime> answered_at_;  // or that it did not
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_BACKGROUND_MEMBERS_H
