#include "service/metrics_page.h"

#include <utility>

namespace slice::service {
namespace {

constexpr Duration kTextIsGood = std::chrono::milliseconds(100);
constexpr std::string_view kPlainText = "text/plain; charset=utf-8";

http::Page plain_page(http::Status status, std::string text) {
  return {status, kPlainText, std::make_shared<const std::string>(std::move(text))};
}

}  // namespace

MetricsPage::MetricsPage(rpc::EpollLoop& loop, Metrics& metrics, Hooks hooks)
    : loop_(loop),
      metrics_(metrics),
      hooks_(std::move(hooks)),
      time_(metrics.histogram(
          "metrics_text_seconds",
          "time that making the text of the metrics took, in which the server did nothing else")),
      listener_(loop, metrics,
                {.takes = hooks_.takes, .page = [this](std::string_view path) { return page(path); }}) {}

Result<std::unique_ptr<MetricsPage>> MetricsPage::open(rpc::EpollLoop& loop, Metrics& metrics,
                                                       rpc::Endpoint at,
                                                       std::function<std::string()> waits_for) {
  auto page = std::make_unique<MetricsPage>(
      loop, metrics,
      Hooks{.takes = [](IpAddress) { return true; }, .refresh = [] {}, .waits_for = std::move(waits_for)});
  auto bound = page->listen(at);
  if (!bound) return fail(std::move(bound.error()));
  return page;
}

std::shared_ptr<const std::string> MetricsPage::text() {
  const MonoTime now = loop_.now_exactly();
  if (text_ != nullptr && now - made_at_ < kTextIsGood) return text_;
  hooks_.refresh();
  text_ = std::make_shared<const std::string>(metrics_.text());
  made_at_ = now;
  time_.observe(loop_.now_exactly() - now);
  return text_;
}

http::Page MetricsPage::page(std::string_view path) {
  if (path == "/metrics") return {http::Status::kOk, kMetricsContentType, text()};
  if (path == "/-/healthy") return plain_page(http::Status::kOk, "healthy\n");
  if (path == "/-/ready") {
    const std::string waits_for = hooks_.waits_for();
    if (waits_for.empty()) return plain_page(http::Status::kOk, "ready\n");
    return plain_page(http::Status::kServiceUnavailable, waits_for + "\n");
  }
  return plain_page(http::Status::kNotFound, "there are /metrics, /-/healthy and /-/ready\n");
}

}  // namespace slice::service
