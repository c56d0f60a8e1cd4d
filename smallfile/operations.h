// READ, WRITE and COMMIT of the small-file server (RFC 1813 sections 3.3.6, 3.3.7, 3.3.21), for the bytes
// below the threshold. One loop.
#ifndef SLICE_SMALLFILE_OPERATIONS_H
#define SLICE_SMALLFILE_OPERATIONS_H

#include "service/authority_client.h"
#include "service/context.h"
#include "service/nfs_program.h"
#include "smallfile/store.h"

namespace slice::smallfile {

class Operations {
 public:
  Operations(service::ServiceContext& context, Store& store, service::AuthorityClient& authority)
      : context_(context),
        store_(store),
        authority_(authority),
        passed_on_(context.metrics.counter("smallfile_commits_passed_on_total")) {}
  void add_to(service::NfsProgram& program);

  // What crosses the threshold is answered short: its own part. Bytes behind this server's end are a hole or
  // the end of the file: the size from the handle's hint tells, else the authority.
  Task<service::NfsAnswer> read(service::NfsRequest& request, const nfs3::ReadArgs& args,
                                rpc::XdrWriter& out);
  // The authority knows the size before a stable write that moves it is answered.
  Task<service::NfsAnswer> write(service::NfsRequest& request, const nfs3::WriteArgs& args,
                                 rpc::XdrWriter& out);
  // The authority knows size and mtime before it is answered. The whole file is committed, whatever the
  // range. Where storage nodes hold bytes of it too (the proxy believed that it ends below the threshold, but
  // had lost sight of it), the coordinator commits it and its answer is passed on.
  Task<service::NfsAnswer> commit(service::NfsRequest& request, const nfs3::CommitArgs& args,
                                  rpc::XdrWriter& out);

 private:
  Task<Result<std::uint64_t>> size_of(const service::NfsRequest& request, const Store::Seen& seen,
                                      std::uint64_t wanted_end, service::KnownFile& known);
  Task<service::NfsAnswer> pass_to_coordinator(service::NfsRequest& request, rpc::XdrWriter& out);
  // Ends when the bytes are durable here.
  Task<Status> make_durable(storage::LogSequence sequence);
  // Ends when they are, and size and mtime at the authority.
  Task<Status> finish(const service::NfsRequest& request, const Store::Written& written);

  service::ServiceContext& context_;
  Store& store_;
  service::AuthorityClient& authority_;
  Counter& passed_on_;
};

}  // namespace slice::smallfile

#endif  // SLICE_SMALLFILE_OPERATIONS_H
