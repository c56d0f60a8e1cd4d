#include "blockd/aoe_ports.h"

#include <utility>

#include "block/raw_volumes.h"
#include "common/log.h"

namespace slice::block {

Result<aoe::Disk> parse_aoe_disk(const std::string& text) {
  const std::size_t sign = text.find('=');
  if (sign == std::string::npos) return fail(Errc::kInvalid, "'{}' is no SHELF.SLOT=VOLUME", text);
  auto place = aoe::parse_place(text.substr(0, sign));
  if (!place) return fail(std::move(place.error()));
  std::string volume = text.substr(sign + 1);
  SLICE_RETURN_IF_ERROR(check_volume_name(volume));
  return aoe::Disk{.place = *place, .volume = std::move(volume)};
}

Status AoePorts::serve(Devices& devices) {
  if (!options_.used()) return {};
  target_ =
      std::make_unique<aoe::Target>(loop_, metrics_, devices, aoe::TargetOptions{.disks = options_.disks});
  for (const std::string& interface : options_.interfaces) {
    auto opened = link::SocketPort::ethernet(loop_, metrics_, interface,
                                             {.number = aoe::kEtherType, .broadcasts = true});
    if (!opened) return fail(std::move(opened.error()));
    link::SocketPort& port = *ports_.emplace_back(std::move(*opened));
    if (aoe::most_sectors(port) == 0)
      return fail(Errc::kInvalid, "interface '{}' takes frames of {} bytes, too few for AoE", interface,
                  port.largest());
    std::vector<link::Address> clients;
    for (const link::HardwareAddress& client : options_.clients) clients.push_back(port.address_of(client));
    target_->serve(port, std::move(clients));
    for (const aoe::Disk& disk : options_.disks) {
      log_info("serves volume {} by AoE at {}, interface {}", disk.volume, aoe::to_string(disk.place),
               interface);
    }
  }
  return {};
}

void AoePorts::finish() {
  if (target_ != nullptr) target_->finish();
}

}  // namespace slice::block
