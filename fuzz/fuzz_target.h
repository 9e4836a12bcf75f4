// What every *_fuzz.cpp defines. libFuzzer calls it, or standalone_main.cpp where there is no libFuzzer.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes);
