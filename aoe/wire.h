// Frames of ATA over Ethernet, as far as a target needs them ("AoE (ATA over Ethernet)", revision AoEr11,
// Coraid 2009): their head (section 2), commands to a disk (section 3.1) and questions about a target (3.2).
// Numbers are big-endian but for a disk's addresses. What is decoded points into the frame.
#ifndef SLICE_AOE_WIRE_H
#define SLICE_AOE_WIRE_H

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/bytes.h"
#include "common/result.h"

namespace slice::aoe {

inline constexpr std::uint16_t kEtherType = 0x88a2;  // IEEE 802 has it for AoE
inline constexpr std::uint8_t kVersion = 1;
inline constexpr std::size_t kHeadSize = 10, kAtaHeadSize = 12, kConfigHeadSize = 8;
inline constexpr std::size_t kSector = 512, kMostText = 1024;

// Which target: "shelf" and "slot", or "major" and "minor" address.
struct Place {
  std::uint16_t shelf = 0;
  std::uint8_t slot = 0;
  auto operator<=>(const Place&) const = default;
};
inline constexpr Place kEverywhere{0xffff, 0xff};
// Each of both may stand for all.
bool is_for(Place asked, Place place);
// "7.1", and the other way; kInvalid: it is none, or one that stands for all.
std::string to_string(Place place);
Result<Place> parse_place(std::string_view text);

enum class Command : std::uint8_t { kAta = 0, kConfig = 1 };
enum class Failure : std::uint8_t {
  kNone = 0,
  kCommand = 1,      // none that there is
  kArgument = 2,     // it is not as it has to be
  kUnavailable = 3,  // the disk
  kTextPresent = 4,  // the text that is to be set is another already
  kVersion = 5
};

struct Head {
  std::uint8_t version = kVersion;
  bool answer = false;
  Failure failure = Failure::kNone;
  Place place;
  std::uint8_t command = 0;  // a Command, or any other
  std::uint32_t tag = 0;     // the client's, which it finds in the answer
};
struct Frame {
  Head head;
  ByteView rest;  // of its command
};
// None: too short.
std::optional<Frame> decode(ByteView bytes);

// A command's registers, and in an answer what has become of them.
struct Ata {
  bool extended = false, write = false;  // addresses of 48 bits instead of 28; data goes to the disk
  std::uint8_t feature = 0;              // of an answer: what was wrong
  std::uint8_t count = 0;                // sectors
  std::uint8_t command = 0;              // of an answer: the status
  std::uint64_t sector = 0;
};
namespace ata {
inline constexpr std::uint8_t kIdentify = 0xec, kCheckPower = 0xe5, kFlush = 0xe7, kFlushExtended = 0xea;
inline constexpr std::uint8_t kRead = 0x20, kReadExtended = 0x24, kReadDma = 0xc8, kReadDmaExtended = 0x25;
inline constexpr std::uint8_t kWrite = 0x30, kWriteExtended = 0x34, kWriteDma = 0xca,
                              kWriteDmaExtended = 0x35;
// Of answers.
inline constexpr std::uint8_t kReady = 0x40, kError = 0x01;                               // status
inline constexpr std::uint8_t kAborted = 0x04, kNoAddress = 0x10, kUncorrectable = 0x40;  // what was wrong
}  // namespace ata
struct AtaFrame {
  Ata ata;
  ByteView data;  // to its end, of which Ethernet may have added some
};
// None: too short.
std::optional<AtaFrame> decode_ata(ByteView rest);
// Its data is behind it, kHeadSize + kAtaHeadSize.
Buffer encode(const Head& head, const Ata& ata, ByteView data = {});

// What a client asks about targets, and is answered.
enum class Asks : std::uint8_t { kRead = 0, kSame = 1, kBegins = 2, kSet = 3, kReplace = 4 };
struct Config {
  std::uint16_t buffers = 0;  // requests that it has room for at once
  std::uint16_t firmware = 0;
  std::uint8_t sectors = 0;  // that a frame may have
  std::uint8_t version = kVersion;
  std::uint8_t asks = 0;  // an Asks, or any other
  std::string_view text;
};
// None: too short, or the text longer than there is, or than kMostText.
std::optional<Config> decode_config(ByteView rest);
Buffer encode(const Head& head, const Config& config);

// What IDENTIFY DEVICE answers for a disk of so many sectors (ATA/ATAPI-6, section 8.15): kSector bytes. No
// write cache: what is written is durable when it is answered. `model` and `serial`: ASCII, cut where they
// are too long.
Buffer identity(std::uint64_t sectors, std::string_view model, std::string_view serial);

}  // namespace slice::aoe

#endif  // SLICE_AOE_WIRE_H
