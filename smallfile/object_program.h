// ObjectProgram: the internal object program (wire/object.h) of the small-file server: TRUNCATE, REMOVE,
// COMMIT and STAT of the bytes below the threshold, for directory servers, coordinators and slicectl. One
// loop.
#ifndef SLICE_SMALLFILE_OBJECT_PROGRAM_H
#define SLICE_SMALLFILE_OBJECT_PROGRAM_H

#include "rpc/dispatcher.h"
#include "service/authority_client.h"
#include "service/context.h"
#include "smallfile/store.h"
#include "wire/object.h"

namespace slice::smallfile {

class ObjectProgram : public rpc::Program {
 public:
  ObjectProgram(service::ServiceContext& context, Store& store, service::AuthorityClient& authority);
  std::uint32_t number() const override { return wire::kObjectProgram; }
  std::uint32_t version() const override { return wire::kInternalVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override;

 private:
  Task<rpc::Outcome> truncate(ByteView arguments, rpc::XdrWriter& results);
  Task<rpc::Outcome> remove(ByteView arguments, rpc::XdrWriter& results);
  Task<rpc::Outcome> commit(ByteView arguments, rpc::XdrWriter& results);
  rpc::Outcome stat(ByteView arguments, rpc::XdrWriter& results);
  // kOk where the object is a file of this volume and its site is this server's.
  nfs3::Status check(const wire::ObjectName& object);
  nfs3::Status failed(std::string_view operation, const wire::ObjectName& object, const Error& error);

  service::ServiceContext& context_;
  Store& store_;
  service::AuthorityClient& authority_;
  Counter &calls_, &failures_, &misdirected_;
  LogLimiter log_limit_{5};
};

}  // namespace slice::smallfile

#endif  // SLICE_SMALLFILE_OBJECT_PROGRAM_H
