// Which layers have experts, and which are recurrent.
#pragma once

#include "convert/model_config.h"

namespace tokamak::convert {

// Sets has_experts and is_recurrent and adds their keys; sizes are set already.
// Errors: unsupported (a pattern that GGUF has no keys for), bad_metadata.
Result<void> read_layer_kinds(const ConfigReader& config, ModelConfig& model);

}  // namespace tokamak::convert
