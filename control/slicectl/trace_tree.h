// From the records of single processes (wire/trace.h) to whole operations: what a client asked, each server
// that had a part in it, and where the time went. Knows no output format.
//
// A step of one record that is a call, and the record of who was called, have the same sender, xid, program
// and procedure; and, of a client's call that was passed on, the same client and client's xid, since each
// thread of a proxy counts its xids by itself.
#ifndef SLICE_CONTROL_SLICECTL_TRACE_TREE_H
#define SLICE_CONTROL_SLICECTL_TRACE_TREE_H

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "wire/trace.h"

namespace slice::slicectl {

struct TracedServer {
  std::uint32_t index = 0;
  std::string name;
  rpc::Endpoint endpoint;
  std::string data = {};  // its data directory; empty: none
};

// What one process did of an operation.
struct Hop {
  struct Step {
    TraceStep step;
    std::unique_ptr<Hop> there;  // of a call: what the called one says of it; null: nothing
  };
  std::uint32_t server = 0;
  wire::TraceRecord record;
  std::vector<Step> steps;  // in the order in which they began
  // Within `took`, but in no step.
  Duration itself() const;
};
// Whether the server had a part in it.
bool has_part(const Hop& hop, std::uint32_t server);

// The one thing that took the longest.
struct MostOfIt {
  // kWait: a step that is no call. kWay: of a call, beyond what the called one took. kUnknown: a call of
  // which the called one says nothing.
  enum class Kind { kItself, kWait, kWay, kUnknown };
  Kind kind = Kind::kItself;
  std::uint32_t server = 0;  // who it took; of kWay and kUnknown, who called
  TraceStep step = {};       // of the others than kItself
  Duration took{};
};
MostOfIt most_of_it(const Hop& operation);

class TraceJoiner {
 public:
  static constexpr std::size_t kMostRecords = 20'000;  // that wait for others; beyond that the oldest go

  explicit TraceJoiner(std::vector<TracedServer> servers) : servers_(std::move(servers)) {}

  void add(std::uint32_t server, wire::TraceRecord record);
  // Every server was asked once more: operations of clients of which all is there by now. What a member
  // passed on waits for what that one says; with `last`, it comes without that.
  std::vector<std::unique_ptr<Hop>> round(bool last = false);

  const TracedServer* server(std::uint32_t index) const;
  const TracedServer* server_at(rpc::Endpoint endpoint) const;
  void learn_data(std::uint32_t index, std::string data);

 private:
  struct Waiting {
    std::uint32_t server;
    wire::TraceRecord record;
    unsigned rounds = 0;
    bool used = false;
  };
  std::unique_ptr<Hop> build(Waiting& root, unsigned depth);
  Waiting* called_by(const Waiting& caller, const TraceStep& step);

  std::vector<TracedServer> servers_;
  std::deque<Waiting> waiting_;
};

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_TRACE_TREE_H
