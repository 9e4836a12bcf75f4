// Reference page of the op table, for docs/.
#pragma once

#include <string>

namespace tokamak::ir {

std::string ops_markdown();

}  // namespace tokamak::ir
