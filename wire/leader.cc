#include "wire/leader.h"

#include "wire/codec.h"

namespace slice::wire {

void encode(rpc::XdrWriter& out, const LeaderResult& result) {
  out.boolean(result.leads);
  out.u64(result.since_ms);
  out.text(bounded(result.leader));
  out.text(bounded(result.trouble));
  const std::size_t count = encode_count(out, result.places, kMaxStorePlaces);
  for (std::size_t i = 0; i < count; ++i) {
    out.text(bounded(result.places[i].place));
    out.text(bounded(result.places[i].trouble));
  }
}

bool decode(ByteView bytes, LeaderResult& out) {
  rpc::XdrReader in(bytes);
  out = LeaderResult{};
  out.leads = in.boolean();
  out.since_ms = in.u64();
  out.leader = std::string(in.text(kMaxText));
  out.trouble = std::string(in.text(kMaxText));
  decode_list(in, kMaxStorePlaces, out.places, [](rpc::XdrReader& each) {
    StorePlace place;
    place.place = std::string(each.text(kMaxText));
    place.trouble = std::string(each.text(kMaxText));
    return place;
  });
  return in.complete();
}

}  // namespace slice::wire
