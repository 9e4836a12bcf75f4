// The families of packers; layout.cpp makes the table of them.
#pragma once

#include <vector>

#include "backend/cuda/matvec/pack.h"

namespace tokamak::cuda {

void add_plain_layouts(std::vector<MatvecLayout>& layouts);
void add_nibble_layouts(std::vector<MatvecLayout>& layouts);
void add_k_layouts(std::vector<MatvecLayout>& layouts);
void add_grid_layouts(std::vector<MatvecLayout>& layouts);

}  // namespace tokamak::cuda
