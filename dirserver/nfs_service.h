// NfsService: the NFSv3 program of the directory server: the operations of ops/ behind the duplicate-request
// cache. READ, WRITE and COMMIT are for other servers: here they are misdirected requests. One loop.
#ifndef SLICE_DIRSERVER_NFS_SERVICE_H
#define SLICE_DIRSERVER_NFS_SERVICE_H

#include "dirserver/volume.h"
#include "service/nfs_program.h"

namespace slice::dirserver {

class NfsService : public service::NfsProgram {
 public:
  // Both outlive it.
  NfsService(Volume& volume, service::SiteGate& gate);

  Task<service::NfsAnswer> around(const Operation& operation, service::NfsRequest& request,
                                  rpc::XdrWriter& results) override;

  std::optional<routing::Route> place_of(const service::NfsRequest& request) const override;

 private:
  // `what`: all that the operation may touch.
  template <class Args, class... What>
  void serve(nfs3::Procedure procedure,
             Task<service::NfsAnswer> (*operation)(What&..., service::NfsRequest&, const Args&,
                                                   rpc::XdrWriter&),
             What&... what) {
    on<Args>(procedure,
             [operation, &what...](service::NfsRequest& request, const Args& args, rpc::XdrWriter& out) {
               return operation(what..., request, args, out);
             });
  }

  Task<service::NfsAnswer> after_waiting(const Operation& operation, service::NfsRequest& request,
                                         rpc::XdrWriter& results);
  Task<service::NfsAnswer> around_change(const Operation& operation, service::NfsRequest& request,
                                         rpc::XdrWriter& results);

  Volume& volume_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_NFS_SERVICE_H
