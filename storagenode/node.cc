#include "storagenode/node.h"

#include <algorithm>

#include "common/log.h"
#include "service/managers.h"
#include "wire/manager.h"

namespace slice::storagenode {
namespace {

constexpr std::size_t kMaxTold = 65536;
constexpr int kRenewTries = 20;
constexpr Duration kRenewPause = std::chrono::milliseconds(500);

}  // namespace

Node::Node(service::ServiceContext& its_context, ObjectStore::Options options,
           std::function<service::LateWrites&()> late_writes)
    : context(its_context),
      authority(its_context,
                [this](const routing::FileHandle& handle) { return store.stored(object_of(handle)); }),
      store(
          its_context.loop, its_context.disk, its_context.metrics, options,
          [this] { return renew_verifier(); }, its_context.crash),
      mirrors(its_context, store),
      sites(its_context, store, authority, std::move(late_writes)) {}

nfs3::Time Node::now() const {
  return nfs3::time_of(context.loop.wall());
}

std::uint32_t Node::owned(const routing::FileHandle& handle, std::uint64_t offset,
                          std::uint32_t count) const {
  const auto& tables = *context.tables.get();
  std::uint64_t unit = std::uint64_t{1} << handle.stripe_shift, left = count;
  // The caller has been found to own the first stripe, or to have a copy of it.
  std::uint64_t length = std::min(left, unit - offset % unit);
  if (routing::has_layout(handle) || !sites.settled(handle, offset))
    return static_cast<std::uint32_t>(length);
  while (length < left) {
    SiteId site = tables.storage_site(handle.fileid, offset + length, handle.stripe_shift);
    if (!tables.owns(context.self.index, wire::Role::kStorage, site)) break;
    if (!sites.settled(handle, offset + length)) break;
    length = std::min(left, length + unit);
  }
  return static_cast<std::uint32_t>(length);
}

Extent clamp_transfer(const Node& node, const routing::FileHandle& handle, std::uint64_t offset,
                      std::uint32_t count) {
  if (offset >= kMaxObjectSize) return {offset, 0};
  std::uint64_t most = std::min<std::uint64_t>(kMaxObjectSize - offset, nfs3::kMaxTransfer);
  count = static_cast<std::uint32_t>(std::min<std::uint64_t>(count, most));
  return {offset, node.owned(handle, offset, count)};
}

Task<Status> Node::told_durable(routing::FileHandle handle, Epoch epoch, std::uint64_t end,
                                nfs3::Time mtime) {
  auto found = told_.find(handle.fileid);
  if (found != told_.end() && found->second.epoch == epoch && end <= found->second.end) {
    authority.note(handle, epoch, end, mtime);
    co_return Status{};
  }
  SLICE_CO_RETURN_IF_ERROR(co_await authority.report(handle, epoch, end, mtime));
  if (told_.size() >= kMaxTold) told_.clear();  // only means that some reports are made again
  Told& told = told_[handle.fileid];
  if (told.epoch < epoch) told = {epoch, end};
  if (told.epoch == epoch) told.end = std::max(told.end, end);
  co_return Status{};
}

void Node::forget(FileId file) {
  told_.erase(file);
  authority.forget(file);
}

// Unstable bytes were lost by a failed fsync: with a new verifier their writers notice and write them again.
Task<Status> Node::renew_verifier() {
  if (context.config.first(ServerRole::kManager) == nullptr)
    co_return fail(Errc::kUnavailable, "the configuration has no manager");
  service::Managers managers(context.config);
  managers.learn(context.tables.get()->wire());
  Status status;
  for (int i = 0; i < kRenewTries; ++i) {
    if (i > 0) co_await context.loop.sleep(kRenewPause);
    auto drawn = co_await managers.call<wire::DrawVerifierResult>(
        context.channel, wire::ManagerProcedure::kDrawVerifier, wire::DrawVerifierArgs{context.self.index});
    if (drawn) {
      context.verifier.see(drawn->verifier);
      log_warning("drew a new write verifier after a failed fsync verifier={}", drawn->verifier.value);
      co_return Status{};
    }
    status = fail(drawn.error(), "drawing a new verifier");
  }
  co_return status;
}

}  // namespace slice::storagenode
