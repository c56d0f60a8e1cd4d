#include "wire/rquota.h"

#include <algorithm>
#include <limits>

namespace slice::rquota {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();

std::uint32_t bounded(std::uint64_t number) {
  return static_cast<std::uint32_t>(std::min(number, kMost));
}

std::uint32_t left(const QuotaLimit& limit, std::uint32_t grace, std::uint64_t now) {
  if (limit.over_since == 0) return 0;
  const std::uint64_t end = limit.over_since + grace;
  return end > now ? bounded(end - now) : 1;
}

}  // namespace

void encode(rpc::XdrWriter& out, const Args& args, std::uint32_t version) {
  out.text(args.path);
  if (version != kVersion) out.u32(static_cast<std::uint32_t>(args.whose.kind));
  out.u32(args.whose.id);
}

bool decode(ByteView bytes, Args& out, std::uint32_t version) {
  rpc::XdrReader in(bytes);
  out.path = in.text(kMaxPath);
  out.whose = {};
  if (version != kVersion) {
    const std::uint32_t kind = in.u32();
    if (kind > static_cast<std::uint32_t>(QuotaKind::kGroup)) in.fail();
    out.whose.kind = static_cast<QuotaKind>(in.ok() ? kind : 0);
  }
  out.whose.id = in.u32();
  return in.complete();
}

Figures figures_of(const Quota& quota, const QuotaUsage& usage, std::uint64_t now) {
  Figures figures;
  std::uint64_t block = figures.block_size;
  const std::uint64_t largest = std::max({quota.space.hard, quota.space.soft, usage.space});
  while (largest / block >= kMost) block *= 2;
  figures.block_size = bounded(block);
  // A limit of less than a block is not to look like none.
  const auto limit = [block](std::uint64_t bytes) {
    return bounded(bytes == 0 ? 0 : std::max<std::uint64_t>(bytes / block, 1));
  };
  figures.hard_blocks = limit(quota.space.hard);
  figures.soft_blocks = limit(quota.space.soft);
  figures.blocks = bounded(usage.space / block + (usage.space % block != 0 ? 1 : 0));
  figures.hard_files = bounded(quota.files.hard);
  figures.soft_files = bounded(quota.files.soft);
  figures.files = bounded(usage.files);
  figures.space_left_s = left(quota.space, quota.grace, now);
  figures.files_left_s = left(quota.files, quota.grace, now);
  return figures;
}

void encode(rpc::XdrWriter& out, const Result& result) {
  out.u32(static_cast<std::uint32_t>(result.status));
  if (result.status != Status::kOk) return;
  const Figures& figures = result.figures;
  out.u32(figures.block_size);
  out.boolean(figures.active);
  for (std::uint32_t each : {figures.hard_blocks, figures.soft_blocks, figures.blocks, figures.hard_files,
                             figures.soft_files, figures.files, figures.space_left_s, figures.files_left_s}) {
    out.u32(each);
  }
}

bool decode(ByteView bytes, Result& out) {
  rpc::XdrReader in(bytes);
  out = {};
  const std::uint32_t status = in.u32();
  if (status < 1 || status > static_cast<std::uint32_t>(Status::kPermission)) in.fail();
  out.status = static_cast<Status>(in.ok() ? status : 1);
  if (!in.ok() || out.status != Status::kOk) return in.complete();
  Figures& figures = out.figures;
  figures.block_size = in.u32();
  figures.active = in.boolean();
  for (std::uint32_t* each :
       {&figures.hard_blocks, &figures.soft_blocks, &figures.blocks, &figures.hard_files, &figures.soft_files,
        &figures.files, &figures.space_left_s, &figures.files_left_s}) {
    *each = in.u32();
  }
  return in.complete();
}

}  // namespace slice::rquota
