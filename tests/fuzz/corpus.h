// What mutations begin with: a good call of every procedure of every program, by the encoders of wire/.
#ifndef SLICE_TESTS_FUZZ_CORPUS_H
#define SLICE_TESTS_FUZZ_CORPUS_H

#include <cstdint>
#include <string>
#include <vector>

namespace slice::fuzz {

// Names of a volume: handles of a folder, of a small and of a large file of the fuzzer's own.
struct Volume {
  std::vector<std::string> handles;
  std::uint32_t id = 1;
};

struct Message {
  std::uint32_t program = 0, version = 0, procedure = 0;
  std::string arguments;
  bool internal = false;  // of the ensemble itself: refused without a seal
};

std::vector<Message> corpus(const Volume& volume);

}  // namespace slice::fuzz

#endif  // SLICE_TESTS_FUZZ_CORPUS_H
