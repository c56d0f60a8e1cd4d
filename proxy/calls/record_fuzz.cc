// Fuzzes the record path: the bytes of a client's stream, in pieces of any size, through the reader and the
// routing of calls, with servers that answer nothing.
#include <cstdlib>

#include "common/manual_loop.h"
#include "proxy/calls/call_router.h"
#include "proxy/servers/local_calls.h"
#include "proxy/stream/record_reader.h"

namespace slice::proxy {
namespace {

class Sink : public Client {
 public:
  ~Sink() override { drop_calls(); }
  rpc::Endpoint endpoint() const override { return {1, 1}; }
  void reply(Call&, const BufferChain& record) override {
    if (record.size() < 28 || record.size() > kMaxRecord) std::abort();
  }
};

// Takes legs and keeps them unsent.
class NoServers : public Servers {
 public:
  void send(Leg& leg) override { legs_.push_back(leg); }
  BackendConnection* begin_upload(Leg&) override { return nullptr; }

 private:
  IntrusiveList<Leg, LegTag> legs_;
};

// Nobody connects: legs are not sent.
class NoConnector : public Connector {
 public:
  std::unique_ptr<Stream> connect(rpc::Endpoint) override { return nullptr; }
};

class Harness : public RecordHandler {
 public:
  Harness(CallRouter& router, Client& client, bool refuses)
      : router_(router), client_(client), refuses_(refuses) {}
  Take on_head(ByteView head, std::size_t total) override {
    if (router_.refuse(client_, head, total) && refuses_) return Take::kSkip;
    arriving_ = router_.begin(client_, head, total);
    return arriving_ != nullptr ? Take::kPieces : Take::kWhole;
  }
  void on_record(const BufferChain& record) override { router_.take(client_, record, 1 << 20); }
  void on_piece(const BufferRef& piece) override { arriving_->on_request_piece(piece); }
  void on_end() override { arriving_ = nullptr; }  // or it was refused

 private:
  CallRouter& router_;
  Client& client_;
  const bool refuses_;  // else handles that nobody made are good
  Call* arriving_ = nullptr;
};

}  // namespace
}  // namespace slice::proxy

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace slice;
  using namespace slice::proxy;
  static ManualLoop loop;
  static Flusher flusher(loop);
  static Metrics metrics;
  static MemoryTables memory;
  static AttributeCache cache(memory.tables().attributes, memory.tables().config, metrics,
                              [](const slice_eviction&) {});
  static MapCache maps([](const routing::HandleBytes&, FileId, std::uint64_t) {}, metrics);
  slice_config& config = *memory.tables().config;
  config.abi = SLICE_MAP_ABI;
  config.volume = 1;
  config.threshold = 8192;
  for (std::uint32_t& mask : config.site_mask) mask = 63;
  ChunkPool pool;
  {
    LegTable legs;
    CallEncoder encoder(pool, {1, &config});
    LocalCalls local(loop, pool, legs, nullptr);
    NoServers servers;
    NoConnector connector;
    Services services(Plumbing{loop, pool, legs, flusher, local, connector}, servers, memory.tables(), cache,
                      encoder, maps, metrics, nullptr);
    static const EnsembleConfig ensemble;
    static const LiveSettings settings(settings_of(ensemble));
    CallRouter router(services, ensemble, settings, nullptr);
    Sink client;
    Harness harness(router, client, size > 0 && (data[0] & 1) != 0);
    RecordReader reader(harness);
    std::size_t piece = size == 0 ? 1 : 1 + data[0];
    while (size > 0) {
      std::size_t n = std::min(size, piece);
      if (!reader.feed(pool.copy({data, n})).empty()) break;
      reader.settle(pool);
      data += n;
      size -= n;
    }
  }
  return 0;
}
