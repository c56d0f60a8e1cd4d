// Any bytes as frames, and as what handshakes carry: what is understood is encoded to the same bytes. Any
// frames, with right MACs, to a target in the middle of a session, and to an initiator with requests under
// way: nothing crashes, a target's memory stays within its bounds, and nothing beyond a volume is asked for.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/log.h"
#include "common/manual_loop.h"
#include "link/frame.h"
#include "link/initiator.h"
#include "link/target.h"
#include "link/testing/checked_device.h"
#include "link/testing/simulated_wire.h"

namespace {

using namespace slice;
using namespace slice::link;
using slice::link::testing::CheckedDevice;
using slice::link::testing::OneDevice;
using slice::link::testing::require;
using slice::link::testing::SimulatedWire;

constexpr Key kKey{1, 2, 3};
constexpr std::uint8_t kTarget = 1, kInitiator = 2;
constexpr std::size_t kVolume = CheckedDevice::kSize, kSessionBytes = 256 << 10;
constexpr std::size_t kFuzzedHead = 24;

// Of the input a frame's fields, small where the protocol's are, and its data: a few bytes or a block.
bool next_frame(ByteView& input, Head& head, Buffer& data) {
  if (input.size() < kFuzzedHead) return false;
  const std::uint8_t* at = input.data();
  head.op = static_cast<Op>(1 + at[0] % (static_cast<unsigned>(Op::kKinds) - 1));
  head.flags = at[1] & flag::kAll;
  head.code = static_cast<Code>(at[2] % static_cast<unsigned>(Code::kKinds));
  head.tag = at[3] % 8 == 7 ? load_be<std::uint16_t>(at + 4) : at[4] % 4;
  head.fragment = at[5];
  head.generation = at[6] % 8 == 7 ? load_be<std::uint32_t>(at + 8) : at[7] % 8;
  head.credit = load_be<std::uint16_t>(at + 8);
  head.offset = at[12] % 8 == 7 ? load_be<std::uint64_t>(at + 12) : load_be<std::uint16_t>(at + 14);
  head.count = at[20] % 8 == 7 ? load_be<std::uint32_t>(at + 20) : load_be<std::uint16_t>(at + 22) % 8192;
  std::size_t size = at[13] % 4 == 0 ? 1024 : at[13] % 4 == 1 ? kBlockMapSize : at[13];
  input = input.subspan(kFuzzedHead);
  data = Buffer(size);
  for (std::size_t i = 0; i < size; ++i) data.data()[i] = input.empty() ? 0 : input[i % input.size()];
  input = input.subspan(std::min<std::size_t>(input.size(), size % 16));
  return true;
}

void to_target(ByteView input) {
  ManualLoop loop;
  SimulatedWire wire(loop, 1);
  Metrics metrics;
  OneDevice devices(loop);
  const auto port = wire.port(kTarget), mine = wire.port(kInitiator);
  Target target(loop, metrics, devices,
                {.keys = {kKey}, .session_bytes = kSessionBytes, .tags = 8, .seed = 1});
  const Keys shared = handshake_keys(kKey);
  Keys keys;
  std::uint64_t session = 0;
  const Nonce nonce{9};
  mine->set_taker([&](const Address&, ByteView bytes) {
    const auto frame = decode(bytes);
    require(frame.has_value());
    if (const auto answer = decode_ticket_answer(frame->data); frame->head.op == Op::kTicket) {
      const Handshake handshake{
          .nonce = nonce, .ticket = answer->ticket, .block = 1024, .client = "c", .volume = "a"};
      mine->send(port->address(), sealed(shared.to_target, {.op = Op::kHandshake}, encode(handshake).view()));
    } else if (frame->head.op == Op::kWelcome) {
      session = frame->head.session;
      keys = session_keys(kKey, nonce, decode_welcome(frame->data)->target_nonce, session);
    }
  });
  target.serve(*port);
  mine->send(port->address(), sealed(shared.to_target, {.op = Op::kHello}, encode(nonce).view()));
  loop.advance(std::chrono::milliseconds(1));
  require(session != 0);
  wire.deliver(kInitiator, kTarget, input);
  Head head;
  Buffer data;
  while (next_frame(input, head, data)) {
    const bool without = head.op <= Op::kWelcome;
    head.session = without ? 0 : session;
    const Buffer frame = sealed(without ? shared.to_target : keys.to_target, head, data.view());
    wire.deliver(kInitiator, kTarget, frame.view());
    if (head.credit % 4 == 0) loop.advance(std::chrono::microseconds(50));
    require(metrics.counter("link_held_bytes").value() <= kSessionBytes);
  }
  loop.advance(std::chrono::milliseconds(1));
  require(target.running() == 0);
}

Task<void> use(Initiator& initiator, std::vector<std::uint8_t>& into) {
  auto device = co_await initiator.open("a");
  if (!device) co_return;
  spawn([](std::shared_ptr<block::Device> of, std::vector<std::uint8_t>& all) -> Task<void> {
    (void)co_await of->read(0, all);
  }(*device, into));
  spawn([](std::shared_ptr<block::Device> of) -> Task<void> {
    (void)co_await of->write(100, Buffer(5000), false);
    (void)co_await of->flush();
  }(*device));
}

void to_initiator(ByteView input) {
  ManualLoop loop;
  SimulatedWire wire(loop, 1);
  Metrics metrics;
  const auto port = wire.port(kInitiator), mine = wire.port(kTarget);
  const Keys shared = handshake_keys(kKey);
  Keys keys;
  std::uint64_t session = 0;
  mine->set_taker([&](const Address& from, ByteView bytes) {
    const auto frame = decode(bytes);
    require(frame.has_value());
    if (frame->head.op == Op::kHello) {
      const TicketAnswer answer{.nonce = *decode_nonce(frame->data), .ticket = {}};
      mine->send(from, sealed(shared.to_initiator, {.op = Op::kTicket}, encode(answer).view()));
    } else if (frame->head.op == Op::kHandshake) {
      const auto asked = decode_handshake(frame->data);
      require(asked.has_value());
      const Welcome welcome{.nonce = asked->nonce,
                            .size = kVolume,
                            .largest = 8192,
                            .block = asked->block,
                            .instance = session,
                            .opening = session,
                            .tags = 4};
      ++session;
      keys = session_keys(kKey, asked->nonce, welcome.target_nonce, session);
      mine->send(from, sealed(shared.to_initiator, {.op = Op::kWelcome, .credit = 64, .session = session},
                              encode(welcome).view()));
    }
  });
  Initiator initiator(loop, *port, mine->address(), metrics, {.key = kKey, .client = "c", .seed = 1});
  std::vector<std::uint8_t> into(4096);
  spawn(use(initiator, into));
  loop.advance(std::chrono::milliseconds(1));
  wire.deliver(kTarget, kInitiator, input);
  Head head;
  Buffer data;
  while (next_frame(input, head, data)) {
    const bool without = head.op <= Op::kWelcome;
    head.session = without ? head.tag : session;
    const Buffer frame = sealed(without ? shared.to_initiator : keys.to_initiator, head, data.view());
    wire.deliver(kTarget, kInitiator, frame.view());
    if (head.credit % 4 == 0) loop.advance(std::chrono::milliseconds(20));
  }
  initiator.close();
  loop.advance(std::chrono::seconds(2));
}

template <class Decode>
void require_same(ByteView input, Decode decode_it) {
  if (const auto message = decode_it(input)) require(std::ranges::equal(encode(*message).view(), input));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  set_log_level(LogLevel::kError);
  const ByteView input(data, size);
  if (const auto frame = decode(input)) {
    const Buffer again = sealed(kKey, frame->head, frame->data);
    require(std::ranges::equal(again.view().first(kHeadSize - kMacSize), input.first(kHeadSize - kMacSize)));
    (void)authentic(kKey, input);
  }
  require_same(input, decode_nonce);
  require_same(input, decode_ticket_answer);
  require_same(input, decode_handshake);
  require_same(input, decode_welcome);
  require_same(input, decode_block_map);
  // Sessions cost a hundred times what all of this does.
  if (size > kFuzzedHead && data[0] % 8 == 1) to_target(input);
  if (size > kFuzzedHead && data[0] % 8 == 2) to_initiator(input);
  return 0;
}
