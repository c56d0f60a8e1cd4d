// NfsService: the NFSv3 program of the directory server: the operations of ops/ behind the duplicate-request
// cache. READ, WRITE and COMMIT are for other servers: here they are misdirected requests. One loop.
#ifndef SLICE_DIRSERVER_NFS_SERVICE_H
#define SLICE_DIRSERVER_NFS_SERVICE_H

#include "dirserver/volume.h"
#include "service/nfs_program.h"

namespace slice::dirserver {

class NfsService : public service::NfsProgram {
 public:
  explicit NfsService(Volume& volume);

  Task<service::NfsAnswer> around(const Operation& operation, service::NfsRequest& request,
                                  rpc::XdrWriter& results) override;

 private:
  template <class Args>
  using Function = Task<service::NfsAnswer> (*)(Volume&, service::NfsRequest&, const Args&, rpc::XdrWriter&);
  template <class Args>
  void serve(nfs3::Procedure procedure, Function<Args> function) {
    on<Args>(procedure,
             [this, function](service::NfsRequest& request, const Args& args, rpc::XdrWriter& out) {
               return function(volume_, request, args, out);
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
