// What a device can do at most, for machines.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "chat/message.h"
#include "engine/limit_share.h"

namespace tokamak::cli {

inline Json limits_json(const DeviceLimits& limits) {
  Json out = {{"read_bytes_per_second", limits.read_bytes_per_second}};
  for (const RateRow& row : kRates) out[std::string(row.name) + "_ops_per_second"] = limits.*row.rate;
  return out;
}

}  // namespace tokamak::cli
