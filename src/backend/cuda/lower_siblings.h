// Products of one input that one launch makes: q, k and v of attention.
#pragma once

#include "backend/cuda/lower_matmul.h"

namespace tokamak::cuda {

// Adds the step of `product`, made of the current group whose MUL_MAT is `node`. Later groups that are products of the
// same input with weights of the same type join it, if the kernel can do several; their results get regions of their
// own, since something in between may still use the memory that the plan gave them.
void add_with_siblings(Lowering& lowering, const ir::Node& node, const Product& product);

}  // namespace tokamak::cuda
