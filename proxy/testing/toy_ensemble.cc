#include "proxy/testing/toy_ensemble.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rpc/message.h"

namespace slice::proxy::testing {

using namespace std::chrono_literals;

std::vector<std::uint8_t> pattern(std::size_t size, std::uint32_t seed) {
  std::vector<std::uint8_t> bytes(size);
  std::uint32_t state = seed * 2654435761u + 1;
  for (auto& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<std::uint8_t>(state >> 24);
  }
  return bytes;
}

nfs3::Attributes toy_attributes(std::uint64_t fileid, std::uint64_t size) {
  nfs3::Attributes attributes;
  attributes.type = nfs3::FileType::kRegular;
  attributes.mode = 0644;
  attributes.nlink = 1;
  attributes.size = size;
  attributes.used = size;
  attributes.fileid = FileId{fileid};
  attributes.mtime = attributes.ctime = attributes.atime = {1000, 0};
  return attributes;
}

ToyServer::ToyServer(ToyEnsemble& ensemble, std::uint32_t index_in, wire::Role role_in)
    : index(index_in), role(role_in), ensemble_(ensemble), acls_(ensemble) {}

void ToyServer::start() {
  dispatcher_ = std::make_unique<rpc::Dispatcher>(ensemble_.metrics);
  dispatcher_->add(*this);
  if (role == wire::Role::kDirectory) dispatcher_->add(acls_);
  if (role == wire::Role::kDirectory && ensemble_.authority != nullptr)
    dispatcher_->add(*ensemble_.authority);
  if (ensemble_.local) {
    endpoint = {0x7f000001, static_cast<std::uint16_t>(1 + index)};
    ensemble_.local->attach(endpoint, dispatcher_.get());
    return;
  }
  rpc::Server::Options options;
  options.keys = &ensemble_.keys;
  server_ = std::make_unique<rpc::Server>(ensemble_.loop, *dispatcher_, ensemble_.metrics, options);
  if (endpoint.port == 0) keep_a_port();
  auto bound = server_->listen(endpoint, rpc::Server::Protocols::kTcp);
  ASSERT_TRUE(bound) << bound.error().message;
  endpoint = *bound;
}

// While the server is stopped no connection of another process may take its port.
void ToyServer::keep_a_port() {
  placeholder_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int on = 1;
  ::setsockopt(placeholder_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(placeholder_, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::getsockname(placeholder_, reinterpret_cast<sockaddr*>(&address), &size), 0);
  endpoint = {INADDR_LOOPBACK, ntohs(address.sin_port)};
}

Task<rpc::Outcome> ToyAcls::handle(const rpc::Call& call, rpc::XdrWriter& results) {
  EXPECT_EQ(call.procedure, 1u);
  nfs3::GetaclArgs args;
  if (!nfs3::decode_arguments(call.arguments, args)) co_return rpc::Outcome::kGarbage;
  auto file = ensemble_.codec->open(args.object);
  if (!file) co_return rpc::Outcome::kError;
  nfs3::encode_result(results, nfs3::GetaclOk{.attributes = toy_attributes(
                                                  file->fileid.value, ensemble_.sizes[file->fileid.value]),
                                              .mask = args.mask,
                                              .access = nfs3::Acl{7, 5, 0, 7, {{1001, 6}}, {}},
                                              .defaults = {}});
  co_return rpc::Outcome::kReply;
}

ToyServer::~ToyServer() {
  if (placeholder_ >= 0) ::close(placeholder_);
}

void ToyServer::stop() {
  server_.reset();
}

void ToyServer::release() {
  hold = false;
  for (auto& one : std::exchange(held_, {})) one.set(true);
}

Task<rpc::Outcome> ToyServer::handle(const rpc::Call& call, rpc::XdrWriter& results) {
  ++calls;
  security = call.security;
  xids.push_back(call.xid);
  if (drops > 0) {
    --drops;
    co_return rpc::Outcome::kDrop;
  }
  EXPECT_NE(call.forwarded, ensemble_.options_.own);
  EXPECT_EQ(call.own, ensemble_.options_.own);
  EXPECT_TRUE(call.client.address.is_loopback());
  EXPECT_EQ(call.credential.uid, ensemble_.options_.own ? rpc::AuthSys{}.uid : 1234u);
  if (hold) {
    OneShot<bool> go;
    held_.push_back(go);
    co_await go;
  }
  switch (static_cast<nfs3::Procedure>(call.procedure)) {
    case nfs3::Procedure::kRead:
      co_return read(call, results);
    case nfs3::Procedure::kWrite:
      co_return write(call, results);
    case nfs3::Procedure::kCommit:
      co_return commit(call, results);
    case nfs3::Procedure::kGetattr: {
      EXPECT_EQ(role, wire::Role::kDirectory);
      nfs3::HandleView handle;
      if (!nfs3::decode_arguments(call.arguments, handle)) co_return rpc::Outcome::kGarbage;
      auto file = ensemble_.codec->open(handle);
      if (!file) co_return rpc::Outcome::kError;
      nfs3::encode_result(
          results, nfs3::GetattrOk{toy_attributes(file->fileid.value, ensemble_.sizes[file->fileid.value])});
      co_return rpc::Outcome::kReply;
    }
    default:
      EXPECT_EQ(role, wire::Role::kDirectory);
      nfs3::encode_failure(results, static_cast<nfs3::Procedure>(call.procedure), nfs3::Status::kNoEnt);
      co_return rpc::Outcome::kReply;
  }
}

void ToyServer::check_owner(const routing::FileHandle& file, std::uint64_t offset, std::uint32_t count) {
  const auto& tables = *ensemble_.tables;
  std::uint64_t threshold = ensemble_.config.volume.threshold;
  if (offset < threshold) {
    EXPECT_EQ(tables.server_of(wire::Role::kSmallFile, tables.small_file_site(file.fileid)).server, index);
    EXPECT_LE(offset + count, threshold);
    return;
  }
  std::uint64_t unit = std::uint64_t{1} << file.stripe_shift;
  wire::FileLayout layout;
  layout.piece = ensemble_.map.value_or(wire::MapPiece{});
  const auto copies = routing::copies_of_stripe(tables, layout, file, offset >> file.stripe_shift).all;
  EXPECT_TRUE(routing::has(copies, index));
  EXPECT_LE(offset % unit + count, unit);
}

nfs3::PostOpAttributes ToyServer::attributes_for(const routing::FileHandle& file) {
  if (!file.hint.can_patch) return std::nullopt;
  nfs3::Attributes room = toy_attributes(file.fileid.value, ensemble_.sizes[file.fileid.value]);
  room.nlink = 0;
  room.mode = 0;
  room.size = 0;  // not known
  room.used = 0;
  room.rdev_minor = file.directory_site.value;
  room.mtime = {2000, ++clock_};
  return room;
}

rpc::Outcome ToyServer::read(const rpc::Call& call, rpc::XdrWriter& results) {
  nfs3::ReadArgs args;
  if (!nfs3::decode_arguments(call.arguments, args)) return rpc::Outcome::kGarbage;
  auto file = ensemble_.codec->open(args.file);
  if (!file) return rpc::Outcome::kError;
  check_owner(*file, args.offset, args.count);
  if (fail_with != nfs3::Status::kOk) {
    nfs3::encode_failure(results, nfs3::Procedure::kRead, fail_with);
    return rpc::Outcome::kReply;
  }
  const auto& mine = bytes[file->fileid.value];
  if (ensemble_.options_.own && args.count == 0 && knows_holes) {
    const std::uint64_t end = (args.offset / 4096 + 1) * 4096;
    bool hole = true;
    for (std::uint64_t at = args.offset; at < std::min<std::uint64_t>(end, mine.size()); ++at)
      hole &= mine[at] == 0;
    nfs3::encode_result(results, nfs3::ReadOk{.attributes = {},
                                              .count = static_cast<std::uint32_t>(end - args.offset),
                                              .eof = hole,
                                              .data = {}});
    return rpc::Outcome::kReply;
  }
  std::uint64_t size = stale_size ? mine.size() : ensemble_.sizes[file->fileid.value];
  if (file->hint.size && !stale_size) EXPECT_LE(*file->hint.size, size);
  std::uint64_t n = args.offset >= size ? 0 : std::min<std::uint64_t>(args.count, size - args.offset);
  std::vector<std::uint8_t> data(n);
  for (std::uint64_t i = 0; i < n && args.offset + i < mine.size(); ++i) data[i] = mine[args.offset + i];
  nfs3::ReadOk ok;
  ok.attributes = attributes_for(*file);
  ok.count = static_cast<std::uint32_t>(n);
  ok.eof = args.offset + n >= size;
  ok.data = data;
  nfs3::encode_result(results, ok);
  return rpc::Outcome::kReply;
}

rpc::Outcome ToyServer::write(const rpc::Call& call, rpc::XdrWriter& results) {
  nfs3::WriteArgs args;
  if (!nfs3::decode_arguments(call.arguments, args)) return rpc::Outcome::kGarbage;
  auto file = ensemble_.codec->open(args.file);
  if (!file) return rpc::Outcome::kError;
  const bool is_hole = ensemble_.options_.own && args.data.empty();
  if (is_hole && !knows_holes) return rpc::Outcome::kGarbage;
  if (!is_hole) EXPECT_EQ(args.count, args.data.size());
  check_owner(*file, args.offset, args.count);
  stamps.push_back(call.layout);
  if (call.layout.coordinator != orders_since.coordinator || call.layout.version < orders_since.version) {
    wire::encode_sent_too_early(results, orders_since);
    orders_since.version += ages;
    return rpc::Outcome::kReply;
  }
  nfs3::Status status = args.offset > (64u << 20) ? nfs3::Status::kFbig : fail_with;
  if (status != nfs3::Status::kOk) {
    nfs3::encode_failure(results, nfs3::Procedure::kWrite, status);
    return rpc::Outcome::kReply;
  }
  std::uint32_t n = std::min(args.count, write_at_most);
  auto& mine = bytes[file->fileid.value];
  if (mine.size() < args.offset + n) mine.resize(args.offset + n);
  const auto to = mine.begin() + static_cast<std::ptrdiff_t>(args.offset);
  if (is_hole) {
    std::fill_n(to, n, std::uint8_t{0});
    holes += n;
  } else {
    std::copy_n(args.data.begin(), n, to);
  }
  auto& size = ensemble_.sizes[file->fileid.value];
  size = std::max(size, args.offset + n);
  nfs3::WriteOk ok;
  ok.wcc.after = attributes_for(*file);
  if (ok.wcc.after) ok.wcc.after->used = args.offset + n;
  ok.count = n;
  ok.committed = args.stable;
  ok.verifier = Verifier{verifier};
  nfs3::encode_result(results, ok);
  return rpc::Outcome::kReply;
}

rpc::Outcome ToyServer::commit(const rpc::Call& call, rpc::XdrWriter& results) {
  nfs3::CommitArgs args;
  if (!nfs3::decode_arguments(call.arguments, args)) return rpc::Outcome::kGarbage;
  auto file = ensemble_.codec->open(args.file);
  if (!file) return rpc::Outcome::kError;
  nfs3::CommitOk ok;
  ok.wcc.after = attributes_for(*file);
  ok.verifier = Verifier{verifier};
  nfs3::encode_result(results, ok);
  return rpc::Outcome::kReply;
}

Task<rpc::Outcome> ToyAuthority::handle(const rpc::Call& call, rpc::XdrWriter& results) {
  EXPECT_TRUE(call.internal);
  wire::MergeArgs args;
  if (!wire::decode(call.arguments, args)) co_return rpc::Outcome::kGarbage;
  EXPECT_EQ(args.files.size(), 1u);
  if (args.files.size() != 1) co_return rpc::Outcome::kError;
  auto file = ensemble_.codec->open(args.files[0].handle);
  EXPECT_TRUE(file);
  if (!file) co_return rpc::Outcome::kError;
  wire::MergeResult result;
  if (!owner) {
    result.status = nfs3::Status::kJukebox;
    wire::encode(results, result);
    co_return rpc::Outcome::kReply;
  }
  merges.emplace_back(file->fileid.value, args.files[0].size);
  result.files.push_back(
      {.attributes = toy_attributes(file->fileid.value, ensemble_.sizes[file->fileid.value])});
  wire::encode(results, result);
  co_return rpc::Outcome::kReply;
}

ToyEnsemble::ToyEnsemble(ToyOptions options) : options_(options) {
  config.volume.threshold = options.threshold;
  config.volume.stripe_shift = options.stripe_shift;
  config.handle_key = {4, 5, 6};
  config.exports.push_back({.clients = Network::of_v4(0x7f000000, 0xff000000), .secure = false});
  if (options.local) local.emplace(loop, config.ensemble_key, rpc::Endpoint{});
  codec = std::make_unique<routing::HandleCodec>(config);
  authority = std::make_unique<ToyAuthority>(*this);
  auto add = [&](wire::Role role) {
    auto index = static_cast<std::uint32_t>(servers.size());
    servers.push_back(std::make_unique<ToyServer>(*this, index, role));
    servers.back()->start();
    ServerConfig server;
    server.name = fmt::format("server{}", index);
    server.role = static_cast<ServerRole>(role);
    server.index = index;
    server.address = servers.back()->endpoint.address;
    server.port = servers.back()->endpoint.port;
    config.servers.push_back(server);
  };
  for (wire::Role role :
       {wire::Role::kDirectory, wire::Role::kSmallFile, wire::Role::kSmallFile, wire::Role::kStorage,
        wire::Role::kStorage, wire::Role::kStorage, wire::Role::kCoordinator}) {
    add(role);
  }
  auto made = routing::RoutingTables::make(config, routing::RoutingTables::initial(config));
  EXPECT_TRUE(made) << made.error().message;
  tables = *made;
  fill_config(*tables, *memory.tables().config);
  bind_sites(tables->wire(), memory.tables());
  cache =
      std::make_unique<AttributeCache>(memory.tables().attributes, memory.tables().config, metrics,
                                       [this](const slice_eviction& changes) { evicted.push_back(changes); });
  maps = std::make_unique<MapCache>(
      [this](const routing::HandleBytes&, FileId file, std::uint64_t stripe) {
        pieces_asked_for.emplace_back(file, wire::piece_of(stripe));
      },
      metrics);
  Worker::Options worker_options;
  worker_options.tables = memory.tables();
  worker_options.sender = {.index = 99, .config = memory.tables().config, .own = options.own};
  worker_options.config = &config;
  worker_options.settings = &settings.emplace(settings_of(config));
  worker_options.limits = options.limits;
  worker_options.udp_senders = options.udp_senders;
  worker_options.tls = options.tls;
  worker_options.gss = options.gss;
  worker_options.late = options.late;
  latencies.learn(tables->wire());
  worker_options.latencies = &latencies;
  worker_options.local = local ? &*local : nullptr;
  sockets = std::make_unique<SocketWorker>(loop, &keys, worker_options, *cache, *maps, metrics);
  worker = &sockets->worker();
  auto bound = sockets->listen_tcp({0x7f000001, 0});
  EXPECT_TRUE(bound);
  tcp = *bound;
  bound = sockets->listen_udp({0x7f000001, 0});
  EXPECT_TRUE(bound);
  udp = *bound;
}

ToyEnsemble::~ToyEnsemble() {
  for (auto& server : servers) server->release();
  run_until([] { return false; }, 5ms);
  sockets.reset();
}

bool ToyEnsemble::run_until(const std::function<bool()>& done, Duration limit) {
  return loop.run_until(done, limit);
}

routing::HandleBytes ToyEnsemble::handle(std::uint64_t fileid) const {
  routing::FileHandle file;
  file.fileid = FileId{fileid};
  file.stripe_shift = static_cast<std::uint8_t>(config.volume.stripe_shift);
  file.flags = options_.handle_flags;
  return codec->mint(file);
}

std::unique_ptr<WireClient> ToyEnsemble::connect(std::uint32_t from) {
  return std::make_unique<WireClient>(loop, tcp, from);
}

Buffer ToyEnsemble::call(Xid xid, nfs3::Procedure procedure, ByteView arguments) const {
  rpc::XdrWriter credential;
  rpc::AuthSys who;
  who.machine_name = "client";
  who.uid = 1234;
  who.gid = 100;
  rpc::encode_auth_sys(credential, who);
  const nfs3::WireProcedure called = nfs3::on_the_wire(static_cast<std::uint32_t>(procedure));
  rpc::CallHeader header;
  header.xid = xid;
  header.program = called.program;
  header.version = nfs3::kVersion;
  header.procedure = called.number;
  header.credential_flavor = rpc::kAuthSys;
  header.credential = credential.view().subspan(8);
  header.arguments = arguments;
  rpc::XdrWriter out;
  rpc::encode_call(out, header);
  return out.take();
}

Buffer ToyEnsemble::read_call(Xid xid, std::uint64_t fileid, std::uint64_t offset,
                              std::uint32_t count) const {
  auto bytes = handle(fileid);
  rpc::XdrWriter out;
  nfs3::encode_arguments(out, nfs3::ReadArgs{bytes, offset, count});
  return call(xid, nfs3::Procedure::kRead, out.view());
}

Buffer ToyEnsemble::write_call(Xid xid, std::uint64_t fileid, std::uint64_t offset, ByteView data,
                               nfs3::Stable stable) const {
  auto bytes = handle(fileid);
  rpc::XdrWriter out;
  nfs3::encode_arguments(
      out, nfs3::WriteArgs{bytes, offset, static_cast<std::uint32_t>(data.size()), stable, data});
  return call(xid, nfs3::Procedure::kWrite, out.view());
}

Buffer ToyEnsemble::getattr_call(Xid xid, std::uint64_t fileid) const {
  rpc::XdrWriter out;
  nfs3::encode_arguments(out, nfs3::HandleView(handle(fileid)));
  return call(xid, nfs3::Procedure::kGetattr, out.view());
}

Buffer ToyEnsemble::ask(WireClient& client, const Buffer& message) {
  std::size_t before = client.replies.size();
  client.send_record(message.view());
  bool answered = run_until([&] { return client.replies.size() > before || client.closed; });
  EXPECT_TRUE(answered);
  if (client.replies.size() <= before) return {};
  return client.replies.back().clone();
}

ToyServer& ToyEnsemble::server(wire::Role role, std::size_t which) {
  for (auto& server : servers) {
    if (server->role == role && which-- == 0) return *server;
  }
  ADD_FAILURE() << "no such server";
  return *servers.front();
}

void ToyEnsemble::learn(std::uint64_t fileid) {
  rpc::XdrWriter out;
  nfs3::encode(out, toy_attributes(fileid, sizes[fileid]));
  Buffer fattr(out.view());
  slice_attr_event event{};
  event.fileid = fileid;
  event.procedure = SLICE_NFS_GETATTR;
  event.asked_ms = cache->now_ms();
  event.teaches = 1;
  cache->absorb(fattr.data(), event);
}

nfs3::Status status_of(const Buffer& reply) {
  auto header = rpc::decode_reply(reply.view());
  if (!header || header->results.size() < 4) return nfs3::Status::kServerFault;
  return static_cast<nfs3::Status>(load_be<std::uint32_t>(header->results.data()));
}

}  // namespace slice::proxy::testing
