// A toy ensemble for tests of the proxy: servers that speak NFS over real loopback sockets, keep bytes in
// memory, and fail the test when a request reaches a server that does not own all of it. Everything runs on
// one loop.
#ifndef SLICE_PROXY_TESTING_TOY_ENSEMBLE_H
#define SLICE_PROXY_TESTING_TOY_ENSEMBLE_H

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "proxy/socket_worker.h"
#include "routing/copies.h"
#include "routing/file_handle.h"
#include "rpc/in_process.h"
#include "rpc/server.h"
#include "wire/authority.h"
#include "wire/nfs3_acl.h"

namespace slice::proxy::testing {

// All clients have one address: it may have all there is.
inline rpc::Admission::Limits toy_limits(std::size_t memory = 256 << 20,
                                         std::size_t connection_memory = 16 << 20) {
  rpc::Admission::Limits limits = Worker::client_limits(memory);
  limits.client_memory = memory;
  limits.connection_memory = connection_memory;
  return limits;
}

struct ToyOptions {
  std::uint64_t threshold = 64 << 10;
  std::uint32_t stripe_shift = 16;
  std::uint8_t handle_flags = 0;
  rpc::Admission::Limits limits = toy_limits();
  std::size_t udp_senders = UdpFront::kMostSenders;
  bool local = false;             // servers have no sockets: they share the worker's process
  const rpc::Tls* tls = nullptr;  // that clients may ask for
  GssService* gss = nullptr;      // by which users may come
  Duration late = std::chrono::seconds(10);
  bool own = false;  // calls are the worker's own (Sender::own)
};

class ToyEnsemble;

// NFSACL of the toy directory server: every file has the same list.
class ToyAcls : public rpc::Program {
 public:
  explicit ToyAcls(ToyEnsemble& ensemble) : ensemble_(ensemble) {}
  std::uint32_t number() const override { return nfs3::kAclProgram; }
  std::uint32_t version() const override { return nfs3::kVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override;

 private:
  ToyEnsemble& ensemble_;
};

// What one server does; knobs for misbehaviour.
class ToyServer : public rpc::Program {
 public:
  ToyServer(ToyEnsemble& ensemble, std::uint32_t index, wire::Role role);
  std::uint32_t number() const override { return nfs3::kProgram; }
  std::uint32_t version() const override { return nfs3::kVersion; }
  ~ToyServer() override;
  ToyServer(const ToyServer&) = delete;
  ToyServer& operator=(const ToyServer&) = delete;
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override;

  void start();  // listens (at its former port after a stop)
  void stop();   // closes every connection

  std::uint32_t index;
  wire::Role role;
  rpc::Endpoint endpoint;
  std::map<std::uint64_t, std::vector<std::uint8_t>> bytes;  // by fileID, at the file's own offsets
  std::uint64_t verifier = 7;
  std::uint32_t write_at_most = ~0u;  // bytes of one WRITE
  bool knows_holes = true;  // that a WRITE without data makes, else it is refused; and tells of them
  std::uint64_t holes = 0;  // bytes of them
  nfs3::Status fail_with = nfs3::Status::kOk;
  unsigned drops = 0;  // so many calls get no answer
  // A WRITE with an older one is refused, and told this; then this grows by `ages`.
  rpc::LayoutStamp orders_since{};
  std::uint64_t ages = 0;
  std::vector<rpc::LayoutStamp> stamps;  // of WRITEs, as they came
  bool hold = false;                     // answers wait until release()
  void release();
  std::size_t held() const { return held_.size(); }
  std::uint64_t calls = 0;
  std::vector<Xid> xids;
  CallSecurity security;    // of the last call
  bool stale_size = false;  // believes that files end where its own bytes end

 private:
  friend class ToyEnsemble;
  void keep_a_port();
  rpc::Outcome read(const rpc::Call& call, rpc::XdrWriter& results);
  rpc::Outcome write(const rpc::Call& call, rpc::XdrWriter& results);
  rpc::Outcome commit(const rpc::Call& call, rpc::XdrWriter& results);
  nfs3::PostOpAttributes attributes_for(const routing::FileHandle& file);
  void check_owner(const routing::FileHandle& file, std::uint64_t offset, std::uint32_t count);

  ToyEnsemble& ensemble_;
  ToyAcls acls_;
  std::uint32_t clock_ = 0;
  int placeholder_ = -1;  // bound to its port
  std::vector<OneShot<bool>> held_;
  std::unique_ptr<rpc::Dispatcher> dispatcher_;
  std::unique_ptr<rpc::Server> server_;
};

// The authority program of the toy directory server.
class ToyAuthority : public rpc::Program {
 public:
  explicit ToyAuthority(ToyEnsemble& ensemble) : ensemble_(ensemble) {}
  std::uint32_t number() const override { return wire::kAuthorityProgram; }
  std::uint32_t version() const override { return wire::kInternalVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> merges;  // fileID, size
  bool owner = true;  // false: it answers as a server that does not own the file's site

 private:
  ToyEnsemble& ensemble_;
};

// A client on the wire: sends whatever bytes it is told to, takes records apart by itself.
class WireClient {
 public:
  WireClient(rpc::EpollLoop& loop, rpc::Endpoint to, std::uint32_t from = 0x7f000001);
  ~WireClient();
  void send(ByteView bytes);  // queued, sent as the socket takes it
  void send_record(ByteView message);
  void begin_tls(const rpc::Tls& tls, IpAddress address);  // outlives the client
  std::vector<Buffer> replies;                             // whole messages, without marks
  bool closed = false;
  bool reading = true;
  std::size_t send_limit = SIZE_MAX;  // bytes a send() call passes on at once
  void set_reading(bool on);
  std::size_t unsent() const { return out_.size() - sent_; }

 private:
  void on_event(std::uint32_t events);
  void pump();
  std::size_t unsaid() const { return unsent() + (tls_ && tls_->has_to_say() ? 1 : 0); }
  rpc::EpollLoop& loop_;
  int fd_;
  std::unique_ptr<rpc::TlsStream> tls_;
  Buffer out_, in_;
  std::size_t sent_ = 0;
};

class ToyEnsemble {
 public:
  explicit ToyEnsemble(ToyOptions options = {});
  ~ToyEnsemble();

  bool run_until(const std::function<bool()>& done, Duration limit = std::chrono::minutes(1));
  routing::HandleBytes handle(std::uint64_t fileid) const;
  // From that address of the loopback network.
  std::unique_ptr<WireClient> connect(std::uint32_t from = 0x7f000001);
  // A call message of a client with AUTH_SYS credentials.
  Buffer call(Xid xid, nfs3::Procedure procedure, ByteView arguments) const;
  Buffer read_call(Xid xid, std::uint64_t fileid, std::uint64_t offset, std::uint32_t count) const;
  Buffer write_call(Xid xid, std::uint64_t fileid, std::uint64_t offset, ByteView data,
                    nfs3::Stable stable = nfs3::Stable::kUnstable) const;
  Buffer getattr_call(Xid xid, std::uint64_t fileid) const;
  // Sends the message and waits for the one reply.
  Buffer ask(WireClient& client, const Buffer& message);

  rpc::EpollLoop loop;
  Metrics metrics;
  EnsembleConfig config;
  std::optional<LiveSettings> settings;
  rpc::KeyRing keys{rpc::EnsembleKey{1, 2, 3}};
  std::optional<rpc::InProcessNetwork> local;  // with ToyOptions::local
  std::unique_ptr<routing::HandleCodec> codec;
  std::shared_ptr<const routing::RoutingTables> tables;
  MemoryTables memory;
  ServerLatencies latencies{metrics};
  std::vector<std::unique_ptr<ToyServer>> servers;
  std::unique_ptr<ToyAuthority> authority;
  std::map<std::uint64_t, std::uint64_t> sizes;  // the truth, by fileID
  std::vector<slice_eviction> evicted;
  std::unique_ptr<AttributeCache> cache;
  std::unique_ptr<MapCache> maps;
  std::vector<std::pair<FileId, std::uint64_t>> pieces_asked_for;
  std::optional<wire::MapPiece> map;  // of every block-mapped file; else no server minds what comes to it
  std::unique_ptr<SocketWorker> sockets;
  Worker* worker = nullptr;  // theirs
  rpc::Endpoint tcp, udp;
  ToyServer& server(wire::Role role, std::size_t which = 0);
  void learn(std::uint64_t fileid);  // makes the proxy know the file's attributes

 private:
  friend class ToyServer;
  ToyOptions options_;
};

std::vector<std::uint8_t> pattern(std::size_t size, std::uint32_t seed);
nfs3::Attributes toy_attributes(std::uint64_t fileid, std::uint64_t size);
// Of an NFS reply; kServerFault where it has none.
nfs3::Status status_of(const Buffer& reply);

}  // namespace slice::proxy::testing

#endif  // SLICE_PROXY_TESTING_TOY_ENSEMBLE_H
