#include "control/manager/etcd_registry.h"

#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "common/log.h"
#include "common/whole_file.h"
#include "control/manager/etcd_messages.h"
#include "control/manager/http_client.h"
#include "service/log_backoff.h"

namespace slice::manager {
namespace {

// The longest answer has one name's contents in base64, and who leads.
constexpr std::size_t kMaxAnswer = Registry::kMaxContents / 3 * 4 + (256 << 10);
constexpr std::size_t kMaxCredentials = 4096;

// It is refused, and so was not done.
bool is_refusal(const Error& error) {
  switch (error.code) {
    case Errc::kInvalid:
    case Errc::kNotFound:
    case Errc::kDenied:
    case Errc::kTooLarge:
    case Errc::kNoSpace:
      return true;
    default:
      return false;
  }
}

}  // namespace

class EtcdRegistry::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(Loop& loop, Metrics& metrics, const ManagersConfig& config, Credentials credentials)
      : loop_(loop),
        prefix_(config.etcd_prefix),
        credentials_(std::move(credentials)),
        http_(loop, {.authority = config.etcd_tls_authority,
                     .certificate = config.etcd_tls_certificate,
                     .key = config.etcd_tls_key}),
        requests_(metrics.counter("manager_etcd_requests_total", "requests to members of etcd")),
        failures_(metrics.counter(
            "manager_etcd_failures_total",
            "requests to members of etcd that they did not answer within half a second, or could not")),
        bad_answers_(metrics.counter("manager_etcd_bad_answers_total",
                                     "answers of members of etcd that are not as etcd's are")) {
    for (const std::string& url : config.etcd) members_.push_back({.url = url, .trouble = {}});
  }

  std::string key(std::string_view name) const { return fmt::format("{}/{}", prefix_, name); }
  std::string leader_key() const { return key("leader"); }
  std::vector<wire::StorePlace> places() const {
    std::vector<wire::StorePlace> places;
    for (const Member& each : members_) places.push_back({.place = each.url, .trouble = each.trouble});
    return places;
  }
  void destroy() { destroyed_ = true; }

  // What `read` makes of the answer. A refusal of one member where another may have done it is none.
  template <class R, class Read>
  Task<Result<R>> ask(std::string_view path, std::string body, Read read) {
    bool uncertain = false;
    Error last{Errc::kUnavailable, "no member of etcd answers"};
    for (std::size_t tries = 0; tries < members_.size(); ++tries) {
      const std::size_t at = current_;
      Result<R> result = fail(Errc::kUnavailable, "");
      if (auto answer = co_await ask_member(at, path, body); !answer) {
        result = fail(std::move(answer).error());
      } else {
        result = read(*answer);
        if (!result && result.error().code == Errc::kCorrupt) note_bad(at, result.error());
      }
      const bool refused = !result && is_refusal(result.error());
      if (result || (refused && (!uncertain || result.error().code == Errc::kNotFound))) co_return result;
      uncertain = uncertain || result.error().code != Errc::kUnavailable;
      if (!refused) {
        failures_.add();
        if (current_ == at) current_ = (at + 1) % members_.size();
      }
      last = std::move(result).error();
      if (refused) break;
    }
    co_return fail(uncertain ? Errc::kTimedOut : Errc::kUnavailable, "{}", last.message);
  }

  // Looks at each member now and then: requests go to one that is well, and would not show the others.
  static Task<void> probe(std::shared_ptr<Impl> self) {
    while (!self->destroyed_) {
      for (std::size_t i = 0; i < self->members_.size() && !self->destroyed_; ++i) {
        auto answer = co_await self->post(i, "/v3/maintenance/status", "{}", "");
        Member& member = self->members_[i];
        if (!answer) {
          member.trouble = answer.error().message;
          continue;
        }
        auto trouble = answer->status == 200
                           ? etcd::trouble_of(answer->body)
                           : Result<std::string>(etcd::refusal_of(answer->status, answer->body).message);
        if (!trouble) self->note_bad(i, trouble.error());
        member.trouble = trouble ? *trouble : trouble.error().message;
      }
      co_await self->loop_.sleep(kProbe);
    }
  }

 private:
  struct Member {
    std::string url;
    std::string trouble;  // when it was looked at; empty: it was well
  };

  Task<Result<HttpClient::Response>> post(std::size_t at, std::string_view path, std::string body,
                                          std::string token) {
    requests_.add();
    HttpClient::Request request{.url = members_[at].url + std::string(path),
                                .headers = {"Content-Type: application/json"},
                                .body = std::move(body),
                                .timeout = kTimeout,
                                .limit = kMaxAnswer};
    if (!token.empty()) request.headers.push_back("Authorization: " + token);
    return http_.post(std::move(request));
  }

  // The answer of status 200.
  Task<Result<std::string>> ask_member(std::size_t at, std::string_view path, std::string body) {
    for (bool again = false;; again = true) {
      if (!credentials_.user.empty() && token_.empty()) {
        auto token = co_await authenticate(at);
        if (!token) co_return fail(std::move(token).error());
        token_ = std::move(*token);
      }
      auto response = co_await post(at, path, body, token_);
      if (!response && response.error().code == Errc::kTooLarge) {
        note_bad(at, response.error());
        co_return fail(Errc::kCorrupt, "{}", response.error().message);
      }
      if (!response) co_return fail(std::move(response).error());
      if (response->status == 200) co_return std::move(response->body);
      Error error = etcd::refusal_of(response->status, response->body);
      if (error.code == Errc::kStale && !credentials_.user.empty() && !again) {
        token_.clear();  // it is over: another one
        continue;
      }
      if (error.code == Errc::kStale) error.code = Errc::kDenied;
      // It is the members' to say whether it was done.
      if (error.code == Errc::kUnavailable) error.code = Errc::kTimedOut;
      co_return fail(std::move(error));
    }
  }

  // kUnavailable where it cannot be had for now: then nothing else was asked.
  Task<Result<std::string>> authenticate(std::size_t at) {
    auto response = co_await post(at, "/v3/auth/authenticate",
                                  etcd::authenticate_request(credentials_.user, credentials_.password), "");
    if (!response) co_return fail(Errc::kUnavailable, "{}", response.error().message);
    if (response->status != 200) {
      Error error = etcd::refusal_of(response->status, response->body);
      const bool refused = is_refusal(error) || error.code == Errc::kStale;
      co_return fail(refused ? Errc::kDenied : Errc::kUnavailable, "etcd does not take user '{}': {}",
                     credentials_.user, error.message);
    }
    auto token = etcd::token_of(response->body);
    if (!token) note_bad(at, token.error());
    if (!token) co_return fail(Errc::kUnavailable, "{}", token.error().message);
    co_return token;
  }

  void note_bad(std::size_t at, const Error& error) {
    bad_answers_.add();
    if (bad_log_.allow(loop_.now(), error.message))
      log_error("{} gives an answer that cannot be used: {}", members_[at].url, error.message);
  }

  Loop& loop_;
  const std::string prefix_;
  const Credentials credentials_;
  HttpClient http_;
  std::vector<Member> members_;
  std::size_t current_ = 0;  // who answered last
  std::string token_;        // of the credentials; empty: none yet
  bool destroyed_ = false;
  service::LogBackoff bad_log_;
  Counter &requests_, &failures_, &bad_answers_;
};

EtcdRegistry::EtcdRegistry(Loop& loop, Metrics& metrics, const ManagersConfig& config,
                           Credentials credentials)
    : impl_(std::make_shared<Impl>(loop, metrics, config, std::move(credentials))) {
  spawn(Impl::probe(impl_));
}
EtcdRegistry::~EtcdRegistry() {
  impl_->destroy();
}

Task<Result<Lease>> EtcdRegistry::grant(Duration time) {
  return impl_->ask<Lease>("/v3/lease/grant", etcd::grant_request(time), etcd::lease_of);
}
Task<Status> EtcdRegistry::keep(std::uint64_t lease) {
  return impl_->ask<void>("/v3/lease/keepalive", etcd::lease_request(lease), etcd::kept);
}
Task<Status> EtcdRegistry::revoke(std::uint64_t lease) {
  return impl_->ask<void>("/v3/lease/revoke", etcd::lease_request(lease),
                          [](std::string_view) { return Status{}; });
}
Task<Result<LeaderEntry>> EtcdRegistry::leader() {
  return impl_->ask<LeaderEntry>(
      "/v3/kv/range", etcd::read_request(impl_->leader_key()),
      [key = impl_->leader_key()](std::string_view answer) { return etcd::leader_of(answer, key); });
}
Task<Result<LeaderEntry>> EtcdRegistry::stand(std::string holder, std::uint64_t lease) {
  const std::string key = impl_->leader_key();
  return impl_->ask<LeaderEntry>("/v3/kv/txn", etcd::stand_request(key, holder, lease),
                                 [key, holder, lease](std::string_view answer) {
                                   return etcd::stand_result(answer, key, holder, lease);
                                 });
}
Task<Result<Stored>> EtcdRegistry::read(std::string name) {
  return impl_->ask<Stored>(
      "/v3/kv/range", etcd::read_request(impl_->key(name)),
      [key = impl_->key(name)](std::string_view answer) { return etcd::stored_of(answer, key); });
}
Task<Result<WriteResult>> EtcdRegistry::write(std::string name, ByteView contents, Revision revision,
                                              Revision leader) {
  const std::string key = impl_->key(name), leader_key = impl_->leader_key();
  const etcd::Write write{
      .key = key, .contents = contents, .revision = revision, .leader_key = leader_key, .leader = leader};
  return impl_->ask<WriteResult>(
      "/v3/kv/txn", etcd::write_request(write), [key, leader_key](std::string_view answer) {
        return etcd::write_result(answer, {.key = key, .contents = {}, .leader_key = leader_key});
      });
}
std::vector<wire::StorePlace> EtcdRegistry::places() const {
  return impl_->places();
}

Result<EtcdRegistry::Credentials> read_credentials(const std::string& path) {
  auto file = read_whole_file(path, kMaxCredentials);
  if (!file) return fail(Errc::kInvalid, "etcd_user '{}': {}", path, file.error().message);
  if ((file->mode & (S_IRWXG | S_IRWXO)) != 0)
    return fail(Errc::kInvalid,
                "etcd_user '{0}' is open to others than its owner (mode {1:04o}): chmod 600 {0}", path,
                file->mode & 07777);
  std::string line = file->bytes.substr(0, file->bytes.find('\n'));
  const std::size_t colon = line.find(':');
  const bool more = file->bytes.size() > line.size() + 1;
  if (colon == std::string::npos || colon == 0 || colon + 1 == line.size() || more)
    return fail(Errc::kInvalid, "etcd_user '{}': one line, USER:PASSWORD, is expected", path);
  return EtcdRegistry::Credentials{.user = line.substr(0, colon), .password = line.substr(colon + 1)};
}

}  // namespace slice::manager
