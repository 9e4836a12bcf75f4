// Who may ask: API keys, and a guard against web pages of other sites.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/http.h"

namespace tokamak::server {

// Thread-safe.
class Access {
 public:
  // `keys` empty: everybody may. `host`: the address that the server listens at.
  Access(std::vector<std::string> keys, std::string cors_origin, std::string host);

  void set_keys(std::vector<std::string> keys);
  // `Authorization: Bearer KEY` or `X-Api-Key: KEY`. Takes the same time for any wrong key of one length.
  bool has_key(const HttpRequest& request) const;

  // A browser lets any site send requests to this machine, and names that point at it read the answers (DNS rebinding).
  // So without keys, requests must come from the server's own pages or the CORS origin, and at a loopback address the
  // host must be a name of it. Empty: fine; otherwise a sentence for the client.
  std::string why_foreign(const HttpRequest& request) const;

 private:
  struct Keys {
    std::mutex mutex;
    std::vector<std::string> list;
  };
  std::unique_ptr<Keys> keys_ = std::make_unique<Keys>();
  std::string cors_origin_, host_;
};

}  // namespace tokamak::server
