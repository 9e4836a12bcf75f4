// The unfinished files of this process, so that a signal handler which ends it can take them away.
#pragma once

#include <string_view>

namespace tokamak {

// Called by OutputFile for its temporaries. Thread-safe; a name stays in memory until the process ends.
void add_partial_file(std::string_view path);
void forget_partial_file(std::string_view path);  // renamed or removed

// Unlinks what was added and not forgotten. Async-signal-safe; meant for the way to _exit, since writers go on.
void unlink_partial_files();

}  // namespace tokamak
