#include "tests/spec-like/tally.h"

namespace slice::load {

Histogram Tally::latency() const {
  Histogram all;
  for (const Operation& each : operations) all.merge(each.latency);
  return all;
}

std::uint64_t Tally::completed() const {
  std::uint64_t sum = 0;
  for (const Operation& each : operations) sum += each.completed;
  return sum;
}

void Tally::merge(const Tally& other) {
  for (std::size_t i = 0; i < operations.size(); ++i) {
    operations[i].latency.merge(other.operations[i].latency);
    operations[i].completed += other.operations[i].completed;
  }
  for (auto field :
       {&Tally::not_sent, &Tally::failed, &Tally::violations, &Tally::told_to_wait, &Tally::resent,
        &Tally::replayed, &Tally::rewritten, &Tally::contended, &Tally::bytes_read, &Tally::bytes_written}) {
    this->*field += other.*field;
  }
  processor_seconds += other.processor_seconds;
  for (const std::string& text : other.texts) {
    if (texts.size() < kTexts) texts.push_back(text);
  }
}

}  // namespace slice::load
