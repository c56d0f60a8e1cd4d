// Listener: a small HTTP/1.1 server of pages that are made at once, on an event loop that has other work: it
// never blocks, and what clients may take of it is bounded. One request a connection, GET alone; then the
// connection is closed.
//
// Clients may be hostile. A connection has kMostBytes for its head (http/request.h), and a time for each
// of: its request, taking the answer, ending. Where there are too many, of one address or of all, the oldest
// of the address that has the most is closed for the new one, so that holding connections keeps nobody out.
#ifndef SLICE_HTTP_LISTENER_H
#define SLICE_HTTP_LISTENER_H

#include <array>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "common/log.h"
#include "common/metrics.h"
#include "http/request.h"
#include "rpc/endpoint.h"
#include "rpc/epoll_loop.h"

namespace slice::http {

struct Page {
  Status status = Status::kOk;
  std::string_view content_type;            // a literal
  std::shared_ptr<const std::string> body;  // may be shared by answers; never null
};

class Listener {
 public:
  struct Options {
    std::size_t connections = 64, connections_of_address = 8;
    Duration request = std::chrono::seconds(5);  // from its beginning to its head's end
    Duration answer = std::chrono::seconds(10);  // until the client has taken all of it
    Duration end = std::chrono::seconds(1);      // until the client closes, too
    std::function<bool(IpAddress)> takes;        // none: all
    // By what name it may be asked (RequestHead::host()); none: any. It is for what browsers show: a page of
    // another site, whose name its owner lets stand for this server's address, is refused here.
    std::function<bool(std::string_view host)> answers_to;
    std::function<Page(std::string_view path)> page;
  };
  // Loop and metrics outlive it.
  Listener(rpc::EpollLoop& loop, Metrics& metrics, Options options);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Serves from now on; where it is bound. Once.
  Result<rpc::Endpoint> listen(rpc::Endpoint at);
  std::size_t connections() const { return connections_.size(); }

 private:
  enum class Why : std::uint8_t { kSlowRequest, kSlowReader, kCrowded, kKinds };
  enum class Refused : std::uint8_t { kStranger, kCannotAccept, kKinds };
  static constexpr std::array<Status, 8> kStatuses{Status::kOk,
                                                   Status::kBadRequest,
                                                   Status::kNotFound,
                                                   Status::kMethodNotAllowed,
                                                   Status::kMisdirectedRequest,
                                                   Status::kHeadTooLarge,
                                                   Status::kServiceUnavailable,
                                                   Status::kVersionNotSupported};
  struct Connection;
  using Place = std::list<Connection>::iterator;

  void accept_some();
  void pause_accepting();
  void make_room(IpAddress address);
  std::size_t of_address(IpAddress address) const;
  void on_events(Place place, std::uint32_t events);
  void read(Place place);
  void answer(Place place);
  void write(Place place);
  void drain(Place place);
  void enter(Connection& connection, Duration time);
  void close(Place place);
  void end(Place place, Why why);
  void watch_time();
  void look_at_time();

  rpc::EpollLoop& loop_;
  const Options options_;
  int fd_ = -1;
  std::list<Connection> connections_;  // the oldest first
  TimerId timer_ = TimerId::kNone, pause_ = TimerId::kNone;
  std::array<Counter*, kStatuses.size()> answers_{};
  std::array<Counter*, static_cast<std::size_t>(Why::kKinds)> ended_{};
  Gauge& now_;
  Counter& strangers_;
  LogLimiters<Refused> refusals_{1};
  LogLimiters<Why> ends_{1};
};

}  // namespace slice::http

#endif  // SLICE_HTTP_LISTENER_H
