// Where the library's own remarks go. The library never prints: it hands lines to a sink set by the program.
#pragma once

#include <functional>
#include <string_view>

namespace tokamak {

enum class LogLevel { debug, info, warning };

using LogSink = std::function<void(LogLevel, std::string_view line)>;

// Replaces the sink (default: discard). Call before threads start.
void set_log_sink(LogSink sink);
// Thread-safe if the sink is.
void log_line(LogLevel level, std::string_view line);

}  // namespace tokamak
