#include "engine/backends.h"

#include <gtest/gtest.h>

#include "backend/cpu/isa.h"
#include "base/settings.h"

namespace tokamak {
namespace {

// The settings table cannot see folders below it in the data flow, so it names backends and instruction sets itself.
TEST(Backends, SettingsNameTheTables) {
  std::string backends, isas = "auto";
  for (const BackendRow& row : backend_table()) backends += (backends.empty() ? "" : " ") + std::string(row.name);
  for (const cpu::IsaRow& row : cpu::kIsas) isas += " " + std::string(row.name);
  EXPECT_EQ(find_setting("--backend")->choices, backends);
  EXPECT_EQ(find_setting("--isa")->choices, isas);
}

TEST(Backends, UnknownOnesAreNamed) {
  const auto backend = make_backend("tpu", {});
  ASSERT_FALSE(backend);
  EXPECT_EQ(backend.error().code, ErrorCode::bad_argument);
  EXPECT_NE(backend.error().message().find("'tpu'"), std::string::npos);
}

}  // namespace
}  // namespace tokamak
