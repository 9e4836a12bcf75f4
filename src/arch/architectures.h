// The table of model families. A row, and at most a recipe, is all that a new family adds.
#pragma once

#include <array>
#include <string_view>

#include "arch/hparams.h"
#include "arch/recipe.h"

namespace tokamak::arch {

struct ArchitectureRow {
  std::string_view name;    // GGUF general.architecture; checkpoint_names.h has the Hugging Face classes
  std::string_view models;  // well-known members, for the docs
  ir::RopePairing pairing;
  ir::Glu glu;
  Result<void> (*adjust)(const GgufFile& file, Hparams& hparams);  // what the common keys do not say; may be null
  void (*build)(Recipe& recipe);
};

std::span<const ArchitectureRow> architectures();
const ArchitectureRow* find_architecture(std::string_view name);  // null: unknown

}  // namespace tokamak::arch
