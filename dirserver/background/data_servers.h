// DataServers: has a file's bytes cut or freed wherever they are: by its coordinator where storage nodes may
// hold some, else by its small-file server. Both remember what they were asked before they answer kOk.
#ifndef SLICE_DIRSERVER_BACKGROUND_DATA_SERVERS_H
#define SLICE_DIRSERVER_BACKGROUND_DATA_SERVERS_H

#include <string_view>

#include "dirserver/cells/cells.h"
#include "service/context.h"
#include "wire/object.h"

namespace slice::dirserver {

class DataServers {
 public:
  explicit DataServers(service::ServiceContext& context) : context_(context) {}

  // Whether any server may hold bytes of the file: all of a mirrored one are on storage nodes.
  bool involved(const AttributeCell& cell) const;

  // One try each. An error says that it must be tried again: nobody answered, or the answer was a failure.
  Task<Status> truncate(const TruncationRecord& record);
  Task<Status> remove(const ReclaimRecord& record);

 private:
  rpc::Endpoint coordinator(FileId file) const;
  // Asks the file's small-file server, and whom it names, since the file's site has gone there.
  template <class Args>
  Task<Status> ask_small_file(wire::ObjectProcedure procedure, Args args, std::string_view what);

  service::ServiceContext& context_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_BACKGROUND_DATA_SERVERS_H
