// The last hour of an ensemble, for the page's curves: a point each time that its servers were asked.
#ifndef SLICE_CONTROL_WEBD_HISTORY_H
#define SLICE_CONTROL_WEBD_HISTORY_H

#include <deque>
#include <map>
#include <string>

#include "common/loop.h"
#include "control/webd/figures.h"

namespace slice::webd {

class History {
 public:
  explicit History(std::size_t points) : points_(points) {}

  // What servers said at this moment, by their names; those that did not answer are not in it. `proxies`: of
  // these, which are proxies: their calls are those of the others, seen from the clients' side.
  struct Reading {
    MonoTime at;
    WallTime wall;
    std::map<std::string, Figures> servers, proxies;
  };
  void add(Reading reading);

  // Of the last point, by server and proxy. A server that did not answer the last two times has none.
  const std::map<std::string, Rates>& now() const { return now_; }
  // {"points": [{"at", "reads", "writes", "names", "failures", "latency", "by_xdp", "by_user", "servers":
  // {NAME: calls}}]}: at is seconds since 1970, the rest a second; latency is in seconds a call, all servers'
  // mean. The oldest first.
  std::string json() const;

 private:
  struct Point {
    std::int64_t at = 0;
    Rates all;
    double by_user = 0;
    std::map<std::string, double> calls;
  };

  const std::size_t points_;
  Reading last_;
  std::map<std::string, Rates> now_;
  std::deque<Point> hour_;
};

}  // namespace slice::webd

#endif  // SLICE_CONTROL_WEBD_HISTORY_H
