// The GGUF file format: constants and the table of metadata value types.
// Layout, all little-endian: "GGUF", u32 version, u64 n_tensors, u64 n_kv, then n_kv times (string key, u32 type,
// value), then n_tensors times (string name, u32 n_dims, u64 dims[n_dims] innermost first, u32 dtype, u64 offset), then
// padding to the alignment, then the tensor data. A string is u64 n_bytes and the bytes; an array is u32 type, u64
// count, elements. Source: the GGUF specification (ggml-org/ggml, docs/gguf.md).
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

namespace tokamak {

static_assert(std::endian::native == std::endian::little, "reading and writing copy integers as they lie in memory");

inline constexpr std::string_view kGgufMagic = "GGUF";
inline constexpr uint32_t kGgufMinVersion = 2, kGgufVersion = 3;
inline constexpr std::string_view kAlignmentKey = "general.alignment";

// Limits. Where the format's text leaves room for absurd values, ours are tighter and stated here.
inline constexpr uint64_t kDefaultAlignment = 32;
inline constexpr uint64_t kMinAlignment = 8;          // so that f64 and i64 tensors lie aligned
inline constexpr uint64_t kMaxAlignment = 16u << 20;  // padding stays small; 2^31 in a file is an attack, not a wish
inline constexpr uint64_t kMaxKeyBytes = 65534;       // 65,535 and more is refused
inline constexpr uint64_t kMaxTensorNameBytes = 63;
inline constexpr uint64_t kMaxEntries = 1u << 20;  // metadata entries, and tensors, of one file

enum class GgufType : uint8_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

struct GgufTypeRow {
  GgufType id;
  std::string_view name;
  uint8_t n_bytes;      // of one value; 0: depends on the value
  uint8_t min_n_bytes;  // fewest bytes one value takes in a file
};

// One row per type, in enum order; id = the number in the file.
inline constexpr auto kGgufTypes = std::to_array<GgufTypeRow>({
    {GgufType::u8, "u8", 1, 1},
    {GgufType::i8, "i8", 1, 1},
    {GgufType::u16, "u16", 2, 2},
    {GgufType::i16, "i16", 2, 2},
    {GgufType::u32, "u32", 4, 4},
    {GgufType::i32, "i32", 4, 4},
    {GgufType::f32, "f32", 4, 4},
    {GgufType::boolean, "bool", 1, 1},
    {GgufType::string, "string", 0, 8},
    {GgufType::array, "array", 0, 12},
    {GgufType::u64, "u64", 8, 8},
    {GgufType::i64, "i64", 8, 8},
    {GgufType::f64, "f64", 8, 8},
});

constexpr bool gguf_type_table_matches_enum() {
  for (size_t i = 0; i < kGgufTypes.size(); ++i)
    if (static_cast<size_t>(kGgufTypes[i].id) != i) return false;
  return kGgufTypes.size() == static_cast<size_t>(GgufType::f64) + 1;
}
static_assert(gguf_type_table_matches_enum());

constexpr const GgufTypeRow& gguf_type_row(GgufType type) { return kGgufTypes[static_cast<size_t>(type)]; }

// Fewest bytes of a metadata entry (one-byte key, one-byte value) and of a tensor entry (one-byte name, no dimension):
// declared counts are held against the bytes left with these.
inline constexpr uint64_t kMinEntryBytes = 8 + 1 + 4 + 1;
inline constexpr uint64_t kMinTensorInfoBytes = 8 + 1 + 4 + 4 + 8;

constexpr bool is_valid_alignment(uint64_t alignment) {
  return std::has_single_bit(alignment) && alignment >= kMinAlignment && alignment <= kMaxAlignment;
}

}  // namespace tokamak
