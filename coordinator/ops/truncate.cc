#include "coordinator/ops/truncate.h"

#include <algorithm>

namespace slice::coordinator {

using NfsStatus = nfs3::Status;

TruncateOperation::TruncateOperation(service::ServiceContext& context, FileGate& gate, Intentions& intentions,
                                     Participants& participants, service::FileLocks& locks,
                                     service::AuthorityClient& authority)
    : context_(context),
      gate_(gate),
      intentions_(intentions),
      participants_(participants),
      locks_(locks),
      authority_(authority),
      done_(context.metrics.counter("coordinator_truncates_total", "truncations done")) {}

Task<NfsStatus> TruncateOperation::run(routing::FileHandle handle, std::uint64_t size, Epoch epoch) {
  Key key{handle.fileid, epoch};
  auto [place, first] = running_.try_emplace(key);
  if (!first) {
    OneShot<NfsStatus> done;
    place->second.push_back(done);
    co_return co_await done;
  }
  NfsStatus status = co_await begin_and_cut(handle, size, epoch);
  finish(key, status);
  co_return status;
}

Task<NfsStatus> TruncateOperation::begin_and_cut(routing::FileHandle handle, std::uint64_t size,
                                                 Epoch epoch) {
  auto sequence = intentions_.begin({.operation = Operation::kTruncate,
                                     .handle = context_.handles.mint(handle),
                                     .size = size,
                                     .epoch = epoch});
  if (!sequence) co_return nfs3::status_of(sequence.error());
  co_await context_.crash.reach("truncate.begun");
  // Before any part: half a truncation that nobody remembers would leave bytes that come back later.
  if (auto durable = co_await intentions_.durable(*sequence); !durable) {
    intentions_.end(*sequence);
    co_return nfs3::status_of(durable.error());
  }
  co_await context_.crash.reach("truncate.durable");
  if (!co_await cut_everywhere(handle, size, epoch)) {
    intentions_.leave(*sequence);
    co_return NfsStatus::kJukebox;
  }
  co_await context_.crash.reach("truncate.parts");
  intentions_.end(*sequence);
  co_return NfsStatus::kOk;
}

Task<bool> TruncateOperation::cut_everywhere(routing::FileHandle handle, std::uint64_t size, Epoch epoch) {
  auto held = co_await locks_.lock(handle.fileid);
  std::vector<Task<bool>> tasks;
  const Participants::Chosen chosen = participants_.of(handle, true);
  for (std::uint32_t server : chosen.servers) {
    tasks.push_back([](TruncateOperation& self, std::uint32_t to, routing::FileHandle cut,
                       std::uint64_t to_size, Epoch at, Generation known) -> Task<bool> {
      const bool done = co_await self.participants_.truncate(to, cut, to_size, at, known);
      co_await self.context_.crash.reach("truncate.part");
      co_return done;
    }(*this, server, handle, size, epoch, chosen.known));
  }
  const std::vector<bool> done = co_await all(std::move(tasks));
  authority_.forget(handle.fileid);
  if (std::find(done.begin(), done.end(), false) != done.end()) co_return false;
  done_.add();
  co_return true;
}

Task<void> TruncateOperation::resume(storage::LogSequence sequence, const Intention& intention) {
  auto handle = context_.handles.open(intention.handle);
  if (!handle) {
    intentions_.end(sequence);
    co_return;
  }
  auto pass = gate_.enter(handle->fileid);
  Key key{handle->fileid, intention.epoch};
  running_.try_emplace(key);  // the directory server, asking again, waits for this one
  const bool done = co_await cut_everywhere(*handle, intention.size, intention.epoch);
  finish(key, done ? NfsStatus::kOk : NfsStatus::kJukebox);
  if (done) {
    intentions_.end(sequence);
  } else {
    intentions_.leave(sequence);
  }
}

void TruncateOperation::finish(Key key, NfsStatus status) {
  auto waiting = running_.extract(key);
  if (!waiting) return;
  for (const auto& each : waiting.mapped()) {
    context_.loop.post([each, status] { each.set(status); });
  }
}

}  // namespace slice::coordinator
