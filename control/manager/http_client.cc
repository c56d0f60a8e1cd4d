#include "control/manager/http_client.h"

#include <curl/curl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <utility>

namespace slice::manager {
namespace {

constexpr int kEventsARound = 16;

// One request under way.
struct Transfer {
  CURL* handle = nullptr;
  curl_slist* headers = nullptr;
  std::array<char, CURL_ERROR_SIZE> error{};
  HttpClient::Request request;
  HttpClient::Response response;
  bool too_large = false;
  OneShot<CURLcode> ended;

  Transfer() : handle(curl_easy_init()) {
    if (handle == nullptr) std::abort();  // there is no memory
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  ~Transfer() {
    curl_easy_cleanup(handle);
    curl_slist_free_all(headers);
  }
};

std::size_t take_body(char* bytes, std::size_t /*one*/, std::size_t count, void* of) {
  auto& transfer = *static_cast<Transfer*>(of);
  if (transfer.response.body.size() + count > transfer.request.limit) {
    transfer.too_large = true;
    return 0;  // which ends the transfer
  }
  transfer.response.body.append(bytes, count);
  return count;
}

// Of these it is certain that nothing was sent.
bool was_not_sent(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
      return true;
    default:
      return false;
  }
}

}  // namespace

// The sockets of all transfers are in an epoll set of its own, which the loop watches as one descriptor.
class HttpClient::Impl {
 public:
  Impl(Loop& loop, Tls tls) : loop_(loop), tls_(std::move(tls)), set_(::epoll_create1(EPOLL_CLOEXEC)) {
    curl_global_init(CURL_GLOBAL_DEFAULT);  // counted: more than once is fine
    multi_ = curl_multi_init();
    if (set_ < 0 || multi_ == nullptr) {
      std::perror("epoll_create1 or curl_multi_init");
      std::abort();
    }
    curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &Impl::socket_changed);
    curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
    curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &Impl::timer_changed);
    curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
    loop_.watch_readable(set_, [this] { serve(); });
  }
  ~Impl() {
    loop_.cancel(timer_);
    loop_.unwatch_readable(set_);
    curl_multi_cleanup(multi_);
    ::close(set_);
    curl_global_cleanup();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Task<Result<Response>> post(Request request) {
    Transfer transfer;
    transfer.request = std::move(request);
    prepare(transfer);
    transfers_.insert(&transfer);
    curl_multi_add_handle(multi_, transfer.handle);
    const OneShot<CURLcode> ended = transfer.ended;
    const CURLcode code = co_await ended;
    transfers_.erase(&transfer);
    if (transfer.too_large)
      co_return fail(Errc::kTooLarge, "{}: an answer of more than {} bytes", transfer.request.url,
                     transfer.request.limit);
    if (code != CURLE_OK) {
      const std::string why = transfer.error[0] != 0 ? transfer.error.data() : curl_easy_strerror(code);
      co_return fail(was_not_sent(code) ? Errc::kUnavailable : Errc::kTimedOut, "{}: {}",
                     transfer.request.url, why);
    }
    curl_easy_getinfo(transfer.handle, CURLINFO_RESPONSE_CODE, &transfer.response.status);
    co_return std::move(transfer.response);
  }

 private:
  void prepare(Transfer& transfer) {
    CURL* handle = transfer.handle;
    for (const std::string& each : transfer.request.headers)
      transfer.headers = curl_slist_append(transfer.headers, each.c_str());
    transfer.headers = curl_slist_append(transfer.headers, "Expect:");  // no question before the body
    const auto milliseconds =
        std::chrono::duration_cast<std::chrono::milliseconds>(transfer.request.timeout).count();
    auto set = [handle](CURLoption option, auto value) { curl_easy_setopt(handle, option, value); };
    set(CURLOPT_URL, transfer.request.url.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
    set(CURLOPT_PROXY, "");  // whatever the environment says
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(milliseconds));
    set(CURLOPT_POSTFIELDS, transfer.request.body.c_str());
    set(CURLOPT_POSTFIELDSIZE, static_cast<long>(transfer.request.body.size()));
    set(CURLOPT_HTTPHEADER, transfer.headers);
    set(CURLOPT_WRITEFUNCTION, &take_body);
    set(CURLOPT_WRITEDATA, &transfer);
    set(CURLOPT_ERRORBUFFER, transfer.error.data());
    set(CURLOPT_PRIVATE, &transfer);
    if (!tls_.authority.empty()) set(CURLOPT_CAINFO, tls_.authority.c_str());
    if (!tls_.certificate.empty()) set(CURLOPT_SSLCERT, tls_.certificate.c_str());
    if (!tls_.key.empty()) set(CURLOPT_SSLKEY, tls_.key.c_str());
  }

  static int socket_changed(CURL* /*easy*/, curl_socket_t socket, int what, void* self, void* /*known*/) {
    static_cast<Impl*>(self)->watch(socket, what);
    return 0;
  }
  void watch(int socket, int what) {
    if (what == CURL_POLL_REMOVE) {
      ::epoll_ctl(set_, EPOLL_CTL_DEL, socket, nullptr);
      return;
    }
    epoll_event event{};
    event.data.fd = socket;
    if ((what & CURL_POLL_IN) != 0) event.events |= EPOLLIN;
    if ((what & CURL_POLL_OUT) != 0) event.events |= EPOLLOUT;
    if (::epoll_ctl(set_, EPOLL_CTL_MOD, socket, &event) != 0)
      ::epoll_ctl(set_, EPOLL_CTL_ADD, socket, &event);
  }

  static int timer_changed(CURLM* /*multi*/, long milliseconds, void* self) {
    static_cast<Impl*>(self)->set_timer(milliseconds);
    return 0;
  }
  void set_timer(long milliseconds) {
    loop_.cancel(timer_);
    timer_ = TimerId::kNone;
    if (milliseconds < 0) return;
    timer_ = loop_.after(std::chrono::milliseconds(milliseconds), [this] {
      timer_ = TimerId::kNone;
      act(CURL_SOCKET_TIMEOUT, 0);
    });
  }

  void serve() {
    epoll_event events[kEventsARound];
    const int count = ::epoll_wait(set_, events, kEventsARound, 0);
    for (int i = 0; i < count; ++i) {
      int what = 0;
      if ((events[i].events & EPOLLIN) != 0) what |= CURL_CSELECT_IN;
      if ((events[i].events & EPOLLOUT) != 0) what |= CURL_CSELECT_OUT;
      if ((events[i].events & (EPOLLERR | EPOLLHUP)) != 0) what |= CURL_CSELECT_ERR;
      act(events[i].data.fd, what);
    }
  }
  void act(curl_socket_t socket, int what) {
    int running = 0;
    curl_multi_socket_action(multi_, socket, what, &running);
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const CURLcode code = message->data.result;
      CURL* handle = message->easy_handle;
      char* of = nullptr;
      curl_easy_getinfo(handle, CURLINFO_PRIVATE, &of);
      curl_multi_remove_handle(multi_, handle);
      const OneShot<CURLcode> ended = reinterpret_cast<Transfer*>(of)->ended;
      loop_.post([ended, code] { ended.set(code); });  // not from inside libcurl's work
    }
  }

  Loop& loop_;
  const Tls tls_;
  int set_;
  CURLM* multi_ = nullptr;
  TimerId timer_ = TimerId::kNone;
  std::set<Transfer*> transfers_;
};

HttpClient::HttpClient(Loop& loop, Tls tls) : impl_(std::make_unique<Impl>(loop, std::move(tls))) {}
HttpClient::~HttpClient() = default;

Task<Result<HttpClient::Response>> HttpClient::post(Request request) {
  return impl_->post(std::move(request));
}

}  // namespace slice::manager
