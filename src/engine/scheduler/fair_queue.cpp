#include "engine/scheduler/fair_queue.h"

#include <algorithm>

#include "base/check.h"

namespace tokamak::scheduler {

void ClientShares::join(const std::string& client) {
  const auto [it, is_new] = clients_.try_emplace(client);
  ++it->second.n_requests;
  if (!is_new) return;
  int64_t least = INT64_MAX;
  for (const auto& [name, other] : clients_)
    if (name != client) least = std::min(least, other.served);
  it->second.served = least == INT64_MAX ? least_ : least;
}

void ClientShares::leave(const std::string& client) {
  const auto it = clients_.find(client);
  CHECK(it != clients_.end(), client);
  if (--it->second.n_requests > 0) return;
  least_ = std::max(least_, it->second.served);
  clients_.erase(it);
}

void ClientShares::charge(const std::string& client, int64_t n_tokens) { clients_[client].served += n_tokens; }

int64_t ClientShares::served(const std::string& client) const {
  const auto it = clients_.find(client);
  return it == clients_.end() ? least_ : it->second.served;
}

}  // namespace tokamak::scheduler
