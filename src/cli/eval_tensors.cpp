#include "cli/eval_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/output_file.h"
#include "cli/console.h"
#include "cli/format.h"
#include "cli/input.h"
#include "cli/loading.h"
#include "eval/tensor_errors.h"
#include "eval/tensor_plot.h"
#include "quantize/parts.h"

namespace tokamak::cli {

namespace {
using Json = nlohmann::ordered_json;
using Row = std::vector<std::string>;

std::string percent(double fraction) { return fmt::format("{:.4f}", 100 * fraction); }

Row numbers_of(std::string first, const TensorError& tensor, bool weighted) {
  Row row = {std::move(first), fmt::format("{:.2f}", tensor.bits_per_weight()), percent(tensor.relative_rmse())};
  if (weighted) row.push_back(tensor.has_importance ? percent(tensor.weighted_rmse()) : "");
  row.push_back(fmt::format("{:.4g}", tensor.max_error));
  return row;
}

Row heading_of(std::string first, bool weighted) {
  Row row = {std::move(first), "bits", "error %"};
  if (weighted) row.emplace_back("weighted %");
  row.emplace_back("max error");
  return row;
}

std::vector<TensorError> by_role(const std::vector<TensorError>& tensors) {
  std::vector<std::string> roles;
  std::vector<TensorError> out;
  for (const TensorError& tensor : tensors)
    if (std::ranges::find(roles, tensor.role) == roles.end()) roles.push_back(tensor.role);
  for (const std::string& role : roles) {
    std::vector<TensorError> members;
    std::ranges::copy_if(tensors, std::back_inserter(members), [&](const auto& t) { return t.role == role; });
    out.push_back(sum_of(members, role));
  }
  return out;
}

void print_tables(const std::vector<TensorError>& tensors, bool weighted) {
  const std::string alignment = weighted ? "<>>>>" : "<>>>";
  std::vector<Row> rows = {heading_of("tensor", weighted)};
  rows.front().insert(rows.front().begin() + 1, "type");
  for (const TensorError& tensor : tensors) {
    rows.push_back(numbers_of(tensor.name, tensor, weighted));
    rows.back().insert(rows.back().begin() + 1, std::string(dtype_name(tensor.type)));
  }
  print(text_table(rows, "<" + alignment));
  rows = {heading_of("role", weighted)};
  for (const TensorError& role : by_role(tensors)) rows.push_back(numbers_of(role.name, role, weighted));
  rows.push_back(numbers_of("all", sum_of(tensors, "all"), weighted));
  print("\n" + text_table(rows, alignment));
}

Json to_json(const TensorError& tensor) {
  Json json = {{"name", tensor.name},
               {"n_elements", tensor.n_elements},
               {"bits_per_weight", tensor.bits_per_weight()},
               {"relative_rmse", tensor.relative_rmse()},
               {"max_error", tensor.max_error}};
  if (tensor.has_importance) json["weighted_rmse"] = tensor.weighted_rmse();
  return json;
}

void print_json(const std::vector<TensorError>& tensors) {
  Json json = {{"all", to_json(sum_of(tensors, "all"))}, {"roles", Json::array()}, {"tensors", Json::array()}};
  for (const TensorError& role : by_role(tensors)) json["roles"].push_back(to_json(role));
  for (const TensorError& tensor : tensors) {
    Json row = to_json(tensor);
    row["type"] = dtype_name(tensor.type);
    row["base_type"] = dtype_name(tensor.base_type);
    json["tensors"].push_back(std::move(row));
  }
  print(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

Result<void> write_plot(const std::filesystem::path& path, const std::vector<TensorError>& tensors,
                        const std::string& title) {
  const std::string svg = tensor_plot(tensors, title);
  OutputFile file = TRY(OutputFile::create(path));
  TRY(file.write(std::as_bytes(std::span(svg))));
  return file.commit();
}
}  // namespace

Result<int> eval_tensors(const Arguments& arguments) {
  const SettingValues& values = arguments.values;
  const std::filesystem::path path = TRY(model_path(arguments)), base_path = values.text("--base-model"),
                              plot_path = values.text("--plot");
  const GgufFile file = TRY(GgufFile::open(path)), base = TRY(GgufFile::open(base_path));
  std::optional<ImatrixFile> imatrix;
  if (!values.text("--imatrix").empty()) imatrix = TRY(read_imatrix(values.text("--imatrix")));
  if (!plot_path.empty()) {
    TRY(check_not_same_file(path, file, plot_path));
    TRY(check_not_same_file(base_path, base, plot_path));
    const std::filesystem::path read[] = {arguments.words.empty() ? "" : arguments.words[0], values.text("--imatrix")};
    TRY(check_output_is_not_read(plot_path, read));
  }
  std::vector<TensorError> tensors;
  {
    ProgressBar bar("comparing", !values.flag("--json"));
    tensors = TRY(compare_tensors(file, base,
                                  {.imatrix = imatrix ? &*imatrix : nullptr,
                                   .n_threads = values.integer("--threads"),
                                   .progress = [&bar](double fraction) { return bar.update(fraction); }}));
  }
  if (!plot_path.empty())
    TRY(write_plot(plot_path, tensors,
                   fmt::format("{} beside {}", path.filename().string(), base_path.filename().string())));
  values.flag("--json") ? print_json(tensors) : print_tables(tensors, imatrix.has_value());
  return 0;
}

}  // namespace tokamak::cli
