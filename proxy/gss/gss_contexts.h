// GssContexts: the security contexts of all users at one proxy, found by their handles (RFC 2203
// section 5.3.3). A client may use one over many connections, so that all workers share them. They are in
// memory alone: a client whose context is gone makes another.
#ifndef SLICE_PROXY_GSS_GSS_CONTEXTS_H
#define SLICE_PROXY_GSS_GSS_CONTEXTS_H

#include <array>
#include <list>
#include <map>
#include <mutex>

#include "common/metrics.h"
#include "proxy/gss/security_context.h"
#include "rpc/gss.h"

namespace slice::proxy {

// One user's at one client. Any thread.
class GssContext {
 public:
  static constexpr std::uint32_t kWindow = 128;  // calls of it that may be under way
  using Handle = std::array<std::uint8_t, rpc::kMaxGssHandle>;

  GssContext(Accepted accepted, Handle handle, MonoTime ends);
  const Handle handle;
  const std::string principal;
  const MonoTime ends;
  // As a call has it: flavor, length, body.
  ByteView credential() const { return credential_.view(); }

  // Whether the client made this checksum of a call's header.
  bool verify(ByteView bytes, ByteView checksum);
  // Whether a call with this number, whose header was verified, is to be taken: each once, and none that is
  // older than the window (section 5.3.3.1).
  bool take(std::uint32_t sequence);
  std::optional<Buffer> unwrap(ByteView token);
  std::optional<Buffer> checksum(ByteView bytes);
  std::optional<Buffer> wrap(ByteView bytes);

 private:
  std::mutex mutex_;
  const std::unique_ptr<SecurityContext> context_;
  Buffer credential_;
  std::uint32_t highest_ = 0;
  std::array<std::uint64_t, kWindow / 64> taken_{};  // by number modulo the window
};

class GssContexts {
 public:
  struct Limits {
    std::size_t all = 16384, of_user = 4096;
  };
  // `metrics` outlives it.
  GssContexts(Metrics& metrics, Limits limits);

  // Makes room where there is none: of the user who has most, the one that was not used for longest goes.
  std::shared_ptr<GssContext> add(Accepted accepted, MonoTime now);
  // Null: there is none, or it has ended.
  std::shared_ptr<GssContext> find(ByteView handle, MonoTime now);
  void remove(const GssContext& context);

 private:
  using OfUser = std::list<std::shared_ptr<GssContext>>;  // who was used last stands last
  struct Place {
    std::map<std::string, OfUser>::iterator user;
    OfUser::iterator at;
  };
  void forget(std::map<GssContext::Handle, Place>::iterator found);
  void make_room(const std::string& principal);

  const Limits limits_;
  std::mutex mutex_;
  std::map<std::string, OfUser> users_;
  std::map<GssContext::Handle, Place> places_;
  Gauge& now_;
  Counter& evicted_;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_GSS_GSS_CONTEXTS_H
