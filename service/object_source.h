// ObjectSource: where a checker gets from what one data server has of files: the server itself
// (RemoteObjects), or its data directory while it is stopped (of the server's own library).
#ifndef SLICE_SERVICE_OBJECT_SOURCE_H
#define SLICE_SERVICE_OBJECT_SOURCE_H

#include <string>

#include "common/loop.h"
#include "rpc/channel.h"
#include "wire/manager.h"
#include "wire/object.h"

namespace slice::service {

class ObjectSource {
 public:
  explicit ObjectSource(wire::ServerEntry server) : server_(std::move(server)) {}
  ObjectSource(const ObjectSource&) = delete;
  ObjectSource& operator=(const ObjectSource&) = delete;
  virtual ~ObjectSource() = default;

  const wire::ServerEntry& server() const { return server_; }
  // As LIST of the object program, with status kOk. A name may be of an object that is gone by now.
  virtual Task<Result<wire::ObjectListResult>> list(wire::ObjectListArgs args) = 0;
  // As STAT; kNoEnt inside: the server has nothing of it.
  virtual Task<Result<wire::ObjectStatResult>> stat(wire::ObjectName object) = 0;

 private:
  const wire::ServerEntry server_;
};

class RemoteObjects : public ObjectSource {
 public:
  // `channel` outlives it. `timeout`: of each answer.
  RemoteObjects(rpc::Channel& channel, wire::ServerEntry server, Duration timeout)
      : ObjectSource(std::move(server)), channel_(channel), timeout_(timeout) {}
  Task<Result<wire::ObjectListResult>> list(wire::ObjectListArgs args) override;
  Task<Result<wire::ObjectStatResult>> stat(wire::ObjectName object) override;

 private:
  rpc::Channel& channel_;
  const Duration timeout_;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_OBJECT_SOURCE_H
