#include "service/membership.h"

#include <filesystem>
#include <optional>
#include <utility>

#include "common/log.h"
#include "rpc/client.h"
#include "rpc/epoll_loop.h"
#include "service/log_backoff.h"
#include "service/manager_session.h"
#include "service/managers.h"
#include "storage/posix_disk.h"
#include "wire/manager.h"

namespace slice::service {
namespace {

constexpr Duration kMembersTimeout = std::chrono::seconds(1);
constexpr Duration kPause = std::chrono::milliseconds(500);

// Nothing where this server has no tables of a run before.
std::optional<wire::Tables> kept_tables(const EnsembleConfig& config, const std::string& name) {
  const ServerConfig* known = config.find(name);
  const std::string folder = known != nullptr ? known->data : fmt::format("{}/{}", config.data_folder, name);
  std::error_code error;
  if (folder.empty() || !std::filesystem::exists(folder, error)) return std::nullopt;
  rpc::EpollLoop loop;
  auto disk = storage::PosixDisk::open(loop, folder, {.threads = 1, .io_uring = false});
  if (!disk) return std::nullopt;  // who claims it says why
  return rpc::run_to_end(loop, read_kept_tables(**disk));
}

class Asking {
 public:
  explicit Asking(const EnsembleConfig& config)
      : managers_(config),
        keys_(config),
        channel_(loop_, {.keys = &keys_, .sender = kNobody, .generation = nullptr}) {}
  Status use_tls(const TlsConfig& tls) { return keys_.use_tls(tls); }
  Result<std::vector<Member>> ask() {
    auto members = rpc::run_to_end(
        loop_, managers_.call<wire::MembersResult>(channel_, wire::ManagerProcedure::kMembers, NoArguments{},
                                                   kMembersTimeout, Managers::kRefusedPatience));
    if (!members) return fail(members.error().code, "{}", why_the_manager_refuses(members.error()));
    std::vector<wire::ServerEntry> entries;
    for (wire::Member& member : members->members) entries.push_back(std::move(member.entry));
    return members_of(entries);
  }
  void pause() { rpc::run_to_end(loop_, wait()); }
  MonoTime now() const { return loop_.now(); }
  std::string managers() const { return managers_.text(); }

 private:
  Task<Status> wait() {
    co_await loop_.sleep(kPause);
    co_return Status{};
  }
  Managers managers_;
  rpc::EpollLoop loop_;
  rpc::KeyRing keys_;
  rpc::SocketChannel channel_;
};

// `listed`: the file's servers will do where the manager does not answer.
Result<EnsembleConfig> ask_manager(EnsembleConfig config, const std::vector<std::string>& names,
                                   bool listed) {
  Asking asking(config);
  SLICE_RETURN_IF_ERROR(asking.use_tls(config.network.tls.of(names.front())));
  LogBackoff log;
  while (true) {
    auto members = asking.ask();
    if (members) return with_members(std::move(config), *members);
    if (listed) return config;
    if (log.allow(asking.now(), members.error().message)) {
      log_warning("waiting for the manager at {}, which knows whether these servers are members: {}",
                  asking.managers(), members.error().message);
    }
    asking.pause();
  }
}

}  // namespace

std::vector<Member> members_of(const std::vector<wire::ServerEntry>& entries) {
  std::vector<Member> members;
  for (const wire::ServerEntry& entry : entries) {
    members.push_back(
        {entry.name, static_cast<ServerRole>(entry.role), entry.endpoint.address, entry.endpoint.port});
  }
  return members;
}

Result<EnsembleConfig> learn_members(EnsembleConfig config, const std::vector<std::string>& names) {
  std::optional<wire::Tables> newest;
  bool listed = true, has_manager = false;
  for (const std::string& name : names) {
    const ServerConfig* known = config.find(name);
    listed = listed && known != nullptr;
    has_manager = has_manager || (known != nullptr && known->role == ServerRole::kManager);
    auto kept = kept_tables(config, name);
    if (kept && (!newest || kept->generation > newest->generation)) newest = std::move(kept);
  }
  if (newest) return with_members(std::move(config), members_of(newest->servers));
  if (has_manager && !config.managers.shared()) return config;  // there is nobody else to ask
  return ask_manager(std::move(config), names, listed);
}

Result<EnsembleConfig> wait_for_members(EnsembleConfig config, const std::vector<std::string>& names) {
  return ask_manager(std::move(config), names, false);
}

Result<EnsembleConfig> learn_members(EnsembleConfig config, const TlsConfig& tls) {
  Asking asking(config);
  SLICE_RETURN_IF_ERROR(asking.use_tls(tls));
  auto members = asking.ask();
  return members ? with_members(std::move(config), *members) : std::move(config);
}

}  // namespace slice::service
