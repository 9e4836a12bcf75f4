// Sessions over tiny models, and scratch files, for the tests of eval/.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "engine/session.h"

namespace tokamak::test {

std::unique_ptr<Session> open_session(const std::filesystem::path& path, SessionOptions options = {});

// A path in a folder of this test program, removed at its end.
std::filesystem::path scratch_file(std::string_view name);
std::string read_bytes(const std::filesystem::path& path);
void write_bytes(const std::filesystem::path& path, std::string_view bytes);

}  // namespace tokamak::test
