// Front: what slice-blockd and slice-link have in common: an NBD server on a loop, a page for Prometheus, and
// the signals that end the process (SIGTERM, SIGINT) or have it read its files again (SIGHUP).
#ifndef SLICE_BLOCK_FRONT_H
#define SLICE_BLOCK_FRONT_H

#include <functional>
#include <memory>

#include "block/front_options.h"
#include "block/nbd_server.h"
#include "common/metrics.h"
#include "common/task.h"
#include "rpc/epoll_loop.h"
#include "service/metrics_page.h"
#include "service/notify.h"

namespace slice::block {

class Front {
 public:
  struct Hooks {
    std::function<void()> read_again;         // at SIGHUP
    std::function<void()> finish;             // once, before the end: takes nothing more
    std::function<bool()> busy;               // with what it had taken, besides NBD's requests
    std::function<Task<Status>()> flush_all;  // when all is answered
  };
  // Of one thread, which takes these signals from now on; threads that it starts leave them to it. The
  // options and `notify` outlive it.
  Front(const FrontOptions& options, service::Notify& notify, Hooks hooks);
  ~Front();
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;

  rpc::EpollLoop& loop() { return loop_; }
  Metrics& metrics() { return metrics_; }

  // From now on, where there is to be one.
  Status show_metrics();
  // Serves them from now on. `nbd`: but for whom it takes, which the options say. `others`: what else is to
  // be opened before all rights are given up, as they are then.
  Status serve(Devices& devices, NbdOptions nbd, const std::function<Status()>& others = {});
  // Logs why, and ends.
  void fail(const Error& why);

  // Until it ends; the exit code. Requests may still be under way: nothing that they use is taken apart.
  int run();

 private:
  bool takes(IpAddress client) const;
  Status listen();
  void read_signals();
  Task<void> stop();
  void end(int code);

  const FrontOptions& options_;
  service::Notify& notify_;
  const Hooks hooks_;
  rpc::EpollLoop loop_;
  Metrics metrics_;
  std::unique_ptr<NbdServer> nbd_;
  std::unique_ptr<service::MetricsPage> page_;
  int signals_ = -1, code_ = 0;
  bool stopping_ = false;
};

}  // namespace slice::block

#endif  // SLICE_BLOCK_FRONT_H
