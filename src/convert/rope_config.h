// Rotary embeddings, windows and layers without them: the parts of config.json that are no plain numbers.
#pragma once

#include "convert/model_config.h"

namespace tokamak::convert {

// Adds the keys "rope." of the model, and its rope_factors. config: the text model's section; sizes are set already.
// Both spellings are read: rope_parameters (transformers 5) and rope_theta with rope_scaling (before).
// Errors: unsupported (a kind of scaling that the engine does not have), bad_metadata.
Result<void> read_rope(const ConfigReader& config, ModelConfig& model);

// Adds attention.sliding_window and its pattern where some layer has a window.
Result<void> read_windows(const ConfigReader& config, ModelConfig& model);

// Layers without rope are fixed by the family's recipe: anything else is refused.
Result<void> check_nope_layers(const ConfigReader& config, const ModelConfig& model);

}  // namespace tokamak::convert
