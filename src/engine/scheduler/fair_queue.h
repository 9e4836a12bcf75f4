// Whose turn it is: requests of equal priority in the order of what their clients have had so far.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace tokamak::scheduler {

// Tokens each client was served, on a common scale: one that comes back after a rest starts where the least served
// active one is, so that nobody saves up turns.
class ClientShares {
 public:
  void join(const std::string& client);   // one more request of the client
  void leave(const std::string& client);  // one request less
  void charge(const std::string& client, int64_t n_tokens);
  int64_t served(const std::string& client) const;
  size_t n_clients() const { return clients_.size(); }

 private:
  struct Client {
    int64_t served = 0;
    int64_t n_requests = 0;
  };
  std::map<std::string, Client> clients_;  // those with requests
  int64_t least_ = 0;                      // served by the least served one when it last charged or left
};

}  // namespace tokamak::scheduler
