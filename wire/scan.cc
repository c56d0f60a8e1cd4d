#include "wire/scan.h"

#include "rpc/xdr.h"
#include "wire/codec.h"

namespace slice::wire {

using rpc::XdrReader;
using rpc::XdrWriter;

namespace {

constexpr std::size_t kMaxGaps = 1024;

std::string key(XdrReader& in) {
  return std::string(in.text(kMaxScanKey));
}

ScanCell decode_cell(XdrReader& in) {
  std::string name = key(in);
  return {std::move(name), std::string(in.text(kMaxScanValue))};
}

ScanValue decode_scan_value(XdrReader& in) {
  ScanValue value;
  std::uint32_t state = in.u32();
  if (state > static_cast<std::uint32_t>(ScanValue::State::kUnreadable)) in.fail();
  value.state = static_cast<ScanValue::State>(state);
  if (value.state != ScanValue::State::kAbsent) value.value = std::string(in.text(kMaxScanValue));
  return value;
}

ScanGap decode_gap(XdrReader& in) {
  ScanGap gap;
  gap.begin = key(in);
  gap.end = key(in);
  gap.reason = std::string(in.text(kMaxScanValue));
  return gap;
}

}  // namespace

void encode(XdrWriter& out, const ScanArgs& args) {
  out.u32(args.site.value);
  out.u32(static_cast<std::uint32_t>(args.keys.size()));
  for (const std::string& each : args.keys) out.text(each);
  out.text(args.begin);
  out.text(args.end);
  out.u32(args.limit);
  out.u64(args.snapshot);
}
bool decode(ByteView bytes, ScanArgs& out) {
  XdrReader in(bytes);
  out.site.value = in.u32();
  decode_list(in, kMaxScanKeys, out.keys, key);
  out.begin = key(in);
  out.end = key(in);
  out.limit = in.u32();
  out.snapshot = in.u64();
  return in.complete();
}

void encode(XdrWriter& out, const SnapshotArgs& args) {
  out.u32(static_cast<std::uint32_t>(args.step));
  out.u64(args.number);
}
bool decode(ByteView bytes, SnapshotArgs& out) {
  XdrReader in(bytes);
  const std::uint32_t step = in.u32();
  if (step > static_cast<std::uint32_t>(SnapshotStep::kDrop)) in.fail();
  out.step = static_cast<SnapshotStep>(step);
  out.number = in.u64();
  return in.complete();
}

void encode(XdrWriter& out, const SnapshotResult& result) {
  out.u32(static_cast<std::uint32_t>(result.status));
  if (result.status != nfs3::Status::kOk) return;
  out.u32(static_cast<std::uint32_t>(result.sites.size()));
  for (std::uint32_t site : result.sites) out.u32(site);
}
bool decode(ByteView bytes, SnapshotResult& out) {
  XdrReader in(bytes);
  out = {};
  out.status = static_cast<nfs3::Status>(in.u32());
  if (!in.ok() || out.status != nfs3::Status::kOk) return in.complete();
  decode_list(in, kMaxSites, out.sites, [](XdrReader& each) { return each.u32(); });
  return in.complete();
}

void encode(XdrWriter& out, const ScanResult& result) {
  out.u32(static_cast<std::uint32_t>(result.status));
  if (result.status != nfs3::Status::kOk) return;
  out.u32(static_cast<std::uint32_t>(result.values.size()));
  for (const ScanValue& value : result.values) {
    out.u32(static_cast<std::uint32_t>(value.state));
    if (value.state != ScanValue::State::kAbsent) out.text(value.value);
  }
  out.u32(static_cast<std::uint32_t>(result.cells.size()));
  for (const ScanCell& cell : result.cells) {
    out.text(cell.key);
    out.text(cell.value);
  }
  out.u32(static_cast<std::uint32_t>(result.gaps.size()));
  for (const ScanGap& gap : result.gaps) {
    out.text(gap.begin);
    out.text(gap.end);
    out.text(gap.reason);
  }
  out.text(result.next);
}
bool decode(ByteView bytes, ScanResult& out) {
  XdrReader in(bytes);
  out = {};
  out.status = static_cast<nfs3::Status>(in.u32());
  if (!in.ok() || out.status != nfs3::Status::kOk) return in.complete();
  decode_list(in, kMaxScanKeys, out.values, decode_scan_value);
  decode_list(in, kMaxScanCells, out.cells, decode_cell);
  decode_list(in, kMaxGaps, out.gaps, decode_gap);
  out.next = key(in);
  return in.complete();
}

}  // namespace slice::wire
