// GssService: what the workers of one proxy share for users who come by Kerberos (RPCSEC_GSS, RFC 2203):
// their security contexts, and a thread that makes them, since that may wait for a service of names
// (docs/kerberos.md).
#ifndef SLICE_PROXY_GSS_GSS_SERVICE_H
#define SLICE_PROXY_GSS_GSS_SERVICE_H

#include <condition_variable>
#include <deque>
#include <functional>
#include <thread>
#include <unordered_map>

#include "common/log.h"
#include "proxy/gss/gss_contexts.h"
#include "rpc/endpoint.h"

namespace slice::proxy {

class GssService {
 public:
  static constexpr std::size_t kMostWaiting = 4096, kMostWaitingOfAddress = 64;

  // `metrics` outlives it.
  GssService(std::unique_ptr<ContextAcceptor> acceptor, Metrics& metrics);
  GssService(const GssService&) = delete;
  GssService& operator=(const GssService&) = delete;
  ~GssService();
  // Ends the thread. Nothing is posted from then on: before the loops of those who asked end.
  void stop();

  // What became of a first message: the context, and what the client is told.
  struct Made {
    std::shared_ptr<GssContext> context;  // null: refused
    std::uint32_t major = 0, minor = 0;
    Buffer token;
  };
  // `done` runs on the loop, later. False where too many wait, or too many of that address.
  bool accept(Loop& loop, rpc::Endpoint client, Buffer token, std::function<void(const Made&)> done);
  GssContexts& contexts() { return contexts_; }

  // Why a call was not taken.
  enum class Refused { kCredential, kContext, kVerifier, kSequence, kBody, kToken, kBusy, kDatagram, kKinds };
  void note(Refused why, rpc::Endpoint client, std::string_view what);

 private:
  struct Job {
    Loop* loop;
    rpc::Endpoint client;
    Buffer token;
    std::function<void(const Made&)> done;
  };
  void run();
  Made make(const Job& job);

  std::unique_ptr<ContextAcceptor> acceptor_;
  GssContexts contexts_;
  Counter &established_, &unknown_;
  std::array<Counter*, static_cast<std::size_t>(Refused::kKinds)> refused_{};
  LogLimiters<Refused> log_limits_{5};
  LogLimiter unknown_log_{1};
  std::mutex log_mutex_;
  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<Job> jobs_;
  std::unordered_map<IpAddress, std::size_t> waiting_;  // by address
  bool over_ = false;
  std::thread thread_;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_GSS_GSS_SERVICE_H
