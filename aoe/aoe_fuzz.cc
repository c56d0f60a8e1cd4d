// Any bytes as frames of AoE: what is understood is encoded to the same. And any frames, from a client, to a
// target: nothing crashes, nothing beyond a volume is asked for, no more is under way than may be, and no
// answer is longer than a frame.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "aoe/target.h"
#include "common/log.h"
#include "common/manual_loop.h"
#include "link/testing/checked_device.h"
#include "link/testing/simulated_wire.h"

namespace {

using namespace slice;
using namespace slice::aoe;
using link::testing::OneDevice;
using link::testing::require;
using link::testing::SimulatedWire;

constexpr std::uint8_t kTarget = 1, kClient = 2;
constexpr Place kPlace{7, 1};
constexpr std::size_t kRequests = 4;

void decode_and_encode(ByteView input) {
  const auto frame = decode(input);
  if (!frame) return;
  if (const auto ata = decode_ata(frame->rest)) {
    const Buffer again = encode(frame->head, ata->ata, ata->data);
    const auto same = decode_ata(decode(again.view())->rest);
    require(same->ata.sector == ata->ata.sector && same->ata.command == ata->ata.command &&
            std::ranges::equal(same->data, ata->data));
  }
  if (const auto config = decode_config(frame->rest)) {
    const Buffer again = encode(frame->head, *config);
    const auto same = decode_config(decode(again.view())->rest);
    require(same->text == config->text && same->asks == config->asks);
  }
}

constexpr std::uint8_t kCommands[] = {ata::kRead,  ata::kReadExtended,  ata::kWrite,    ata::kWriteExtended,
                                      ata::kFlush, ata::kFlushExtended, ata::kIdentify, ata::kCheckPower};

// Of the input a frame that is for the disk, mostly, and asks for something that there is, mostly.
Buffer next_frame(ByteView& input) {
  const std::uint8_t* const at = input.data();
  const Head head{.place = at[0] % 8 == 0 ? Place{at[1], at[2]} : kPlace,
                  .command = at[3] % 16 == 0 ? at[4] : std::uint8_t{0},
                  .tag = at[5] % 8U};
  const std::uint8_t command = at[6] % 16 == 0 ? at[7] : kCommands[at[7] % std::size(kCommands)];
  const Ata ata{
      .extended = at[8] % 2 == 0,
      .write = at[8] % 8 == 0 ? at[9] % 2 == 0 : command == ata::kWrite || command == ata::kWriteExtended,
      .count = static_cast<std::uint8_t>(at[10] % 4),
      .command = command,
      .sector = at[11] % 8 == 0 ? load_be<std::uint64_t>(at + 8) : at[12] % 160U};
  const std::vector<std::uint8_t> data(at[13] % 8 == 0 ? at[14] : ata.count * kSector, at[15]);
  input = input.subspan(16);
  return encode(head, ata, data);
}

void to_target(ByteView input) {
  ManualLoop loop;
  SimulatedWire wire(loop, 1);
  Metrics metrics;
  OneDevice devices(loop);
  const auto port = wire.port(kTarget), mine = wire.port(kClient);
  mine->set_taker([&](const link::Address&, ByteView frame) { require(frame.size() <= port->largest()); });
  Target target(loop, metrics, devices, {.disks = {{kPlace, "a"}}, .requests = kRequests});
  target.serve(*port, {mine->address()});
  wire.deliver(kClient, kTarget, input);
  while (input.size() >= 16) {
    const bool wait = input[5] % 4 == 0;
    const Buffer frame = next_frame(input);
    wire.deliver(kClient, kTarget, frame.view());
    if (wait) loop.advance(std::chrono::microseconds(50));
    require(target.running() <= kRequests);
  }
  loop.advance(std::chrono::milliseconds(1));
  require(target.running() == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  set_log_level(LogLevel::kError);
  const ByteView input(data, size);
  decode_and_encode(input);
  if (size > 0 && data[0] % 4 == 1) to_target(input);
  return 0;
}
