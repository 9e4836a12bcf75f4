// Encoders of the types with the 16-entry table of levels: IQ4_NL and IQ4_XS.
#include "quant/iq.h"
#include "quant/iq_tables.h"
#include "quant/scale_search.h"
#include "quant/table_levels.h"

namespace tokamak {

namespace {

constexpr TableLevels<16> kLevels(std::to_array(kIq4Values));
// The element of largest magnitude near the bottom or the top of the table, or beyond it.
constexpr float kEnds[] = {-151.0f, -145.0f, -139.0f, -133.0f, -127.0f, -121.0f, -115.0f,
                           -109.0f, -103.0f, -96.0f,  -89.0f,  89.0f,   95.0f,   101.0f,
                           107.0f,  113.0f,  119.0f,  125.0f,  131.0f,  138.0f,  145.0f};

// qs byte i holds elements i (low nibble) and i + 16 of 32.
void put_codes(const Run& run, float scale, uint8_t* qs) {
  const float inverse = inverse_or_zero(scale);
  for (int i = 0; i < 16; ++i)
    qs[i] = static_cast<uint8_t>(kLevels.code(run.x[i] * inverse) | kLevels.code(run.x[i + 16] * inverse) << 4);
}

void encode_block_iq4_nl(const Samples<32>& samples, BlockIQ4_NL& block) {
  const Run run = run_of(samples, 0, 32);
  const F16Scale d = rounded_scale(static_cast<double>(fit_scale(kLevels, run, kEnds)), samples.exponent);
  block.d = d.code;
  put_codes(run, d.value, block.qs);
}

void encode_block_iq4_xs(const Samples<256>& samples, BlockIQ4_XS& block) {
  Run runs[8];
  for (int g = 0; g < 8; ++g) runs[g] = run_of(samples, 32 * g, 32);
  const auto fit = fit_group_scales(kLevels, runs, kEnds, -32, 31, samples.exponent, 2);
  block.d = fit.d.code;
  for (int g = 0; g < 8; ++g) {
    const int code = fit.code[g] + 32;
    block.scales_l[g / 2] |= static_cast<uint8_t>((code & 15) << (4 * (g % 2)));
    block.scales_h |= static_cast<uint16_t>((code >> 4) << (2 * g));
    put_codes(runs[g], fit.d.value * static_cast<float>(fit.code[g]), block.qs + 16 * g);
  }
}

}  // namespace

void encode_iq4_nl(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks) {
  encode_samples<32, BlockIQ4_NL, DType::iq4_nl>(x, n_blocks, importance, blocks, encode_block_iq4_nl);
}
void encode_iq4_xs(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks) {
  encode_samples<256, BlockIQ4_XS, DType::iq4_xs>(x, n_blocks, importance, blocks, encode_block_iq4_xs);
}

}  // namespace tokamak
