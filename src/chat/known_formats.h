// Formats of calls that templates speak of but do not write, or write in a way that probes cannot follow. Internal to
// reply_format.
#pragma once

#include <string_view>

#include "chat/reply_format.h"

namespace tokamak {

struct KnownFormat {
  std::string_view name, in_source;
  void (*make)(CallFormat& format);
};

// The first whose `in_source` the template's source holds; null if there is none.
const KnownFormat* find_known_format(std::string_view source);

}  // namespace tokamak
