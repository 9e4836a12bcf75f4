// Numbers and tables for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tokamak::cli {

std::string human_bytes(uint64_t n_bytes);  // "96.6 MB", powers of 1000
std::string human_count(uint64_t n);        // "134.5 M"

// Columns as wide as their widest cell; '<' or '>' per column says where cells stand. First row: the heading, if any.
std::string text_table(const std::vector<std::vector<std::string>>& rows, std::string_view alignment);

// Of values that need not be sorted; not empty.
double median(std::vector<double> values);

}  // namespace tokamak::cli
