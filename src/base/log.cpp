#include "base/log.h"

#include <utility>

namespace tokamak {

namespace {
LogSink& sink() {
  static LogSink instance;
  return instance;
}
}  // namespace

void set_log_sink(LogSink new_sink) { sink() = std::move(new_sink); }

void log_line(LogLevel level, std::string_view line) {
  if (sink()) sink()(level, line);
}

}  // namespace tokamak
