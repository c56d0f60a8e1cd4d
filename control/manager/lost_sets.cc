#include "control/manager/lost_sets.h"

#include <algorithm>

#include "common/log.h"
#include "service/backing/node_calls.h"
#include "storage/durable_file.h"

namespace slice::manager {
namespace {

constexpr Duration kAskTimeout = std::chrono::seconds(1);
constexpr std::size_t kMostBytes = 256;  // of the file
// Epochs that owners may have been given since the newest file was written: each start gives one.
constexpr std::uint64_t kGivenSince = 1 << 20;
// Where there is no file: sets that were made before there was one.
constexpr std::uint64_t kGivenBefore = 1ull << 40;

Task<SetOnNode> ask_node(rpc::Channel& channel, wire::ServerEntry node, std::uint32_t server) {
  SetOnNode found{.storage = node.server, .answered = false, .file = {}};
  const wire::BackingReadArgs args{.owner = {.server = server, .epoch = {}, .instance = 0},
                                   .path = std::string(wire::kBackingMembersFile)};
  Buffer stored(kMostBytes);
  auto got = co_await service::read_at_node(channel, node.endpoint, args, kAskTimeout, stored.span());
  if (!got) co_return found;
  found.answered = true;
  if (got->status != wire::BackingStatus::kOk) co_return found;
  stored.resize(got->bytes);
  auto contents = storage::without_checksum(std::move(stored), wire::kBackingMembersFile);
  wire::BackingMembersFile file;
  if (contents && decode(contents->view(), file) && file.set.server == server) {
    found.file = std::move(file);
  } else {
    log_warning("{}: its file of the members of server {}'s backing set is damaged", node.name, server);
  }
  co_return found;
}

auto version(const SetOnNode& node) {
  return std::pair(node.file->set.epoch, node.file->set.change);
}

}  // namespace

BackingEpoch epoch_behind(const std::vector<SetOnNode>& nodes) {
  std::uint64_t last = kGivenBefore;
  bool any = false;
  for (const SetOnNode& each : nodes) {
    if (!each.file) continue;
    last = any ? std::max(last, each.file->set.epoch.value) : each.file->set.epoch.value;
    any = true;
  }
  return BackingEpoch{last + kGivenSince};
}

Result<wire::BackingSet> find_set_in(const std::vector<SetOnNode>& nodes, const wire::Tables& tables) {
  const SetOnNode* newest = nullptr;
  std::string silent;
  for (const SetOnNode& each : nodes) {
    if (!each.answered) silent += (silent.empty() ? "" : ", ") + tables.servers.at(each.storage).name;
    if (each.file && (newest == nullptr || version(each) > version(*newest))) newest = &each;
  }
  if (newest == nullptr && silent.empty())
    return fail(Errc::kNotFound, "no storage server has anything of it");
  if (newest == nullptr)
    return fail(Errc::kUnavailable, "who has it is not known: {} does not answer", silent);
  wire::BackingSet set = newest->file->set;
  std::string missing;
  for (std::uint32_t member : set.members) {
    const bool has = std::any_of(nodes.begin(), nodes.end(), [member](const SetOnNode& each) {
      return each.storage == member && each.file.has_value();
    });
    if (has) continue;
    const bool known = member < tables.servers.size();
    missing += (missing.empty() ? "" : ", ") +
               (known ? tables.servers[member].name : fmt::format("server {}", member));
  }
  if (!missing.empty())
    return fail(Errc::kUnavailable,
                "{} is a member of it, and does not answer or has nothing of it: it may be the only one that "
                "has all (slicectl backing adopt)",
                missing);
  set.epoch = epoch_behind(nodes);
  set.change = 0;
  return set;
}

Task<std::vector<SetOnNode>> ask_for_set(rpc::Channel& channel, wire::Tables tables, std::uint32_t server) {
  std::vector<Task<SetOnNode>> asking;
  for (const wire::ServerEntry& each : tables.servers) {
    if (each.role == wire::Role::kStorage && each.lost.value == 0)
      asking.push_back(ask_node(channel, each, server));
  }
  co_return co_await all(std::move(asking));
}

}  // namespace slice::manager
