#include "tests/sim/bytes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "routing/copies.h"
#include "service/internal_call.h"
#include "tests/sim/byte_file.h"
#include "tests/sim/rounds.h"
#include "tests/sim/shared_file.h"
#include "tests/sim/site_mover.h"
#include "tests/sim/stripe_mover.h"
#include "wire/object.h"

namespace slice::sim {

using NfsStatus = nfs3::Status;

namespace {

using nfs3::Procedure;

constexpr std::uint32_t kFirstAddress = 0x0a4d0100;  // 10.77.1.0
constexpr Duration kCallTimeout = std::chrono::seconds(60);
constexpr Duration kResend = std::chrono::seconds(90);  // beyond it: a stream sends nothing twice
constexpr Duration kStorm = std::chrono::seconds(40);
constexpr Duration kStormBegins = std::chrono::seconds(2);
constexpr std::chrono::seconds kLongest{600};
constexpr Duration kPause = std::chrono::milliseconds(100);
constexpr std::size_t kMostAtOnce = 4;    // blocks of one call
constexpr std::size_t kSharedBlocks = 3;  // few, so that clients meet
constexpr double kSpreads = 0.1;          // of what the operator does with stripes
constexpr double kShortLived = 0.05;  // of what clients do, where sites move: files that are removed again
constexpr Duration kStripeMovePause = std::chrono::seconds(2);

// A client over a connection, with the proxy's choice of a copy.
class ByteClient {
 public:
  ByteClient(SimEnsemble& ensemble, unsigned number)
      : ensemble_(ensemble),
        random_(ensemble.random().fork("bytes")),
        loop_(ensemble.loop()),
        self_{kFirstAddress + 2 + number, 700},
        socket_(loop_, ensemble.network(),
                {.self = self_,
                 .first_xid = static_cast<std::uint32_t>(random_.next()),
                 .resend_after = kResend}) {
    if (!ensemble.has_proxies()) {
      ensemble.network().set_stream(self_);
      return;
    }
    stream_.emplace(loop_, ensemble.streams(), ensemble.network(), self_,
                    static_cast<std::uint32_t>(random_.next()),
                    [this] { return ensemble_.any_proxy(random_); });
  }

  // The tables by which it finds servers, where it calls no proxy; until then those of the volume's birth,
  // however many sites have moved. As those of a proxy they must not name servers that were removed.
  void go_by(std::shared_ptr<const routing::RoutingTables> tables) { tables_ = std::move(tables); }

  // How often it has lost its proxy: what one knows of a file's size another may not.
  unsigned proxies() const { return stream_ ? stream_->connections() : 0; }

  // Until the answer is another than JUKEBOX; than an I/O error, too, where there are any: that call may have
  // had its effect.
  template <class Ok, class Args>
  Task<NfsStatus> call(Procedure procedure, const Args& args, Ok& ok, Buffer& keep) {
    rpc::XdrWriter out;
    nfs3::encode_arguments(out, args);
    Buffer arguments = out.take();
    for (;;) {
      rpc::Channel& channel = stream_ ? static_cast<rpc::Channel&>(*stream_) : socket_;
      auto response = co_await channel.call(request(procedure, arguments));
      NfsStatus status = NfsStatus::kJukebox;
      if (response) {
        keep = Buffer(response->results());
        rpc::XdrReader in(keep.view());
        if (!nfs3::decode_result(in, status, ok)) co_return NfsStatus::kServerFault;
      }
      bool disk = status == NfsStatus::kIo && ensemble_.disk_errors() > 0;
      if (status != NfsStatus::kJukebox && !disk) co_return status;
      co_await loop_.sleep(kPause);
    }
  }

 private:
  rpc::Request request(Procedure procedure, const Buffer& arguments) {
    const routing::RoutingTables& tables = tables_ ? *tables_ : ensemble_.tables();
    auto route = tables.place_of(procedure, arguments.view());
    rpc::Endpoint to = tables.server_of(route->site_class, route->site).endpoint;
    rpc::XdrReader in(arguments.view());
    auto handle = ensemble_.handles().open(in.opaque(nfs3::kMaxHandle));
    if (route->site_class == wire::Role::kStorage && routing::mirrored(*handle)) {
      auto copies = tables.copies_of(route->site, routing::copies_of(*handle));
      bool first = procedure == Procedure::kWrite && random_.chance(0.7);
      to = tables.server(copies[first ? 0 : random_.below(copies.size())])->endpoint;
    }
    // A proxy's piece of the map may be old, or not there.
    if (route->site_class == wire::Role::kStorage && routing::block_mapped(*handle)) {
      auto nodes = tables.servers(wire::Role::kStorage);
      to = nodes[random_.below(nodes.size())]->endpoint;
    }
    return {.to = to,
            .program = nfs3::kProgram,
            .version = nfs3::kVersion,
            .procedure = static_cast<std::uint32_t>(procedure),
            .arguments = arguments.clone(),
            .timeout = kCallTimeout,
            .credential = rpc::AuthSys{.machine_name = "client", .uid = 0, .gid = 0}};
  }

  SimEnsemble& ensemble_;
  Random random_;
  ProcessLoop loop_;
  rpc::Endpoint self_;
  SimSocket socket_;
  std::optional<StreamChannel> stream_;  // of one that calls a proxy
  std::shared_ptr<const routing::RoutingTables> tables_;
};

std::vector<wire::Role> moved_classes(const EnsembleOptions& options) {
  std::vector<wire::Role> classes{wire::Role::kSmallFile, wire::Role::kStorage, wire::Role::kCoordinator};
  if (options.directory_servers > 1) classes.push_back(wire::Role::kDirectory);
  return classes;
}

class ByteSimulation : public Rounds {
 public:
  ByteSimulation(const SimulationOptions& options, Trace::Print print)
      : Rounds(options, std::move(print), kLongest),
        random_(ensemble().random().fork("byte workload")),
        mover_(std::make_unique<StripeMover>(ensemble())),
        sites_(std::make_unique<SiteMover>(ensemble(), moved_classes(options.ensemble))) {
    for (unsigned i = 0; i < options.clients; ++i) {
      clients_.push_back(std::make_unique<ByteClient>(ensemble(), i));
    }
  }
  ~ByteSimulation() override {
    for (auto& client : clients_) (void)client.release();  // a task of it may still wait
    (void)mover_.release();
    (void)sites_.release();
  }
  ByteSimulation(const ByteSimulation&) = delete;
  ByteSimulation& operator=(const ByteSimulation&) = delete;

 protected:
  void prepare() override { make_files(); }

  void play(unsigned round) override {
    const bool last = round + 1 == options().rounds;
    const bool loses = last && leaves() && loses_;
    if (loses && !lose_a_server()) return;
    if (round == 0) spawn(sites_->add(ensemble().to_come()));
    // No more die than there are copies for.
    ensemble().storm(kStormBegins, loses ? ensemble().config().volume.copies - 2 : options().crashes);
    busy_ = static_cast<unsigned>(clients_.size());
    for (unsigned i = 0; i < clients_.size(); ++i) spawn(work(i));
    if (mapped()) spawn(move_stripes());
    if (options().ensemble.moves) spawn(sites_->move_until([this] { return busy_ == 0 || !good(); }));
    ensemble().loop().run_until([&] { return busy_ == 0 || !good(); }, kStorm);
    if (!wait_for_calm()) return;
    if (!wait_for([&] { return busy_ == 0; }, "the clients' calls are not all answered")) return;
    if (!wait_for_moves()) return;
    if (last && leaves() && !(loses ? wait_for_removal() : remove_a_server())) return;
    busy_ = 1;
    spawn(look_at_all());
    if (!wait_for([&] { return busy_ == 0; }, "reading all files does not end")) return;
    // Sessions that ended, what copies miss, and what moved stripes have left take their time.
    compare_copies();
  }

 private:
  void make_files() {
    spawn(make_all());
    wait_for([&] { return shared_.has_value(); }, "files are not made");
  }
  Task<std::optional<routing::HandleBytes>> make(ByteClient& client, std::string name) {
    routing::HandleBytes root = ensemble().handles().mint(routing::root_handle(ensemble().config().volume));
    nfs3::CreatedOk ok;
    Buffer keep;
    NfsStatus status =
        co_await client.call(Procedure::kCreate, nfs3::CreateArgs{.where = {root, name}}, ok, keep);
    if (status != NfsStatus::kOk || !ok.object) {
      wrong(fmt::format("CREATE answers {}", nfs3::status_name(status)));
      co_return std::nullopt;
    }
    routing::HandleBytes handle;
    std::copy(ok.object->begin(), ok.object->end(), handle.begin());
    co_return handle;
  }
  Task<void> make_all() {
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      auto handle = co_await make(*clients_[i], "file" + std::to_string(i));
      if (!handle) co_return;
      files_.emplace_back(*handle);
    }
    if (auto handle = co_await make(*clients_[0], "shared")) shared_.emplace(*handle);
  }

  // Whether stripes have a map, and are moved.
  bool mapped() {
    const VolumeConfig& volume = ensemble().config().volume;
    return volume.placement == Placement::kFreeSpace || volume.copies > 1;
  }
  // Until the clients are done.
  Task<void> move_stripes() {
    if (moving_) co_return;
    moving_ = true;
    while (busy_ > 0 && good()) {
      co_await ensemble().loop().sleep(random_.between({}, kStripeMovePause));
      if (random_.chance(kSpreads)) {
        co_await mover_->spread();
        continue;
      }
      co_await mover_->move_one(files_[random_.below(files_.size())].handle,
                                kBlocks * kApart >> ensemble().config().volume.stripe_shift);
    }
    moving_ = false;
  }

  Task<void> work(unsigned number) {
    for (unsigned i = 0; good() && i < options().operations; ++i) {
      co_await ensemble().loop().sleep(random_.between({}, kPause));
      std::uint64_t roll = random_.below(120);
      ++result().operations;
      if (options().ensemble.moves && random_.chance(kShortLived)) {
        co_await make_and_remove(*clients_[number]);
        continue;
      }
      if (roll >= 110) {
        co_await write_shared(*clients_[number], random_.below(kSharedBlocks));
      } else if (roll >= 100) {
        co_await read_shared(*clients_[number], random_.below(kSharedBlocks));
      } else if (roll < 40) {
        co_await write(number, some_block(), random_.chance(0.3));
      } else if (roll < 50) {
        co_await commit(number);
      } else if (roll < 55) {
        co_await truncate(number, random_.below(kBlocks) * kApart);
      } else {
        co_await read(*clients_[number], files_[random_.below(files_.size())], some_block());
      }
    }
    co_await commit(number);
    --busy_;
  }

  // Where sites move, one below the threshold more often.
  std::size_t some_block() {
    const std::size_t small = ensemble().config().volume.threshold / kApart;
    return random_.below(options().ensemble.moves && random_.chance(0.4) ? small : kBlocks);
  }
  // A file that is gone again soon.
  Task<void> make_and_remove(ByteClient& client) {
    const std::string name = fmt::format("short-lived{}", ++last_number_);
    auto handle = co_await make(client, name);
    if (!handle) co_return;
    co_await write_blocks(client, *handle, 0, random_.chance(0.5), {last_number_});
    co_await ensemble().loop().sleep(random_.between({}, kPause));
    nfs3::WccData ok;
    Buffer keep;
    const routing::HandleBytes root =
        ensemble().handles().mint(routing::root_handle(ensemble().config().volume));
    const NfsStatus status =
        co_await client.call(Procedure::kRemove, nfs3::RemoveArgs{.directory = root, .name = name}, ok, keep);
    // Whether the call before was carried out is not known to one that lost its proxy.
    if (status != NfsStatus::kOk && status != NfsStatus::kNoEnt)
      wrong(fmt::format("REMOVE answers {}", nfs3::status_name(status)));
    removed_.push_back(ensemble().handles().open(*handle)->fileid);
  }

  // A few blocks at once, and the holes between them, where a proxy cuts what lies on several servers.
  std::size_t some_blocks(std::size_t first) {
    return ensemble().has_proxies() ? 1 + random_.below(std::min(kMostAtOnce, kBlocks - first)) : 1;
  }
  Task<void> write(unsigned number, std::size_t block, bool durable) {
    std::vector<std::uint32_t> numbers(some_blocks(block));
    for (std::uint32_t& each : numbers) each = ++last_number_;
    return write_numbers(number, block, durable, std::move(numbers));
  }
  Task<void> write_numbers(unsigned client, std::size_t first, bool durable,
                           std::vector<std::uint32_t> numbers) {
    ByteFile& file = files_[client];
    for (std::size_t i = 0; i < numbers.size(); ++i) file.writing(first + i, numbers[i]);
    const unsigned deaths = ensemble().losses();
    ensemble().trace().note("client {} writes {} from block {}{}", client, fmt::join(numbers, ", "), first,
                            durable ? " durably" : "");
    auto answers = co_await write_blocks(*clients_[client], file.handle, first, durable, numbers);
    for (const Written& each : answers) {
      ensemble().trace().note("client {} has written {} to {} verifier {}", client, each.from, each.to,
                              each.ok.verifier.value);
      for (std::size_t block = first; block < first + numbers.size(); ++block) {
        if (each.to <= offset_of(block) || each.from >= offset_of(block) + kBlock) continue;
        file.written(block, each.ok.committed != nfs3::Stable::kUnstable, each.ok.verifier, deaths);
      }
    }
  }
  struct Written {
    std::uint64_t from = 0, to = 0;
    nfs3::WriteOk ok;
  };
  // As clients do: what an answer leaves out is written by the next call. Empty where something is wrong.
  Task<std::vector<Written>> write_blocks(ByteClient& client, routing::HandleBytes handle, std::size_t first,
                                          bool durable, std::vector<std::uint32_t> numbers) {
    std::string data;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      data.resize(i * kApart);
      data += block_of(numbers[i]);
    }
    std::vector<Written> all;
    for (std::size_t done = 0; done < data.size();) {
      const std::uint64_t from = offset_of(first) + done;
      nfs3::WriteOk ok;
      Buffer keep;
      nfs3::WriteArgs args{.file = handle,
                           .offset = from,
                           .count = static_cast<std::uint32_t>(data.size() - done),
                           .stable = durable ? nfs3::Stable::kFileSync : nfs3::Stable::kUnstable,
                           .data = as_bytes(data).subspan(done)};
      NfsStatus status = co_await client.call(Procedure::kWrite, args, ok, keep);
      if (status != NfsStatus::kOk || ok.count == 0 || ok.count > args.count) {
        wrong(fmt::format("WRITE answers {}, {} bytes", nfs3::status_name(status), ok.count));
        co_return std::vector<Written>();
      }
      done += ok.count;
      all.push_back({from, from + ok.count, ok});
    }
    co_return all;
  }

  Task<void> commit(unsigned number) {
    for (;;) {
      nfs3::CommitOk ok;
      Buffer keep;
      NfsStatus status = co_await clients_[number]->call(
          Procedure::kCommit, nfs3::CommitArgs{.file = files_[number].handle}, ok, keep);
      if (status != NfsStatus::kOk) {
        wrong(fmt::format("COMMIT answers {}", nfs3::status_name(status)));
        co_return;
      }
      ensemble().trace().note("client {} has committed, verifier {}", number, ok.verifier.value);
      std::vector<std::size_t> again = files_[number].committed(ok.verifier);
      if (again.empty()) co_return;
      for (std::size_t block : again)
        co_await write_numbers(number, block, false, {files_[number].last(block)});
    }
  }

  Task<void> truncate(unsigned number, std::uint64_t size) {
    ByteFile& file = files_[number];
    file.truncating(size);
    nfs3::WccData ok;
    Buffer keep;
    ensemble().trace().note("client {} truncates to {}", number, size);
    NfsStatus status = co_await clients_[number]->call(
        Procedure::kSetattr,
        nfs3::SetattrArgs{.object = file.handle, .attributes = {.size = size}, .guard = {}}, ok, keep);
    if (status != NfsStatus::kOk) wrong(fmt::format("SETATTR answers {}", nfs3::status_name(status)));
    file.truncated(size);
    ensemble().trace().note("client {} has truncated", number);
  }

  // As a client does that opens the file and reads it: what there must be by its size, and then its bytes. By
  // one proxy: another may know less of the size, until it is asked for it.
  Task<void> read(ByteClient& client, ByteFile& file, std::size_t block) {
    for (unsigned proxies = client.proxies() + 1; proxies != client.proxies();) {
      proxies = client.proxies();
      ByteFile::Look look = file.look(ensemble().losses());
      auto size = co_await size_of(client, file.handle);
      if (!size) co_return;
      if (client.proxies() != proxies && proxies != 0) continue;
      const bool complete = ensemble().proxies() < 2;
      if (ensemble().proxies() > 0) {
        std::string why = file.check_size(look, ensemble().losses(), complete, *size);
        if (!why.empty()) co_return wrong("GETATTR: " + why);
      }
      const std::size_t count = some_blocks(block);
      auto bytes = co_await read_blocks(client, file.handle, block, count);
      if (!bytes) co_return;
      if (client.proxies() != proxies) continue;
      for (std::size_t i = 0; i < count; ++i) {
        ByteView shown = bytes->view().subspan(std::min(i * kApart, bytes->size()));
        shown = shown.first(std::min(shown.size(), kBlock));
        if (!complete && shown.size() < kBlock) look.acknowledged = look.durable;
        std::string why = file.check(block + i, look, ensemble().losses(), shown);
        if (!why.empty()) wrong("READ: " + why);
      }
    }
  }
  Task<std::optional<std::uint64_t>> size_of(ByteClient& client, routing::HandleBytes handle) {
    nfs3::GetattrOk ok;
    Buffer keep;
    NfsStatus status = co_await client.call(Procedure::kGetattr, nfs3::HandleView(handle), ok, keep);
    if (status == NfsStatus::kOk) co_return ok.attributes.size;
    wrong(fmt::format("GETATTR answers {}", nfs3::status_name(status)));
    co_return std::nullopt;
  }
  // What is there of some blocks and of what lies between them, which nobody writes to.
  Task<std::optional<Buffer>> read_blocks(ByteClient& client, routing::HandleBytes handle, std::size_t first,
                                          std::size_t count) {
    Buffer all;
    const std::size_t size = (count - 1) * kApart + kBlock;
    for (bool eof = false; all.size() < size && !eof;) {
      nfs3::ReadOk ok;
      Buffer keep;
      nfs3::ReadArgs args{.file = handle,
                          .offset = offset_of(first) + all.size(),
                          .count = static_cast<std::uint32_t>(size - all.size())};
      NfsStatus status = co_await client.call(Procedure::kRead, args, ok, keep);
      if (status != NfsStatus::kOk || ok.data.size() > args.count || (ok.data.empty() && !ok.eof)) {
        wrong(fmt::format("READ answers {}, {} bytes", nfs3::status_name(status), ok.data.size()));
        co_return std::nullopt;
      }
      all.append(ok.data);
      eof = ok.eof;
    }
    for (std::size_t at = 0; at < all.size(); ++at) {
      if (at % kApart < kBlock || all.view()[at] == 0) continue;
      wrong(fmt::format("READ: byte {} was never written", offset_of(first) + at));
      break;
    }
    co_return all;
  }

  // ---- the file that all write to ----

  Task<void> write_shared(ByteClient& client, std::size_t block) {
    const std::uint32_t what = ++last_number_;
    shared_->writing(block, what);
    ensemble().trace().note("{} is being written to shared block {}", what, block);
    auto answers = co_await write_blocks(client, shared_->handle, block, true, {what});
    ensemble().trace().note("{} {} written to shared block {}", what, answers.empty() ? "may be" : "is",
                            block);
    if (!answers.empty()) shared_->written(block, what);
  }
  Task<void> read_shared(ByteClient& client, std::size_t block) {
    for (unsigned proxies = client.proxies() + 1; proxies != client.proxies();) {
      proxies = client.proxies();
      const std::uint64_t since = shared_->reading();
      if (!co_await size_of(client, shared_->handle)) co_return;
      auto bytes = co_await read_blocks(client, shared_->handle, block, 1);
      if (!bytes) co_return;
      if (client.proxies() != proxies) continue;
      if (std::string why = shared_->check(block, since, bytes->view()); !why.empty())
        wrong("READ, shared: " + why);
    }
  }

  Task<void> look_at_all() {
    for (ByteFile& file : files_) {
      for (std::size_t block = 0; block < kBlocks; ++block) {
        for (int i = 0; i < 4; ++i) co_await read(*clients_[0], file, block);
      }
    }
    for (std::size_t block = 0; block < kSharedBlocks; ++block) co_await read_shared(*clients_[0], block);
    busy_ = 0;
  }

  // ---- copies ----

  // Where there are any; they come to their end now, and then the manager's tables are those in force.
  bool wait_for_moves() {
    if (!options().ensemble.moves) return true;
    std::shared_ptr<bool> settled = sites_->settled();
    return wait_for([&] { return *settled; }, "moves of sites do not end");
  }

  // Whether a storage server leaves in the last round, for good: one of the volume's birth.
  bool leaves() {
    const SimulationOptions& given = options();
    const bool spare =
        given.ensemble.storage_nodes + given.ensemble.later > ensemble().config().volume.copies;
    return given.ensemble.moves && mapped() && spare && given.lasts == Duration(0);
  }
  // With all that it has of whatever file.
  bool remove_a_server() {
    spawn([](SiteMover& mover, std::shared_ptr<bool> done) -> Task<void> {
      co_await mover.remove_one();
      *done = true;
    }(*sites_, gone_));
    return wait_for_removal();
  }
  // With its disk, while clients work: all that it has is elsewhere, too.
  bool lose_a_server() {
    if (!wait_for([&] { return ensemble().missed_by_copies().empty(); }, "some copies do not become whole"))
      return false;
    const auto nodes = ensemble().tables().servers(wire::Role::kStorage);
    const std::uint32_t server = nodes[random_.below(nodes.size())]->server;
    ensemble().lose(server);
    spawn([](SiteMover& mover, std::uint32_t lost, std::shared_ptr<bool> done) -> Task<void> {
      co_await mover.lose(lost);
      *done = true;
    }(*sites_, server, gone_));
    return true;
  }
  bool wait_for_removal() {
    if (!wait_for([&] { return *gone_; }, "a storage server cannot be removed") || !wait_for_moves())
      return false;
    for (auto& client : clients_) client->go_by(sites_->tables());
    return true;
  }

  void compare_copies() {
    if (!mapped() && !options().ensemble.moves) return;
    std::string why;
    bool equal = false;
    bool came = ensemble().loop().run_until(
        [&] {
          if (equal || checking_) return equal;
          checking_ = true;
          spawn([](ByteSimulation& self, bool& done, std::string& reason) -> Task<void> {
            // A request of the operator may have come late.
            if (self.options().ensemble.moves) co_await self.sites_->settle();
            reason = co_await self.difference();
            if (reason.empty() && self.options().ensemble.moves)
              reason = self.ensemble().left_at_coordinators(*self.sites_->tables());
            done = reason.empty();
            if (!done) co_await self.ensemble().loop().sleep(std::chrono::seconds(1));
            self.checking_ = false;
          }(*this, equal, why));
          return equal;
        },
        kLongest);
    if (!came) wrong(why);
  }

  // Of a file without a layout.
  std::uint32_t site_of(const routing::FileHandle& handle, std::size_t block) {
    return ensemble().tables().storage_site(handle.fileid, offset_of(block), handle.stripe_shift).value;
  }
  // Of two copies of a stripe, as their servers have them.
  Task<std::string> difference() {
    const routing::RoutingTables& tables = options().ensemble.moves ? *sites_->tables() : ensemble().tables();
    if (options().ensemble.moves) {
      if (std::string left = ensemble().small_files_left(tables, removed_); !left.empty()) co_return left;
    }
    std::vector<routing::HandleBytes> all{shared_->handle};
    for (const ByteFile& file : files_) all.push_back(file.handle);
    for (const routing::HandleBytes& bytes_of : all) {
      auto handle = ensemble().handles().open(bytes_of);
      for (std::size_t block = 0; block < kBlocks; ++block) {
        if (!routing::mirrored(*handle) && offset_of(block) < ensemble().config().volume.threshold) continue;
        std::uint64_t stripe = offset_of(block) >> handle->stripe_shift;
        wire::FileLayout layout;
        if (mapped()) {
          auto piece = co_await mover_->map(bytes_of, stripe);
          if (!piece) co_return "the map cannot be read";
          layout.piece = std::move(*piece);
        }
        auto copies = routing::copies_of_stripe(tables, layout, *handle, stripe).all;
        std::optional<std::string> first;
        for (const wire::ServerEntry* node : tables.servers(wire::Role::kStorage)) {
          bool has_it = std::find(copies.begin(), copies.end(), node->server) != copies.end();
          if (!has_it && !mapped() && !options().ensemble.moves) continue;
          auto bytes =
              co_await ensemble().object_bytes(node->server, handle->fileid, offset_of(block), kBlock);
          if (!bytes) co_return "a copy cannot be read";
          bytes->resize(kBlock, '\0');
          if (!has_it) {
            if (*bytes != std::string(kBlock, '\0'))
              co_return fmt::format("block {} of file {:#x} is left at {}, on site {}", block,
                                    handle->fileid.value, node->name, site_of(*handle, block));
            continue;
          }
          if (!first) first = *bytes;
          if (*first != *bytes) co_return fmt::format("copies of block {} differ", block);
        }
      }
    }
    co_return "";
  }

  Random random_;
  std::vector<std::unique_ptr<ByteClient>> clients_;
  std::unique_ptr<StripeMover> mover_;
  std::unique_ptr<SiteMover> sites_;
  std::vector<ByteFile> files_;
  std::optional<SharedFile> shared_;  // as soon as all files are made
  std::vector<FileId> removed_;
  std::shared_ptr<bool> gone_ = std::make_shared<bool>(false);  // the storage server that leaves
  // It, or moves it away. Proxies send a call to another server where one does not answer; without them
  // nobody does.
  const bool loses_ = ensemble().config().volume.copies > 1 &&
                      ensemble().has_proxies() && random_.chance(0.5);
  std::uint32_t last_number_ = 0;
  unsigned busy_ = 0;
  bool moving_ = false;
  bool checking_ = false;
};

}  // namespace

SimulationResult simulate_bytes(const SimulationOptions& options, Trace::Print print) {
  return ByteSimulation(options, std::move(print)).run();
}

}  // namespace slice::sim
