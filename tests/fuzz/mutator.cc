#include "tests/fuzz/mutator.h"

#include <algorithm>

#include "rpc/auth.h"

namespace slice::fuzz {
namespace {

constexpr std::size_t kHandleSize = 56;
constexpr std::uint32_t kNumbers[] = {
    0,      1,      2,       3,          4,          5,          7,      8,          21,        22,   55,
    56,     57,     64,      65,         255,        256,        400,    401,        1024,      4095, 4096,
    65'535, 65'536, 1 << 20, 0x7fffffff, 0x80000000, 0x80000004, 100003, 0xfffffffc, 0xffffffff};
constexpr std::uint64_t kLongNumbers[] = {0,
                                          1,
                                          65'535,
                                          65'536,
                                          131'072,
                                          (1ULL << 32) - 1,
                                          1ULL << 32,
                                          (1ULL << 62) - 1,
                                          (1ULL << 63) - 1,
                                          1ULL << 63,
                                          ~0ULL - 65'535,
                                          ~0ULL};
constexpr std::size_t kNameLengths[] = {0, 1, 2, 11, 12, 63, 64, 254, 255, 256, 1023, 1024, 4095, 4096, 8192};
// Where fields of a handle begin (docs/formats/file-handle.md).
constexpr std::size_t kHandleFields[] = {0, 1, 2, 3, 4, 8, 12, 16, 20, 24, 32, 36, 40, 48, 55};

void put64(std::string& bytes, std::size_t at, std::uint64_t value) {
  put32(bytes, at, static_cast<std::uint32_t>(value >> 32));
  put32(bytes, at + 4, static_cast<std::uint32_t>(value));
}

// Where encoded handles are: a length of 56 before 56 bytes.
std::vector<std::size_t> handles_in(const std::string& bytes) {
  std::vector<std::size_t> found;
  for (std::size_t at = 0; at + 4 + kHandleSize <= bytes.size(); at += 4) {
    if (get32(bytes, at) == kHandleSize) found.push_back(at + 4);
  }
  return found;
}

}  // namespace

void put32(std::string& bytes, std::size_t at, std::uint32_t value) {
  for (std::size_t i = 0; i < 4 && at + i < bytes.size(); ++i) {
    bytes[at + i] = static_cast<char>(value >> (24 - 8 * i));
  }
}

void append32(std::string& bytes, std::uint32_t value) {
  bytes.append(4, '\0');
  put32(bytes, bytes.size() - 4, value);
}

std::uint32_t get32(const std::string& bytes, std::size_t at) {
  if (at + 4 > bytes.size()) return 0;
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<std::uint8_t>(bytes[at + i]);
  return value;
}

void Mutator::word(std::string& bytes) {
  put32(bytes, word_at(bytes), random_.one_of(kNumbers));
}

// A word that may be a length gets one that does not fit, or only just.
void Mutator::length(std::string& bytes) {
  for (int tries = 0; tries < 20; ++tries) {
    const std::size_t at = word_at(bytes);
    const std::uint32_t now = get32(bytes, at);
    const auto rest = static_cast<std::uint32_t>(bytes.size() - std::min(bytes.size(), at + 4));
    if (now > rest) continue;
    const std::uint32_t lies[] = {now + 1,  now - 1,  now + 4, now * 2,  rest,
                                  rest + 1, rest - 3, ~0U,     1U << 31, 0};
    return put32(bytes, at, random_.one_of(lies));
  }
}

void Mutator::double_word(std::string& bytes) {
  put64(bytes, word_at(bytes), random_.one_of(kLongNumbers));
}

void Mutator::handle(std::string& bytes) {
  const auto found = handles_in(bytes);
  if (found.empty()) return;
  const std::size_t at = random_.one_of(found);
  switch (random_.below(4)) {
    case 0:
      bytes.replace(at, kHandleSize, random_.one_of(volume_.handles));
      break;
    case 1:
      bytes[at + random_.one_of(kHandleFields)] = static_cast<char>(random_.next());
      break;
    case 2:
      put64(bytes, at + random_.one_of(kHandleFields) / 8 * 8, random_.one_of(kLongNumbers));
      break;
    default:
      put32(bytes, at - 4, random_.one_of(kNumbers));
  }
}

void Mutator::span(std::string& bytes) {
  const std::size_t at = word_at(bytes);
  const std::size_t size = std::min<std::size_t>(4 * (1 + random_.below(16)), bytes.size() - at);
  switch (random_.below(5)) {
    case 0:
      bytes.erase(at, size);
      break;
    case 1: {  // a list that goes on
      const std::string copy = bytes.substr(at, size);
      for (std::size_t n = 1 + random_.below(40); n > 0 && bytes.size() < kLongestMutation; --n)
        bytes.insert(at, copy);
      break;
    }
    case 2:
      bytes.resize(random_.below(bytes.size() + 1));
      break;
    case 3:
      for (std::size_t n = 1 + random_.below(30); n > 0; --n) append32(bytes, random_.one_of(kNumbers));
      break;
    default: {
      const std::string& other = random_.one_of(messages_).arguments;
      bytes.replace(at, size, other.substr(0, random_.below(other.size() + 1)));
    }
  }
}

void Mutator::name(std::string& bytes) {
  static constexpr char kLetters[] = {'a', '/', '.', '\0', '\n', '\x1b', '\x80', '\xff'};
  const std::size_t size = random_.one_of(kNameLengths);
  std::string text;
  append32(text, static_cast<std::uint32_t>(size));
  text.append(size, random_.one_of(kLetters));
  if (random_.once_in(3))
    text.replace(4, std::min<std::size_t>(size, 3),
                 std::string("../").substr(0, std::min<std::size_t>(size, 3)));
  text.append((4 - size % 4) % 4, '\0');
  bytes.insert(word_at(bytes), text);
}

void Mutator::change(std::string& bytes) {
  if (bytes.size() < 4) return append32(bytes, random_.one_of(kNumbers));
  switch (random_.below(10)) {
    case 0:
    case 1:
      return word(bytes);
    case 2:
    case 3:
      return length(bytes);
    case 4:
      return double_word(bytes);
    case 5:
    case 6:
      return handle(bytes);
    case 7:
      return span(bytes);
    case 8:
      return name(bytes);
    default:
      bytes[random_.below(bytes.size())] ^= static_cast<char>(1U << random_.below(8));
  }
}

void Mutator::arguments(std::string& bytes) {
  for (std::size_t n = 1 + random_.below(4); n > 0; --n) change(bytes);
  if (bytes.size() > kLongestMutation) bytes.resize(kLongestMutation);
}

void Mutator::anywhere(std::string& bytes) {
  switch (random_.below(4)) {
    case 0:
      return bytes.resize(random_.below(bytes.size() + 1));
    case 1:  // the header's words, which all come first
      return put32(bytes, 4 * random_.below(std::min<std::size_t>(bytes.size() / 4, 16)),
                   random_.one_of(kNumbers));
    case 2:
      return length(bytes);
    default:
      if (!bytes.empty()) bytes[random_.below(bytes.size())] = static_cast<char>(random_.next());
  }
}

std::string Mutator::credential() {
  // AUTH_TLS: with NULL, what follows on that connection goes to a handshake.
  if (random_.once_in(50)) return std::string({0, 0, 0, static_cast<char>(rpc::kAuthTls), 0, 0, 0, 0});
  std::string body;
  append32(body, 0);
  append32(body, 4);
  body += "fuzz";
  append32(body, random_.once_in(4) ? 0 : 1001);
  append32(body, 1001);
  const auto groups = static_cast<std::uint32_t>(random_.below(5));
  append32(body, groups);
  for (std::uint32_t i = 0; i < groups; ++i) append32(body, 100 + i);
  if (random_.once_in(20)) arguments(body);
  body.resize(std::min<std::size_t>(body.size(), 1000) / 4 * 4);
  std::string whole;
  append32(whole, random_.once_in(30) ? random_.one_of(kNumbers) : 1);
  append32(whole, random_.once_in(30) ? random_.one_of(kNumbers) : static_cast<std::uint32_t>(body.size()));
  return whole + body;
}

}  // namespace slice::fuzz
