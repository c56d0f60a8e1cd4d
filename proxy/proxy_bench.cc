// What the proxy costs over a direct connection, on loopback: short calls, and READ and WRITE of 64 KiB and 1
// MiB. Client and server are bare blocking sockets on a thread each, so that the direct connection is as fast
// as this machine can have it; with servers that do real work the proxy's share is smaller.
#include <benchmark/benchmark.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "proxy/socket_worker.h"
#include "routing/file_handle.h"
#include "rpc/message.h"
#include "wire/nfs3.h"

namespace slice::proxy {
namespace {

constexpr std::uint32_t kLoopback = 0x7f000001;

void must(bool good, const char* what) {
  if (good) return;
  std::perror(what);
  std::abort();
}

// Whole records from a blocking socket, many a read.
class Records {
 public:
  explicit Records(int fd) : fd_(fd), buffer_(4 << 20) {}
  // The next record; valid until the next call. Empty at the end of the stream.
  ByteView next() {
    while (have_ - at_ < 4 || have_ - at_ - 4 < size()) {
      std::memmove(buffer_.data(), buffer_.data() + at_, have_ - at_);
      have_ -= at_;
      at_ = 0;
      ssize_t n = ::recv(fd_, buffer_.data() + have_, buffer_.size() - have_, 0);
      if (n <= 0) return {};
      have_ += static_cast<std::size_t>(n);
    }
    ByteView record{buffer_.data() + at_ + 4, size()};
    at_ += 4 + record.size();
    return record;
  }
  bool more_at_hand() const { return have_ - at_ >= 4 && have_ - at_ - 4 >= size(); }

 private:
  std::size_t size() const { return load_be<std::uint32_t>(buffer_.data() + at_) & ~rpc::kLastFragment; }
  int fd_;
  Buffer buffer_;
  std::size_t at_ = 0, have_ = 0;
};

Buffer with_mark(rpc::XdrWriter body) {
  Buffer out(4);
  store_be(out.data(), rpc::kLastFragment | static_cast<std::uint32_t>(body.size()));
  out.append(body.view());
  return out;
}

// Answers READ with bytes, WRITE with their count, anything else with 112 bytes.
void serve(int fd) {
  Records records(fd);
  std::vector<std::uint8_t> data(1 << 20, 0x5a);
  Buffer out;
  for (ByteView record = records.next(); !record.empty(); record = records.next()) {
    auto call = rpc::decode_call(record);
    must(call.has_value(), "call");
    rpc::XdrWriter reply;
    rpc::encode_success(reply, call->xid);
    std::size_t tail = 0;
    if (call->procedure == SLICE_NFS_READ) {
      nfs3::ReadArgs args;
      must(nfs3::decode_arguments(call->arguments, args), "READ");
      reply.u32(0);
      reply.boolean(false);
      reply.u32(args.count);
      reply.boolean(false);
      reply.u32(args.count);
      tail = args.count;
    } else if (call->procedure == SLICE_NFS_WRITE) {
      nfs3::encode_result(reply,
                          nfs3::WriteOk{{}, load_be<std::uint32_t>(call->arguments.data() + 68), {}, {}});
    } else {
      nfs3::encode_result(reply, nfs3::GetattrOk{});
    }
    std::uint8_t mark[4];
    store_be(mark, rpc::kLastFragment | static_cast<std::uint32_t>(reply.size() + tail));
    out.append(mark);
    out.append(reply.view());
    if (tail > 0) {
      iovec parts[2] = {{out.data(), out.size()}, {data.data(), tail}};
      msghdr message{};
      message.msg_iov = parts;
      message.msg_iovlen = 2;
      if (::sendmsg(fd, &message, MSG_NOSIGNAL) != static_cast<ssize_t>(out.size() + tail)) break;
      out.clear();
    } else if (!records.more_at_hand()) {
      if (::send(fd, out.data(), out.size(), MSG_NOSIGNAL) < 0) break;
      out.clear();
    }
  }
  ::close(fd);
}

struct Server {
  Server() {
    listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(kLoopback);
    must(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "bind");
    must(::listen(listener, 64) == 0, "listen");
    socklen_t size = sizeof address;
    ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
    at = {kLoopback, ntohs(address.sin_port)};
    std::thread([fd = listener] {
      for (int one = ::accept(fd, nullptr, nullptr); one >= 0; one = ::accept(fd, nullptr, nullptr)) {
        int on = 1;
        ::setsockopt(one, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        std::thread(serve, one).detach();
      }
    }).detach();
  }
  int listener = -1;
  rpc::Endpoint at;
};

// A proxy worker in front of one server that has every site.
struct Proxy {
  explicit Proxy(rpc::Endpoint server) {
    config.volume.threshold = 0;
    config.volume.stripe_shift = 20;
    for (std::uint32_t role = 0; role < 4; ++role) {
      ServerConfig one;
      one.name = fmt::format("server{}", role);
      one.role = static_cast<ServerRole>(role);
      one.index = role;
      one.address = server.address;
      one.port = server.port;
      config.servers.push_back(one);
    }
    auto tables = routing::RoutingTables::make(config, routing::RoutingTables::initial(config));
    must(tables.has_value(), "tables");
    fill_config(**tables, *memory.tables().config);
    bind_sites((*tables)->wire(), memory.tables());
    cache.emplace(memory.tables().attributes, memory.tables().config, metrics, [](const slice_eviction&) {});
    Worker::Options options;
    options.tables = memory.tables();
    config.exports.push_back({.clients = Network::of_v4(0x7f000000, 0xff000000), .secure = false});
    options.config = &config;
    options.settings = &settings.emplace(settings_of(config));
    options.sender = {9, memory.tables().config};
    worker.emplace(loop, nullptr, options, *cache, maps, metrics);
    at = worker->listen_tcp({kLoopback, 0}).value();
    thread = std::thread([this] { loop.run(); });
  }
  EnsembleConfig config;
  std::optional<LiveSettings> settings;
  Metrics metrics;
  MemoryTables memory;
  rpc::EpollLoop loop;
  std::optional<AttributeCache> cache;
  MapCache maps{[](const routing::HandleBytes&, FileId, std::uint64_t) {}, metrics};
  std::optional<SocketWorker> worker;
  std::thread thread;
  rpc::Endpoint at;
};

Buffer make_call(std::uint32_t xid, std::uint32_t procedure, std::uint32_t size) {
  routing::FileHandle file;
  file.fileid = FileId{42};
  file.stripe_shift = 20;
  routing::HandleBytes handle = routing::HandleCodec(VolumeId{1}, {}).mint(file);
  rpc::XdrWriter credential, arguments, out;
  rpc::encode_auth_sys(credential, rpc::AuthSys{});
  if (procedure == SLICE_NFS_READ) {
    nfs3::encode_arguments(arguments, nfs3::ReadArgs{handle, 0, size});
  } else if (procedure == SLICE_NFS_WRITE) {
    std::vector<std::uint8_t> data(size, 1);
    nfs3::encode_arguments(arguments, nfs3::WriteArgs{handle, 0, size, nfs3::Stable::kUnstable, data});
  } else {
    nfs3::encode_arguments(arguments, nfs3::HandleView(handle));
  }
  rpc::CallHeader header;
  header.xid = Xid{xid};
  header.program = nfs3::kProgram;
  header.version = nfs3::kVersion;
  header.procedure = procedure;
  header.credential_flavor = rpc::kAuthSys;
  header.credential = credential.view().subspan(8);
  header.arguments = arguments.view();
  rpc::encode_call(out, header);
  return with_mark(std::move(out));
}

double process_cpu() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](timeval t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// `outstanding` calls under way on one connection.
void run(benchmark::State& state, bool proxied, std::uint32_t procedure, std::uint32_t size,
         int outstanding) {
  static Server server;
  static Proxy* proxy = new Proxy(server.at);
  rpc::Endpoint to = proxied ? proxy->at : server.at;
  int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(to.port);
  address.sin_addr.s_addr = htonl(to.address.v4());
  must(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "connect");
  Buffer call = make_call(1, procedure, size);
  std::atomic<std::int64_t> credits{outstanding};
  std::atomic<bool> done{false};
  std::thread sender([&] {
    while (!done) {
      std::int64_t now = credits.exchange(0);
      if (now <= 0) {
        credits.wait(0);
        continue;
      }
      Buffer batch;
      for (std::int64_t i = 0; i < now; ++i) {
        if (call.size() < 4096) {
          batch.append(call.view());
        } else if (::send(fd, call.data(), call.size(), MSG_NOSIGNAL) < 0) {
          return;
        }
      }
      if (!batch.empty() && ::send(fd, batch.data(), batch.size(), MSG_NOSIGNAL) < 0) return;
    }
  });
  Records replies(fd);
  double cpu = process_cpu();
  std::int64_t owed = 0;
  for (auto _ : state) {
    ByteView reply = replies.next();
    must(reply.size() > 24, "reply");
    ++owed;
    if (!replies.more_at_hand()) {
      credits.fetch_add(owed);
      credits.notify_one();
      owed = 0;
    }
  }
  cpu = process_cpu() - cpu;
  done = true;
  credits.fetch_add(1);
  credits.notify_one();
  ::shutdown(fd, SHUT_RDWR);
  sender.join();
  ::close(fd);
  state.SetBytesProcessed(state.iterations() * (size == 0 ? 200 : size));
  state.SetItemsProcessed(state.iterations());
  state.counters["cpu_us_all"] = cpu * 1e6 / static_cast<double>(state.iterations());
}

void register_all() {
  struct Case {
    const char* name;
    std::uint32_t procedure, size;
    int outstanding;
  };
  static constexpr Case kCases[] = {{"getattr_1_outstanding", SLICE_NFS_GETATTR, 0, 1},
                                    {"getattr_32_outstanding", SLICE_NFS_GETATTR, 0, 32},
                                    {"write_64KiB", SLICE_NFS_WRITE, 64 << 10, 16},
                                    {"read_64KiB", SLICE_NFS_READ, 64 << 10, 16},
                                    {"write_1MiB", SLICE_NFS_WRITE, 1 << 20, 8},
                                    {"read_1MiB", SLICE_NFS_READ, 1 << 20, 8}};
  for (const Case& one : kCases) {
    for (bool proxied : {false, true}) {
      std::string name = fmt::format("{}/{}", one.name, proxied ? "proxied" : "direct");
      benchmark::RegisterBenchmark(name.c_str(), [one, proxied](benchmark::State& state) {
        run(state, proxied, one.procedure, one.size, one.outstanding);
      })->UseRealTime();
    }
  }
}

}  // namespace
}  // namespace slice::proxy

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  slice::proxy::register_all();
  benchmark::RunSpecifiedBenchmarks();
  std::_Exit(0);
}
