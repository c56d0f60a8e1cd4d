// Who causes how much load: from two samples of what every server counts (TOP of wire/trace.h) to rates.
// Knows no network.
#ifndef SLICE_CONTROL_SLICECTL_TOP_H
#define SLICE_CONTROL_SLICECTL_TOP_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "control/slicectl/render.h"
#include "wire/trace.h"

namespace slice::slicectl {

// What was caused between two samples, by a client, a file, a kind of operation, or at a server.
struct Load {
  std::string who;
  double calls = 0, received = 0, sent = 0;  // a second; bytes
  Duration mean{};
  Duration slowest{};  // since the servers began to count, not only between the samples
  bool about = false;  // some of the calls may have been others'
};

struct Loads {
  std::vector<Load> servers, operations, clients, files;  // those with most calls first
};

// By the server's name; of those that answered.
using TopSample = std::map<std::string, wire::TopResult>;
// Servers that are in both.
Loads loads_between(const TopSample& first, const TopSample& second, Duration between);

// Which tables are shown.
struct TopTables {
  bool servers = false, operations = false, clients = false, files = false;
};
std::string render_top(const Loads& loads, TopTables tables, std::size_t rows,
                       const std::vector<std::string>& silent, Format format);

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_TOP_H
