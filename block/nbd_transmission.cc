#include "block/nbd_transmission.h"

#include <string_view>
#include <utility>

namespace slice::block {
namespace {

using nbd::Command;
using nbd::ErrorNumber;

// NBD_CMD_FLAG_FUA may come with any of them ("Command flags").
unsigned allowed_flags(Command command, bool structured) {
  if (command == Command::kRead && structured) return nbd::kFua | nbd::kDf;
  if (command == Command::kWriteZeroes) return nbd::kFua | nbd::kNoHole;
  if (command == Command::kBlockStatus) return nbd::kFua | nbd::kReqOne;
  return nbd::kFua;
}

bool lies_inside(const nbd::Request& request, std::uint64_t size) {
  return request.offset <= size && request.length <= size - request.offset;
}

// For people at the client.
std::string_view told_of(ErrorNumber error) {
  switch (error) {
    case ErrorNumber::kNone:
      return "";
    case ErrorNumber::kIo:
      return "the device could not do it";
    case ErrorNumber::kInvalid:
      return "not a request of this device";
    case ErrorNumber::kNoSpace:
      return "no space";
    case ErrorNumber::kOverflow:
      return "too long for one piece";
    case ErrorNumber::kShutdown:
      return "the device was opened elsewhere";
  }
  return "";
}

NbdReply failed_reply(const nbd::Request& request, const NbdTerms& terms, const Error& error) {
  const ErrorNumber number = error_number_of(error);
  return {encode_reply(request, terms.structured, number), number, error.message};
}

Task<NbdReply> answer_read(const NbdTerms& terms, nbd::Request request) {
  const std::size_t head = terms.structured ? nbd::kDataChunkSize : nbd::kSimpleReplySize;
  Buffer reply(head + request.length);
  const Status done = co_await terms.device->read(request.offset, reply.span().subspan(head));
  if (!done) co_return failed_reply(request, terms, done.error());
  if (terms.structured) {
    nbd::put_data_chunk(reply.data(), request.cookie, request.offset, request.length);
  } else {
    nbd::put_simple_reply(reply.data(), {.cookie = request.cookie});
  }
  co_return NbdReply{.bytes = std::move(reply)};
}

Task<NbdReply> answer_status(const NbdTerms& terms, nbd::Request request) {
  auto extents = co_await terms.device->extents(request.offset, request.length);
  if (!extents) co_return failed_reply(request, terms, extents.error());
  if ((request.flags & nbd::kReqOne) != 0) extents->resize(1);
  Buffer reply;
  nbd::put_status_chunk(reply, request.cookie, extents->size());
  for (const Extent& extent : *extents)
    nbd::put_state(reply, static_cast<std::uint32_t>(extent.length),
                   extent.hole ? nbd::kStateHole | nbd::kStateZero : 0);
  co_return NbdReply{.bytes = std::move(reply)};
}

Task<Status> make_change(Device& device, nbd::Request request, Buffer data) {
  const bool durable = (request.flags & nbd::kFua) != 0;
  switch (request.command) {
    case Command::kWrite:
      co_return co_await device.write(request.offset, std::move(data), durable);
    case Command::kWriteZeroes:
      co_return co_await device.write_zeroes(
          request.offset, request.length, durable,
          (request.flags & nbd::kNoHole) != 0 ? Room::kKept : Room::kGivenBack);
    // What is left of it reads as zeros: a client may not count on that, but nobody is to see what was there.
    case Command::kTrim:
      co_return co_await device.write_zeroes(request.offset, request.length, durable, Room::kGivenBack);
    default:
      co_return co_await device.flush();
  }
}

}  // namespace

ErrorNumber judge(const nbd::Request& request, const NbdTerms& terms) {
  const bool allowed = (request.flags & ~allowed_flags(request.command, terms.structured)) == 0;
  const bool is_inside = lies_inside(request, terms.device->size());
  switch (request.command) {
    case Command::kRead:
      if (!allowed || !is_inside) return ErrorNumber::kInvalid;
      if (request.length <= terms.longest) return ErrorNumber::kNone;
      return (request.flags & nbd::kDf) != 0 ? ErrorNumber::kOverflow : ErrorNumber::kInvalid;
    case Command::kWrite:
      if (!allowed || request.length > terms.longest) return ErrorNumber::kInvalid;
      return is_inside ? ErrorNumber::kNone : ErrorNumber::kNoSpace;
    case Command::kWriteZeroes:
      if (!allowed) return ErrorNumber::kInvalid;
      return is_inside ? ErrorNumber::kNone : ErrorNumber::kNoSpace;
    case Command::kTrim:
      return allowed && is_inside ? ErrorNumber::kNone : ErrorNumber::kInvalid;
    case Command::kBlockStatus: {
      const bool agreed = terms.allocation && request.length > 0;
      return agreed && allowed && is_inside ? ErrorNumber::kNone : ErrorNumber::kInvalid;
    }
    case Command::kFlush:
      return allowed ? ErrorNumber::kNone : ErrorNumber::kInvalid;
    default:
      return ErrorNumber::kInvalid;
  }
}

ErrorNumber error_number_of(const Error& error) {
  switch (error.code) {
    case Errc::kNoSpace:
    case Errc::kQuota:
      return ErrorNumber::kNoSpace;
    case Errc::kStale:
      return ErrorNumber::kShutdown;
    default:
      return ErrorNumber::kIo;
  }
}

std::size_t data_of(const nbd::Request& request) {
  const bool has = request.command == Command::kRead || request.command == Command::kWrite;
  return has ? request.length : 0;
}

// Simple replies serve for all but reads where structured ones were agreed upon; errors then come with a
// text.
Buffer encode_reply(const nbd::Request& request, bool structured, ErrorNumber error) {
  Buffer reply;
  if (structured && error != ErrorNumber::kNone) {
    nbd::encode_error_chunk(reply, request.cookie, error, told_of(error));
  } else if (structured && request.command == Command::kRead) {
    nbd::encode_none_chunk(reply, request.cookie);
  } else {
    nbd::put_simple_reply(reply.extend(nbd::kSimpleReplySize), {.error = error, .cookie = request.cookie});
  }
  return reply;
}

Task<NbdReply> execute(std::shared_ptr<const NbdTerms> terms, nbd::Request request, Buffer data) {
  const bool is_nothing = request.length == 0 && request.command != Command::kFlush;
  if (is_nothing) co_return NbdReply{.bytes = encode_reply(request, terms->structured, ErrorNumber::kNone)};
  if (request.command == Command::kRead) co_return co_await answer_read(*terms, request);
  if (request.command == Command::kBlockStatus) co_return co_await answer_status(*terms, request);
  const Status done = co_await make_change(*terms->device, request, std::move(data));
  if (!done) co_return failed_reply(request, *terms, done.error());
  co_return NbdReply{.bytes = encode_reply(request, terms->structured, ErrorNumber::kNone)};
}

}  // namespace slice::block
