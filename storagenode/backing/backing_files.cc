#include "storagenode/backing/backing_files.h"

#include <algorithm>
#include <charconv>

namespace slice::storagenode {
namespace {

using wire::BackingStatus;

// The number that a set's folder is named by; none: it is named otherwise.
std::optional<std::uint32_t> number_of(const std::string& name) {
  std::uint32_t number = 0;
  const auto end = std::from_chars(name.data(), name.data() + name.size(), number, 16);
  if (end.ec != std::errc() || set_folder(number) != std::string(kBackingFolder) + "/" + name)
    return std::nullopt;
  return number;
}

}  // namespace

// As long as a call is under way.
class BackingFiles::Call {
 public:
  explicit Call(BackingFiles& files) : files_(files) { ++files_.calls_; }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    if (--files_.calls_ > 0 || !files_.ended_) return;
    files_.seams_.loop.post([ended = *std::exchange(files_.ended_, std::nullopt)] { ended.set(true); });
  }

 private:
  BackingFiles& files_;
};

BackingFiles::BackingFiles(Seams seams)
    : seams_(std::move(seams)),
      shared_{.loop = seams_.loop,
              .disk = seams_.disk,
              .crash = seams_.crash,
              .room = [this] { return space().first > 0; },
              .changes = seams_.metrics.counter("storage_backing_changes_total",
                                                "CHANGE calls of backing sets' owners that were carried out"),
              .bytes = seams_.metrics.counter("storage_backing_bytes_written_total",
                                              "bytes that backing sets' owners wrote")},
      sets_gauge_(seams_.metrics.gauge("storage_backing_sets", "backing sets with a copy on this node")) {
  for (std::uint32_t i = 1; i <= static_cast<std::uint32_t>(BackingStatus::kLeaving); ++i) {
    refused_.push_back(
        &seams_.metrics.counter("storage_backing_refused_total",
                                "calls of the backing program with another status than ok, by what it is",
                                {{"reason", wire::backing_status_name(static_cast<BackingStatus>(i))}}));
  }
}

Task<Status> BackingFiles::start() {
  auto names = co_await seams_.disk.list(kBackingFolder);
  if (!names) co_return fail(std::move(names).error());
  for (const std::string& name : *names) {
    SLICE_CO_RETURN_IF_ERROR(co_await load(name));
  }
  co_return Status{};
}

Task<Status> BackingFiles::load(const std::string& name) {
  const auto server = number_of(name);
  if (!server) {
    log_warning("{}/{} is no backing set's: it stays as it is", kBackingFolder, name);
    co_return Status{};
  }
  auto state = co_await load_set_state(seams_.disk, *server);
  if (state) {
    add(*state);
    co_return Status{};
  }
  if (state.error().code == Errc::kNotFound) {
    // The first owner's call was cut off before it was answered, unless there are files.
    auto paths = co_await SetFiles(seams_.loop, seams_.disk, set_folder(*server)).paths();
    if (!paths) co_return fail(std::move(paths).error());
    if (paths->empty()) co_return Status{};
  } else if (state.error().code != Errc::kCorrupt && state.error().code != Errc::kTooLarge) {
    co_return fail(std::move(state).error());
  }
  log_error(
      "the backing set of server {} is damaged: {}; nothing of it is taken or changed. Where the set has "
      "another member, remove {} while this node is stopped",
      *server, state.error().message, set_folder(*server));
  add({.server = *server}).set_damaged();
  co_return Status{};
}

SetCopy& BackingFiles::add(SetState state) {
  auto& copy = sets_[state.server];
  copy = std::make_unique<SetCopy>(shared_, state);
  for (auto& [server, each] : sets_) each->set_most_open(std::max(kLeastOpen, kMostOpen / sets_.size()));
  sets_gauge_.set(sets_.size());
  return *copy;
}

SetCopy* BackingFiles::find(const wire::BackingOwner& owner) {
  auto found = sets_.find(owner.server);
  return found == sets_.end() ? nullptr : found->second.get();
}

Task<void> BackingFiles::leave() {
  constexpr Duration kPause = std::chrono::milliseconds(10);
  leaving_ = true;
  const MonoTime deadline = seams_.loop.now() + kLeavePatience;
  while (!all_told() && seams_.loop.now() < deadline) co_await seams_.loop.sleep(kPause);
}

bool BackingFiles::all_told() const {
  return std::all_of(sets_.begin(), sets_.end(), [this](const auto& each) {
    return !each.second->is_used() || told_.contains(each.first);
  });
}

bool BackingFiles::leaves(const SetCopy& copy, const wire::BackingOwner& owner) {
  return leaving_ && copy.used_by(owner) && told_.insert(owner.server).second;
}

Task<void> BackingFiles::stop() {
  shared_.stopped = true;
  for (auto& [server, each] : sets_) each->stop();
  if (calls_ == 0) co_return;
  ended_.emplace();
  const OneShot<bool> ended = *ended_;
  co_await ended;
}

BackingStatus BackingFiles::counted(BackingStatus status) {
  if (status != BackingStatus::kOk) refused_[static_cast<std::size_t>(status) - 1]->add();
  return status;
}

std::pair<std::uint64_t, std::uint64_t> BackingFiles::space() const {
  auto space = seams_.disk.space();
  if (!space) return {0, 0};
  return {space->free_bytes - std::min(space->free_bytes, seams_.reserve()), space->total_bytes};
}

Task<wire::BackingAttachResult> BackingFiles::attach(wire::BackingAttachArgs args) {
  const Call call(*this);
  SetCopy* copy = find(args.owner);
  wire::BackingAttachResult result;
  if (copy == nullptr && sets_.size() >= kMostSets) {
    if (shared_.failure_log.allow())
      log_warning("server {} gets no backing set here: there are {} sets", args.owner.server, sets_.size());
    result.status = BackingStatus::kNoSpace;
  } else if (leaving_ || shared_.stopped) {
    result.status = leaving_ ? BackingStatus::kLeaving : BackingStatus::kIo;
  } else {
    if (copy == nullptr) copy = &add({.server = args.owner.server});
    result = co_await copy->attach(args);
  }
  counted(result.status);
  std::tie(result.free_bytes, result.total_bytes) = space();
  co_return result;
}

wire::BackingStatusResult BackingFiles::renew(const wire::BackingOwnerArgs& args) {
  SetCopy* copy = find(args.owner);
  if (copy != nullptr && leaves(*copy, args.owner)) return {counted(BackingStatus::kLeaving)};
  return {counted(copy == nullptr ? BackingStatus::kGap : copy->renew(args.owner))};
}

Task<wire::BackingStatusResult> BackingFiles::let_go(wire::BackingOwnerArgs args) {
  const Call call(*this);
  SetCopy* copy = find(args.owner);
  co_return wire::BackingStatusResult{
      counted(copy == nullptr ? BackingStatus::kGap : co_await copy->let_go(args.owner))};
}

Task<wire::BackingChangeResult> BackingFiles::change(const wire::BackingChangeArgs& args) {
  const Call call(*this);
  SetCopy* copy = find(args.owner);
  wire::BackingChangeResult result{.status = BackingStatus::kGap};
  if (copy != nullptr) {
    const bool leaving = leaves(*copy, args.owner);
    result.status = leaving ? BackingStatus::kLeaving : co_await copy->change(args);
    result.applied = copy->applied();
  }
  counted(result.status);
  std::tie(result.free_bytes, result.total_bytes) = space();
  co_return result;
}

Task<wire::BackingReadResult> BackingFiles::read(const wire::BackingReadArgs& args, Buffer& into) {
  const Call call(*this);
  SetCopy* copy = find(args.owner);
  wire::BackingReadResult result{.status = BackingStatus::kGap, .bytes = {}};
  into.resize(std::min<std::size_t>(args.length, wire::kMaxBackingBytes));
  std::size_t got = 0;
  if (copy != nullptr) result.status = co_await copy->read(args, into.span(), got);
  counted(result.status);
  result.bytes = into.view().first(got);
  co_return result;
}

Task<wire::BackingListResult> BackingFiles::list(wire::BackingListArgs args) {
  const Call call(*this);
  SetCopy* copy = find(args.owner);
  wire::BackingListResult result;
  result.status = BackingStatus::kGap;
  if (copy != nullptr) result = co_await copy->list(args);
  counted(result.status);
  co_return result;
}

Task<wire::BackingDigestResult> BackingFiles::digest(wire::BackingDigestArgs args) {
  const Call call(*this);
  SetCopy* copy = find(args.owner);
  wire::BackingDigestResult result;
  result.status = BackingStatus::kGap;
  if (copy != nullptr) result = co_await copy->digest(args);
  counted(result.status);
  co_return result;
}

}  // namespace slice::storagenode
