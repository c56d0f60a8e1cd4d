#include "service/backing/look_ahead.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "common/log.h"
#include "service/backing/node_calls.h"
#include "storage/logged_store.h"

namespace slice::service {
namespace {

constexpr Duration kAheadInterval = std::chrono::seconds(2);
constexpr Duration kAheadTimeout = std::chrono::seconds(2);  // of one call
constexpr std::uint64_t kAheadRate = 64 << 20;               // bytes a second
constexpr std::string_view kCheckpointSuffix = ".checkpoint";

bool stands_by(const LookAhead& seams) {
  return seams.set.standing() == BackingSet::Standing::kStandsBy;
}

Error read_only() {
  return Error{Errc::kDenied, "a backing set of another run's"};
}

// The files of a set as a member has them, for who does not own it: any of them may be gone or another the
// next moment.
class OthersDisk : public storage::Disk {
 public:
  OthersDisk(const LookAhead& seams, rpc::Endpoint member) : seams_(seams), member_(member) {}

  Task<Status> learn_files() {
    return list_node(seams_.channel, member_, {.owner = nobody(), .behind = "", .after = 0}, kAheadTimeout,
                     [this](NodePage page) {
                       for (const wire::BackingFile& file : page) sizes_[file.path] = file.size;
                     });
  }
  const std::map<std::string, std::uint64_t>& files() const { return sizes_; }

  Task<Result<std::unique_ptr<storage::File>>> open(std::string path, Mode /*mode*/) override {
    const auto found = sizes_.find(path);
    if (found == sizes_.end()) co_return fail(Errc::kNotFound, "{}", path);
    co_return std::unique_ptr<storage::File>(std::make_unique<OthersFile>(*this, path, found->second));
  }
  Task<Status> remove(std::string /*path*/) override { co_return fail(read_only()); }
  Task<Status> rename(std::string /*from*/, std::string /*to*/) override { co_return fail(read_only()); }
  Task<Result<std::vector<std::string>>> list(std::string /*folder*/) override {
    co_return fail(read_only());
  }
  Task<Status> sync_folder(std::string /*folder*/) override { co_return fail(read_only()); }
  Result<storage::Space> space() const override { return storage::Space{}; }

 private:
  class OthersFile : public storage::File {
   public:
    OthersFile(OthersDisk& disk, std::string path, std::uint64_t size)
        : disk_(disk), path_(std::move(path)), size_(size) {}
    Task<Result<std::size_t>> read(std::uint64_t offset, ByteSpan into) override {
      return disk_.read(path_, offset, into);
    }
    Task<Status> write(std::uint64_t /*offset*/, ByteView /*bytes*/) override { co_return fail(read_only()); }
    Task<Status> sync() override { co_return fail(read_only()); }
    Task<Status> truncate(std::uint64_t /*size*/) override { co_return fail(read_only()); }
    Task<Status> punch(std::uint64_t /*offset*/, std::uint64_t /*length*/) override {
      co_return fail(read_only());
    }
    std::uint64_t size() const override { return size_; }
    Result<std::uint64_t> allocated() const override { return size_; }
    Result<std::vector<storage::Range>> data_ranges(std::uint64_t /*offset*/,
                                                    std::size_t /*limit*/) const override {
      return fail(read_only());
    }

   private:
    OthersDisk& disk_;
    const std::string path_;
    const std::uint64_t size_;
  };

  wire::BackingOwner nobody() const { return {.server = seams_.server, .epoch = {}, .instance = 0}; }
  Task<Result<std::size_t>> read(std::string path, std::uint64_t offset, ByteSpan into) {
    if (seams_.over() || !stands_by(seams_)) co_return fail(Errc::kUnavailable, "it stands by no more");
    auto got = co_await read_at_node(
        seams_.channel, member_, {.owner = nobody(), .path = std::move(path), .offset = offset, .after = 0},
        kAheadTimeout, into);
    if (!got) co_return fail(std::move(got).error());
    if (got->status != wire::BackingStatus::kOk)
      co_return fail(Errc::kUnavailable, "{}", wire::backing_status_name(got->status));
    co_await seams_.loop.sleep(std::chrono::nanoseconds(got->bytes * 1'000'000'000 / kAheadRate));
    co_return got->bytes;
  }

  const LookAhead& seams_;
  const rpc::Endpoint member_;
  std::map<std::string, std::uint64_t> sizes_;  // by path
};

// Of storage servers, as the manager's tables have had them.
using Endpoints = std::map<std::uint32_t, rpc::Endpoint>;

// Where the set has a copy; none: it is not known, or there is none. Who was a member may be none any more,
// and goes on answering, so the manager is asked each time; for its tables, which are large, when need be.
Task<std::optional<rpc::Endpoint>> find_member(const LookAhead& seams, Endpoints& endpoints) {
  auto sets = co_await seams.managers.call<wire::BackingSetsResult>(
      seams.channel, wire::ManagerProcedure::kBackingSets, NoArguments{}, kAheadTimeout);
  if (!sets) co_return std::nullopt;
  const auto set = std::find_if(sets->sets.begin(), sets->sets.end(),
                                [&](const wire::BackingSet& each) { return each.server == seams.server; });
  if (set == sets->sets.end()) co_return std::nullopt;
  const std::uint32_t member = set->members.front();
  if (!endpoints.contains(member)) {
    auto tables = co_await seams.managers.call<wire::Tables>(
        seams.channel, wire::ManagerProcedure::kGetTables, NoArguments{}, kAheadTimeout);
    if (!tables) co_return std::nullopt;
    for (const wire::ServerEntry& entry : tables->servers) endpoints[entry.server] = entry.endpoint;
  }
  const auto found = endpoints.find(member);
  if (found == endpoints.end()) co_return std::nullopt;
  co_return found->second;
}

Task<Status> look_once(const LookAhead& seams, Endpoints& endpoints, Counter& fetched) {
  const auto member = co_await find_member(seams, endpoints);
  if (!member) co_return fail(Errc::kNotFound, "no member of its backing set is known");
  OthersDisk others(seams, *member);
  SLICE_CO_RETURN_IF_ERROR(co_await others.learn_files());
  for (const auto& [path, size] : others.files()) {
    if (!path.ends_with(kCheckpointSuffix)) continue;
    auto bytes = co_await storage::LoggedStore::look_ahead(
        others, seams.local, path.substr(0, path.size() - kCheckpointSuffix.size()), seams.reserve);
    if (!bytes) co_return fail(std::move(bytes).error());
    if (*bytes == 0) continue;
    fetched.add(*bytes);
    log_info("it stands by for {}, and has fetched {} bytes of tables ahead", seams.name, *bytes);
  }
  co_return Status{};
}

}  // namespace

Task<void> look_ahead(LookAhead seams) {
  Counter& fetched = seams.metrics.counter("backing_ahead_bytes_total",
                                           "bytes of tables that were fetched ahead, while the run stood by");
  std::string said;
  Endpoints endpoints;
  while (!seams.over() && seams.set.standing() != BackingSet::Standing::kChosen) {
    if (stands_by(seams)) {
      Status looked = co_await look_once(seams, endpoints, fetched);
      if (!looked) endpoints.clear();
      const std::string why = looked ? "" : looked.error().message;
      if (said != why && !why.empty() && stands_by(seams))
        log_info("it stands by for {}, and fetches nothing ahead: {}", seams.name, why);
      said = why;
    }
    co_await seams.loop.sleep(kAheadInterval);
  }
}

}  // namespace slice::service
