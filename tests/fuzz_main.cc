// Runs a fuzz target without libFuzzer: inputs grown by mutation from one seed, the same at every run, so
// that every build and sanitizer tries a fuzz target shortly among the normal tests.
//
//   x_fuzz_test [ROUNDS [SEED]]        or        x_fuzz_test FILE...   (inputs that libFuzzer found)
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Input = std::vector<std::uint8_t>;

// Numbers that decoders of lengths, enums and counts have to refuse or to take, big-endian in place.
constexpr std::uint32_t kNumbers[] = {
    0,   1,   2,   3,   4,    5,    7,          8,          56,         64,         65,
    255, 256, 400, 401, 1024, 4096, 0x7fffffff, 0x80000000, 0x80000004, 0xfffffffc, 0xffffffff};

void put(Input& input, std::size_t at, std::uint32_t value) {
  for (std::size_t i = 0; i < 4 && at + i < input.size(); ++i) {
    input[at + i] = static_cast<std::uint8_t>(value >> (24 - 8 * i));
  }
}

void mutate(Input& input, std::mt19937_64& random) {
  std::size_t changes = 1 + random() % 4;
  for (std::size_t i = 0; i < changes; ++i) {
    std::size_t at = input.empty() ? 0 : random() % input.size();
    switch (random() % 6) {
      case 0:
        if (!input.empty()) input[at] = static_cast<std::uint8_t>(random());
        break;
      case 1:
      case 2:
        put(input, 1 + (at & ~std::size_t{3}), kNumbers[random() % std::size(kNumbers)]);
        break;
      case 3:
        input.resize(random() % 600);
        break;
      case 4: {
        std::size_t words = 1 + random() % 20;
        for (std::size_t w = 0; w < words; ++w) {
          input.resize(input.size() + 4);
          put(input, input.size() - 4, kNumbers[random() % 6]);
        }
        break;
      }
      default:
        if (!input.empty()) input[0] = static_cast<std::uint8_t>(random());
    }
  }
  if (input.size() > 8192) input.resize(8192);
}

int run_files(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    Input input((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strspn(argv[1], "0123456789") != std::strlen(argv[1])) return run_files(argc, argv);
  std::uint64_t rounds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 100'000;
  std::mt19937_64 random(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
  std::vector<Input> pool(64);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    Input input = pool[random() % pool.size()];
    mutate(input, random);
    LLVMFuzzerTestOneInput(input.data(), input.size());
    pool[random() % pool.size()] = std::move(input);
  }
  std::printf("%llu inputs\n", static_cast<unsigned long long>(rounds));
  return 0;
}
