// XdpProgram: who owns the XDP program of a proxy. Opens its tables, loads it beside what already serves,
// keeps the ways to servers, and says how it stands. Where there is none, the tables lie in memory.
#ifndef SLICE_CONTROL_XDP_XDP_PROGRAM_H
#define SLICE_CONTROL_XDP_XDP_PROGRAM_H

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "common/task.h"
#include "control/xdp/loader.h"
#include "control/xdp/neighbours.h"
#include "control/xdp/rings.h"
#include "proxy/tables/tables.h"
#include "rpc/epoll_loop.h"

namespace slice::proxy {

class XdpProgram {
 public:
  // All of it outlives the program. `evicted` is called on the loop with what the program's attribute cache
  // has no room for.
  XdpProgram(rpc::EpollLoop& loop, const ProxyConfig& config, Metrics& metrics,
             std::function<void(const slice_eviction&)> evicted);
  ~XdpProgram();
  XdpProgram(const XdpProgram&) = delete;
  XdpProgram& operator=(const XdpProgram&) = delete;

  // First of all: its tables from here on. They hold what a proxy before left where took_over() says so.
  Tables open();
  bool took_over() const { return loader_ != nullptr && loader_->reused(); }
  // On a thread of its own, which takes its time: ends when the program is at the interfaces, or refused.
  Task<void> load();
  // Before load(): the interface where what comes in may be sent on to other proxies.
  void spread_at(std::string interface) { spread_at_ = std::move(interface); }
  // Why nothing is sent on; empty: it is.
  const std::string& unspread() const { return unspread_; }
  bool loaded() const { return reason_.empty(); }
  // It may come to be there yet: load() has not ended.
  bool is_to_come() const { return loader_ != nullptr && !decided_; }
  // The servers' addresses may be others.
  void servers_changed();
  // Takes it off the interfaces.
  void detach();

  // For status and log: the program, or why there is none; what is not learned; warnings.
  std::string describe() const;
  // What an operator should know of interfaces: "" or text that follows another.
  std::string warnings() const;
  void refresh_gauges();

 private:
  void refused(const std::string& reason);
  void keep_ways();
  void attach();

  rpc::EpollLoop& loop_;
  const ProxyConfig& config_;
  Metrics& metrics_;
  std::function<void(const slice_eviction&)> evicted_;
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<MemoryTables> memory_;
  Tables tables_;
  std::string reason_ = "not loaded yet";  // why there is no program; empty: there is
  std::string spread_at_, unspread_ = "the program that sends clients on is not loaded yet";
  bool detached_ = false, decided_ = false;
  std::thread loads_;
  std::unique_ptr<Rings> rings_;
  Neighbours neighbours_;
};

}  // namespace slice::proxy

#endif  // SLICE_CONTROL_XDP_XDP_PROGRAM_H
