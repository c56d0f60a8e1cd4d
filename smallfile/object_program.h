// ObjectProgram: the internal object program (wire/object.h) of the small-file server: TRUNCATE, REMOVE,
// COMMIT, STAT and LIST of the bytes below the threshold, for directory servers, coordinators, slicectl and
// slice-fsck. One loop.
#ifndef SLICE_SMALLFILE_OBJECT_PROGRAM_H
#define SLICE_SMALLFILE_OBJECT_PROGRAM_H

#include "common/log.h"
#include "service/authority_client.h"
#include "service/context.h"
#include "service/internal_program.h"
#include "smallfile/store.h"
#include "wire/object.h"

namespace slice::smallfile {

class ObjectProgram : public service::InternalProgram {
 public:
  ObjectProgram(service::ServiceContext& context, Store& store, service::AuthorityClient& authority);

 private:
  Task<wire::ObjectStatusResult> truncate(const wire::ObjectTruncateArgs& args);
  Task<wire::ObjectStatusResult> remove(const wire::ObjectRemoveArgs& args);
  Task<wire::ObjectCommitResult> commit(const wire::ObjectCommitArgs& args);
  wire::ObjectStatResult stat(const wire::ObjectStatArgs& args);
  wire::ObjectListResult list(const wire::ObjectListArgs& args);
  // kOk where the object is a file of this volume and its site is this server's.
  nfs3::Status check(const wire::ObjectName& object);
  nfs3::Status failed(std::string_view operation, const wire::ObjectName& object, const Error& error);

  service::ServiceContext& context_;
  Store& store_;
  service::AuthorityClient& authority_;
  Counter &failures_, &misdirected_;
  LogLimiter log_limit_{5};
};

}  // namespace slice::smallfile

#endif  // SLICE_SMALLFILE_OBJECT_PROGRAM_H
