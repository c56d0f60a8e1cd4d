#include "storagenode/mirrors.h"

#include <algorithm>

#include "service/internal_call.h"
#include "service/relay.h"
#include "storagenode/zeros.h"
#include "wire/coordinator.h"

namespace slice::storagenode {

using NfsStatus = nfs3::Status;

namespace {

using routing::has;

constexpr Duration kForwardTimeout = std::chrono::seconds(5);  // a busy link is no dead server
constexpr Duration kMissedTimeout = std::chrono::seconds(8);   // a session has to end meanwhile
constexpr Duration kPatience = std::chrono::seconds(20);
constexpr Duration kFirstPause = std::chrono::milliseconds(5), kLongestPause = std::chrono::milliseconds(200);
constexpr Duration kIdlePause = std::chrono::milliseconds(5), kIdlePatience = std::chrono::seconds(1);

}  // namespace

Error another_has_opened(const routing::FileHandle& handle) {
  return {Errc::kStale, fmt::format("file {:#x}: opened by another since", handle.fileid.value)};
}

class Mirrors::UnderWay {
 public:
  // `number`: the layout's version, of one of under_way_; the epoch, of one of opened_.
  UnderWay(Loop& loop, std::map<FileId, Going>& among, FileId file, std::uint64_t number)
      : loop_(loop), among_(among), file_(file), number_(number) {
    among_[file_].numbers.insert(number_);
  }
  ~UnderWay() {
    Going& going = among_[file_];
    going.numbers.erase(going.numbers.find(number_));
    for (const auto& waiter : std::exchange(going.waiting, {})) {
      loop_.post([waiter] { waiter.set(true); });
    }
    if (going.numbers.empty()) among_.erase(file_);
  }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;

 private:
  Loop& loop_;
  std::map<FileId, Going>& among_;
  FileId file_;
  std::uint64_t number_;
};

Mirrors::Mirrors(service::ServiceContext& context, ObjectStore& store)
    : context_(context),
      store_(store),
      layouts_(context),
      ordered_(context.loop),
      suspects_(context),
      forwarded_(context.metrics.counter("mirror_writes_forwarded_total",
                                         "writes forwarded to other copies of mirrored files")),
      passed_on_(context.metrics.counter("mirror_requests_passed_on_total",
                                         "requests given to the copy that they are for")),
      missed_(context.metrics.counter("mirror_copies_missed_total",
                                      "writes that a copy did not get, and the coordinator was told of")),
      copied_(context.metrics.counter("mirror_stripes_copied_total",
                                      "stripes copied to others that missed them")),
      too_early_(context.metrics.counter("mirror_writes_sent_too_early_total",
                                         "writes that were refused, since another copy may have ordered "
                                         "writes since they were sent; proxies send them again")) {}

rpc::Endpoint Mirrors::endpoint_of(std::uint32_t server) const {
  return context_.tables.get()->server(server)->endpoint;
}

// ---- leaving ----

// Most is made durable while all is served as always: what is asked of it after its sessions have ended is
// asked again elsewhere when its connections close, and waits until then.
Task<void> Mirrors::leave() {
  (void)co_await store_.flush();
  co_await layouts_.end(false);
  const bool idle = co_await until_idle();
  const bool durable = co_await store_.flush();
  suspects_.stop();
  std::vector<Task<bool>> telling = tell_others();
  if (idle && durable) telling.push_back(layouts_.end(true));
  co_await all(std::move(telling));
}

// True: nothing goes by a layout any more.
Task<bool> Mirrors::until_idle() {
  const MonoTime deadline = context_.loop.now() + kIdlePatience;
  while (!under_way_.empty() && context_.loop.now() < deadline) co_await context_.loop.sleep(kIdlePause);
  co_return under_way_.empty();
}

std::vector<Task<bool>> Mirrors::tell_others() {
  const auto tables = context_.tables.get();
  std::vector<Task<bool>> telling;
  for (const wire::ServerEntry* node : tables->servers(wire::Role::kStorage)) {
    const bool other = node->server != context_.self.index && !tables->gone(node->server);
    if (other && !suspects_.has(node->server)) telling.push_back(tell(node->endpoint));
  }
  return telling;
}

Task<bool> Mirrors::tell(rpc::Endpoint node) {
  const auto result = co_await service::internal_call<wire::ObjectStatusResult>(
      context_.channel, node, wire::kObjectProgram, wire::ObjectProcedure::kLeaving,
      wire::LeavingArgs{context_.self.index}, LayoutCache::kEndPatience);
  co_return result.has_value();
}

// ---- requests of clients ----

rpc::LayoutStamp Mirrors::sent(const service::NfsRequest& request) const {
  return request.call.layout.version != 0 ? request.call.layout : layouts_.stamp(request.handle);
}

Task<Mirrors::Passed> Mirrors::pass_on(const service::NfsRequest& request, std::uint64_t offset,
                                       std::optional<rpc::LayoutStamp> write, bool not_here,
                                       rpc::XdrWriter& results) {
  const routing::FileHandle& handle = request.handle;
  std::uint64_t stripe = offset >> handle.stripe_shift;
  MonoTime deadline = context_.loop.now() + kPatience;
  std::vector<std::uint32_t> silent;
  bool asked = false;
  while (context_.loop.now() < deadline) {
    auto layout = co_await layouts_.get(handle, stripe, write.has_value());
    if (!layout && layouts_.ended()) co_return Passed{service::NfsAnswer::drop()};
    if (!layout) co_return Passed{service::NfsAnswer(std::move(layout.error()))};
    auto copies = routing::copies_of_stripe(*context_.tables.get(), *layout, handle, stripe);
    bool here = has(copies.whole, context_.self.index) && !not_here;
    if (here && (!write || copies.whole.front() == context_.self.index))
      co_return Passed{std::nullopt, layout->version};
    auto to = std::find_if(copies.whole.begin(), copies.whole.end(), [&](std::uint32_t copy) {
      return copy != context_.self.index && (write || !has(silent, copy));
    });
    if (to == copies.whole.end() || request.call.relays >= service::Relay::kMaxRelays) break;
    if (!suspects_.has(*to)) {
      passed_on_.add();
      asked = true;
      request.note_passed_on();
      rpc::Request passed = service::forwarded(request.call, endpoint_of(*to));
      passed.timeout = kForwardTimeout;
      passed.refused_patience = Suspects::kRefused;
      // So that it is not done however late it comes there, also by one that has started since.
      if (write) passed.on_behalf.layout = {write->coordinator, std::max<std::uint64_t>(write->version, 1)};
      auto reply = co_await suspects_.unless_silent(*to, context_.channel.call(std::move(passed)));
      if (reply && reply->results().size() >= 4) {
        co_return Passed{service::NfsAnswer::anothers(request.call, reply->results(), results)};
      }
      suspects_.silent(*to);
    }
    silent.push_back(*to);
    if (write && !co_await note_missed(handle, *to, stripe)) break;
  }
  // A write that a silent server may still carry out: without an answer the client repeats the same call,
  // which is known again.
  if (write && asked) co_return Passed{service::NfsAnswer::drop()};
  co_return Passed{service::NfsAnswer(NfsStatus::kJukebox)};
}

Task<bool> Mirrors::note_missed(const routing::FileHandle& handle, std::uint32_t server,
                                std::uint64_t stripe) {
  missed_.add();
  const auto& tables = *context_.tables.get();
  routing::HandleBytes bytes = context_.handles.mint(handle);
  rpc::Endpoint coordinator =
      tables.server_of(wire::Role::kCoordinator, tables.coordinator_site(handle.fileid)).endpoint;
  auto result = co_await service::internal_call<wire::CoordinatorResult>(
      context_.channel, coordinator, wire::kCoordinatorProgram, wire::CoordinatorProcedure::kMissed,
      wire::MissedArgs{bytes, server, {stripe, stripe + 1}}, kMissedTimeout);
  co_await context_.crash.reach("mirror.noted");
  bool noted = result && result->status == NfsStatus::kOk;
  if (log_.allow()) {
    log_warning("server {} misses stripe {} of file {:#x}{}", server, stripe, handle.fileid.value,
                noted ? "" : ", which the coordinator has not noted");
  }
  co_return noted;
}

Task<void> Mirrors::lose(routing::FileHandle handle, std::uint64_t stripe) {
  co_await note_missed(handle, context_.self.index, stripe);
}

// ---- writing ----

Task<Result<Mirrors::Written>> Mirrors::write(routing::FileHandle handle, rpc::LayoutStamp sent,
                                              std::uint64_t offset, ByteView data,
                                              ObjectStore::WriteOptions options) {
  std::optional<UnderWay> opened;
  if (const auto epoch = routing::epoch_of_opener(handle))
    opened.emplace(context_.loop, opened_, handle.fileid, epoch->value);
  StripeLocks::Of locks(ordered_, handle.fileid);
  std::uint64_t stripe = offset >> handle.stripe_shift;
  auto held = co_await locks.acquire(stripe);
  MonoTime deadline = context_.loop.now() + kPatience;
  for (unsigned tries = 0; context_.loop.now() < deadline; ++tries) {
    Round round = co_await write_round(handle, sent, offset, data, options);
    if (!round.again) co_return std::move(round.written);
    // Another opens the device meanwhile, who waits for this write (until_written()): what some copies have
    // all are to have.
    if (round.some_have_it) handle = routing::as_files(handle);
    co_await context_.loop.sleep(
        std::min<Duration>(kFirstPause * (1u << std::min(tries, 6u)), kLongestPause));
  }
  co_return fail(Errc::kUnavailable, "a write of a mirrored file found no layout that lasts");
}

Task<Mirrors::Round> Mirrors::write_round(const routing::FileHandle& handle, rpc::LayoutStamp sent,
                                          std::uint64_t offset, ByteView data,
                                          ObjectStore::WriteOptions options) {
  std::uint64_t stripe = offset >> handle.stripe_shift;
  auto layout = co_await layouts_.get(handle, stripe, true);
  if (!layout) co_return Round{.written = fail(std::move(layout.error()))};
  auto copies = routing::copies_of_stripe(*context_.tables.get(), *layout, handle, stripe);
  if (copies.whole.empty() || copies.whole.front() != context_.self.index) {
    co_return Round{.written = fail(Errc::kMisdirected, "another copy orders the writes of this stripe")};
  }
  switch (layouts_.orders(sent, handle, *layout, copies, stripe)) {
    case LayoutCache::Orders::kSinceBefore:
      break;
    case LayoutCache::Orders::kNotYet:
      layouts_.ask_again(handle.fileid);
      co_return Round{.again = true};
    case LayoutCache::Orders::kSinceLater:
      too_early_.add();
      co_return Round{.written = Written{.sent_too_early = true}};
  }
  std::optional<UnderWay> under_way(std::in_place, context_.loop, under_way_, handle.fileid, layout->version);
  auto epoch = co_await store_.epoch(object_of(handle));
  if (!epoch) co_return Round{.written = fail(std::move(epoch.error()))};
  options.epoch = epoch->value_or(options.epoch);
  if (const auto opened = routing::epoch_of_opener(handle)) {
    if (options.epoch > *opened) co_return Round{.written = fail(another_has_opened(handle))};
    options.epoch = *opened;
  }
  options.same_epoch = true;
  Put put{handle, layout->version, numbers_.next(context_.loop.wall()), offset, data, options};
  Verifier verifier = context_.verifier.largest();
  co_await context_.crash.reach("mirror.ordered");
  std::vector<Task<Outcome>> tasks;
  for (std::uint32_t server : copies.written) {
    tasks.push_back(server == context_.self.index ? put_here(put) : put_there(put, server));
  }
  auto outcomes = co_await all(std::move(tasks));
  under_way.reset();
  co_await context_.crash.reach("mirror.written");

  auto count = [&](Took took) {
    return std::count_if(outcomes.begin(), outcomes.end(),
                         [&](const Outcome& each) { return each.took == took; });
  };
  if (count(Took::kOldLayout) > 0) layouts_.drop(handle.fileid, layout->version + 1);
  if (count(Took::kOldLayout) + count(Took::kOtherEpoch) > 0)
    co_return Round{.again = true, .some_have_it = count(Took::kDone) > 0};
  if (count(Took::kRemoved) > 0) co_return Round{.written = fail(Errc::kStale, "the file was removed")};
  if (count(Took::kDone) == 0) co_return Round{.written = fail(std::move(*outcomes.front().error))};
  for (const Outcome& each : outcomes) {
    if (each.took != Took::kFailed) continue;
    if (co_await note_missed(handle, each.server, stripe)) continue;
    co_return Round{.written = fail(Errc::kUnavailable, "a copy that missed a write could not be noted")};
  }
  // Others may be among the copies by now: then these get it as well.
  if (!layouts_.still(handle, stripe, layout->version)) co_return Round{.again = true, .some_have_it = true};
  auto here = std::find_if(outcomes.begin(), outcomes.end(),
                           [&](const Outcome& each) { return each.server == context_.self.index; });
  co_return Round{.written = Written{.here = here->written, .verifier = verifier}};
}

Task<Mirrors::Outcome> Mirrors::put_here(Put put) {
  Outcome outcome{.server = context_.self.index};
  auto written = co_await store_.write(object_of(put.handle), put.offset, put.data, put.options);
  if (!written) {
    if (written.error().code == Errc::kStale) outcome.took = Took::kRemoved;
    outcome.error = std::move(written.error());
  } else {
    outcome.written = *written;
    outcome.took = written->done ? Took::kDone : Took::kOtherEpoch;
  }
  co_return outcome;
}

Task<Result<wire::ForwardResult>> Mirrors::call_forward(const Put& put, std::uint32_t server) {
  const routing::HandleBytes bytes = context_.handles.mint(put.handle);
  const bool hole = put.options.hole;
  const wire::ForwardArgs args{.handle = bytes,
                               .version = put.version,
                               .number = put.number,
                               .epoch = put.options.epoch,
                               .offset = put.offset,
                               .mtime = put.options.mtime,
                               .sync = put.options.sync,
                               .data = hole ? ByteView() : put.data,
                               .hole = hole ? static_cast<std::uint32_t>(put.data.size()) : 0};
  return service::internal_call<wire::ForwardResult>(context_.channel, endpoint_of(server),
                                                     wire::kObjectProgram, wire::ObjectProcedure::kForward,
                                                     args, kForwardTimeout, Suspects::kRefused);
}

Task<Mirrors::Outcome> Mirrors::put_there(Put put, std::uint32_t server) {
  Outcome outcome{.server = server};
  if (suspects_.has(server)) {
    outcome.error = Error{Errc::kUnavailable, "a copy's server was silent, and has not been heard again"};
    co_return outcome;
  }
  forwarded_.add();
  auto result = co_await suspects_.unless_silent(server, call_forward(put, server));
  // One of the last version knows no holes.
  if (put.options.hole && !result && result.error().code == Errc::kInvalid) {
    put.options.hole = false;
    result = co_await suspects_.unless_silent(server, call_forward(put, server));
  }
  if (!result) {
    suspects_.silent(server);
    outcome.error = std::move(result.error());
    co_return outcome;
  }
  context_.verifier.see(result->verifier);
  numbers_.see(result->number);
  switch (result->status) {
    case NfsStatus::kOk:
      outcome.took = Took::kDone;
      break;
    case NfsStatus::kStale:
      outcome.took = Took::kOldLayout;
      break;
    case NfsStatus::kNotSync:
      outcome.took = Took::kOtherEpoch;
      break;
    case NfsStatus::kNoEnt:
      outcome.took = Took::kRemoved;
      break;
    default:
      outcome.error =
          Error{Errc::kIo, fmt::format("a copy's server answered {}", nfs3::status_name(result->status))};
  }
  co_return outcome;
}

// ---- the object program ----

Task<wire::ForwardResult> Mirrors::forward(wire::ForwardArgs args) {
  wire::ForwardResult result{.verifier = context_.verifier.largest()};
  auto handle = context_.handles.open(args.handle);
  std::uint64_t unit = handle ? std::uint64_t{1} << handle->stripe_shift : 1;
  const ByteView data = args.hole > 0 ? zeros(args.hole) : args.data;
  bool good = handle && routing::has_layout(*handle) && !data.empty() && args.offset < kMaxObjectSize &&
              data.size() <= unit - args.offset % unit;
  if (!good) {
    result.status = NfsStatus::kInval;
    co_return result;
  }
  service::StripeName stripe{handle->fileid, args.offset >> handle->stripe_shift};
  auto layout = co_await layouts_.get_now(*handle, stripe.second);
  if (!layout) {
    // Of a file that is just changing its coordinator nobody has a layout: the sender waits, and not for this
    // copy, which misses nothing.
    result.status = layout.error().code == Errc::kMisdirected ? NfsStatus::kStale : NfsStatus::kJukebox;
    co_return result;
  }
  auto copies = routing::copies_of_stripe(*context_.tables.get(), *layout, *handle, stripe.second);
  if (args.version < layout->changed || !has(copies.written, context_.self.index)) {
    result.status = NfsStatus::kStale;
    co_return result;
  }
  if (!numbers_.take(stripe, args.number)) {
    result.number = numbers_.greatest(stripe);
    result.status = NfsStatus::kNotSync;
    co_return result;
  }
  std::optional<UnderWay> under_way(std::in_place, context_.loop, under_way_, handle->fileid,
                                    layout->version);
  co_await context_.crash.reach("mirror.forwarding");
  auto written = co_await store_.write(object_of(*handle), args.offset, data,
                                       {.epoch = args.epoch,
                                        .mtime = args.mtime,
                                        .sync = args.sync,
                                        .same_epoch = true,
                                        .hole = args.hole > 0});
  under_way.reset();
  if (!written) {
    bool removed = written.error().code == Errc::kStale;
    result.status = removed ? NfsStatus::kNoEnt : nfs3::status_of(written.error());
  } else {
    result.epoch = written->epoch;
    result.status = written->done ? NfsStatus::kOk : NfsStatus::kNotSync;
  }
  result.verifier = context_.verifier.largest();
  co_await context_.crash.reach("mirror.forwarded");
  co_return result;
}

Task<NfsStatus> Mirrors::copy(wire::CopyArgs args) {
  auto handle = context_.handles.open(args.handle);
  if (!handle || !routing::has_layout(*handle)) co_return NfsStatus::kInval;
  std::uint64_t unit = std::uint64_t{1} << handle->stripe_shift, start = args.stripe << handle->stripe_shift;
  StripeLocks::Of locks(ordered_, handle->fileid);
  auto held = co_await locks.acquire(args.stripe);
  auto layout = co_await layouts_.get(*handle, args.stripe, false);
  if (!layout) co_return NfsStatus::kJukebox;
  auto copies = routing::copies_of_stripe(*context_.tables.get(), *layout, *handle, args.stripe);
  bool ours = !copies.whole.empty() && copies.whole.front() == context_.self.index;
  if (args.version < layout->changed || !ours || !has(copies.written, args.to)) co_return NfsStatus::kStale;
  auto epoch = co_await store_.epoch(object_of(*handle));
  if (!epoch) co_return nfs3::status_of(epoch.error());
  if (!*epoch) co_return NfsStatus::kOk;  // nothing to copy
  Buffer data(std::min<std::uint64_t>(unit, nfs3::kMaxTransfer));
  for (std::uint64_t offset = start; offset < start + unit; offset += data.size()) {
    auto read = co_await store_.read(object_of(*handle), offset, data.span());
    if (!read) co_return nfs3::status_of(read.error());
    if (read->bytes == 0) break;
    const auto there = co_await store_.run(object_of(*handle), offset, read->bytes);
    const bool is_hole = there && there->hole && there->length == read->bytes;
    Put put{*handle,
            layout->version,
            numbers_.next(context_.loop.wall()),
            offset,
            data.view().first(read->bytes),
            {.epoch = **epoch, .sync = true, .hole = is_hole}};
    co_await context_.crash.reach("mirror.copying");
    Outcome outcome = co_await put_there(put, args.to);
    co_await context_.crash.reach("mirror.copied");
    if (outcome.took != Took::kDone) co_return NfsStatus::kStale;
  }
  copied_.add();
  co_return NfsStatus::kOk;
}

// Beside writes under the same layout, which are not for this node; a recall waits for it, so that it is over
// before the stripe may come here.
Task<NfsStatus> Mirrors::discard(wire::DiscardArgs args) {
  auto handle = context_.handles.open(args.handle);
  if (!handle || !routing::has_layout(*handle)) co_return NfsStatus::kInval;
  std::uint64_t unit = std::uint64_t{1} << handle->stripe_shift;
  if (args.stripe >= kMaxObjectSize >> handle->stripe_shift) co_return NfsStatus::kInval;
  auto layout = co_await layouts_.get(*handle, args.stripe, false);
  if (!layout) co_return NfsStatus::kJukebox;
  auto copies = routing::copies_of_stripe(*context_.tables.get(), *layout, *handle, args.stripe);
  bool here = has(copies.all, context_.self.index) || has(copies.written, context_.self.index);
  if (args.version < layout->changed || here) co_return NfsStatus::kStale;
  std::optional<UnderWay> under_way(std::in_place, context_.loop, under_way_, handle->fileid,
                                    layout->version);
  auto status = co_await store_.discard(object_of(*handle), args.stripe << handle->stripe_shift, unit);
  under_way.reset();
  co_await context_.crash.reach("map.discarded");
  co_return status ? NfsStatus::kOk : nfs3::status_of(status.error());
}

Task<void> Mirrors::until_written(FileId file, Epoch before) {
  for (;;) {
    const auto found = opened_.find(file);
    if (found == opened_.end() || *found->second.numbers.begin() >= before.value) co_return;
    OneShot<bool> ended;
    found->second.waiting.push_back(ended);
    co_await ended;
  }
}

Task<void> Mirrors::recall(wire::RecallArgs args) {
  layouts_.recall(args);
  for (;;) {
    auto by_old_one = [&](const auto& each) {
      return *each.second.numbers.begin() < args.version && layouts_.concerns(args, each.first);
    };
    auto found = args.sites.empty() ? under_way_.find(args.file)
                                    : std::find_if(under_way_.begin(), under_way_.end(), by_old_one);
    if (found == under_way_.end() || !by_old_one(*found)) co_return;
    OneShot<bool> ended;
    found->second.waiting.push_back(ended);
    co_await ended;
  }
}

}  // namespace slice::storagenode
