// The types with a packed layout, but F32, as X(dtype, code): a kernel family's launch function is FAMILY_code. Types
// of one layout share their code.
#pragma once

// clang-format off
#define TOKAMAK_PACKED_TYPES(X) \
  X(f16, f16) X(bf16, bf16) X(q4_0, q4_0) X(q4_1, q4_1) X(q5_0, q5_0) X(q5_1, q5_1) \
  X(q8_0, q8_0) X(mxfp4, mxfp4) X(nvfp4, nvfp4) X(iq4_nl, iq4_nl) X(iq4_xs, iq4_xs) X(q2_k, q2_k) \
  X(q3_k, q3_k) X(q4_k, q4_k) X(q5_k, q5_k) X(q6_k, q6_k) X(q1_0, q1_0) X(q2_0, q2_0) \
  X(tq2_0, tq2_0) X(tq1_0, tq2_0) X(iq2_xxs, iq2_xxs) X(iq2_xs, iq2_xs) X(iq2_s, iq2_s) X(iq3_xxs, iq3_xxs) \
  X(iq3_s, iq3_s) X(iq1_s, iq1_s) X(iq1_m, iq1_m)
// clang-format on
