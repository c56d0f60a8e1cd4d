// Mutations that know XDR and what NFS puts into it: words, lengths, counts, discriminants, 64-bit numbers,
// names, file handles and their fields; spans copied, cut and exchanged; and of a whole call its header,
// credential and verifier.
#ifndef SLICE_TESTS_FUZZ_MUTATOR_H
#define SLICE_TESTS_FUZZ_MUTATOR_H

#include <string>
#include <vector>

#include "tests/fuzz/corpus.h"
#include "tests/fuzz/random.h"

namespace slice::fuzz {

constexpr std::size_t kLongestMutation = 40'000;  // bytes, of arguments

class Mutator {
 public:
  Mutator(Random& random, const Volume& volume, const std::vector<Message>& messages)
      : random_(random), volume_(volume), messages_(messages) {}

  // One to four changes of encoded arguments.
  void arguments(std::string& bytes);
  // Changes a record or datagram anywhere: what decodes no more behind the header.
  void anywhere(std::string& bytes);
  // A credential: flavor, length and body; good, or not.
  std::string credential();

 private:
  void change(std::string& bytes);
  void word(std::string& bytes);
  void length(std::string& bytes);
  void double_word(std::string& bytes);
  void handle(std::string& bytes);
  void span(std::string& bytes);
  void name(std::string& bytes);
  std::size_t word_at(const std::string& bytes) { return random_.below(bytes.size() / 4) * 4; }

  Random& random_;
  const Volume& volume_;
  const std::vector<Message>& messages_;
};

void put32(std::string& bytes, std::size_t at, std::uint32_t value);
void append32(std::string& bytes, std::uint32_t value);
std::uint32_t get32(const std::string& bytes, std::size_t at);  // 0 where it is not there

}  // namespace slice::fuzz

#endif  // SLICE_TESTS_FUZZ_MUTATOR_H
