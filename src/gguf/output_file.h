// Moved: OutputFile is in base/.
#pragma once

#include "base/output_file.h"  // IWYU pragma: export
