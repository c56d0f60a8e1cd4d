// HttpClient: POST requests by libcurl, as coroutines: its sockets are watched by the loop, which it never
// blocks. Connections are kept. One loop.
#ifndef SLICE_CONTROL_MANAGER_HTTP_CLIENT_H
#define SLICE_CONTROL_MANAGER_HTTP_CLIENT_H

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "common/loop.h"
#include "common/result.h"
#include "common/task.h"

namespace slice::manager {

class HttpClient {
 public:
  // Of https; PEM files. Empty: those that the system trusts; no certificate of its own.
  struct Tls {
    std::string authority, certificate, key;
  };
  HttpClient(Loop& loop, Tls tls);
  // No request may be under way.
  ~HttpClient();

  struct Request {
    std::string url;
    std::vector<std::string> headers;
    std::string body;
    Duration timeout{};     // of all of it
    std::size_t limit = 0;  // bytes that an answer may have
  };
  struct Response {
    long status = 0;
    std::string body;
  };
  // Whatever its status is. kUnavailable: the request was not sent, since nobody listens there, or he is not
  // whom the certificates name. kTooLarge: the answer is longer than `limit`. kTimedOut: there is no answer,
  // or not a whole one; the request may have been done.
  Task<Result<Response>> post(Request request);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slice::manager

#endif  // SLICE_CONTROL_MANAGER_HTTP_CLIENT_H
