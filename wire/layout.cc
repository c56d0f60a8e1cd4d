#include "wire/layout.h"

#include "wire/codec.h"
#include "wire/listed_site.h"

namespace slice::wire {

using rpc::XdrReader;
using rpc::XdrWriter;

namespace {

void encode_range(XdrWriter& out, const StripeRange& range) {
  out.u64(range.first);
  out.u64(range.end);
}
StripeRange decode_range(XdrReader& in) {
  StripeRange range{in.u64(), in.u64()};
  if (range.first >= range.end) in.fail();
  return range;
}

void encode_missing(XdrWriter& out, const Missing& missing) {
  out.u32(missing.server);
  out.boolean(missing.joining);
  out.u32(static_cast<std::uint32_t>(missing.stripes.size()));
  for (const StripeRange& range : missing.stripes) encode_range(out, range);
  out.u32(static_cast<std::uint32_t>(missing.since.size()));
  for (const MissedSince& each : missing.since) {
    encode_range(out, each.stripes);
    out.u64(each.version);
  }
}
Missing decode_missing(XdrReader& in) {
  Missing missing;
  missing.server = in.u32();
  missing.joining = in.boolean();
  std::uint32_t count = in.u32();
  if (count > kMaxStripeRanges) in.fail();
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) missing.stripes.push_back(decode_range(in));
  count = in.u32();
  if (count > kMaxMissedSince) in.fail();
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) {
    const StripeRange stripes = decode_range(in);
    missing.since.push_back({stripes, in.u64()});
  }
  return missing;
}

void encode_piece(XdrWriter& out, const MapPiece& piece) {
  out.u64(piece.number);
  out.boolean(!piece.sites.empty());
  for (std::uint32_t site : piece.sites) out.u32(site);
}
MapPiece decode_piece(XdrReader& in) {
  MapPiece piece{.number = in.u64(), .sites = {}};
  if (!in.boolean()) return piece;
  piece.sites.resize(kStripesOfPiece);
  for (std::uint32_t& site : piece.sites) {
    site = in.u32();
    if (!is_good_site(site)) in.fail();
  }
  return piece;
}

constexpr std::size_t kMaxTrouble = 255;  // bytes of SpreadingResult::trouble
constexpr std::size_t kMaxLeft = 255;     // bytes of EmptiedResult::left
// With the most ranges of stripes.
constexpr std::size_t kMaxIntentionRecord = 128 + 16 * kMaxStripeRanges;

void encode_longs(XdrWriter& out, const std::vector<std::uint64_t>& numbers) {
  const std::size_t count = encode_count(out, numbers, kMaxMovedNumbers);
  for (std::size_t i = 0; i < count; ++i) out.u64(numbers[i]);
}
std::vector<std::uint64_t> decode_longs(XdrReader& in) {
  std::vector<std::uint64_t> numbers;
  const std::uint32_t count = decode_count(in, kMaxMovedNumbers);
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) numbers.push_back(in.u64());
  return numbers;
}

}  // namespace

void encode(XdrWriter& out, const SessionArgs& args) {
  out.u32(args.server);
  out.u64(args.session);
  out.u64(args.free_bytes);
}
bool decode(ByteView bytes, SessionArgs& out) {
  XdrReader in(bytes);
  out.server = in.u32();
  out.session = in.u64();
  out.free_bytes = in.u64();
  return in.complete();
}

void encode(XdrWriter& out, const SessionResult& result) {
  encode_status(out, result.status);
  out.u64(result.session);
  out.u32(result.milliseconds);
  out.u64(result.version);
}
bool decode(ByteView bytes, SessionResult& out) {
  XdrReader in(bytes);
  out.status = decode_status(in);
  out.session = in.u64();
  out.milliseconds = in.u32();
  out.version = in.u64();
  return in.complete();
}

void encode(XdrWriter& out, const EndSessionArgs& args) {
  out.u32(args.server);
  out.u64(args.session);
  out.boolean(args.durable);
}
bool decode(ByteView bytes, EndSessionArgs& out) {
  XdrReader in(bytes);
  out.server = in.u32();
  out.session = in.u64();
  out.durable = in.boolean();
  return in.complete();
}

void encode(XdrWriter& out, const SpreadArgs& args) {
  out.u64(args.known.value);
  const std::size_t count = encode_count(out, args.shares, kMaxServers);
  for (std::size_t i = 0; i < count; ++i) {
    out.u32(args.shares[i].server);
    out.u64(args.shares[i].weight);
  }
}
bool decode(ByteView bytes, SpreadArgs& out) {
  XdrReader in(bytes);
  out.known = Generation{in.u64()};
  const std::uint32_t count = decode_count(in, kMaxServers);
  out.shares.clear();
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) {
    const std::uint32_t server = in.u32();
    out.shares.push_back({server, in.u64()});
  }
  return in.complete();
}

std::string_view phase_name(SpreadPhase phase) {
  switch (phase) {
    case SpreadPhase::kNever:
      return "never";
    case SpreadPhase::kWaiting:
      return "waiting";
    case SpreadPhase::kCounting:
      return "counting";
    case SpreadPhase::kMoving:
      return "moving";
    case SpreadPhase::kDone:
      return "done";
    case SpreadPhase::kGivenUp:
      return "given up";
  }
  return "?";
}

void encode(XdrWriter& out, const SpreadingResult& result) {
  out.u32(static_cast<std::uint32_t>(result.phase));
  out.u64(result.moved_bytes);
  out.u64(result.left_bytes);
  out.u64(result.failed_stripes);
  out.u64(result.bytes_a_second);
  out.u64(result.began_ns);
  out.u64(result.ended_ns);
  out.text(std::string_view(result.trouble).substr(0, kMaxTrouble));
}
bool decode(ByteView bytes, SpreadingResult& out) {
  XdrReader in(bytes);
  const std::uint32_t phase = in.u32();
  if (phase > static_cast<std::uint32_t>(SpreadPhase::kGivenUp)) in.fail();
  out.phase = static_cast<SpreadPhase>(phase);
  out.moved_bytes = in.u64();
  out.left_bytes = in.u64();
  out.failed_stripes = in.u64();
  out.bytes_a_second = in.u64();
  out.began_ns = in.u64();
  out.ended_ns = in.u64();
  out.trouble = std::string(in.text(kMaxTrouble));
  return in.complete();
}

void encode(XdrWriter& out, const LayoutArgs& args) {
  out.opaque(args.handle);
  out.u64(args.stripe);
  out.boolean(args.place);
}
bool decode(ByteView bytes, LayoutArgs& out) {
  XdrReader in(bytes);
  out.handle = in.opaque(nfs3::kMaxHandle);
  out.stripe = in.u64();
  out.place = in.boolean();
  return in.complete();
}

void encode(XdrWriter& out, const LayoutResult& result) {
  encode_status(out, result.status);
  out.u64(result.layout.version);
  out.u64(result.layout.changed);
  out.u32(static_cast<std::uint32_t>(result.layout.missing.size()));
  for (const Missing& missing : result.layout.missing) encode_missing(out, missing);
  out.u32(static_cast<std::uint32_t>(result.layout.orders_since.size()));
  for (const OrdersSince& each : result.layout.orders_since) {
    out.u32(each.server);
    out.u64(each.version);
  }
  out.u64(result.layout.others_order_since);
  const std::optional<Moving>& moving = result.layout.moving;
  out.boolean(moving.has_value());
  if (moving) {
    out.u64(moving->stripe);
    out.u32(moving->site);
    out.boolean(moving->switched);
  }
  encode_piece(out, result.layout.piece);
  out.boolean(result.layout.settled);
  out.u32(result.owner);
}
bool decode(ByteView bytes, LayoutResult& out) {
  XdrReader in(bytes);
  out.status = decode_status(in);
  out.layout.version = in.u64();
  out.layout.changed = in.u64();
  out.layout.missing.clear();
  std::uint32_t count = in.u32();
  if (count > kMaxMissing) in.fail();
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) out.layout.missing.push_back(decode_missing(in));
  out.layout.orders_since.clear();
  count = in.u32();
  if (count > kMaxOrdersSince) in.fail();
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) {
    out.layout.orders_since.push_back({.server = in.u32(), .version = in.u64()});
  }
  out.layout.others_order_since = in.u64();
  out.layout.moving.reset();
  if (in.boolean()) {
    Moving& moving = out.layout.moving.emplace();
    moving.stripe = in.u64();
    moving.site = in.u32();
    if (!is_good_site(moving.site)) in.fail();
    moving.switched = in.boolean();
  }
  out.layout.piece = decode_piece(in);
  out.layout.settled = in.boolean();
  out.owner = in.u32();
  return in.complete();
}

void encode(XdrWriter& out, const MissedArgs& args) {
  out.opaque(args.handle);
  out.u32(args.server);
  encode_range(out, args.stripes);
}
bool decode(ByteView bytes, MissedArgs& out) {
  XdrReader in(bytes);
  out.handle = in.opaque(nfs3::kMaxHandle);
  out.server = in.u32();
  out.stripes = decode_range(in);
  return in.complete();
}

void encode(XdrWriter& out, const RecallArgs& args) {
  out.u64(args.file.value);
  out.u64(args.version);
  out.u32(args.coordinator);
  encode_numbers(out, args.sites, kMaxSites);
}
bool decode(ByteView bytes, RecallArgs& out) {
  XdrReader in(bytes);
  out.file = FileId{in.u64()};
  out.version = in.u64();
  out.coordinator = in.u32();
  out.sites = decode_numbers(in, kMaxSites);
  return in.complete();
}

void encode(XdrWriter& out, const ReceiveArgs& args) {
  out.u64(args.move);
  out.u64(args.attempt);
  out.u64(args.number);
  std::size_t count = encode_count(out, args.begun, kMaxMovedIntentions);
  for (std::size_t i = 0; i < count; ++i) {
    out.u64(args.begun[i].number);
    out.opaque(as_bytes(args.begun[i].record));
  }
  encode_longs(out, args.ended);
  count = encode_count(out, args.pieces, kMaxMovedPieces);
  for (std::size_t i = 0; i < count; ++i) {
    out.u64(args.pieces[i].file.value);
    encode_piece(out, args.pieces[i].piece);
  }
  encode_longs(out, args.removed);
  out.u64(args.version);
}
bool decode(ByteView bytes, ReceiveArgs& out) {
  XdrReader in(bytes);
  out = {.move = in.u64(), .attempt = in.u64(), .number = in.u64()};
  std::uint32_t count = decode_count(in, kMaxMovedIntentions);
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) {
    MovedIntention& each = out.begun.emplace_back();
    each.number = in.u64();
    each.record = std::string(as_text(in.opaque(kMaxIntentionRecord)));
  }
  out.ended = decode_longs(in);
  count = decode_count(in, kMaxMovedPieces);
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) {
    MovedPiece& each = out.pieces.emplace_back();
    each.file = FileId{in.u64()};
    each.piece = decode_piece(in);
  }
  out.removed = decode_longs(in);
  out.version = in.u64();
  return in.complete();
}

// Of a FORWARD: the last version has a boolean in their place, and knows no holes.
constexpr std::uint32_t kForwardSync = 1, kForwardHole = 2;

void encode(XdrWriter& out, const ForwardArgs& args) {
  out.opaque(args.handle);
  out.u64(args.version);
  out.u64(args.number);
  out.u32(args.epoch.value);
  out.u64(args.offset);
  nfs3::encode(out, args.mtime);
  const bool hole = args.hole > 0;
  out.u32((args.sync ? kForwardSync : 0) | (hole ? kForwardHole : 0));
  hole ? out.u32(args.hole) : out.opaque(args.data);
}
bool decode(ByteView bytes, ForwardArgs& out) {
  XdrReader in(bytes);
  out.handle = in.opaque(nfs3::kMaxHandle);
  out.version = in.u64();
  out.number = in.u64();
  out.epoch = Epoch{in.u32()};
  out.offset = in.u64();
  nfs3::decode(in, out.mtime);
  const std::uint32_t flags = in.u32();
  const bool hole = (flags & kForwardHole) != 0;
  out.sync = (flags & kForwardSync) != 0;
  out.data = hole ? ByteView() : in.opaque(nfs3::kMaxTransfer);
  out.hole = hole ? in.u32() : 0;
  if (flags > (kForwardSync | kForwardHole) || (hole && out.hole == 0) || out.hole > nfs3::kMaxTransfer)
    in.fail();
  return in.complete();
}

void encode(XdrWriter& out, const ForwardResult& result) {
  encode_status(out, result.status);
  out.u32(result.epoch.value);
  out.u64(result.number);
  out.u64(result.verifier.value);
}
bool decode(ByteView bytes, ForwardResult& out) {
  XdrReader in(bytes);
  out.status = decode_status(in);
  out.epoch = Epoch{in.u32()};
  out.number = in.u64();
  out.verifier = Verifier{in.u64()};
  return in.complete();
}

void encode(XdrWriter& out, const CopyArgs& args) {
  out.opaque(args.handle);
  out.u64(args.version);
  out.u64(args.stripe);
  out.u32(args.to);
}
bool decode(ByteView bytes, CopyArgs& out) {
  XdrReader in(bytes);
  out.handle = in.opaque(nfs3::kMaxHandle);
  out.version = in.u64();
  out.stripe = in.u64();
  out.to = in.u32();
  return in.complete();
}

void encode(XdrWriter& out, const MapArgs& args) {
  out.opaque(args.handle);
  out.u64(args.stripe);
}
bool decode(ByteView bytes, MapArgs& out) {
  XdrReader in(bytes);
  out.handle = in.opaque(nfs3::kMaxHandle);
  out.stripe = in.u64();
  return in.complete();
}

void encode(XdrWriter& out, const MapResult& result) {
  encode_status(out, result.status);
  encode_piece(out, result.piece);
}
bool decode(ByteView bytes, MapResult& out) {
  XdrReader in(bytes);
  out.status = decode_status(in);
  out.piece = decode_piece(in);
  return in.complete();
}

void encode(XdrWriter& out, const MoveArgs& args) {
  out.opaque(args.handle);
  out.u64(args.stripe);
  out.u32(args.site);
}
bool decode(ByteView bytes, MoveArgs& out) {
  XdrReader in(bytes);
  out.handle = in.opaque(nfs3::kMaxHandle);
  out.stripe = in.u64();
  out.site = in.u32();
  return in.complete();
}

void encode(XdrWriter& out, const EmptiedArgs& args) {
  out.u32(args.server);
  out.u64(args.known.value);
}
bool decode(ByteView bytes, EmptiedArgs& out) {
  XdrReader in(bytes);
  out.server = in.u32();
  out.known = Generation{in.u64()};
  return in.complete();
}

void encode(XdrWriter& out, const EmptiedResult& result) {
  encode_status(out, result.status);
  out.u64(result.record);
  out.text(std::string_view(result.left).substr(0, kMaxLeft));
}
bool decode(ByteView bytes, EmptiedResult& out) {
  XdrReader in(bytes);
  out.status = decode_status(in);
  out.record = in.u64();
  out.left = std::string(in.text(kMaxLeft));
  return in.complete();
}

void encode_sent_too_early(XdrWriter& results, rpc::LayoutStamp stamp) {
  nfs3::encode_failure(results, nfs3::Procedure::kWrite, nfs3::Status::kJukebox);
  results.u32(stamp.coordinator);
  results.u64(stamp.version);
}

std::optional<rpc::LayoutStamp> decode_sent_too_early(ByteView results) {
  XdrReader in(results);
  bool none = decode_status(in) == nfs3::Status::kJukebox && !in.boolean() && !in.boolean();
  const std::uint32_t coordinator = in.u32();
  const std::uint64_t version = in.u64();
  if (!none || !in.complete() || coordinator > 0xffff) return std::nullopt;
  return rpc::LayoutStamp{static_cast<std::uint16_t>(coordinator), version};
}

void encode(XdrWriter& out, const DiscardArgs& args) {
  out.opaque(args.handle);
  out.u64(args.version);
  out.u64(args.stripe);
}
bool decode(ByteView bytes, DiscardArgs& out) {
  XdrReader in(bytes);
  out.handle = in.opaque(nfs3::kMaxHandle);
  out.version = in.u64();
  out.stripe = in.u64();
  return in.complete();
}

void encode(XdrWriter& out, const LeavingArgs& args) {
  out.u32(args.server);
}
bool decode(ByteView bytes, LeavingArgs& out) {
  XdrReader in(bytes);
  out.server = in.u32();
  return in.complete();
}

}  // namespace slice::wire
