#include "coordinator/ops/remove.h"

#include <algorithm>
#include <utility>

namespace slice::coordinator {

using NfsStatus = nfs3::Status;

RemoveOperation::RemoveOperation(service::ServiceContext& context, FileGate& gate, Intentions& intentions,
                                 Participants& participants, Layouts& layouts,
                                 service::AuthorityClient& authority)
    : context_(context),
      gate_(gate),
      intentions_(intentions),
      participants_(participants),
      layouts_(layouts),
      authority_(authority),
      done_(context.metrics.counter("coordinator_removes_total", "removals done")),
      owed_gauge_(context.metrics.gauge("coordinator_removes_owed", "removals accepted and not yet done")) {}

Task<NfsStatus> RemoveOperation::run(routing::FileHandle handle) {
  if (auto found = owed_.find(handle.fileid); found != owed_.end()) {
    if (found->second.durable) co_return NfsStatus::kOk;
    OneShot<NfsStatus> done;
    found->second.waiters.push_back(done);
    co_return co_await done;
  }
  if (owed_.size() >= kMaxOwed) co_return NfsStatus::kJukebox;
  owed_.try_emplace(handle.fileid);
  owed_gauge_.set(owed_.size());
  NfsStatus status = co_await begin(handle);
  Owed& owed = owed_[handle.fileid];
  for (const auto& waiter : std::exchange(owed.waiters, {})) {
    context_.loop.post([waiter, status] { waiter.set(status); });
  }
  owed.durable = status == NfsStatus::kOk;
  if (!owed.durable) owed_.erase(handle.fileid);
  owed_gauge_.set(owed_.size());
  work();
  co_return status;
}

Task<NfsStatus> RemoveOperation::begin(routing::FileHandle handle) {
  auto sequence =
      intentions_.begin({.operation = Operation::kRemove, .handle = context_.handles.mint(handle)});
  if (!sequence) co_return nfs3::status_of(sequence.error());
  co_await context_.crash.reach("remove.begun");
  if (auto durable = co_await intentions_.durable(*sequence); !durable) {
    intentions_.end(*sequence);
    co_return nfs3::status_of(durable.error());
  }
  co_await context_.crash.reach("remove.durable");
  queue_.push_back({handle, *sequence});
  co_return NfsStatus::kOk;
}

void RemoveOperation::resume(storage::LogSequence sequence, const Intention& intention) {
  auto handle = context_.handles.open(intention.handle);
  if (!handle) {
    intentions_.end(sequence);
    return;
  }
  owed_[handle->fileid].durable = true;
  owed_gauge_.set(owed_.size());
  queue_.push_back({*handle, sequence});
  work();
}

void RemoveOperation::leave(const Layouts::Which& which) {
  std::erase_if(queue_, [&](const Removal& each) {
    if (!which(each.handle.fileid)) return false;
    leave(each);
    return true;
  });
}

void RemoveOperation::leave(const Removal& removal) {
  owed_.erase(removal.handle.fileid);
  owed_gauge_.set(owed_.size());
  intentions_.leave(removal.sequence);
}

void RemoveOperation::work() {
  auto may_begin = [this](const Removal& each) { return gate_.open(each.handle.fileid); };
  while (active_ < kAtOnce) {
    auto found = std::find_if(queue_.begin(), queue_.end(), may_begin);
    if (found == queue_.end()) return;
    ++active_;
    Removal next = *found;
    queue_.erase(found);
    context_.loop.post([this, next] { spawn(remove_everywhere(next)); });
  }
}

Task<void> RemoveOperation::remove_everywhere(Removal removal) {
  bool slow = false;
  const TimerId patience = context_.loop.after(kPatience, [this, &slow] {
    if (slow_ == kMostSlow) return;
    slow = true;
    ++slow_;
    --active_;
    work();
  });
  if (co_await remove_parts(removal)) {
    done_.add();
  } else {
    leave(removal);
  }
  context_.loop.cancel(patience);
  --(slow ? slow_ : active_);
  work();
}

Task<bool> RemoveOperation::remove_parts(Removal removal) {
  const FileId file = removal.handle.fileid;
  if (!gate_.open(file)) co_return false;
  auto pass = gate_.enter(file);
  std::vector<Task<bool>> tasks;
  const Participants::Chosen chosen = participants_.of(removal.handle, true);
  for (std::uint32_t server : chosen.servers) {
    tasks.push_back([](RemoveOperation& self, std::uint32_t to, routing::FileHandle handle,
                       Generation known) -> Task<bool> {
      const bool done = co_await self.participants_.remove(to, handle, known);
      co_await self.context_.crash.reach("remove.part");
      co_return done;
    }(*this, server, removal.handle, chosen.known));
  }
  const std::vector<bool> done = co_await all(std::move(tasks));
  if (std::find(done.begin(), done.end(), false) != done.end()) co_return false;
  co_await context_.crash.reach("remove.parts");
  // Where its map cannot be taken away, the removal is owed until the next start.
  auto forgotten = co_await layouts_.forget(file);
  authority_.forget(file);
  if (forgotten) intentions_.end(removal.sequence);
  owed_.erase(file);
  owed_gauge_.set(owed_.size());
  co_return true;
}

}  // namespace slice::coordinator
