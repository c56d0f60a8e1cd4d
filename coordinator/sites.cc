#include "coordinator/sites.h"

#include <algorithm>

#include "common/log.h"
#include "service/internal_call.h"

namespace slice::coordinator {

using NfsStatus = nfs3::Status;

namespace {

using storage::LogSequence;
using wire::ReceiveArgs;

constexpr Duration kSendTimeout = std::chrono::seconds(5);
constexpr Duration kSendBreath = std::chrono::microseconds(100);  // between two pages, for others
constexpr std::size_t kSitePage = 1024;                           // pieces that are looked at together
constexpr std::size_t kFew = 64;               // changed pieces that may be left for the switch, about
constexpr std::size_t kMostBytes = 512 << 10;  // of intentions in one message
constexpr std::size_t kPieceBytes = 16 + 2 * wire::kStripesOfPiece;

std::uint64_t size_of(const ReceiveArgs& message) {
  std::uint64_t bytes = message.pieces.size() * kPieceBytes;
  for (const wire::MovedIntention& each : message.begun) bytes += each.record.size();
  return bytes;
}

}  // namespace

Sites::Sites(service::ServiceContext& context, Parts parts, Hooks hooks)
    : context_(context),
      parts_(parts),
      hooks_(std::move(hooks)),
      copied_bytes_(
          context.metrics.counter("moves_copied_bytes_total", "bytes that were copied to new owners")),
      received_(context.metrics.counter("moves_messages_received_total",
                                        "messages from old owners of coordinator sites, that were taken")) {
  parts_.maps.on_change([this](FileId file, std::uint64_t number) { note_change(file, number); });
}

void Sites::start() {
  timer_ = context_.loop.after(kPeriod, [this] {
    if (stopping_) return;
    hooks_.go_on();
    start();
  });
}

Layouts::Which Sites::in(std::vector<std::uint32_t> sites) const {
  return [this, sites = std::move(sites)](FileId file) {
    return wire::has_site(sites, parts_.gate.site_of(file));
  };
}

Intentions::Which Sites::of(Layouts::Which files) const {
  return [this, files = std::move(files)](const Intention& intention) {
    auto handle = context_.handles.open(intention.handle);
    return handle && files(handle->fileid);
  };
}

// ---- at the old owner ----

Task<slice::Status> Sites::join(Leaving leaving) {
  departing_.push_back(std::make_shared<Departing>(Departing{.leaving = std::move(leaving)}));
  co_return slice::Status{};
}

void Sites::leave(const service::LeavingSites& leaving) {
  std::erase_if(departing_, [&](const Going& each) { return each->leaving.get() == &leaving; });
}

Sites::Going Sites::going(const service::LeavingSites& leaving) const {
  auto found = std::find_if(departing_.begin(), departing_.end(),
                            [&](const Going& each) { return each->leaving.get() == &leaving; });
  return *found;
}

void Sites::note_change(FileId file, std::uint64_t number) {
  for (const Going& each : departing_) {
    if (each->leaving->has(parts_.gate.site_of(file))) each->changed.insert({file, number});
  }
}

Task<slice::Status> Sites::send(Going going, ReceiveArgs message) {
  service::LeavingSites& leaving = *going->leaving;
  if (!leaving.live()) co_return fail(Errc::kUnavailable, "{}", leaving.trouble());
  message.move = leaving.move().id.value;
  message.attempt = leaving.attempt();
  message.number = ++going->messages;
  const wire::ServerEntry to = *context_.tables.get()->server(leaving.move().to);
  auto result = co_await service::internal_call<wire::CoordinatorResult>(
      context_.channel, to.endpoint, wire::kCoordinatorProgram, wire::CoordinatorProcedure::kReceive, message,
      kSendTimeout);
  if (!result) {
    leaving.fail(fmt::format("{}: {}", to.name, result.error().message));
  } else if (result->status != NfsStatus::kOk) {
    leaving.fail(fmt::format("{} answers {}", to.name, nfs3::status_name(result->status)));
  }
  copied_bytes_.add(size_of(message));
  co_await context_.crash.reach("site.copying");
  if (!leaving.live()) co_return fail(Errc::kUnavailable, "{}", leaving.trouble());
  co_return slice::Status{};
}

Task<slice::Status> Sites::send_slowly(Going going, ReceiveArgs message) {
  const std::uint64_t bytes = size_of(message);
  SLICE_CO_RETURN_IF_ERROR(co_await send(going, std::move(message)));
  if (!co_await going->leaving->copied(bytes))
    co_return fail(Errc::kUnavailable, "{}", going->leaving->trouble());
  co_return slice::Status{};
}

Task<Result<std::uint64_t>> Sites::count(std::vector<std::uint32_t> sites) {
  const Layouts::Which wanted = in(std::move(sites));
  std::uint64_t bytes = 0;
  std::string after;
  for (bool end = false; !end;) {
    auto page = parts_.maps.list(after, kSitePage, wanted);
    if (!page) co_return fail(std::move(page).error());
    bytes += page->pieces.size() * kPieceBytes;
    end = page->end;
    after = page->last;
    if (!end) co_await context_.loop.sleep(kSendBreath);
  }
  const Intentions::Which owed = of(wanted);
  for (const auto& [sequence, intention] : parts_.intentions.open()) {
    if (owed(intention)) bytes += encode_record(intention).size();
  }
  co_return bytes;
}

Task<slice::Status> Sites::copy(Leaving leaving) {
  const Going now = going(*leaving);
  const Layouts::Which wanted = in(leaving->move().sites);
  std::string after;
  for (bool end = false; !end;) {
    auto page = parts_.maps.list(after, wire::kMaxMovedPieces, wanted);
    if (!page) co_return fail(std::move(page).error());
    end = page->end;
    after = page->last;
    if (!page->pieces.empty()) {
      SLICE_CO_RETURN_IF_ERROR(co_await send_slowly(now, {.pieces = std::move(page->pieces)}));
    } else if (!end) {
      co_await context_.loop.sleep(kSendBreath);
    }
  }
  SLICE_CO_RETURN_IF_ERROR(co_await copy_intentions(now, true));
  // As at the switch: a node that does not answer any more has no session by then, and nobody has to wait for
  // that while requests are held.
  co_await parts_.layouts.recall(leaving->move().sites);
  do {
    SLICE_CO_RETURN_IF_ERROR(co_await copy_changed(now, true));
  } while (now->changed.size() > kFew);
  co_return slice::Status{};
}

Task<slice::Status> Sites::copy_changed(Going going, bool slowly) {
  std::set<Piece> changed = std::exchange(going->changed, {});
  ReceiveArgs message;
  for (auto at = changed.begin(); at != changed.end();) {
    auto piece = parts_.maps.latest(at->first, at->second);
    if (!piece) co_return fail(std::move(piece).error());
    message.pieces.push_back({at->first, std::move(*piece)});
    if (++at != changed.end() && message.pieces.size() < wire::kMaxMovedPieces) continue;
    ReceiveArgs full = std::exchange(message, {});
    SLICE_CO_RETURN_IF_ERROR(
        co_await (slowly ? send_slowly(going, std::move(full)) : send(going, std::move(full))));
  }
  co_return slice::Status{};
}

// The new owner gets those that are open here, and what has become of those that it got before.
Task<slice::Status> Sites::copy_intentions(Going going, bool slowly) {
  const Intentions::Which wanted = of(in(going->leaving->move().sites));
  std::vector<ReceiveArgs> messages(1);
  std::size_t bytes = 0;
  const auto& open = parts_.intentions.open();
  for (auto at = open.upper_bound(going->looked_at); at != open.end(); ++at) {
    going->looked_at = at->first;
    if (!wanted(at->second)) continue;
    const Buffer record = encode_record(at->second);
    if (messages.back().begun.size() == wire::kMaxMovedIntentions || bytes + record.size() > kMostBytes) {
      messages.emplace_back();
      bytes = 0;
    }
    bytes += record.size();
    messages.back().begun.push_back({at->first.value, std::string(as_text(record.view()))});
  }
  for (auto at = going->sent.begin(); at != going->sent.end();) {
    if (open.contains(*at)) {
      ++at;
      continue;
    }
    if (messages.back().ended.size() == wire::kMaxMovedNumbers) messages.emplace_back();
    messages.back().ended.push_back(at->value);
    at = going->sent.erase(at);
  }
  for (ReceiveArgs& message : messages) {
    if (message.begun.empty() && message.ended.empty()) continue;
    for (const wire::MovedIntention& each : message.begun) going->sent.insert(LogSequence{each.number});
    SLICE_CO_RETURN_IF_ERROR(
        co_await (slowly ? send_slowly(going, std::move(message)) : send(going, std::move(message))));
  }
  co_return slice::Status{};
}

Task<slice::Status> Sites::copy_rest(Leaving leaving) {
  const Going now = going(*leaving);
  const Layouts::Which wanted = in(leaving->move().sites);
  if (parts_.maps.in_doubt(wanted))
    co_return fail(Errc::kIo, "of a block map it is not known what is durable");
  hooks_.leave(wanted);
  // From here on nobody acts by a layout of before: the new owner's may say something else.
  co_await parts_.layouts.recall(leaving->move().sites);
  co_await context_.crash.reach("site.recalled");
  SLICE_CO_RETURN_IF_ERROR(co_await copy_intentions(now, false));
  SLICE_CO_RETURN_IF_ERROR(co_await copy_changed(now, false));
  std::vector<ReceiveArgs> messages(1);
  for (FileId file : parts_.layouts.removed(wanted)) {
    if (messages.back().removed.size() == wire::kMaxMovedNumbers) messages.emplace_back();
    messages.back().removed.push_back(file.value);
  }
  messages.back().version = parts_.layouts.next_version();
  for (ReceiveArgs& message : messages) SLICE_CO_RETURN_IF_ERROR(co_await send(now, std::move(message)));
  co_return slice::Status{};
}

// ---- at the new owner ----

void Sites::open(const wire::SiteMove& move, std::uint64_t attempt) {
  arriving_[move.id.value] = {.attempt = attempt, .sites = move.sites};
}

Task<void> Sites::close(wire::MoveId move) {
  arriving_.erase(move.value);
  co_return;
}

Task<wire::CoordinatorResult> Sites::receive(ReceiveArgs args) {
  co_await context_.crash.reach("site.receiving");
  auto found = arriving_.find(args.move);
  if (found == arriving_.end() || found->second.attempt != args.attempt)
    co_return wire::CoordinatorResult{NfsStatus::kStale};
  Arriving& arriving = found->second;
  if (args.number <= arriving.messages) co_return wire::CoordinatorResult{};  // it comes again
  if (args.number != arriving.messages + 1) co_return wire::CoordinatorResult{NfsStatus::kStale};
  slice::Status taken = take(arriving, args);
  if (!taken) {
    log_warning("move {}: what comes here cannot be taken: {}", args.move, taken.error().message);
    arriving_.erase(found);
    co_return wire::CoordinatorResult{nfs3::status_of(taken.error())};
  }
  arriving.messages = args.number;
  received_.add();
  co_await context_.crash.reach("site.received");
  co_return wire::CoordinatorResult{};
}

slice::Status Sites::take(Arriving& arriving, const ReceiveArgs& args) {
  const Layouts::Which wanted = in(arriving.sites);
  for (const wire::MovedPiece& each : args.pieces) {
    if (!wanted(each.file)) return fail(Errc::kInvalid, "a piece of a map is of another site");
  }
  SLICE_RETURN_IF_ERROR(take_intentions(arriving, args));
  SLICE_RETURN_IF_ERROR(parts_.maps.receive(args.pieces, args.version));
  for (std::uint64_t file : args.removed) parts_.layouts.note_removed(FileId{file});
  if (args.version == 0) return {};
  // That is all. What copies miss has to be known as soon as the sites are this server's.
  const Intentions::Which owed = of(wanted);
  auto missing = parts_.intentions.take_up([&](const Intention& intention) {
    return intention.operation == Operation::kMissing && owed(intention);
  });
  for (const auto& [sequence, intention] : missing) parts_.layouts.resume(sequence, intention);
  parts_.layouts.arrive(wanted, args.version);
  return {};
}

slice::Status Sites::take_intentions(Arriving& arriving, const ReceiveArgs& args) {
  const Intentions::Which wanted = of(in(arriving.sites));
  for (const wire::MovedIntention& each : args.begun) {
    auto record = decode_record(as_bytes(each.record));
    if (!record) return fail(std::move(record).error());
    const auto* intention = std::get_if<Intention>(&*record);
    if (intention == nullptr || !wanted(*intention))
      return fail(Errc::kInvalid, "an intention is of another site");
    auto sequence = parts_.intentions.begin(*intention);
    if (!sequence) return fail(std::move(sequence).error());
    parts_.intentions.leave(*sequence);
    arriving.intentions[each.number] = *sequence;
  }
  for (std::uint64_t number : args.ended) {
    auto found = arriving.intentions.extract(number);
    if (found) parts_.intentions.end(found.mapped());
  }
  return {};
}

Task<slice::Status> Sites::sync() {
  SLICE_CO_RETURN_IF_ERROR(co_await parts_.intentions.sync());
  co_return co_await parts_.maps.sync();
}

// ---- at both ----

Task<slice::Status> Sites::clear(std::vector<std::uint32_t> sites) {
  const Layouts::Which wanted = in(std::move(sites));
  parts_.layouts.release(wanted);
  SLICE_CO_RETURN_IF_ERROR(co_await parts_.intentions.drop(of(wanted)));
  co_return co_await parts_.maps.erase(wanted);
}

}  // namespace slice::coordinator
