// One case of a run: what is sent, made again at any time from the run's seed, the case's number and the
// volume's facts.
#ifndef SLICE_TESTS_FUZZ_CASE_H
#define SLICE_TESTS_FUZZ_CASE_H

#include <optional>

#include "common/ip_address.h"
#include "tests/fuzz/mutator.h"

namespace slice::fuzz {

struct Case {
  std::uint64_t number = 0;
  std::string message;  // an RPC message, without a record mark
  // The message may end its connection, so it gets one to itself; over TCP its marks are changed as well.
  bool alone = false;
};

class CaseMaker {
 public:
  CaseMaker(std::uint64_t seed, Volume volume);

  Case make(std::uint64_t number) const;
  // As it goes over TCP: marks and fragments; of a case that stands alone often wrong ones.
  std::string framed(const Case& one) const;
  // As a frame's packet from `source` to `destination`, of one family: fragments, options or extension
  // headers, lengths that lie.
  std::string packet(const Case& one, IpAddress source, IpAddress destination) const;
  // A good call that every program answers somehow.
  static std::string null_call(std::uint32_t xid);

 private:
  std::string header(Random& random, Mutator& mutator, const Message& message, std::uint64_t number,
                     const std::string& arguments) const;
  std::string from_member(Random& random, const Message& message, std::uint64_t number,
                          const std::string& credential, const std::string& arguments) const;

  std::uint64_t seed_;
  Volume volume_;
  std::vector<Message> messages_;
};

}  // namespace slice::fuzz

#endif  // SLICE_TESTS_FUZZ_CASE_H
