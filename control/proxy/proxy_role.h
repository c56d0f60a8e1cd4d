// ProxyRole: slice-proxyd as a whole: the XDP program where it can be had, workers on every core, MOUNT and
// PORTMAP, write-back, tables kept in step with the manager.
#ifndef SLICE_CONTROL_PROXY_PROXY_ROLE_H
#define SLICE_CONTROL_PROXY_PROXY_ROLE_H

#include <memory>
#include <thread>

#include "control/proxy/listeners.h"
#include "control/proxy/loader.h"
#include "control/proxy/lock_program.h"
#include "control/proxy/mount_program.h"
#include "control/proxy/neighbours.h"
#include "control/proxy/portmap_program.h"
#include "control/proxy/rings.h"
#include "control/proxy/worker.h"
#include "control/proxy/write_back.h"
#include "rpc/server.h"
#include "service/process.h"

namespace slice::proxy {

class ProxyRole : public service::Role {
 public:
  // The context's loop must be an rpc::EpollLoop: a proxy has sockets of its own.
  explicit ProxyRole(service::ServiceContext& context);
  ~ProxyRole() override;

  Task<Status> start() override;
  std::vector<rpc::Program*> programs() override { return {}; }
  Task<void> stop() override;
  std::string state() const override { return "serving"; }
  std::string detail() const override;
  void refresh_gauges() override;
  void misdirected(const wire::MisdirectedArgs& report) override;

 private:
  // A worker, and the thread that it has of its own. One beside other servers of this process runs on their
  // loop, so that it calls them directly.
  struct Thread {
    std::unique_ptr<rpc::EpollLoop> loop;
    std::unique_ptr<Worker> worker;
    std::thread thread;
  };
  void open_tables();
  // On a thread of its own, which takes its time: ends when the program is at the interfaces, or refused.
  Task<void> load_program();
  void no_program(const std::string& reason);
  bool has_program() const { return xdp_reason_.empty(); }
  void give_up_rights();
  std::size_t worker_count() const;
  Status start_workers();
  Status start_programs();
  // Both sockets of a program that is served here.
  Result<std::unique_ptr<rpc::Server>> serve(rpc::Dispatcher& dispatcher, std::uint16_t port);
  void start_portmap();
  void keep_clock();
  void keep_tables();
  // Binds sites by the tables in use where these changed since the last time.
  void follow_tables();
  // Binds all of them again, whatever the pinned entries say; where any was wrong they are watched from then
  // on.
  std::size_t mend();
  void watch();
  static Task<void> refresh(ProxyRole& self);
  static Task<void> fetch_piece(ProxyRole& self, routing::HandleBytes handle, FileId file,
                                std::uint64_t stripe);
  void keep_ways();
  // What an operator should know of interfaces: "" or text that follows another.
  std::string warnings() const;

  service::ServiceContext& context_;
  rpc::EpollLoop& loop_;
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<MemoryTables> memory_;
  Tables tables_;
  std::string xdp_reason_ = "not loaded yet";  // why there is no program; empty: there is
  std::thread loads_;
  std::unique_ptr<AttributeCache> cache_;
  std::unique_ptr<MapCache> maps_;
  std::unique_ptr<WriteBack> write_back_;
  std::unique_ptr<Rings> rings_;
  Neighbours neighbours_;
  Listeners listeners_;
  std::unique_ptr<MountProgram> mount_;
  std::optional<LockProgram> locks_;
  std::unique_ptr<PortmapProgram> portmap_;
  std::unique_ptr<rpc::Dispatcher> mount_dispatcher_, portmap_dispatcher_;
  std::unique_ptr<rpc::Server> mount_server_, portmap_server_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::shared_ptr<const routing::RoutingTables> bound_;  // what the sites table says
  bool at_rpcbind_ = false;
  unsigned watches_left_ = 0;  // a look is due in kWatchStep where there are any
  LogLimiter misdirected_log_{1};
  Counter& taken_over_;
  Counter& reports_;
  Counter& mended_;
};

// For service::run_process().
service::ServerKind server_kind();

}  // namespace slice::proxy

#endif  // SLICE_CONTROL_PROXY_PROXY_ROLE_H
