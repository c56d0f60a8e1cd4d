#include "coordinator/spread_record.h"

#include <utility>

#include "storage/durable_file.h"

namespace slice::coordinator {
namespace {

constexpr std::uint32_t kMagic = 0x534c5350;  // "SLSP"
constexpr std::uint32_t kFormat = 1;

}  // namespace

Task<Result<std::optional<wire::SpreadArgs>>> read_spread(storage::Disk& disk) {
  auto contents = co_await storage::read_file(disk, kSpreadFile);
  if (!contents && contents.error().code == Errc::kNotFound) co_return std::nullopt;
  if (!contents) co_return fail(contents.error(), kSpreadFile);
  rpc::XdrReader in(contents->view());
  const std::uint32_t magic = in.u32(), format = in.u32();
  if (magic != kMagic || format != kFormat)
    co_return fail(Errc::kCorrupt, "{}: magic {:#x}, format {}; format {} is expected", kSpreadFile, magic,
                   format, kFormat);
  wire::SpreadArgs args;
  if (!wire::decode(in.rest(), args)) co_return fail(Errc::kCorrupt, "{}: it does not decode", kSpreadFile);
  co_return std::optional(std::move(args));
}

Task<Status> record_spread(storage::Disk& disk, wire::SpreadArgs args) {
  rpc::XdrWriter out;
  out.u32(kMagic);
  out.u32(kFormat);
  encode(out, args);
  co_return co_await storage::replace_file(disk, kSpreadFile, out.take());
}

Task<Status> forget_spread(storage::Disk& disk) {
  Status removed = co_await disk.remove(kSpreadFile);
  if (!removed && removed.error().code != Errc::kNotFound) co_return removed;
  co_return co_await disk.sync_folder("");
}

}  // namespace slice::coordinator
