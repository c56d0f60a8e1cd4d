// Sessions: which storage nodes may use layouts of files. A node keeps its session up by asking
// again and again; a change of a layout is over when every node was told of it, or its session has ended, by
// time or since the node says so. After a start every node is taken to have one. One loop.
#ifndef SLICE_COORDINATOR_SESSIONS_H
#define SLICE_COORDINATOR_SESSIONS_H

#include <map>

#include "common/log.h"
#include "coordinator/placement.h"
#include "service/context.h"
#include "wire/layout.h"

namespace slice::coordinator {

class Sessions {
 public:
  static constexpr Duration kLife = std::chrono::seconds(3);

  explicit Sessions(service::ServiceContext& context);

  wire::SessionResult renew(const wire::SessionArgs& args);
  void end(const wire::EndSessionArgs& args);
  // Nobody uses layouts of before this start any more: only then may any be given out.
  Task<void> settled();
  // False: it can use no layout, and answers nobody that it needs one for.
  bool live(std::uint32_t server) const;
  // It has ended its session, has no other, and what it was told to write before is durable there.
  bool left_durable(std::uint32_t server) const;
  // What nodes with a session have said of their disks.
  std::vector<Room> rooms() const;
  // Ends when no node uses a layout of this coordinator any more that args makes void; `coordinator` is set
  // here.
  Task<void> recall(wire::RecallArgs args);

 private:
  enum class Left { kNo, kYes, kDurable };  // by the node's own word
  struct Session {
    std::uint64_t number = 0;  // 0: that of before this start
    Left left = Left::kNo;
    MonoTime until;
    std::uint64_t free_bytes = 0;
    unsigned recalls = 0;  // under way: then it is not made longer
  };
  Session& of(std::uint32_t server);
  Task<bool> recall_from(std::uint32_t server, wire::RecallArgs args);

  service::ServiceContext& context_;
  MonoTime started_;
  std::map<std::uint32_t, Session> sessions_;
  LogLimiter log_{1};
  Counter& recalls_;
  Counter& ended_;
};

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_SESSIONS_H
