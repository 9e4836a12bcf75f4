// Reference page of the fusion table, for docs/.
#pragma once

#include <string>

namespace tokamak::fuse {

std::string rules_markdown();

}  // namespace tokamak::fuse
