// ProxyRole: slice-proxyd as a whole: the XDP program where it can be had, workers on every core, MOUNT and
// PORTMAP, write-back, tables kept in step with the manager.
#ifndef SLICE_CONTROL_PROXYD_PROXY_ROLE_H
#define SLICE_CONTROL_PROXYD_PROXY_ROLE_H

#include <memory>
#include <thread>

#include "control/proxyd/address_holder.h"
#include "control/proxyd/client_share.h"
#include "control/proxyd/copy_table.h"
#include "control/proxyd/host_addresses.h"
#include "control/proxyd/site_bindings.h"
#include "control/proxyd/wanted_sites.h"
#include "control/xdp/xdp_program.h"
#include "proxy/front/listeners.h"
#include "proxy/programs/grant_program.h"
#include "proxy/programs/lock_program.h"
#include "proxy/programs/mount_program.h"
#include "proxy/programs/portmap_program.h"
#include "proxy/programs/quota_program.h"
#include "proxy/programs/routes_program.h"
#include "proxy/programs/rpcbind_program.h"
#include "proxy/programs/status_program.h"
#include "proxy/shared_state.h"
#include "proxy/socket_worker.h"
#include "rpc/server.h"
#include "service/managers.h"
#include "service/process.h"
#include "service/traced_program.h"

namespace slice::proxy {

class ProxyRole : public service::Role {
 public:
  // The context's loop must be an rpc::EpollLoop: a proxy has sockets of its own.
  explicit ProxyRole(service::ServiceContext& context);
  ~ProxyRole() override;

  Task<Status> start() override;
  std::vector<rpc::Program*> programs() override { return {&grants_}; }
  Task<void> stop() override;
  std::string state() const override { return "serving"; }
  std::string detail() const override;
  void refresh_gauges() override;
  void misdirected(const wire::MisdirectedArgs& report) override { bindings_.misdirected(report); }
  void read_files_again() override;

 private:
  // A worker, and the thread that it has of its own. One beside other servers of this process runs on their
  // loop, so that it calls them directly.
  struct Thread {
    std::unique_ptr<rpc::EpollLoop> loop;
    std::unique_ptr<SocketWorker> worker;
    std::thread thread;
  };
  // Where this proxy is one of several: what it takes to have the virtual address.
  Task<Status> start_address();
  AddressHolder::Seams holder_seams();
  ClientShare::Seams share_seams();
  template <class Answer, class Args>
  Task<Result<Answer>> ask_manager(wire::ManagerProcedure procedure, Args args, Duration patience);
  QuotaProgram::Ask asks_for_usage();
  std::string name_of(std::uint32_t server) const;
  void watch_connections();
  bool begin_anew();
  // What clients send is taken until the later of both, and nothing is remembered where either says so.
  void serve_until(MonoTime& which, MonoTime end);
  void remember_nothing(bool& which, bool on);
  void give_up_rights();
  std::size_t worker_count() const;
  Status load_certificate();
  Status load_keytab();
  Status start_workers();
  Status start_programs();
  // The sockets of a program that is served here.
  Result<std::unique_ptr<rpc::Server>> serve(rpc::Dispatcher& dispatcher, std::uint16_t port);
  void start_portmap();

  service::ServiceContext& context_;
  rpc::EpollLoop& loop_;
  XdpProgram xdp_;
  ServerLatencies latencies_;
  SiteBindings bindings_;
  WantedSites wanted_;
  CopyTable copies_;
  Tables tables_;
  std::unique_ptr<rpc::Tls> tls_;    // with clients; none: it is not configured
  std::unique_ptr<GssService> gss_;  // of users who come by Kerberos; none: it is not configured
  std::unique_ptr<SharedState> shared_;
  Listeners listeners_;
  ServingTime serving_;
  service::Managers managers_;
  std::unique_ptr<HostAddresses> host_addresses_;
  std::unique_ptr<AddressHolder> address_;  // none: who has the address is the administrator's matter
  std::unique_ptr<ClientShare> share_;      // with address_
  MonoTime serves_as_holder_{}, serves_its_share_{};
  bool careful_as_holder_ = false, careful_with_its_share_ = false;
  std::unique_ptr<MountProgram> mount_;
  std::optional<service::TracedProgram> traced_mount_;
  LockProgram locks_;
  StatusProgram clients_status_;
  QuotaProgram users_quotas_, quotas_;  // of RQUOTA's versions 1 and 2
  GrantProgram grants_;
  std::unique_ptr<ClientCalls> client_calls_;
  std::optional<RoutesProgram> routes_;
  std::unique_ptr<PortmapProgram> portmap_;
  std::vector<std::unique_ptr<RpcbindProgram>> rpcbinds_;  // both versions
  std::unique_ptr<rpc::Dispatcher> mount_dispatcher_, portmap_dispatcher_;
  std::unique_ptr<rpc::Server> mount_server_, portmap_server_;
  std::vector<std::unique_ptr<Thread>> threads_;
  bool at_rpcbind_ = false;
  Counter &taken_over_, &accepted_;
  std::uint64_t accepted_seen_ = 0;
};

// For service::run_process().
service::ServerKind server_kind();

}  // namespace slice::proxy

#endif  // SLICE_CONTROL_PROXYD_PROXY_ROLE_H
