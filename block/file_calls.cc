#include "block/file_calls.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "proxy/calls/call.h"
#include "proxy/calls/reply_patch.h"
#include "rpc/message.h"
#include "rpc/record.h"
#include "wire/nfs_status.h"

namespace slice::block {
namespace {

constexpr std::size_t kSuccessHeader = 24;  // of a reply, before the results
constexpr std::size_t kReadHead = kSuccessHeader + 4 + 4 + nfs3::kAttributesSize + 12;

Error error_of(nfs3::Status status, nfs3::Procedure procedure) {
  const auto code = [status] {
    switch (status) {
      case nfs3::Status::kStale:
      case nfs3::Status::kBadHandle:
        return Errc::kStale;
      case nfs3::Status::kNoSpc:
      case nfs3::Status::kFbig:
        return Errc::kNoSpace;
      case nfs3::Status::kDquot:
        return Errc::kQuota;
      case nfs3::Status::kJukebox:
        return Errc::kTimedOut;
      default:
        return Errc::kIo;
    }
  };
  return {code(),
          fmt::format("{} was answered {}", nfs3::procedure_name(static_cast<std::uint32_t>(procedure)),
                      nfs3::status_name(status))};
}

// Of a reply's record; kIo where it is none.
Result<nfs3::Status> status_of(const proxy::BufferChain& record, nfs3::Procedure procedure) {
  std::uint8_t scratch[rpc::kRecordMark + kSuccessHeader + 4];
  const ByteView head = record.head(sizeof scratch, scratch);
  if (head.size() < sizeof scratch) return fail(Errc::kIo, "a reply of {} bytes", record.size());
  const auto decoded = rpc::decode_reply(head.subspan(rpc::kRecordMark));
  if (!decoded || !decoded->accepted || decoded->accept_stat != rpc::AcceptStat::kSuccess)
    return fail(Errc::kIo, "{} was refused", nfs3::procedure_name(static_cast<std::uint32_t>(procedure)));
  return static_cast<nfs3::Status>(load_be<std::uint32_t>(decoded->results.data()));
}

nfs3::Stable stable(bool durable) {
  return durable ? nfs3::Stable::kFileSync : nfs3::Stable::kUnstable;
}

}  // namespace

// One copy of a call, as the client that the worker knows. What waits there for a server ends with it.
class FileCalls::Copy : public proxy::Client {
 public:
  using Answer = std::optional<proxy::BufferChain>;  // nothing: there is none in time

  Copy(Loop& loop, rpc::Endpoint name) : loop_(loop), name_(name) {}
  ~Copy() override { drop_calls(); }

  rpc::Endpoint endpoint() const override { return name_; }
  void reply(proxy::Call&, const proxy::BufferChain& record) override {
    // The call is on the stack above us, and goes with this.
    loop_.post([answer = answer_, record] { answer.set(record); });
  }
  Task<Answer> send(const TakeCall& take, Buffer message, Duration patience) {
    const TimerId over = loop_.after(patience, [answer = answer_] { answer.set(std::nullopt); });
    if (!take(*this, std::move(message))) answer_.set(std::nullopt);
    auto record = co_await answer_;
    loop_.cancel(over);
    co_return record;
  }

 private:
  Loop& loop_;
  const rpc::Endpoint name_;
  const OneShot<Answer> answer_;
};

FileCalls::FileCalls(Loop& loop, TakeCall take, const routing::HandleBytes& handle, const Options& options)
    : loop_(loop), options_(options), take_(std::move(take)), handle_(handle), next_xid_(options.first_xid) {}

FileCalls::~FileCalls() = default;

// As a client that mounts "hard": the same call again where there is no answer, for as long as it takes,
// since nobody knows whether it was or will be done; a new one where it is told to come again.
template <class Args>
Task<Result<proxy::BufferChain>> FileCalls::call(nfs3::Procedure procedure, Args args) {
  const MonoTime began = loop_.now();
  Duration pause = options_.busy_pause;
  std::optional<std::uint32_t> xid;
  for (;;) {
    if (!xid) xid = next_xid_++;
    rpc::XdrWriter message;
    rpc::encode_call(message, {.xid = Xid{*xid},
                               .program = nfs3::kProgram,
                               .version = nfs3::kVersion,
                               .procedure = static_cast<std::uint32_t>(procedure),
                               .credential = {},
                               .verifier = {},
                               .arguments = {}});
    nfs3::encode_arguments(message, args);
    std::optional<Copy> copy(std::in_place, loop_, options_.name);
    auto record = co_await copy->send(take_, message.take(), options_.again);
    copy.reset();
    if (!record) continue;
    auto status = status_of(*record, procedure);
    if (!status) co_return fail(std::move(status.error()));
    if (*status == nfs3::Status::kOk) co_return std::move(*record);
    const bool over = options_.patience != Duration(0) && loop_.now() - began >= options_.patience;
    if (*status != nfs3::Status::kJukebox || over) co_return fail(error_of(*status, procedure));
    xid.reset();
    co_await loop_.sleep(pause);
    pause = std::min(2 * pause, options_.longest_busy_pause);
  }
}

Task<Result<std::uint32_t>> FileCalls::read_some(std::uint64_t offset, ByteSpan into) {
  auto record = co_await call(nfs3::Procedure::kRead,
                              nfs3::ReadArgs{handle_, offset, static_cast<std::uint32_t>(into.size())});
  if (!record) co_return fail(std::move(record.error()));
  std::uint8_t scratch[rpc::kRecordMark + kReadHead];
  const ByteView head = record->head(sizeof scratch, scratch);
  const auto reply =
      proxy::parse_read_reply(head.subspan(rpc::kRecordMark), record->size() - rpc::kRecordMark);
  if (!reply || reply->count > into.size()) co_return fail(Errc::kIo, "a READ's reply does not decode");
  record->sub(rpc::kRecordMark + reply->data_at, reply->count).copy_to(into.data());
  co_return reply->count;
}

Task<Status> FileCalls::read(std::uint64_t offset, ByteSpan into) {
  while (!into.empty()) {
    auto some = co_await read_some(offset, into);
    if (!some) co_return fail(std::move(some.error()));
    if (*some == 0) co_return fail(Errc::kIo, "the file ends at {}, before what is read", offset);
    offset += *some;
    into = into.subspan(*some);
  }
  co_return Status{};
}

// Without data it makes a hole.
Task<Result<Verifier>> FileCalls::write_all(nfs3::WriteArgs args) {
  std::optional<Verifier> first;
  while (args.count > 0) {
    auto record = co_await call(nfs3::Procedure::kWrite, args);
    if (!record) co_return fail(std::move(record.error()));
    Buffer whole(record->size());
    record->copy_to(whole.data());
    const auto reply = proxy::parse_write_reply(whole.view().subspan(rpc::kRecordMark));
    if (!reply || reply->count == 0 || reply->count > args.count)
      co_return fail(Errc::kIo, "a WRITE's reply does not decode");
    if (!first) first = Verifier{reply->verifier};
    args.offset += reply->count;
    args.count -= reply->count;
    if (!args.data.empty()) args.data = args.data.subspan(reply->count);
  }
  co_return first.value_or(Verifier{});
}

Task<Result<Verifier>> FileCalls::write(std::uint64_t offset, ByteView data, bool durable) {
  return write_all({handle_, offset, static_cast<std::uint32_t>(data.size()), stable(durable), data});
}

Task<Result<Verifier>> FileCalls::make_hole(std::uint64_t offset, std::uint32_t size, bool durable) {
  auto made = co_await write_all({handle_, offset, size, stable(durable), {}});
  if (made || made.error().code != Errc::kIo) co_return made;
  // One of the last version knows no holes; and whatever else it was, zeros are as good.
  const Buffer data = zeros(size);
  co_return co_await write(offset, data.view(), durable);
}

Task<Result<Verifier>> FileCalls::commit() {
  auto record = co_await call(nfs3::Procedure::kCommit, nfs3::CommitArgs{handle_, 0, 0});
  if (!record) co_return fail(std::move(record.error()));
  Buffer whole(record->size());
  record->copy_to(whole.data());
  rpc::XdrReader in(whole.view().subspan(rpc::kRecordMark + kSuccessHeader));
  nfs3::Status status = nfs3::Status::kOk;
  nfs3::CommitOk ok;
  if (!decode_result(in, status, ok)) co_return fail(Errc::kIo, "a COMMIT's reply does not decode");
  co_return ok.verifier;
}

// READ of no bytes (storagenode/ops/read.cc).
Task<Result<Extent>> FileCalls::extent(std::uint64_t offset) {
  auto record = co_await call(nfs3::Procedure::kRead, nfs3::ReadArgs{handle_, offset, 0});
  if (!record) co_return fail(std::move(record.error()));
  std::uint8_t scratch[rpc::kRecordMark + kReadHead];
  const ByteView head = record->head(sizeof scratch, scratch);
  rpc::XdrReader in(head.subspan(rpc::kRecordMark + kSuccessHeader));
  in.u32();  // status
  if (in.boolean()) in.skip(nfs3::kAttributesSize);
  Extent extent;
  extent.length = in.u32();
  extent.hole = in.boolean();
  if (in.u32() != 0 || !in.complete()) co_return fail(Errc::kIo, "a READ's reply does not decode");
  if (extent.length == 0) co_return Extent{kMostBytes, false};  // a node of the last version cannot tell
  co_return extent;
}

}  // namespace slice::block
