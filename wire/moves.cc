#include "wire/moves.h"

#include "wire/codec.h"

namespace slice::wire {
namespace {

using rpc::XdrReader;
using rpc::XdrWriter;

constexpr std::uint32_t kMaxMoves = 4096;

Role decode_class(XdrReader& in) {
  return decode_enum(in, static_cast<Role>(kSiteClasses - 1));
}

// In order, each once.
std::vector<std::uint32_t> decode_sites(XdrReader& in, std::uint32_t limit) {
  std::vector<std::uint32_t> sites = decode_numbers(in, limit);
  for (std::size_t i = 0; i < sites.size(); ++i) {
    if (sites[i] >= kMaxSites || (i > 0 && sites[i] <= sites[i - 1])) in.fail();
  }
  return sites;
}

void encode_result(XdrWriter& out, const MoveSitesResult& result) {
  out.u32(static_cast<std::uint32_t>(result.phase));
  out.u64(result.copied_bytes);
  out.u64(result.expected_bytes);
  out.u32(result.tries);
  out.u64(result.pause_us);
  out.text(bounded(result.trouble));
}

MoveSitesResult decode_result(XdrReader& in) {
  MoveSitesResult result;
  result.phase = decode_enum(in, MovePhase::kAborted);
  result.copied_bytes = in.u64();
  result.expected_bytes = in.u64();
  result.tries = in.u32();
  result.pause_us = in.u64();
  result.trouble = std::string(in.text(kMaxText));
  return result;
}

void encode_settings(XdrWriter& out, const MoveSettings& settings) {
  out.boolean(settings.paused);
  out.u64(settings.bytes_per_second);
}

MoveSettings decode_settings(XdrReader& in) {
  MoveSettings settings;
  settings.paused = in.boolean();
  settings.bytes_per_second = in.u64();
  return settings;
}

}  // namespace

std::string_view phase_name(MovePhase phase) {
  switch (phase) {
    case MovePhase::kWaiting:
      return "waiting";
    case MovePhase::kPreparing:
      return "preparing";
    case MovePhase::kCopying:
      return "copying";
    case MovePhase::kGiven:
      return "freeing";
    case MovePhase::kDone:
      return "done";
    case MovePhase::kAborted:
      return "aborted";
  }
  return "?";
}

void encode_move(XdrWriter& out, const SiteMove& move) {
  out.u64(move.id.value);
  out.u32(static_cast<std::uint32_t>(move.site_class));
  out.u32(move.from);
  out.u32(move.to);
  out.u64(move.begun.value);
  encode_numbers(out, move.sites, kMaxSites);
}

SiteMove decode_move(XdrReader& in) {
  SiteMove move;
  move.id = MoveId{in.u64()};
  move.site_class = decode_class(in);
  move.from = in.u32();
  move.to = in.u32();
  move.begun = Generation{in.u64()};
  move.sites = decode_sites(in, kMaxSitesOfMove);
  if (move.sites.empty()) in.fail();
  return move;
}

void encode(XdrWriter& out, const MoveSitesArgs& args) {
  encode_move(out, args.move);
  out.u64(args.bytes_per_second);
  out.boolean(args.paused);
}
bool decode(ByteView bytes, MoveSitesArgs& out) {
  XdrReader in(bytes);
  out.move = decode_move(in);
  out.bytes_per_second = in.u64();
  out.paused = in.boolean();
  return in.complete();
}

void encode(XdrWriter& out, const MoveSitesResult& result) {
  encode_result(out, result);
}
bool decode(ByteView bytes, MoveSitesResult& out) {
  XdrReader in(bytes);
  out = decode_result(in);
  return in.complete();
}

void encode(XdrWriter& out, const AbortMoveArgs& args) {
  encode_move(out, args.move);
}
bool decode(ByteView bytes, AbortMoveArgs& out) {
  XdrReader in(bytes);
  out.move = decode_move(in);
  return in.complete();
}

void encode(XdrWriter& out, const AbortMoveResult& result) {
  out.u32(static_cast<std::uint32_t>(result.phase));
  out.u64(result.attempt);
}
bool decode(ByteView bytes, AbortMoveResult& out) {
  XdrReader in(bytes);
  out.phase = decode_enum(in, MovePhase::kAborted);
  out.attempt = in.u64();
  return in.complete();
}

void encode(XdrWriter& out, const PrepareSitesArgs& args) {
  encode_move(out, args.move);
  out.u64(args.attempt);
}
bool decode(ByteView bytes, PrepareSitesArgs& out) {
  XdrReader in(bytes);
  out.move = decode_move(in);
  out.attempt = in.u64();
  return in.complete();
}

void encode(XdrWriter& out, const OfferSitesArgs& args) {
  out.u64(args.move.value);
  out.u64(args.attempt);
  out.boolean(args.final);
  out.u64(args.verifier.value);
}
bool decode(ByteView bytes, OfferSitesArgs& out) {
  XdrReader in(bytes);
  out.move = MoveId{in.u64()};
  out.attempt = in.u64();
  out.final = in.boolean();
  out.verifier = Verifier{in.u64()};
  return in.complete();
}

void encode(XdrWriter& out, const TakeSitesArgs& args) {
  encode_move(out, args.move);
}
bool decode(ByteView bytes, TakeSitesArgs& out) {
  XdrReader in(bytes);
  out.move = decode_move(in);
  return in.complete();
}

void encode(XdrWriter& out, const WithdrawSitesArgs& args) {
  encode_move(out, args.move);
  out.u64(args.attempt);
}
bool decode(ByteView bytes, WithdrawSitesArgs& out) {
  XdrReader in(bytes);
  out.move = decode_move(in);
  out.attempt = in.u64();
  return in.complete();
}

void encode(XdrWriter& out, const MovesResult& result) {
  out.u32(static_cast<std::uint32_t>(result.status));
  out.u64(result.attempt);
  out.text(bounded(result.trouble));
}
bool decode(ByteView bytes, MovesResult& out) {
  XdrReader in(bytes);
  out.status = decode_status(in);
  out.attempt = in.u64();
  out.trouble = std::string(in.text(kMaxText));
  return in.complete();
}

void encode(XdrWriter& out, const LateWritesArgs& args) {
  out.u64(args.move.value);
  out.u64(args.attempt);
  const std::size_t count = encode_count(out, args.writes, kMaxLateWrites);
  for (std::size_t i = 0; i < count; ++i) {
    const LateWrite& write = args.writes[i];
    encode_endpoint(out, write.client);
    out.u32(write.xid);
    out.u64(write.fingerprint);
    out.u32(write.site);
    out.u32(static_cast<std::uint32_t>(write.status));
    out.text(bounded(write.reply));
  }
}
bool decode(ByteView bytes, LateWritesArgs& out) {
  XdrReader in(bytes);
  out = LateWritesArgs{};
  out.move = MoveId{in.u64()};
  out.attempt = in.u64();
  std::uint32_t count = decode_count(in, kMaxLateWrites);
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) {
    LateWrite write;
    write.client = decode_endpoint(in);
    write.xid = in.u32();
    write.fingerprint = in.u64();
    write.site = in.u32();
    write.status = decode_status(in);
    write.reply = std::string(in.text(kMaxText));
    out.writes.push_back(std::move(write));
  }
  return in.complete();
}

void encode(XdrWriter& out, const StartMovesArgs& args) {
  out.u32(static_cast<std::uint32_t>(args.site_class));
  out.u32(args.to);
  encode_numbers(out, args.sites, kMaxSites);
}
bool decode(ByteView bytes, StartMovesArgs& out) {
  XdrReader in(bytes);
  out.site_class = decode_class(in);
  out.to = in.u32();
  out.sites = decode_sites(in, kMaxSites);
  return in.complete();
}

void encode(XdrWriter& out, const StartMovesResult& result) {
  out.text(bounded(result.refused));
  out.boolean(result.later);
  const std::size_t count = encode_count(out, result.moves, kMaxMoves);
  for (std::size_t i = 0; i < count; ++i) out.u64(result.moves[i].value);
}
bool decode(ByteView bytes, StartMovesResult& out) {
  XdrReader in(bytes);
  out = StartMovesResult{};
  out.refused = std::string(in.text(kMaxText));
  out.later = in.boolean();
  std::uint32_t count = decode_count(in, kMaxMoves);
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) out.moves.push_back(MoveId{in.u64()});
  return in.complete();
}

void encode(XdrWriter& out, const MovesListResult& result) {
  encode_settings(out, result.settings);
  const std::size_t count = encode_count(out, result.moves, kMaxMoves);
  for (std::size_t i = 0; i < count; ++i) {
    const MoveState& each = result.moves[i];
    encode_move(out, each.move);
    encode_result(out, each.last);
    out.boolean(each.aborting);
    out.u64(each.began_ns);
    out.u64(each.ended_ns);
    out.u64(each.bytes_a_second);
  }
}
bool decode(ByteView bytes, MovesListResult& out) {
  XdrReader in(bytes);
  out = MovesListResult{};
  out.settings = decode_settings(in);
  std::uint32_t count = decode_count(in, kMaxMoves);
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) {
    MoveState each;
    each.move = decode_move(in);
    each.last = decode_result(in);
    each.aborting = in.boolean();
    each.began_ns = in.u64();
    each.ended_ns = in.u64();
    each.bytes_a_second = in.u64();
    out.moves.push_back(std::move(each));
  }
  return in.complete();
}

void encode(XdrWriter& out, const ChangeMovesArgs& args) {
  out.u32(args.fields);
  encode_settings(out, args.settings);
  out.u64(args.abort.value);
}
bool decode(ByteView bytes, ChangeMovesArgs& out) {
  XdrReader in(bytes);
  out.fields = in.u32();
  out.settings = decode_settings(in);
  out.abort = MoveId{in.u64()};
  return in.complete();
}

void encode(XdrWriter& out, const ChangeMovesResult& result) {
  out.text(bounded(result.refused));
  encode_settings(out, result.settings);
}
bool decode(ByteView bytes, ChangeMovesResult& out) {
  XdrReader in(bytes);
  out.refused = std::string(in.text(kMaxText));
  out.settings = decode_settings(in);
  return in.complete();
}

}  // namespace slice::wire
