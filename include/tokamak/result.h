// Result<T> and Error, as every public function returns them.
#pragma once

#include "base/error.h"
#include "base/result.h"
