#include "storagenode/backing/set_state.h"

#include "rpc/xdr.h"
#include "storage/durable_file.h"

namespace slice::storagenode {
namespace {

constexpr std::uint32_t kMagic = 0x534c4253;  // "SLBS"
constexpr std::uint32_t kFormat = 1;
constexpr std::size_t kMostBytes = 4096;

std::string state_file(std::uint32_t server) {
  return set_folder(server) + "/state";
}

}  // namespace

std::string set_folder(std::uint32_t server) {
  return fmt::format("{}/{:08x}", kBackingFolder, server);
}

Task<Result<SetState>> load_set_state(storage::Disk& disk, std::uint32_t server) {
  const std::string name = state_file(server);
  auto contents = co_await storage::read_file(disk, name, kMostBytes);
  if (!contents) co_return fail(std::move(contents).error());
  rpc::XdrReader in(contents->view());
  const std::uint32_t magic = in.u32(), format = in.u32();
  if (magic != kMagic || format != kFormat) {
    co_return fail(Errc::kCorrupt, "{}: magic {:#x}, format {}; format {} is expected", name, magic, format,
                   kFormat);
  }
  SetState state{.server = in.u32()};
  state.epoch = BackingEpoch{in.u64()};
  state.instance = in.u64();
  state.let_go = in.boolean();
  state.contents.changed = BackingEpoch{in.u64()};
  state.contents.applied = in.u64();
  if (!in.complete()) co_return fail(Errc::kCorrupt, "{}: its contents do not decode", name);
  if (state.server != server) co_return fail(Errc::kCorrupt, "{}: it is of server {}", name, state.server);
  co_return state;
}

Task<Status> save_set_state(storage::Disk& disk, SetState state) {
  rpc::XdrWriter out;
  out.u32(kMagic);
  out.u32(kFormat);
  out.u32(state.server);
  out.u64(state.epoch.value);
  out.u64(state.instance);
  out.boolean(state.let_go);
  out.u64(state.contents.changed.value);
  out.u64(state.contents.applied);
  return storage::replace_file(disk, state_file(state.server), out.take());
}

}  // namespace slice::storagenode
