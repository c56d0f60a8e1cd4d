#include "service/backing/node_calls.h"

#include <algorithm>
#include <utility>

#include "service/internal_call.h"

namespace slice::service {

Task<Result<NodeRead>> read_at_node(rpc::Channel& channel, rpc::Endpoint node, wire::BackingReadArgs args,
                                    Duration timeout, ByteSpan into) {
  args.length = static_cast<std::uint32_t>(into.size());
  auto request = internal_request(node, wire::kBackingProgram, wire::BackingProcedure::kRead, args, timeout,
                                  Duration(0));
  request.long_answer = true;
  auto response = co_await channel.call(std::move(request));
  if (!response) co_return fail(std::move(response).error());
  wire::BackingReadResult result;
  if (!decode(response->results(), result) || result.bytes.size() > into.size())
    co_return fail(Errc::kInvalid, "a reply that does not decode");
  std::copy(result.bytes.begin(), result.bytes.end(), into.begin());
  co_return NodeRead{result.status, result.bytes.size()};
}

Task<Status> list_node(rpc::Channel& channel, rpc::Endpoint node, wire::BackingListArgs args,
                       Duration timeout, std::function<void(NodePage)> take) {
  for (;;) {
    auto page = co_await internal_call<wire::BackingListResult>(channel, node, wire::kBackingProgram,
                                                                wire::BackingProcedure::kList, args, timeout);
    if (!page) co_return fail(page.error(), "list of the backing set");
    if (page->status != wire::BackingStatus::kOk)
      co_return fail(Errc::kIo, "list of the backing set: {}", wire::backing_status_name(page->status));
    const bool last = page->end || page->files.empty();
    if (!last) args.behind = page->files.back().path;
    take(std::move(page->files));
    if (last) co_return Status{};
  }
}

}  // namespace slice::service
