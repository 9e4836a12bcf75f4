#include "eval/tensor_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace tokamak {

namespace {
// Of middle lightness: at least 3:1 against white and against black. After Okabe and Ito 2008, darkened or lightened
// to that.
constexpr auto kColours = std::to_array<std::string_view>(
    {"#0a84c8", "#d5630a", "#0a9470", "#b8679a", "#9a8a00", "#7a6fd0", "#c2484f", "#5f8a3a", "#3f97a8", "#a0743c"});
constexpr std::string_view kInk = "#808080";

// In pixels.
constexpr double kLeft = 64, kTop = 56, kPlotHeight = 340, kBottom = 52, kLegendWidth = 150, kLegendStep = 20;
constexpr double kMinPlotWidth = 560, kLayerWidth = 20, kOutsideWidth = 70;

struct Axis {
  double step = 1, top = 1;  // of the error
};

// Ticks at 1, 2 or 5 times a power of ten, five or so of them.
Axis axis_for(double highest) {
  if (!(highest > 0) || !std::isfinite(highest)) return {.step = 0.25, .top = 1};
  const double raw = highest / 5, power = std::pow(10, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (double factor : {1.0, 2.0, 5.0})
    if (raw <= factor * power) {
      step = factor * power;
      break;
    }
  return {.step = step, .top = step * std::ceil(highest / step)};
}

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) < 0x20)
      out += ' ';
    else
      out += c;
  }
  return out;
}

class Plot {
 public:
  explicit Plot(std::span<const TensorError> tensors) : tensors_(tensors) {
    weighted_ = !tensors.empty();
    double highest = 0;
    for (const TensorError& tensor : tensors) {
      n_layers_ = std::max(n_layers_, tensor.layer_idx + 1);
      has_outside_ = has_outside_ || tensor.layer_idx < 0;
      weighted_ = weighted_ && (tensor.has_importance || tensor.layer_idx < 0);
      if (std::ranges::find(roles_, tensor.role) == roles_.end()) roles_.push_back(tensor.role);
    }
    for (const TensorError& tensor : tensors) highest = std::max(highest, value(tensor));
    axis_ = axis_for(highest);
    plot_width_ = std::max(kMinPlotWidth, kLayerWidth * static_cast<double>(n_layers_)) + outside_width();
  }

  std::string draw(std::string_view title) {
    const double legend_height = kTop + kLegendStep * static_cast<double>(roles_.size());
    const double width = kLeft + plot_width_ + kLegendWidth;
    const double height = std::max(kTop + kPlotHeight + kBottom, legend_height);
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
        "height=\"{1:.0f}\" font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"{2}\">\n",
        width, height, kInk);
    text(kLeft, 24, "start", title, " font-size=\"15\"");
    text(kLeft, 42, "start",
         weighted_ ? "error weighed by importance, relative to the weights (root mean square)"
                   : "error relative to the weights (root mean square)");
    draw_axes();
    for (size_t i = 0; i < roles_.size(); ++i) draw_role(i);
    return out_ + "</svg>\n";
  }

 private:
  double value(const TensorError& tensor) const {
    return weighted_ && tensor.has_importance ? tensor.weighted_rmse() : tensor.relative_rmse();
  }
  double outside_width() const { return has_outside_ ? kOutsideWidth : 0; }
  double x_of(int64_t layer_idx) const {
    if (layer_idx < 0) return kLeft + kOutsideWidth / 2;
    const double per_layer = (plot_width_ - outside_width()) / static_cast<double>(std::max<int64_t>(n_layers_, 1));
    return kLeft + outside_width() + per_layer * (static_cast<double>(layer_idx) + 0.5);
  }
  double y_of(double error) const { return kTop + kPlotHeight * (1 - std::min(error, axis_.top) / axis_.top); }

  void text(double x, double y, std::string_view anchor, std::string_view words, std::string_view more = "") {
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, more,
                        escaped(words));
  }
  void line(double x1, double y1, double x2, double y2, double opacity) {
    out_ += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-opacity=\"{}\"/>\n", x1, y1,
        x2, y2, kInk, opacity);
  }

  void draw_axes() {
    const int n_ticks = static_cast<int>(std::lround(axis_.top / axis_.step));
    const int decimals = std::max(0, static_cast<int>(std::ceil(-std::log10(axis_.step * 100) - 1e-9)));
    for (int i = 0; i <= n_ticks; ++i) {
      const double error = axis_.step * i, y = y_of(error);
      line(kLeft, y, kLeft + plot_width_, y, i == 0 ? 0.9 : 0.25);
      text(kLeft - 8, y + 4, "end", fmt::format("{:.{}f} %", 100 * error, decimals));
    }
    const double y = kTop + kPlotHeight + 18;
    if (has_outside_) text(x_of(-1), y, "middle", "outside");
    const int64_t step = n_layers_ > 60 ? 10 : n_layers_ > 24 ? 5 : n_layers_ > 12 ? 2 : 1;
    for (int64_t layer_idx = 0; layer_idx < n_layers_; layer_idx += step)
      text(x_of(layer_idx), y, "middle", std::to_string(layer_idx));
    text(kLeft + outside_width() + (plot_width_ - outside_width()) / 2, y + 22, "middle", "layer");
  }

  // Its line through the layers, its points, its row of the legend.
  void draw_role(size_t role_idx) {
    const std::string_view colour = kColours[role_idx % kColours.size()];
    std::string path, points;
    for (const TensorError& tensor : tensors_) {
      if (tensor.role != roles_[role_idx]) continue;
      const double x = x_of(tensor.layer_idx), y = y_of(value(tensor));
      if (tensor.layer_idx >= 0) path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", x, y);
      points += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"><title>{} {}, {:.3g} %</title></circle>\n", x,
                            y, escaped(tensor.name), dtype_name(tensor.type), 100 * value(tensor));
    }
    out_ += fmt::format("<g fill=\"{0}\" stroke=\"none\">\n", colour);
    if (!path.empty())
      out_ += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n", path, colour);
    out_ += points;
    const double x = kLeft + plot_width_ + 20, y = kTop + kLegendStep * static_cast<double>(role_idx) + 8;
    out_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>\n</g>\n", x, y - 4);
    text(x + 12, y, "start", roles_[role_idx]);
  }

  std::span<const TensorError> tensors_;
  std::vector<std::string> roles_;  // in order of appearance
  int64_t n_layers_ = 0;
  bool has_outside_ = false, weighted_ = false;
  Axis axis_;
  double plot_width_ = 0;
  std::string out_;
};
}  // namespace

std::string tensor_plot(std::span<const TensorError> tensors, std::string_view title) {
  return Plot(tensors).draw(title);
}

}  // namespace tokamak
