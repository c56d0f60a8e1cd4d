// The head of an HTTP/1.1 request, as far as a server needs it that knows GET alone (RFC 9112).
#ifndef SLICE_HTTP_REQUEST_H
#define SLICE_HTTP_REQUEST_H

#include <cstdint>
#include <string>
#include <string_view>

namespace slice::http {

enum class Status : std::uint16_t {
  kOk = 200,
  kBadRequest = 400,
  kNotFound = 404,
  kMethodNotAllowed = 405,
  kMisdirectedRequest = 421,
  kHeadTooLarge = 431,
  kServiceUnavailable = 503,
  kVersionNotSupported = 505,
};
// "Not Found"; of any of these.
std::string_view reason_of(Status status);

// Takes the bytes of one head as they come, and keeps no more than that.
class RequestHead {
 public:
  static constexpr std::size_t kMostBytes = 8192;

  // More bytes of the connection. What follows the head is left aside: each connection has one request.
  void give(std::string_view bytes);
  // The head has ended, or cannot be a good one; then status() says what to answer.
  bool ended() const { return ended_; }
  // kOk: a GET of path().
  Status status() const { return status_; }
  // Without the query; valid as long as this.
  std::string_view path() const { return path_; }
  // Of kOk: what the client calls this server, without a port: "localhost", "10.77.2.1"; empty where it does
  // not say.
  std::string_view host() const { return host_; }

 private:
  void end(Status status);
  Status judge(std::string_view head);

  std::string bytes_;
  std::string path_, host_;
  Status status_ = Status::kOk;
  bool ended_ = false;
};

}  // namespace slice::http

#endif  // SLICE_HTTP_REQUEST_H
