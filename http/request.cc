#include "http/request.h"

#include <algorithm>
#include <cctype>

namespace slice::http {
namespace {

// Without its line's end; `from` moves behind that.
std::string_view take_line(std::string_view& from) {
  const std::size_t end = std::min(from.find('\n'), from.size());
  std::string_view line = from.substr(0, end);
  from.remove_prefix(std::min(end + 1, from.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::string_view take_word(std::string_view& from) {
  const std::size_t end = std::min(from.find(' '), from.size());
  std::string_view word = from.substr(0, end);
  from.remove_prefix(std::min(end + 1, from.size()));
  return word;
}

bool same(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool is_token(std::string_view text) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](unsigned char c) {
    return std::isalnum(c) != 0 || kOthers.find(static_cast<char>(c)) != std::string_view::npos;
  });
}

bool has_controls(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](unsigned char c) { return (c < 0x20 && c != '\t') || c == 0x7f; });
}

// Where the head ends, its empty line included; npos: not yet.
std::size_t end_of_head(std::string_view bytes, std::size_t from) {
  const std::size_t bare = bytes.find("\n\n", from), usual = bytes.find("\n\r\n", from);
  if (bare == std::string_view::npos && usual == std::string_view::npos) return bare;
  return bare < usual ? bare + 2 : usual + 3;
}

}  // namespace

std::string_view reason_of(Status status) {
  switch (status) {
    case Status::kOk:
      return "OK";
    case Status::kBadRequest:
      return "Bad Request";
    case Status::kNotFound:
      return "Not Found";
    case Status::kMethodNotAllowed:
      return "Method Not Allowed";
    case Status::kMisdirectedRequest:
      return "Misdirected Request";
    case Status::kHeadTooLarge:
      return "Request Header Fields Too Large";
    case Status::kServiceUnavailable:
      return "Service Unavailable";
    case Status::kVersionNotSupported:
      return "HTTP Version Not Supported";
  }
  return "";
}

void RequestHead::end(Status status) {
  ended_ = true;
  status_ = status;
  bytes_ = {};
}

void RequestHead::give(std::string_view bytes) {
  if (ended_) return;
  const std::size_t before = bytes_.size();
  bytes_ += bytes.substr(0, kMostBytes - before);
  const std::size_t end_at = end_of_head(bytes_, before < 2 ? 0 : before - 2);
  if (end_at != std::string::npos) {
    end(judge(std::string_view(bytes_).substr(0, end_at)));
  } else if (bytes_.size() >= kMostBytes) {
    end(Status::kHeadTooLarge);
  }
}

Status RequestHead::judge(std::string_view head) {
  std::string_view line = take_line(head);
  const std::string_view method = take_word(line), target = take_word(line), version = line;
  if (!is_token(method) || !target.starts_with('/') || has_controls(target)) return Status::kBadRequest;
  if (!version.starts_with("HTTP/") || version.size() != 8) return Status::kBadRequest;
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return Status::kVersionNotSupported;
  std::size_t hosts = 0;
  for (line = take_line(head); !line.empty(); line = take_line(head)) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon)) || has_controls(line)) {
      return Status::kBadRequest;
    }
    const std::string_view name = line.substr(0, colon), value = trimmed(line.substr(colon + 1));
    if (same(name, "host")) {
      ++hosts;
      host_ = value.substr(0, value.find(':'));
    }
    // A GET has no body here.
    if (same(name, "transfer-encoding") || (same(name, "content-length") && value != "0"))
      return Status::kBadRequest;
  }
  if (version == "HTTP/1.1" && hosts != 1) return Status::kBadRequest;
  if (method != "GET") return Status::kMethodNotAllowed;
  path_ = target.substr(0, target.find('?'));
  return Status::kOk;
}

}  // namespace slice::http
