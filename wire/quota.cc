#include "wire/quota.h"

#include "wire/codec.h"
#include "wire/settings.h"

namespace slice::wire {
namespace {

using rpc::XdrReader;
using rpc::XdrWriter;

void encode_id(XdrWriter& out, QuotaId whose) {
  out.u32(static_cast<std::uint32_t>(whose.kind));
  out.u32(whose.id);
}
QuotaId decode_id(XdrReader& in) {
  QuotaId whose{.kind = decode_enum(in, QuotaKind::kTree)};
  whose.id = in.u32();
  return whose;
}

void encode_quota(XdrWriter& out, const Quota& quota) {
  for (const QuotaLimit* limit : {&quota.space, &quota.files}) {
    out.u64(limit->soft);
    out.u64(limit->hard);
    out.u64(limit->over_since);
  }
  out.u32(quota.grace);
}
Quota decode_quota(XdrReader& in) {
  Quota quota;
  for (QuotaLimit* limit : {&quota.space, &quota.files}) {
    limit->soft = in.u64();
    limit->hard = in.u64();
    limit->over_since = in.u64();
  }
  quota.grace = in.u32();
  return quota;
}

void encode_usage(XdrWriter& out, const QuotaUsage& usage) {
  out.u64(usage.space);
  out.u64(usage.files);
}
QuotaUsage decode_usage(XdrReader& in) {
  QuotaUsage usage;
  usage.space = in.u64();
  usage.files = in.u64();
  return usage;
}

void encode_figures(XdrWriter& out, const std::vector<QuotaFigure>& figures) {
  const std::size_t count = encode_count(out, figures, kMaxQuotas);
  for (std::size_t i = 0; i < count; ++i) {
    encode_id(out, figures[i].whose);
    encode_usage(out, figures[i].usage);
    out.u64(figures[i].promised);
  }
}
void decode_figures(XdrReader& in, std::vector<QuotaFigure>& out) {
  decode_list(in, kMaxQuotas, out, [&out](XdrReader& from) {
    QuotaFigure figure{.whose = decode_id(from)};
    figure.usage = decode_usage(from);
    figure.promised = from.u64();
    if (!out.empty() && out.back().whose >= figure.whose) from.fail();
    return figure;
  });
}

}  // namespace

void encode_quotas(XdrWriter& out, const Quotas& quotas) {
  std::size_t count = encode_count(out, quotas, kMaxQuotas);
  for (auto each = quotas.begin(); count > 0; ++each, --count) {
    encode_id(out, each->first);
    encode_quota(out, each->second);
  }
}
Quotas decode_quotas(XdrReader& in) {
  Quotas quotas;
  const std::uint32_t count = decode_count(in, kMaxQuotas);
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) {
    const QuotaId whose = decode_id(in);
    if (!quotas.empty() && quotas.rbegin()->first >= whose) in.fail();
    quotas.emplace(whose, decode_quota(in));
  }
  return quotas;
}

void encode(XdrWriter& out, const QuotaReportArgs& args) {
  out.u32(args.server);
  out.boolean(args.counted);
  out.boolean(args.same);
  encode_figures(out, args.figures);
  out.u64(args.seen);
}
bool decode(ByteView bytes, QuotaReportArgs& out) {
  XdrReader in(bytes);
  out.server = in.u32();
  out.counted = in.boolean();
  out.same = in.boolean();
  decode_figures(in, out.figures);
  out.seen = in.u64();
  return in.complete();
}

void encode(XdrWriter& out, const QuotaReportResult& result) {
  out.boolean(result.again);
  out.u64(result.version);
  encode_figures(out, result.sums);
}
bool decode(ByteView bytes, QuotaReportResult& out) {
  XdrReader in(bytes);
  out.again = in.boolean();
  out.version = in.u64();
  decode_figures(in, out.sums);
  return in.complete();
}

void encode(XdrWriter& out, const ChangeQuotaArgs& args) {
  encode_id(out, args.whose);
  out.boolean(args.remove);
  out.u32(args.fields);
  encode_quota(out, args.quota);
}
bool decode(ByteView bytes, ChangeQuotaArgs& out) {
  XdrReader in(bytes);
  out.whose = decode_id(in);
  out.remove = in.boolean();
  out.fields = in.u32();
  if (out.fields > ChangeQuotaArgs::kAll || (out.remove && out.fields != 0)) in.fail();
  out.quota = decode_quota(in);
  return in.complete();
}

void encode(XdrWriter& out, const ChangeQuotaResult& result) {
  out.text(std::string_view(result.refused).substr(0, kMaxReloadText));
  out.u64(result.generation.value);
  encode_names(out, result.late, kMaxReloadTexts);
}
bool decode(ByteView bytes, ChangeQuotaResult& out) {
  XdrReader in(bytes);
  out.refused = std::string(in.text(kMaxReloadText));
  out.generation = SettingsGeneration{in.u64()};
  decode_names(in, kMaxReloadTexts, out.late);
  return in.complete();
}

void encode(XdrWriter& out, const QuotaUsageArgs& args) {
  out.boolean(args.all);
  encode_id(out, args.whose);
}
bool decode(ByteView bytes, QuotaUsageArgs& out) {
  XdrReader in(bytes);
  out.all = in.boolean();
  out.whose = decode_id(in);
  return in.complete();
}

void encode(XdrWriter& out, const QuotaUsageResult& result) {
  out.boolean(result.known);
  const std::size_t count = encode_count(out, result.quotas, kMaxQuotas);
  for (std::size_t i = 0; i < count; ++i) {
    encode_id(out, result.quotas[i].whose);
    encode_quota(out, result.quotas[i].quota);
    encode_usage(out, result.quotas[i].usage);
  }
}
bool decode(ByteView bytes, QuotaUsageResult& out) {
  XdrReader in(bytes);
  out.known = in.boolean();
  decode_list(in, kMaxQuotas, out.quotas, [](XdrReader& from) {
    QuotaUsageResult::One one{.whose = decode_id(from)};
    one.quota = decode_quota(from);
    one.usage = decode_usage(from);
    return one;
  });
  return in.complete();
}

void encode(XdrWriter& out, const RoomArgs& args) {
  out.u32(args.server);
  out.u32(args.owners.uid);
  out.u32(args.owners.gid);
  out.u64(args.held);
  out.u64(args.needed);
  // Servers of before there were trees read the rest.
  if (args.owners.tree != TreeId{}) out.u32(args.owners.tree.value);
}
bool decode(ByteView bytes, RoomArgs& out) {
  XdrReader in(bytes);
  out.server = in.u32();
  out.owners.uid = in.u32();
  out.owners.gid = in.u32();
  out.held = in.u64();
  out.needed = in.u64();
  out.owners.tree = {};
  if (in.ok() && in.left() > 0 && (out.owners.tree = decode_tree(in)) == TreeId{}) in.fail();
  return in.complete();
}

void encode(XdrWriter& out, const RoomResult& result) {
  out.u32(static_cast<std::uint32_t>(result.status));
  out.u64(result.promised);
  out.boolean(result.others);
}
bool decode(ByteView bytes, RoomResult& out) {
  XdrReader in(bytes);
  out.status = decode_status(in);
  out.promised = in.u64();
  out.others = in.boolean();
  return in.complete();
}

}  // namespace slice::wire
