#include "server/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace tokamak::server {

namespace {
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  return difference == 0;
}

// "[::1]:8080" -> "[::1]", "localhost:8080" -> "localhost".
std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

// Digits and dots only: "127.0.0.1.evil.example" is a name that anybody can own.
bool is_loopback(std::string_view host) {
  const bool is_number = host.find_first_not_of("0123456789.") == host.npos;
  return host == "localhost" || (is_number && host.starts_with("127.")) || host == "::1" || host == "[::1]";
}
}  // namespace

Access::Access(std::vector<std::string> keys, std::string cors_origin, std::string host)
    : cors_origin_(std::move(cors_origin)), host_(std::move(host)) {
  set_keys(std::move(keys));
}

void Access::set_keys(std::vector<std::string> keys) {
  const std::lock_guard lock(keys_->mutex);
  keys_->list = std::move(keys);
}

bool Access::has_key(const HttpRequest& request) const {
  std::string_view given = request.header("authorization");
  constexpr std::string_view kBearer = "bearer ";  // the scheme's case does not matter (RFC 9110)
  const bool is_bearer = std::ranges::equal(given.substr(0, kBearer.size()), kBearer, {},
                                            [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  given = is_bearer ? given.substr(kBearer.size()) : request.header("x-api-key");
  const std::lock_guard lock(keys_->mutex);
  if (keys_->list.empty()) return true;
  bool found = false;
  for (const std::string& key : keys_->list) found |= equal_in_constant_time(given, key);
  return found;
}

std::string Access::why_foreign(const HttpRequest& request) const {
  {
    const std::lock_guard lock(keys_->mutex);
    if (!keys_->list.empty()) return {};
  }
  const std::string_view host = request.header("host"), origin = request.header("origin");
  if (is_loopback(host_) && !host.empty() && !is_loopback(without_port(host)))
    return fmt::format(
        "the host '{}' is no name of this machine's own address: start the server with --api-key, or "
        "with --host for the address that clients use",
        host);
  if (origin.empty() || cors_origin_ == "*" || origin == cors_origin_) return {};
  const size_t scheme = origin.find("://");
  if (scheme != origin.npos && origin.substr(scheme + 3) == host) return {};
  return fmt::format("a page of '{}' may not ask this server: start it with --cors-origin or --api-key", origin);
}

}  // namespace tokamak::server
