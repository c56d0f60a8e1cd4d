// Watch: asks an ensemble how it is, again and again, and has the answers as the page's data. Where a file
// is, it asks when the page does. On one loop.
#ifndef SLICE_CONTROL_WEBD_WATCH_H
#define SLICE_CONTROL_WEBD_WATCH_H

#include <list>
#include <memory>
#include <string>

#include "control/slicectl/heard.h"
#include "control/webd/history.h"
#include "http/listener.h"

namespace slice::webd {

class Watch {
 public:
  static constexpr Duration kPeriod = std::chrono::seconds(2);
  static constexpr std::size_t kHour = 1800;                  // points
  static constexpr std::size_t kPaths = 16;                   // whose places are known, or asked for, at once
  static constexpr Duration kGood = std::chrono::seconds(2);  // a place that is known is not asked for anew

  // What the seams name outlives it.
  explicit Watch(const slicectl::Seams& seams);
  // From now on.
  void start();

  // The page's files, and its data; kNotFound: there is no such. docs/page.md describes these:
  //   /now.json      what slicectl shows of status, tables and moves, and what servers do a second
  //   /history.json  History::json()
  //   /where/PATH    what slicectl shows of where a file is, but for its handle, which is for clients alone
  http::Page page(std::string_view path);

 private:
  using Text = std::shared_ptr<const std::string>;
  struct Place {
    std::string path;
    MonoTime at;  // of the answer
    Text answer;  // null: it is asked for
  };

  Task<void> look_for_ever();
  Task<void> look();
  void learn(const slicectl::Heard& heard);
  void make_now();
  Text where(const std::string& path);
  bool make_room();
  Task<void> ask_where(std::string path);
  Place* find(const std::string& path);

  // Who asks holds this as long as it asks.
  using Config = std::shared_ptr<const EnsembleConfig>;
  slicectl::Seams seams(const Config& config) const {
    return {.loop = loop_, .channel = channel_, .config = *config};
  }

  Loop& loop_;
  rpc::Channel& channel_;
  Config config_;  // with the members that there are now
  std::shared_ptr<const routing::RoutingTables> tables_;
  std::string status_ = "null", moves_ = "null", shown_tables_ = "null";  // JSON
  std::int64_t asked_ms_ = 0;
  History history_;
  Text now_ = std::make_shared<const std::string>("{}");
  Text hour_;                // null: to be made when somebody asks
  std::list<Place> places_;  // the oldest first
};

}  // namespace slice::webd

#endif  // SLICE_CONTROL_WEBD_WATCH_H
