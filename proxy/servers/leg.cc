#include "proxy/servers/leg.h"

#include "proxy/servers/connection.h"
#include "wire/nfs3.h"

namespace slice::proxy {

Leg::~Leg() {
  if (connection != nullptr) connection->forget(*this);
  if (table != nullptr) table->remove(*this);
}

void Leg::note_answered() const {
  trace->add({.kind = TraceStep::Kind::kCall,
              .address = server.address,
              .port = server.port,
              .program = nfs3::kProgram,
              .procedure = procedure,
              .xid = xid,
              .sends = sends},
             asked_at);
}

std::string Leg::about() const {
  const std::string place = fmt::format("site {} of class {}", site, site_class);
  if (waits) return place + ", whose server cannot be reached";
  return fmt::format("{} at {}, sent {} times", place, rpc::to_string(server), sends);
}

bool LegTable::add(Leg& leg) {
  constexpr std::uint32_t kSlots = 1u << kSlotBits;
  if (free_.empty()) {
    if (slots_.size() == kSlots) return false;
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  std::uint32_t index = free_.back();
  free_.pop_back();
  Slot& slot = slots_[index];
  slot.leg = &leg;
  ++slot.turn;
  leg.xid = (slot.turn << kSlotBits) | index;
  leg.table = this;
  return true;
}

void LegTable::remove(Leg& leg) {
  std::uint32_t index = leg.xid & ((1u << kSlotBits) - 1);
  slots_[index].leg = nullptr;
  free_.push_back(index);
  leg.table = nullptr;
}

Leg* LegTable::find(std::uint32_t xid) const {
  std::uint32_t index = xid & ((1u << kSlotBits) - 1);
  if (index >= slots_.size()) return nullptr;
  Leg* leg = slots_[index].leg;
  return leg != nullptr && leg->xid == xid ? leg : nullptr;
}

}  // namespace slice::proxy
