// The error of every tensor as a picture.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "eval/tensor_errors.h"

namespace tokamak {

// An SVG document: layers from left to right (tensors outside them first), the relative error upwards, one colour and
// line per role, a legend; hovering a point names tensor and type. No background, colours that show on light and dark
// pages. The weighted error is drawn instead where every tensor of the layers has an importance. Same input, same text.
std::string tensor_plot(std::span<const TensorError> tensors, std::string_view title);

}  // namespace tokamak
