#include "aoe/wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "block/device.h"

namespace slice::aoe {
namespace {

constexpr std::uint8_t kAnswerFlag = 0x08, kFailureFlag = 0x04;                      // of the head
constexpr std::uint8_t kExtendedFlag = 0x40, kDeviceFlag = 0x10, kWriteFlag = 0x01;  // of a command to a disk
constexpr std::uint64_t kMost28 = 0x0fffffff;

std::uint8_t* put_head(std::uint8_t* at, const Head& head) {
  const bool failed = head.failure != Failure::kNone;
  at[0] = static_cast<std::uint8_t>(head.version << 4 | (head.answer ? kAnswerFlag : 0) |
                                    (failed ? kFailureFlag : 0));
  at[1] = static_cast<std::uint8_t>(head.failure);
  store_be(at + 2, head.place.shelf);
  at[4] = head.place.slot;
  at[5] = head.command;
  store_be(at + 6, head.tag);
  return at + kHeadSize;
}

template <class T>
bool read_number(std::string_view text, T& into) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  return error == std::errc() && end == text.data() + text.size();
}

// Words of IDENTIFY are little-endian.
class Words {
 public:
  Words() : out_(block::zeros(kSector)) {}
  void put(std::size_t word, std::uint16_t value) {
    out_.data()[word * 2] = static_cast<std::uint8_t>(value & 0xff);
    out_.data()[word * 2 + 1] = static_cast<std::uint8_t>(value >> 8);
  }
  void put(std::size_t word, std::uint64_t value, std::size_t words) {
    for (std::size_t i = 0; i < words; ++i) put(word + i, static_cast<std::uint16_t>(value >> (16 * i)));
  }
  // The first letter is a word's upper half.
  void put(std::size_t word, std::string_view text, std::size_t words) {
    for (std::size_t i = 0; i < words * 2; ++i) {
      const auto letter = static_cast<std::uint8_t>(i < text.size() ? text[i] : ' ');
      out_.data()[word * 2 + (i ^ 1)] = letter;
    }
  }
  Buffer take() { return std::move(out_); }

 private:
  Buffer out_;
};

}  // namespace

bool is_for(Place asked, Place place) {
  return (asked.shelf == place.shelf || asked.shelf == kEverywhere.shelf) &&
         (asked.slot == place.slot || asked.slot == kEverywhere.slot);
}

std::string to_string(Place place) {
  return fmt::format("{}.{}", place.shelf, place.slot);
}

Result<Place> parse_place(std::string_view text) {
  Place out;
  const std::size_t dot = text.find('.');
  const bool good = dot != std::string_view::npos && read_number(text.substr(0, dot), out.shelf) &&
                    read_number(text.substr(dot + 1), out.slot) && out.shelf != kEverywhere.shelf &&
                    out.slot != kEverywhere.slot;
  if (!good)
    return fail(Errc::kInvalid, "'{}' is no place like 7.1: a shelf up to 65534, a slot up to 254", text);
  return out;
}

std::optional<Frame> decode(ByteView bytes) {
  if (bytes.size() < kHeadSize) return {};
  const std::uint8_t* const at = bytes.data();
  return Frame{.head = {.version = static_cast<std::uint8_t>(at[0] >> 4),
                        .answer = (at[0] & kAnswerFlag) != 0,
                        .failure = static_cast<Failure>(at[1]),
                        .place = {load_be<std::uint16_t>(at + 2), at[4]},
                        .command = at[5],
                        .tag = load_be<std::uint32_t>(at + 6)},
               .rest = bytes.subspan(kHeadSize)};
}

std::optional<AtaFrame> decode_ata(ByteView rest) {
  if (rest.size() < kAtaHeadSize) return {};
  const std::uint8_t* const at = rest.data();
  Ata ata{.extended = (at[0] & kExtendedFlag) != 0,
          .write = (at[0] & kWriteFlag) != 0,
          .feature = at[1],
          .count = at[2],
          .command = at[3]};
  for (std::size_t i = 0; i < 6; ++i) ata.sector |= std::uint64_t{at[4 + i]} << (8 * i);
  if (!ata.extended) ata.sector &= kMost28;
  return AtaFrame{.ata = ata, .data = rest.subspan(kAtaHeadSize)};
}

Buffer encode(const Head& head, const Ata& ata, ByteView data) {
  Buffer out(kHeadSize + kAtaHeadSize + data.size());
  std::uint8_t* const at = put_head(out.data(), head);
  at[0] =
      static_cast<std::uint8_t>((ata.extended ? kExtendedFlag : kDeviceFlag) | (ata.write ? kWriteFlag : 0));
  at[1] = ata.feature;
  at[2] = ata.count;
  at[3] = ata.command;
  for (std::size_t i = 0; i < 6; ++i) at[4 + i] = static_cast<std::uint8_t>(ata.sector >> (8 * i));
  at[10] = at[11] = 0;
  std::ranges::copy(data, at + kAtaHeadSize);
  return out;
}

std::optional<Config> decode_config(ByteView rest) {
  if (rest.size() < kConfigHeadSize) return {};
  const std::uint8_t* const at = rest.data();
  const std::size_t size = load_be<std::uint16_t>(at + 6);
  if (size > kMostText || size > rest.size() - kConfigHeadSize) return {};
  return Config{.buffers = load_be<std::uint16_t>(at),
                .firmware = load_be<std::uint16_t>(at + 2),
                .sectors = at[4],
                .version = static_cast<std::uint8_t>(at[5] >> 4),
                .asks = static_cast<std::uint8_t>(at[5] & 0xf),
                .text = {reinterpret_cast<const char*>(at + kConfigHeadSize), size}};
}

Buffer encode(const Head& head, const Config& config) {
  Buffer out(kHeadSize + kConfigHeadSize + config.text.size());
  std::uint8_t* const at = put_head(out.data(), head);
  store_be(at, config.buffers);
  store_be(at + 2, config.firmware);
  at[4] = config.sectors;
  at[5] = static_cast<std::uint8_t>(config.version << 4 | (config.asks & 0xf));
  store_be(at + 6, static_cast<std::uint16_t>(config.text.size()));
  std::ranges::copy(config.text, at + kConfigHeadSize);
  return out;
}

Buffer identity(std::uint64_t sectors, std::string_view model, std::string_view serial) {
  Words words;
  words.put(10, serial, 10);
  words.put(23, "1", 4);  // of the firmware
  words.put(27, model, 20);
  words.put(49, 0x0200);  // addresses by sector
  words.put(53, 0x0002);  // words 64 to 70 count
  words.put(60, std::min(sectors, kMost28), 2);
  words.put(80, 0x0040);  // ATA/ATAPI-6
  words.put(83, 0x7400);  // has FLUSH CACHE, FLUSH CACHE EXT, addresses of 48 bits
  words.put(84, 0x4000);
  words.put(86, 0x3400);  // all of which are in force
  words.put(87, 0x4000);
  words.put(100, sectors, 4);
  return words.take();
}

}  // namespace slice::aoe
