// Golden files and the clock that the tests of this folder share with tools/chat_oracle.py.
#pragma once

#include <ctime>
#include <filesystem>
#include <string>
#include <string_view>

#include "chat/message.h"

namespace tokamak {

std::string read_chat_file(const std::filesystem::path& path);
Json read_chat_golden(std::string_view name);
// 2024-07-26 09:05:03, a Friday.
std::tm fixed_time();

}  // namespace tokamak
