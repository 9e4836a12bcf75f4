// The file types: what `tokamak quantize IN OUT TYPE` can be asked for. One row per type; which tensor of a mix gets
// another type is in mix.h. The numbers are those
// that llama.cpp's files carry.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "tensor/dtypes.h"

namespace tokamak {

// The number in metadata key general.file_type; but see file_type_id().
enum class FileType : uint8_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q8_0 = 7,
  q5_0 = 8,
  q5_1 = 9,
  q2_k = 10,
  q3_k_s = 11,
  q3_k_m = 12,
  q3_k_l = 13,
  q4_k_s = 14,
  q4_k_m = 15,
  q5_k_s = 16,
  q5_k_m = 17,
  q6_k = 18,
  iq2_xxs = 19,
  iq2_xs = 20,
  q2_k_s = 21,
  iq3_xs = 22,
  iq3_xxs = 23,
  iq1_s = 24,
  iq4_nl = 25,
  iq3_s = 26,
  iq3_m = 27,
  iq2_s = 28,
  iq2_m = 29,
  iq4_xs = 30,
  iq1_m = 31,
  bf16 = 32,
  tq1_0 = 36,
  tq2_0 = 37,
  mxfp4_moe = 38,
  nvfp4 = 39,
  q1_0 = 40,
  q2_0 = 41,
  mxfp4 = 62,  // ours: MXFP4 without regard to experts; files say 38
};

constexpr uint32_t file_type_id(FileType type) {
  return static_cast<uint32_t>(type == FileType::mxfp4 ? FileType::mxfp4_moe : type);
}

struct FileTypeRow {
  FileType id;
  std::string_view name, alias;  // alias may be empty
  DType type;                    // of every matrix that no rule of mix.h names
  DType output;                  // of the output matrix (or of an embedding that serves as one)
  DType embedding;               // of the token embedding
  std::string_view summary;      // for --help and docs
};

// In the order of size.
inline constexpr auto kFileTypes = std::to_array<FileTypeRow>({
    {FileType::q1_0, "Q1_0", "", DType::q1_0, DType::q6_k, DType::q1_0, "1.125 bits: signs and one scale per 128"},
    {FileType::iq1_s, "IQ1_S", "", DType::iq1_s, DType::q5_k, DType::q2_k, "1.56 bits, needs an imatrix"},
    {FileType::tq1_0, "TQ1_0", "", DType::tq1_0, DType::q6_k, DType::q4_k, "1.69 bits, for ternary models"},
    {FileType::iq1_m, "IQ1_M", "", DType::iq1_m, DType::q5_k, DType::q2_k, "1.75 bits, needs an imatrix"},
    {FileType::iq2_xxs, "IQ2_XXS", "", DType::iq2_xxs, DType::q5_k, DType::q2_k, "2.06 bits, needs an imatrix"},
    {FileType::tq2_0, "TQ2_0", "", DType::tq2_0, DType::q6_k, DType::q4_k, "2.06 bits, for ternary models"},
    {FileType::q2_0, "Q2_0", "", DType::q2_0, DType::q6_k, DType::q4_k, "2.25 bits: four levels, one scale per 64"},
    {FileType::iq2_xs, "IQ2_XS", "", DType::iq2_xs, DType::q5_k, DType::q2_k, "2.31 bits, needs an imatrix"},
    {FileType::iq2_s, "IQ2_S", "", DType::iq2_xs, DType::q5_k, DType::iq3_s, "2.5 bits, needs an imatrix"},
    {FileType::q2_k_s, "Q2_K_S", "", DType::q2_k, DType::q6_k, DType::q2_k, "2.6 bits, needs an imatrix"},
    {FileType::iq2_m, "IQ2_M", "", DType::iq2_s, DType::q5_k, DType::iq3_s, "2.7 bits, needs an imatrix"},
    {FileType::q2_k, "Q2_K", "", DType::q2_k, DType::q6_k, DType::q2_k, "2.6 bits, more for sensitive matrices"},
    {FileType::iq3_xxs, "IQ3_XXS", "", DType::iq3_xxs, DType::q5_k, DType::iq3_s, "3.06 bits, needs an imatrix"},
    {FileType::iq3_xs, "IQ3_XS", "", DType::iq3_s, DType::q6_k, DType::iq3_s, "3.3 bits, needs an imatrix"},
    {FileType::q3_k_s, "Q3_K_S", "", DType::q3_k, DType::q6_k, DType::q3_k, "3.44 bits"},
    {FileType::iq3_s, "IQ3_S", "", DType::iq3_s, DType::q6_k, DType::iq3_s, "3.44 bits"},
    {FileType::iq3_m, "IQ3_M", "", DType::iq3_s, DType::q6_k, DType::iq3_s, "3.44 bits, more for sensitive matrices"},
    {FileType::q3_k_m, "Q3_K_M", "Q3_K", DType::q3_k, DType::q6_k, DType::q3_k,
     "3.44 bits, more for sensitive matrices"},
    {FileType::q3_k_l, "Q3_K_L", "", DType::q3_k, DType::q6_k, DType::q3_k, "3.44 bits, much more for sensitive ones"},
    {FileType::iq4_xs, "IQ4_XS", "", DType::iq4_xs, DType::q6_k, DType::iq4_xs, "4.25 bits, non-linear"},
    {FileType::mxfp4, "MXFP4", "", DType::mxfp4, DType::q8_0, DType::q8_0, "4.25 bits, FP4"},
    {FileType::mxfp4_moe, "MXFP4_MOE", "", DType::q8_0, DType::q8_0, DType::q8_0, "experts MXFP4, the rest Q8_0"},
    {FileType::q4_0, "Q4_0", "", DType::q4_0, DType::q6_k, DType::q4_0, "4.5 bits, simple and fast"},
    {FileType::iq4_nl, "IQ4_NL", "", DType::iq4_nl, DType::q6_k, DType::iq4_nl, "4.5 bits, non-linear"},
    {FileType::nvfp4, "NVFP4", "", DType::nvfp4, DType::q6_k, DType::q6_k, "4.5 bits, FP4 with a scale per tensor"},
    {FileType::q4_k_s, "Q4_K_S", "", DType::q4_k, DType::q6_k, DType::q4_k, "4.5 bits"},
    {FileType::q4_k_m, "Q4_K_M", "Q4_K", DType::q4_k, DType::q6_k, DType::q4_k,
     "4.5 bits, more for sensitive matrices: a good first choice"},
    {FileType::q4_1, "Q4_1", "", DType::q4_1, DType::q6_k, DType::q4_1, "5 bits, simple"},
    {FileType::q5_0, "Q5_0", "", DType::q5_0, DType::q6_k, DType::q5_0, "5.5 bits, simple"},
    {FileType::q5_k_s, "Q5_K_S", "", DType::q5_k, DType::q6_k, DType::q5_k, "5.5 bits"},
    {FileType::q5_k_m, "Q5_K_M", "Q5_K", DType::q5_k, DType::q6_k, DType::q5_k,
     "5.5 bits, more for sensitive matrices"},
    {FileType::q5_1, "Q5_1", "", DType::q5_1, DType::q6_k, DType::q5_1, "6 bits, simple"},
    {FileType::q6_k, "Q6_K", "", DType::q6_k, DType::q6_k, DType::q6_k, "6.56 bits, hardly any loss"},
    {FileType::q8_0, "Q8_0", "", DType::q8_0, DType::q8_0, DType::q8_0, "8.5 bits, no loss that can be measured"},
    {FileType::f16, "F16", "", DType::f16, DType::f16, DType::f16, "16 bits"},
    {FileType::bf16, "BF16", "", DType::bf16, DType::bf16, DType::bf16, "16 bits, the range of F32"},
    {FileType::f32, "F32", "", DType::f32, DType::f32, DType::f32, "32 bits"},
});

constexpr bool file_types_are_unique() {
  for (size_t i = 0; i < kFileTypes.size(); ++i)
    for (size_t k = i + 1; k < kFileTypes.size(); ++k) {
      const FileTypeRow &a = kFileTypes[i], &b = kFileTypes[k];
      if (a.id == b.id || a.name == b.name || a.name == b.alias || a.alias == b.name) return false;
    }
  return true;
}
static_assert(file_types_are_unique());

constexpr const FileTypeRow& file_type_row(FileType type) {
  for (const FileTypeRow& row : kFileTypes)
    if (row.id == type) return row;
  return kFileTypes[0];  // not reached: every enumerator has a row (tested)
}

// The name that asks for a copy without quantizing.
inline constexpr std::string_view kCopyType = "COPY";

// A name or alias in any case, or an id in digits. Errors: bad_argument, with the nearest name.
Result<const FileTypeRow*> find_file_type(std::string_view text);

// A tensor type in any case, for flags. Errors: bad_argument naming `flag`; unsupported for activation types.
Result<DType> find_target_type(std::string_view text, std::string_view flag);

// Of the block layouts in quant/blocks.h: general.quantization_version.
inline constexpr uint32_t kQuantizationVersion = 2;

// The file type whose matrices are of `type`: the one of that name, else the first that uses it, else F16.
constexpr FileType file_type_of(DType type) {
  for (const FileTypeRow& row : kFileTypes)
    if (row.name == dtype_name(type)) return row.id;
  for (const FileTypeRow& row : kFileTypes)
    if (row.type == type) return row.id;
  return FileType::f16;
}

}  // namespace tokamak
