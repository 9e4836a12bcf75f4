#include "chat/golden_helpers.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace tokamak {

std::string read_chat_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

Json read_chat_golden(std::string_view name) {
  return Json::parse(read_chat_file(std::filesystem::path(TOKAMAK_GOLDEN) / "chat" / name));
}

std::tm fixed_time() {
  std::tm t{};
  t.tm_year = 124;
  t.tm_mon = 6;
  t.tm_mday = 26;
  t.tm_hour = 9;
  t.tm_min = 5;
  t.tm_sec = 3;
  t.tm_wday = 5;
  t.tm_yday = 207;
  return t;
}

}  // namespace tokamak
