#include "wire/directory.h"

#include "rpc/xdr.h"

namespace slice::wire {

using rpc::XdrReader;
using rpc::XdrWriter;

namespace {

constexpr std::uint32_t kMaxItems = 64;
constexpr std::uint32_t kMaxListed = 16384;
constexpr std::size_t kMaxCell = 64 << 10;  // an attribute cell that names many servers
constexpr std::size_t kMaxKey = 64;
constexpr std::size_t kMaxSiteBytes = 8 << 10;  // of a set: one bit each
constexpr std::size_t kMaxRecord = 64 << 10;    // the steps of one site

void put(XdrWriter& out, const TransactionName& id) {
  out.u32(id.site.value);
  out.u64(id.incarnation);
  out.u64(id.sequence);
}
void get(XdrReader& in, TransactionName& id) {
  id.site.value = in.u32();
  id.incarnation = in.u64();
  id.sequence = in.u64();
}

void put(XdrWriter& out, const CellName& cell) {
  out.u32(cell.site.value);
  out.u64(cell.file.value);
  out.u32(cell.generation);
}
void get(XdrReader& in, CellName& cell) {
  cell.site.value = in.u32();
  cell.file.value = in.u64();
  cell.generation = in.u32();
}

void put(XdrWriter& out, const LockItem& item) {
  out.u32(static_cast<std::uint32_t>(item.kind));
  out.boolean(item.exclusive);
  put(out, item.cell);
  out.u64(item.position);
  out.text(item.name);
}
void get(XdrReader& in, LockItem& item) {
  std::uint32_t kind = in.u32();
  if (kind > static_cast<std::uint32_t>(LockItem::Kind::kNew)) in.fail();
  item.kind = static_cast<LockItem::Kind>(kind);
  item.exclusive = in.boolean();
  get(in, item.cell);
  item.position = in.u64();
  item.name = in.text(nfs3::kMaxName);
}

void put(XdrWriter& out, const std::string& value) {
  out.text(value);
}
void get(XdrReader& in, std::string& value) {
  value = in.text(kMaxCell);
}

void put(XdrWriter& out, const PreparedPart& part) {
  out.u32(part.site.value);
  out.text(part.record);
}
void get(XdrReader& in, PreparedPart& part) {
  part.site.value = in.u32();
  part.record = in.text(kMaxRecord);
}

void put(XdrWriter& out, const ListedName& listed) {
  out.u64(listed.file.value);
  out.text(listed.name);
  out.u64(listed.cookie);
  out.text(listed.handle);
  nfs3::encode(out, listed.attributes);
}
void get(XdrReader& in, ListedName& listed) {
  listed.file.value = in.u64();
  listed.name = in.text(nfs3::kMaxName);
  listed.cookie = in.u64();
  listed.handle = in.text(kHandleSize);
  nfs3::decode(in, listed.attributes);
}

// One bit a site, the first site's the lowest.
void put(XdrWriter& out, const SiteSet& sites) {
  std::string bits((sites.has.size() + 7) / 8, '\0');
  for (std::size_t site = 0; site < sites.has.size(); ++site) {
    if (sites.has[site]) bits[site / 8] = static_cast<char>(bits[site / 8] | 1 << site % 8);
  }
  out.text(bits);
}
void get(XdrReader& in, SiteSet& sites) {
  const std::string_view bits = in.text(kMaxSiteBytes);
  sites.has.assign(bits.size() * 8, false);
  for (std::size_t site = 0; site < sites.has.size(); ++site)
    sites.has[site] = (static_cast<unsigned char>(bits[site / 8]) >> site % 8 & 1) != 0;
}

void put(XdrWriter& out, const CellChange& change) {
  out.text(change.key);
  out.boolean(change.value.has_value());
  if (change.value) out.text(*change.value);
}
void get(XdrReader& in, CellChange& change) {
  change.key = in.text(kMaxKey);
  if (in.boolean()) change.value = in.text(kMaxRecord);
}

template <class Item>
void put_all(XdrWriter& out, const std::vector<Item>& items) {
  out.u32(static_cast<std::uint32_t>(items.size()));
  for (const Item& item : items) put(out, item);
}
template <class Item>
void get_all(XdrReader& in, std::vector<Item>& items, std::uint32_t most) {
  std::uint32_t count = in.u32();
  if (count > most) in.fail();
  items.clear();
  for (; count > 0 && in.ok(); --count) get(in, items.emplace_back());
}

void put_status(XdrWriter& out, PeerStatus status) {
  out.u32(static_cast<std::uint32_t>(status));
}
// True where the body of a success follows.
bool get_status(XdrReader& in, PeerStatus& status) {
  std::uint32_t value = in.u32();
  if (value > static_cast<std::uint32_t>(PeerStatus::kStale)) in.fail();
  status = static_cast<PeerStatus>(value);
  return in.ok() && status == PeerStatus::kOk;
}

}  // namespace

void encode(XdrWriter& out, const LockArgs& args) {
  put(out, args.id);
  out.u64(args.age);
  put_all(out, args.items);
}
bool decode(ByteView bytes, LockArgs& out) {
  XdrReader in(bytes);
  get(in, out.id);
  out.age = in.u64();
  get_all(in, out.items, kMaxItems);
  return in.complete();
}

void encode(XdrWriter& out, const LockResult& result) {
  put_status(out, result.status);
  if (result.status != PeerStatus::kOk) return;
  out.u64(result.incarnation);
  put_all(out, result.values);
}
bool decode(ByteView bytes, LockResult& out) {
  XdrReader in(bytes);
  if (get_status(in, out.status)) {
    out.incarnation = in.u64();
    get_all(in, out.values, kMaxItems);
  }
  return in.complete();
}

void encode(XdrWriter& out, const PrepareArgs& args) {
  put(out, args.id);
  put_all(out, args.parts);
}
bool decode(ByteView bytes, PrepareArgs& out) {
  XdrReader in(bytes);
  get(in, out.id);
  get_all(in, out.parts, kMaxItems);
  return in.complete();
}

void encode(XdrWriter& out, const FinishArgs& args) {
  put(out, args.id);
  out.boolean(args.commit);
  out.u32(args.site.value);
}
bool decode(ByteView bytes, FinishArgs& out) {
  XdrReader in(bytes);
  get(in, out.id);
  out.commit = in.boolean();
  out.site.value = in.u32();
  return in.complete();
}

void encode(XdrWriter& out, const PeerResult& result) {
  put_status(out, result.status);
}
bool decode(ByteView bytes, PeerResult& out) {
  XdrReader in(bytes);
  get_status(in, out.status);
  return in.complete();
}

void encode(XdrWriter& out, const OutcomeArgs& args) {
  put(out, args.id);
}
bool decode(ByteView bytes, OutcomeArgs& out) {
  XdrReader in(bytes);
  get(in, out.id);
  return in.complete();
}

void encode(XdrWriter& out, const OutcomeResult& result) {
  put_status(out, result.status);
  if (result.status == PeerStatus::kOk) out.u32(static_cast<std::uint32_t>(result.outcome));
}
bool decode(ByteView bytes, OutcomeResult& out) {
  XdrReader in(bytes);
  if (get_status(in, out.status)) {
    std::uint32_t outcome = in.u32();
    if (outcome > static_cast<std::uint32_t>(TransactionOutcome::kAborted)) in.fail();
    out.outcome = static_cast<TransactionOutcome>(outcome);
  }
  return in.complete();
}

void encode(XdrWriter& out, const CellReadArgs& args) {
  put(out, args.cell);
  out.boolean(args.lease);
}
bool decode(ByteView bytes, CellReadArgs& out) {
  XdrReader in(bytes);
  get(in, out.cell);
  out.lease = in.boolean();
  return in.complete();
}

void encode(XdrWriter& out, const CellResult& result) {
  put_status(out, result.status);
  if (result.status == PeerStatus::kOk) put(out, result.cell);
}
bool decode(ByteView bytes, CellResult& out) {
  XdrReader in(bytes);
  if (get_status(in, out.status)) get(in, out.cell);
  return in.complete();
}

void encode(XdrWriter& out, const TouchArgs& args) {
  put(out, args.directory);
  out.u32(args.part.value);
  out.u64(args.version);
  out.u64(args.subdirectories);
}
bool decode(ByteView bytes, TouchArgs& out) {
  XdrReader in(bytes);
  get(in, out.directory);
  out.part.value = in.u32();
  out.version = in.u64();
  out.subdirectories = in.u64();
  return in.complete();
}

void encode(XdrWriter& out, const RevokeArgs& args) {
  out.u64(args.directory.value);
}
bool decode(ByteView bytes, RevokeArgs& out) {
  XdrReader in(bytes);
  out.directory.value = in.u64();
  return in.complete();
}

void encode(XdrWriter& out, const ListArgs& args) {
  put(out, args.directory);
  out.u64(args.after);
  out.u32(args.bytes);
  out.boolean(args.attributes);
}
bool decode(ByteView bytes, ListArgs& out) {
  XdrReader in(bytes);
  get(in, out.directory);
  out.after = in.u64();
  out.bytes = in.u32();
  out.attributes = in.boolean();
  return in.complete();
}

void encode(XdrWriter& out, const ListResult& result) {
  put_status(out, result.status);
  if (result.status != PeerStatus::kOk) return;
  out.boolean(result.end);
  put(out, result.sites);
  put_all(out, result.names);
}
bool decode(ByteView bytes, ListResult& out) {
  XdrReader in(bytes);
  if (get_status(in, out.status)) {
    out.end = in.boolean();
    get(in, out.sites);
    get_all(in, out.names, kMaxListed);
  }
  return in.complete();
}

void SiteSet::add(SiteId site) {
  if (site.value >= has.size()) has.resize(site.value + 1);
  has[site.value] = true;
}

void SiteSet::add(const SiteSet& other) {
  if (other.has.size() > has.size()) has.resize(other.has.size());
  for (std::size_t site = 0; site < other.has.size(); ++site) has[site] = has[site] || other.has[site];
}

std::string encode_value(const PartNames& names) {
  XdrWriter out;
  out.u64(names.entries);
  put(out, names.sites);
  return std::string(as_text(out.view()));
}
bool decode_value(std::string_view value, PartNames& out) {
  XdrReader in(as_bytes(value));
  out.entries = in.u64();
  get(in, out.sites);
  return in.complete();
}

void encode(XdrWriter& out, const OwnerArgs& args) {
  out.u32(args.site.value);
}
bool decode(ByteView bytes, OwnerArgs& out) {
  XdrReader in(bytes);
  out.site.value = in.u32();
  return in.complete();
}

void encode(XdrWriter& out, const OwnerResult& result) {
  put_status(out, result.status);
  if (result.status == PeerStatus::kOk) out.u32(result.server);
}
bool decode(ByteView bytes, OwnerResult& out) {
  XdrReader in(bytes);
  if (get_status(in, out.status)) out.server = in.u32();
  return in.complete();
}

void encode(XdrWriter& out, const CellsArgs& args) {
  out.u64(args.move.value);
  out.u64(args.attempt);
  out.u64(args.number);
  put_all(out, args.changes);
}
bool decode(ByteView bytes, CellsArgs& out) {
  XdrReader in(bytes);
  out.move.value = in.u64();
  out.attempt = in.u64();
  out.number = in.u64();
  get_all(in, out.changes, kMaxCellChanges);
  return in.complete();
}

}  // namespace slice::wire
