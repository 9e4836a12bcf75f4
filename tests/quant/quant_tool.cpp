// Helper of tools/quant_quality.py: encodes f32 of stdin to blocks on stdout, one row of importance for all rows.
//   quant_tool TYPE ROW_ELEMS [IMPORTANCE.f32]
// stderr: nanoseconds of processor time per element, the encoder alone.
#include <fmt/format.h>

#include <cstdio>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include "quant/codec.h"

namespace tokamak {
namespace {

Error usage(std::string what) {
  return Error{.code = ErrorCode::bad_argument,
               .what = std::move(what),
               .where = "command line",
               .hint = "quant_tool TYPE ROW_ELEMS [IMPORTANCE.f32]"};
}

std::vector<float> floats_of(std::FILE* in) {
  std::vector<float> out;
  float chunk[4096];
  while (const size_t n = std::fread(chunk, sizeof(float), std::size(chunk), in))
    out.insert(out.end(), chunk, chunk + n);
  return out;
}

Result<void> encode(int argc, char** argv) {
  if (argc < 3) return usage("too few arguments");
  const DTypeRow* type = nullptr;
  for (const DTypeRow& row : kDTypes)
    if (row.name == argv[1]) type = &row;
  if (!type) return usage(fmt::format("no tensor type {}", argv[1]));
  const size_t row_elems = std::stoul(argv[2]);
  const std::vector<float> x = floats_of(stdin);
  if (row_elems == 0 || row_elems % type->block_elems != 0 || x.size() % row_elems != 0)
    return usage(fmt::format("{} elements are no whole rows of {} ({})", x.size(), row_elems, type->name));
  std::vector<float> importance;
  if (argc > 3) {
    std::FILE* in = std::fopen(argv[3], "rb");
    if (!in) return usage(fmt::format("cannot open {}", argv[3]));
    importance = floats_of(in);
    std::fclose(in);
    if (importance.size() != row_elems) return usage("the importance file does not hold one row");
  }
  const size_t row_bytes = dtype_bytes(type->id, row_elems);
  std::vector<std::byte> blocks(x.size() / row_elems * row_bytes);
  const std::clock_t start = std::clock();
  for (size_t row = 0; row < x.size() / row_elems; ++row)
    TRY(encode_row(type->id, x.data() + row * row_elems, static_cast<int64_t>(row_elems),
                   importance.empty() ? nullptr : importance.data(), blocks.data() + row * row_bytes));
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  fmt::print(stderr, "{:.2f}\n", seconds * 1e9 / static_cast<double>(x.size()));
  if (std::fwrite(blocks.data(), 1, blocks.size(), stdout) != blocks.size() || std::fflush(stdout) != 0)
    return Error{.code = ErrorCode::io_failed, .what = "cannot write the blocks", .where = "stdout"};
  return {};
}

}  // namespace
}  // namespace tokamak

int main(int argc, char** argv) {
  const auto done = tokamak::encode(argc, argv);
  if (done) return 0;
  fmt::print(stderr, "quant_tool: {}\n", done.error().message());
  return 1;
}
